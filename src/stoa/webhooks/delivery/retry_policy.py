"""When a delivery is tried again, and when a receiver is left alone: the clockwork, without a database or a network."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

Verdict = Literal["succeeded", "failed", "put_off", "gone"]

_GONE, _PUT_OFF = 410, (429, 503)


class Clock(msgspec.Struct, frozen=True):
    """Every span of time that delivery lives by, in seconds; tests bring shorter ones."""

    # After attempt 1, 2, ...: about 72 hours in all.
    retries: tuple[float, ...] = (5, 30, 120, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 86_400)
    jitter: float = 0.2
    probes: tuple[float, ...] = (30, 60, 120, 300, 600, 900)
    breaker_failures: int = 5
    window: float = 60
    window_least: int = 20
    disable_after: float = 72 * 3600
    longest_put_off: float = 3600
    request: float = 15
    connect: float = 5
    lease: float = 20  # longer than a request may take
    beat: float = 2
    claim_after: float = 6  # without a beat
    stop_after: float = 8  # without a beat of our own that arrived
    poll: float = 0.25
    turn: float = 3  # that a lane may keep its seat while others wait for one
    aside: float = 2  # before a lane is looked at again whose host has too much to answer already
    hold: float = 60  # before a lane is looked at again whose store or app is suspended
    sweep: float = 30
    keep_days: int = 30


class Standing(msgspec.Struct):
    """How a receiver has fared, as its lane remembers it."""

    breaker: str = "closed"
    probes: int = 0
    failures: int = 0
    hold_until: datetime | None = None
    window_at: datetime | None = None
    window_total: int = 0
    window_failed: int = 0
    failing_since: datetime | None = None
    told: bool = False
    last_success_at: datetime | None = None
    last_attempt_at: datetime | None = None


class Outcome(msgspec.Struct):
    """What one attempt leads to beyond itself."""

    opened: bool = False  # the receiver is left alone from now on, for the first time in this outage
    recovered: bool = False  # what waits for its next try need not wait
    disable: str | None = None


def judge(status: int | None, retry_after: float | None) -> Verdict:
    if status is None:
        return "failed"
    if 200 <= status < 300:
        return "succeeded"
    if status == _GONE:
        return "gone"
    return "put_off" if status in _PUT_OFF and retry_after is not None else "failed"


def after(
    standing: Standing, verdict: Verdict, now: datetime, clock: Clock, *, probe: bool, retry_after: float | None = None
) -> Outcome:
    """Change what is known of a receiver by what it just did."""
    standing.last_attempt_at = now
    if verdict == "succeeded":
        recovered = standing.breaker == "open"
        standing.breaker, standing.probes, standing.failures = "closed", 0, 0
        standing.hold_until = standing.failing_since = None
        standing.told = False
        standing.last_success_at = now
        _count(standing, now, clock, failed=False)
        if recovered:
            standing.window_at, standing.window_total, standing.window_failed = None, 0, 0
        return Outcome(recovered=recovered)
    standing.failing_since = standing.failing_since or now
    if verdict == "gone":
        return Outcome(disable="gone")
    if now - standing.failing_since >= timedelta(seconds=clock.disable_after):
        return Outcome(disable="failing")
    if verdict == "put_off":
        wait = min(retry_after or 0, clock.longest_put_off)
        standing.hold_until = max(standing.hold_until or now, now + timedelta(seconds=wait))
        return Outcome()
    standing.failures += 1
    _count(standing, now, clock, failed=True)
    if standing.breaker == "open":
        if probe:
            standing.probes += 1
            standing.hold_until = now + _probe_delay(standing.probes, clock)
        return Outcome()
    if standing.failures < clock.breaker_failures and not _half_fail(standing, clock):
        return Outcome()
    standing.breaker, standing.probes = "open", 0
    standing.hold_until = now + _probe_delay(0, clock)
    first, standing.told = not standing.told, True
    return Outcome(opened=first)


def next_try(attempts: int, now: datetime, clock: Clock) -> datetime | None:
    """When to try again after so many attempts; None when that was the last."""
    if attempts > len(clock.retries):
        return None
    spread = random.uniform(1 - clock.jitter, 1 + clock.jitter)  # noqa: S311 - it only spreads the load
    return now + timedelta(seconds=clock.retries[attempts - 1] * spread)


def read_retry_after(text: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, given as a number or as a date."""
    if text is None:
        return None
    plain = text.strip()
    if plain.isascii() and plain.isdigit():
        return float(plain[:9])
    try:
        moment = parsedate_to_datetime(plain)
    except (ValueError, TypeError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _count(standing: Standing, now: datetime, clock: Clock, *, failed: bool) -> None:
    if standing.window_at is None or now - standing.window_at > timedelta(seconds=clock.window):
        standing.window_at, standing.window_total, standing.window_failed = now, 0, 0
    standing.window_total += 1
    standing.window_failed += failed


def _half_fail(standing: Standing, clock: Clock) -> bool:
    return standing.window_total >= clock.window_least and 2 * standing.window_failed >= standing.window_total


def _probe_delay(probes: int, clock: Clock) -> timedelta:
    return timedelta(seconds=clock.probes[min(probes, len(clock.probes) - 1)])
