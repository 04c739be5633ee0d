"""The retry logic, written once for both clients: what to send, when to wait, when to give up.

A flow is a generator that yields steps and receives their results. A connection carries the steps out: one blocks its
thread, the other awaits in an event loop.
"""

import random
import time
from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import httpx
import msgspec

from stoa_client.errors import ApiError, ConnectionFailed, DeadlineExceeded, StoaError, refusal
from stoa_client.limiter import Limiter, retry_after_s
from stoa_client.requests import Request
from stoa_client.time_limits import current_deadline

T = TypeVar("T")


class Send(msgspec.Struct, frozen=True):
    """Send a request; the result is a response, or the error that prevented one at this time at the latest."""

    request: Request
    until: float  # by the monotonic clock, as all times of steps
    token: str | None = None
    attempt: int = 1


class Pause(msgspec.Struct, frozen=True):
    """Wait for this long."""

    seconds: float


class Authorize(msgspec.Struct, frozen=True):
    """Get a token; the result is its text, different from the stale one."""

    until: float
    stale: str | None = None


class Enter(msgspec.Struct, frozen=True):
    """Wait until fewer calls than allowed are in progress; the result is False if that takes too long."""

    until: float


Outcome: TypeAlias = httpx.Response | httpx.RequestError
Flow: TypeAlias = Generator[Send | Pause | Authorize | Enter, Any, T]

_RETRYABLE = frozenset({408, 429, 502, 503, 504})
_BUSY = frozenset({429, 503})
_FIRST_LEAST_S = 0.05
_NOT_RETRYABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often to retry, and how long a call and each of its attempts may take."""

    retries: int = 4
    deadline_s: float = 60.0
    timeout_s: float = 30.0
    first_pause_s: float = 0.5

    def deadline(self, request: Request) -> float:
        """When a call that starts now must have ended."""
        return min(time.monotonic() + self.deadline_s + request.allowance_s, current_deadline())


class Attempts:
    """The attempts of one call, which end at its deadline."""

    def __init__(self, request: Request, policy: RetryPolicy, deadline: float) -> None:
        self._request = request
        self._policy = policy
        self._deadline = deadline
        self._failures = self._refusals = 0
        self._is_last = False
        self.count = 0

    def send(self, token: str | None = None, request: Request | None = None) -> Flow[Outcome]:
        """One attempt, with the same request as before unless another is given."""
        self.count += 1
        limit = time.monotonic() + self._policy.timeout_s + self._request.allowance_s
        self._is_last = limit >= self._deadline
        return (yield Send(request or self._request, min(limit, self._deadline), token, self.count))

    def were_cut_off(self, outcome: Outcome) -> bool:
        """Whether the deadline ended the last attempt while it was in progress."""
        return self._is_last and isinstance(outcome, httpx.TimeoutException)

    def pause(self, outcome: Outcome) -> Flow[bool]:
        """Wait before the next attempt; returns False if there should be none."""
        asked_s = retry_after_s(outcome) if isinstance(outcome, httpx.Response) else None
        if asked_s is not None and _is_refusal(outcome):
            # The service says when to return, so the deadline decides and not the number of attempts.
            seconds = max(asked_s, min(_FIRST_LEAST_S * 2**self._refusals, 2.0))  # in case it always asks for 0
            self._refusals += 1
        else:
            self._failures += 1
            if self._failures > self._policy.retries or not _is_transient(outcome):
                return False
            backoff_s = min(self._policy.first_pause_s * 2 ** (self._failures - 1), 8.0)
            seconds = random.uniform(0.5, 1.0) * backoff_s if asked_s is None else asked_s  # noqa: S311 - jitter
        if time.monotonic() + seconds >= self._deadline:
            return False
        yield Pause(seconds)
        return True


def send(request: Request, policy: RetryPolicy, limiter: Limiter) -> Flow[httpx.Response]:
    """Send a request when it is its turn, with retries; a long poll does not count as a call in progress."""
    deadline = policy.deadline(request)
    if request.method == "GET" and request.wait_s:
        return (yield from _send(request, policy, limiter, deadline))
    if not (yield Enter(deadline)):
        raise DeadlineExceeded(f"too many other calls of this client were in progress for {policy.deadline_s:g} s")
    try:
        return (yield from _send(request, policy, limiter, deadline))
    finally:
        limiter.leave()


def _send(request: Request, policy: RetryPolicy, limiter: Limiter, deadline: float) -> Flow[httpx.Response]:
    """Retry transient errors, and once more with a new token if the service refuses the old one."""
    token = yield Authorize(deadline)
    attempts, renewed = Attempts(request, policy, deadline), False
    failed: Outcome | None = None
    while True:
        unsent = yield from _unsent(limiter, deadline)
        if unsent is not None:
            raise unsent if failed is None else failure(failed, attempts.count)
        outcome = yield from attempts.send(token)
        if isinstance(outcome, httpx.Response):
            limiter.observe(outcome)
            if outcome.status_code < 400:
                return outcome
            if outcome.status_code == 401 and not renewed:
                renewed, stale = True, token
                token = yield Authorize(deadline, stale)
                if token != stale:
                    continue
        if failed is not None and request.method == "GET" and _is_refusal(failed) and attempts.were_cut_off(outcome):
            raise failure(failed, attempts.count)  # it says why the call ended; a write may have taken effect since
        if not (yield from attempts.pause(outcome)):
            raise failure(outcome, attempts.count)
        failed = outcome


def _unsent(limiter: Limiter, deadline: float) -> Flow[DeadlineExceeded | None]:
    """Wait until the next request may be sent; returns why it may not be sent before the deadline."""
    if time.monotonic() >= deadline:
        return DeadlineExceeded("the deadline of the call passed before the request was sent")
    wait_s = yield from _turn(limiter, deadline)
    if not wait_s:
        return None
    message = f"the service asked to wait {wait_s:.3g} s more, which is beyond the deadline of the call"
    return DeadlineExceeded(message, wait_s)


def _turn(limiter: Limiter, deadline: float) -> Flow[float]:
    """Wait until the next request may be sent; returns how long that would take if it is after the deadline, else 0."""
    while True:
        at, seconds = limiter.reserve(deadline)
        if at > deadline:
            return seconds
        if seconds > 0:
            yield Pause(seconds)
        if not limiter.is_held(at):
            return 0.0


def failure(outcome: Outcome, tries: int) -> StoaError:
    """The exception for the last outcome."""
    if isinstance(outcome, httpx.Response):
        request_id = outcome.headers.get("x-request-id")
        return refusal(outcome.status_code, outcome.content, retry_after_s(outcome), request_id)
    attempts = f"{tries} {'attempt' if tries == 1 else 'attempts'}"
    error = ConnectionFailed(f"no response after {attempts}: {outcome or type(outcome).__name__}")
    error.__cause__ = outcome
    return error


def interrupted(error: httpx.RequestError) -> ConnectionFailed:
    """The exception for a response that ended early."""
    return ConnectionFailed(f"the response was interrupted: {error or type(error).__name__}")


def _is_refusal(outcome: Outcome) -> bool:
    """Whether the service had no capacity for the request, which therefore had no effect."""
    return isinstance(outcome, httpx.Response) and outcome.status_code in _BUSY


def _is_transient(outcome: Outcome) -> bool:
    if not isinstance(outcome, httpx.Response):
        return not isinstance(outcome, _NOT_RETRYABLE)
    if outcome.status_code in _RETRYABLE:
        return True
    problem = failure(outcome, 1)
    return isinstance(problem, ApiError) and problem.retryable
