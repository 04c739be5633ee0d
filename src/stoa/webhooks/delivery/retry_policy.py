"""The retry policy: when a delivery is retried, which attempts are kept, and when the breaker of a receiver opens. No I/O."""

import random
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

Verdict = Literal["succeeded", "failed", "put_off", "gone"]

MAX_ATTEMPTS_KEPT = 20
_GONE, _PUT_OFF = 410, (429, 503)


class DeliveryConfig(msgspec.Struct, frozen=True):
    """The intervals and limits of delivery; times are in seconds. Tests use shorter ones."""

    # The delay after attempt 1, 2, ...: about 72 hours in total.
    retries: tuple[float, ...] = (5, 30, 120, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 86_400)
    jitter: float = 0.2
    probes: tuple[float, ...] = (30, 60, 120, 300, 600, 900)
    breaker_failures: int = 5
    breaker_window: float = 60
    breaker_window_min: int = 20
    disable_after: float = 72 * 3600
    max_retry_after: float = 3600
    request_timeout: float = 15
    connect_timeout: float = 5
    lease: float = 20  # longer than a request may take
    heartbeat: float = 2
    takeover_after: float = 6  # another worker may lease a lane after this time without a heartbeat
    stop_after: float = 8  # a worker whose own heartbeats fail stops sending after this time
    poll: float = 0.25
    max_turn: float = 3  # how long a lane may keep its slot while other lanes wait for one
    host_full_delay: float = 2  # how long a lane waits when its host has reached the limit of open requests
    suspended_delay: float = 60  # how long a lane waits when its store or app is suspended
    maintenance_every: float = 30
    check_listener: float = 30  # how often the listening connection must answer, and within which time
    retention_days: int = 30


class ReceiverHealth(msgspec.Struct):
    """The recent record of a receiver, as stored in its lane."""

    breaker: str = "closed"
    probes: int = 0
    failures: int = 0
    hold_until: datetime | None = None
    window_at: datetime | None = None
    window_total: int = 0
    window_failed: int = 0
    failing_since: datetime | None = None
    failing_event_sent: bool = False
    last_success_at: datetime | None = None
    last_attempt_at: datetime | None = None


class HealthChange(msgspec.Struct):
    """The consequence of one attempt for its receiver."""

    opened: bool = False  # the breaker opened for the first time in this outage
    recovered: bool = False  # the breaker closed: pending retries become due immediately
    disable: str | None = None


class Attempt(msgspec.Struct):
    """One attempt, as the delivery log shows it."""

    at: datetime
    duration_ms: int
    response_status: int | None
    response_body: str | None
    error: str | None


class SentAttempt(msgspec.Struct):
    """One attempt, for metrics."""

    outcome: Verdict
    seconds: float
    latency: float | None  # from the event to the first byte sent; only for a first attempt


def judge(status: int | None, retry_after: float | None) -> Verdict:
    if status is None:
        return "failed"
    if 200 <= status < 300:
        return "succeeded"
    if status == _GONE:
        return "gone"
    return "put_off" if status in _PUT_OFF and retry_after is not None else "failed"


def update_health(
    health: ReceiverHealth,
    verdict: Verdict,
    now: datetime,
    config: DeliveryConfig,
    *,
    probe: bool,
    retry_after: float | None = None,
) -> HealthChange:
    """Update the health of a receiver after one attempt."""
    health.last_attempt_at = now
    if verdict == "succeeded":
        recovered = health.breaker == "open"
        health.breaker, health.probes, health.failures = "closed", 0, 0
        health.hold_until = health.failing_since = None
        health.failing_event_sent = False
        health.last_success_at = now
        _count(health, now, config, failed=False)
        if recovered:
            health.window_at, health.window_total, health.window_failed = None, 0, 0
        return HealthChange(recovered=recovered)
    health.failing_since = health.failing_since or now
    if verdict == "gone":
        return HealthChange(disable="gone")
    if now - health.failing_since >= timedelta(seconds=config.disable_after):
        return HealthChange(disable="failing")
    if verdict == "put_off":
        wait = min(retry_after or 0, config.max_retry_after)
        health.hold_until = max(health.hold_until or now, now + timedelta(seconds=wait))
        return HealthChange()
    health.failures += 1
    _count(health, now, config, failed=True)
    if health.breaker == "open":
        if probe:
            health.probes += 1
            health.hold_until = now + _probe_delay(health.probes, config)
        return HealthChange()
    if health.failures < config.breaker_failures and not _half_fail(health, config):
        return HealthChange()
    health.breaker, health.probes = "open", 0
    health.hold_until = now + _probe_delay(0, config)
    first, health.failing_event_sent = not health.failing_event_sent, True
    return HealthChange(opened=first)


def next_attempt_at(attempts: int, now: datetime, config: DeliveryConfig) -> datetime | None:
    """The time of the next attempt after this number of attempts; None after the last one."""
    if attempts > len(config.retries):
        return None
    spread = random.uniform(1 - config.jitter, 1 + config.jitter)  # noqa: S311 - it only spreads the load
    return now + timedelta(seconds=config.retries[attempts - 1] * spread)


def append_attempt(before: str, attempt: Attempt) -> str:
    """The stored attempts and one more; of very many, the first and the last are kept."""
    new = msgspec.json.encode(attempt).decode()
    if before == "[]":
        return f"[{new}]"
    kept: list[Any] = msgspec.json.decode(before, type=list[msgspec.Raw])
    if len(kept) >= MAX_ATTEMPTS_KEPT:
        del kept[MAX_ATTEMPTS_KEPT // 2]
    return msgspec.json.encode([*kept, msgspec.Raw(new.encode())]).decode()


def _count(health: ReceiverHealth, now: datetime, config: DeliveryConfig, *, failed: bool) -> None:
    if health.window_at is None or now - health.window_at > timedelta(seconds=config.breaker_window):
        health.window_at, health.window_total, health.window_failed = now, 0, 0
    health.window_total += 1
    health.window_failed += failed


def _half_fail(health: ReceiverHealth, config: DeliveryConfig) -> bool:
    return health.window_total >= config.breaker_window_min and 2 * health.window_failed >= health.window_total


def _probe_delay(probes: int, config: DeliveryConfig) -> timedelta:
    return timedelta(seconds=config.probes[min(probes, len(config.probes) - 1)])
