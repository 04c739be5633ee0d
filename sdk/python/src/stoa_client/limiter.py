"""The rate limiter of a client, which all its threads or tasks share."""

import asyncio
import math
import random
import re
import threading
import time
from email.utils import parsedate_to_datetime

import httpx

_UNKNOWN_PACE_S = 0.1  # after a refusal that does not tell the rate
_NO_PACE_S = 0.005
_JITTER_S = 0.2
# One refusal must not stop a client for an hour, so later calls find out for themselves.
_LONGEST_HOLD_S = {429: 60.0, 503: 5.0}
_FASTER = 0.95
_QUOTA, _WINDOW = re.compile(r";\s*q=(\d+)"), re.compile(r";\s*w=(\d+)")


class Limiter:
    """Bounds the calls in progress, and spaces requests when the service reports that the rate limit is nearly used up.

    A call that is refused holds all others back for some of its `Retry-After`, so that one refusal is enough for all of
    them. The service reports its rate in `RateLimit-Policy` and the remaining requests in `X-RateLimit-Remaining`.
    """

    def __init__(self, slots: threading.Semaphore | asyncio.Semaphore) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._running = 0
        self._held_until = 0.0
        self._next = 0.0  # when the next request may be sent
        self._pace_s = 0.0  # the time between two requests

    def entered(self) -> None:
        """A call has taken a slot."""
        with self._lock:
            self._running += 1

    def leave(self) -> None:
        """Return the slot of a call."""
        with self._lock:
            self._running -= 1
        self._slots.release()

    def reserve(self, until: float = math.inf) -> tuple[float, float]:
        """The time of the next free turn by the monotonic clock, and how many seconds that is from now.

        The turn is taken, unless it is after `until`.
        """
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            if at <= until:
                self._next = at + self._pace_s
        return at, at - now

    def is_held(self, at: float) -> bool:
        """Whether a refusal came after this turn was reserved."""
        return at < self._held_until

    def observe(self, response: httpx.Response) -> None:
        """Learn from a response, which may hold all calls back."""
        status, headers = response.status_code, response.headers
        remaining = _number(headers.get("x-ratelimit-remaining", ""))
        pace_s = _pace_s(headers.get("ratelimit-policy", ""))
        refused = status == 429 and not remaining  # with requests remaining, it concerns only this call
        held = refused or (status == 503 and "retry-after" in headers)
        with self._lock:
            if held:
                wait_s = retry_after_s(response)
                jitter_s = random.uniform(0.0, _JITTER_S)  # noqa: S311 - so that clients do not return at once
                hold_s = min(1.0 if wait_s is None else wait_s, _LONGEST_HOLD_S[status])
                until = time.monotonic() + hold_s + jitter_s
                self._held_until = max(self._held_until, until)
                self._next = max(self._next, self._held_until)
            if refused:
                self._pace_s = pace_s or max(_UNKNOWN_PACE_S, self._pace_s)
            elif remaining is not None:
                self._pace_s = 0.0 if remaining > self._running else self._adapted(pace_s, remaining)
            elif self._pace_s:
                self._pace_s = self._pace_s / 2 if self._pace_s > _NO_PACE_S else 0.0

    def _adapted(self, policy_s: float | None, remaining: int) -> float:
        """The pace of the policy, which is rounded up, or a faster one while requests remain."""
        slowest_s = policy_s or _UNKNOWN_PACE_S
        return min(slowest_s, self._pace_s * _FASTER) if self._pace_s and remaining > 1 else slowest_s


def retry_after_s(response: httpx.Response) -> float | None:
    """The `Retry-After` header, given as seconds or as a date, in seconds from now."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except ValueError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _pace_s(policy: str) -> float | None:
    """The time between two requests at the rate of a policy such as `"default";q=600;w=60`."""
    quota, window = _QUOTA.search(policy), _WINDOW.search(policy)
    return int(window[1]) / int(quota[1]) if quota and window and int(quota[1]) else None
