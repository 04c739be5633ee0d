"""How a request is carried out, told once for both clients: what to send, when to wait, when to give up.

A flow is a generator that yields what it needs done and is sent what came of it; the connections do it, one of them
waiting in its thread and the other in its event loop.
"""

import random
import time
from collections.abc import Generator
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, TypeVar

import httpx
import msgspec

from stoa.client.errors import ApiError, ConnectionFailed, StoaError, refusal
from stoa.client.requests import Request

T = TypeVar("T")


class Send(msgspec.Struct, frozen=True):
    """Send this; comes back as a response or as the fault that kept it from coming."""

    request: Request
    token: str | None = None


class Pause(msgspec.Struct, frozen=True):
    """Wait so long."""

    seconds: float


class Authorize(msgspec.Struct, frozen=True):
    """A token is needed; comes back as its text, another one than the stale."""

    stale: str | None = None


Outcome: TypeAlias = httpx.Response | httpx.RequestError
Flow: TypeAlias = Generator[Send | Pause | Authorize, Any, T]

_WORTH_ANOTHER_TRY = frozenset({408, 429, 502, 503, 504})
_NEVER = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)


class Patience(msgspec.Struct, frozen=True):
    """How often to try again, and how long to wait before it."""

    retries: int = 4
    longest_pause_s: float = 60.0
    first_pause_s: float = 0.5

    def waits(self, outcome: Outcome, tries: int) -> Flow[bool]:
        """Wait before the next try, or say that there is to be none."""
        if tries > self.retries or not _may_change(outcome):
            return False
        seconds = random.uniform(0.5, 1.0) * min(self.first_pause_s * 2 ** (tries - 1), 8.0)  # noqa: S311
        told = retry_after_s(outcome) if isinstance(outcome, httpx.Response) else None
        if told is not None:
            if told > self.longest_pause_s:
                return False
            seconds = told + random.uniform(0.0, 0.2)  # noqa: S311 - that not all come back at once
        yield Pause(seconds)
        return True


def calling(request: Request, patience: Patience) -> Flow[httpx.Response]:
    """Send a request until it is answered: again after a fault on the way, and with a new token where one ran out."""
    token = yield Authorize()
    tries, renewed = 0, False
    while True:
        outcome: Outcome = yield Send(request, token)
        if isinstance(outcome, httpx.Response):
            if outcome.status_code < 400:
                return outcome
            if outcome.status_code == 401 and not renewed:
                renewed, stale = True, token
                token = yield Authorize(stale)
                if token != stale:
                    continue
        tries += 1
        if not (yield from patience.waits(outcome, tries)):
            raise failure(outcome, tries)


def failure(outcome: Outcome, tries: int) -> StoaError:
    """What to raise in the end."""
    if isinstance(outcome, httpx.Response):
        return refusal(outcome.status_code, outcome.content, retry_after_s(outcome))
    words = f"no answer after {tries} {'try' if tries == 1 else 'tries'}: {outcome or type(outcome).__name__}"
    error = ConnectionFailed(words)
    error.__cause__ = outcome
    return error


def broken_off(error: httpx.RequestError) -> ConnectionFailed:
    """An answer that ended in its middle."""
    return ConnectionFailed(f"the answer broke off: {error or type(error).__name__}")


def retry_after_s(response: httpx.Response) -> float | None:
    """What the service says about when to come back, as seconds or as a date."""
    told = response.headers.get("retry-after", "").strip()
    if told.isdecimal():
        return float(told)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time()) if told else None
    except ValueError:
        return None


def _may_change(outcome: Outcome) -> bool:
    if not isinstance(outcome, httpx.Response):
        return not isinstance(outcome, _NEVER)
    if outcome.status_code in _WORTH_ANOTHER_TRY:
        return True
    problem = failure(outcome, 1)
    return isinstance(problem, ApiError) and problem.retryable
