"""The retry logic, written once for both clients: what to send, when to wait, when to give up.

A flow is a generator that yields steps and receives their results. A connection carries the steps out: one blocks its
thread, the other awaits in an event loop.
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
    """Send a request; the result is a response, or the error that prevented one."""

    request: Request
    token: str | None = None


class Pause(msgspec.Struct, frozen=True):
    """Wait for this long."""

    seconds: float


class Authorize(msgspec.Struct, frozen=True):
    """Get a token; the result is its text, different from the stale one."""

    stale: str | None = None


Outcome: TypeAlias = httpx.Response | httpx.RequestError
Flow: TypeAlias = Generator[Send | Pause | Authorize, Any, T]

_RETRYABLE = frozenset({408, 429, 502, 503, 504})
_NOT_RETRYABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often to retry, and how long to wait before each retry."""

    retries: int = 4
    longest_pause_s: float = 60.0
    first_pause_s: float = 0.5

    def pause(self, outcome: Outcome, tries: int) -> Flow[bool]:
        """Wait before the next try; returns False if there should be none."""
        if tries > self.retries or not _is_transient(outcome):
            return False
        seconds = random.uniform(0.5, 1.0) * min(self.first_pause_s * 2 ** (tries - 1), 8.0)  # noqa: S311
        requested = retry_after_s(outcome) if isinstance(outcome, httpx.Response) else None
        if requested is not None:
            if requested > self.longest_pause_s:
                return False
            seconds = requested + random.uniform(0.0, 0.2)  # noqa: S311 - jitter, so that clients do not return at once
        yield Pause(seconds)
        return True


def send(request: Request, policy: RetryPolicy) -> Flow[httpx.Response]:
    """Send a request, retrying transient errors, and once more with a new token if the service refuses the old one."""
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
        if not (yield from policy.pause(outcome, tries)):
            raise failure(outcome, tries)


def failure(outcome: Outcome, tries: int) -> StoaError:
    """The exception for the last outcome."""
    if isinstance(outcome, httpx.Response):
        return refusal(outcome.status_code, outcome.content, retry_after_s(outcome))
    attempts = f"{tries} {'attempt' if tries == 1 else 'attempts'}"
    error = ConnectionFailed(f"no response after {attempts}: {outcome or type(outcome).__name__}")
    error.__cause__ = outcome
    return error


def interrupted(error: httpx.RequestError) -> ConnectionFailed:
    """The exception for a response that ended early."""
    return ConnectionFailed(f"the response was interrupted: {error or type(error).__name__}")


def retry_after_s(response: httpx.Response) -> float | None:
    """The `Retry-After` header, given as seconds or as a date, in seconds from now."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except ValueError:
        return None


def _is_transient(outcome: Outcome) -> bool:
    if not isinstance(outcome, httpx.Response):
        return not isinstance(outcome, _NOT_RETRYABLE)
    if outcome.status_code in _RETRYABLE:
        return True
    problem = failure(outcome, 1)
    return isinstance(problem, ApiError) and problem.retryable
