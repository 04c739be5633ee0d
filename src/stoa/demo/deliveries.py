"""The past deliveries of a sample store: of a receiver that works, and of one that has failed for almost two days.

The rows are those that the delivery worker would have written, by its own retry policy.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec

from stoa.db.query import Command, Executor, Query
from stoa.webhooks.delivery.matching import selects
from stoa.webhooks.delivery.retry_policy import (
    Attempt,
    DeliveryConfig,
    ReceiverHealth,
    append_attempt,
    judge,
    update_health,
)

FAILING_FOR = timedelta(hours=40)
_CONFIG = DeliveryConfig()
_SLOW_EVERY = 23  # one delivery in so many is accepted at its second attempt


class Lane(msgspec.Struct):
    """A subscription of the store and what it selects."""

    webhook_id: int
    name: str
    events: list[str]
    since: datetime


class PastEvent(msgspec.Struct):
    id: str
    type: str
    resource_type: str
    resource_id: int
    resource_version: int
    routed_on: date
    created_at: datetime


class Delivery(msgspec.Struct):
    """A delivery as one of the two tables stores it: finished, or waiting for its next attempt at `due_at`."""

    webhook_id: int
    sequence: int
    event_id: str
    event_day: date
    event_type: str
    resource_type: str
    resource_id: int
    resource_version: int
    created_at: datetime
    attempt_count: int = 0
    attempts: str = "[]"
    due_at: datetime | None = None
    finished_at: datetime | None = None
    sent: list[Attempt] = []


class Hour(msgspec.Struct):
    """The figures of a lane in one hour."""

    webhook_id: int
    hour: datetime
    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    duration_ms: int = 0


LANES = Query(
    Lane,
    """SELECT w.id AS webhook_id, w.name, w.events, w.created_at AS since FROM webhooks w
        WHERE w.store_id = $1 AND w.ended_at IS NULL AND w.url IS NOT NULL ORDER BY w.id""",
)
PAST_EVENTS = Query(
    PastEvent,
    """SELECT id, type, resource_type, resource_id, resource_version, routed_on, created_at FROM events
        WHERE store_id = $1 AND routed_on < 'infinity' ORDER BY position""",
)
_ROWS = """webhook_id bigint, sequence bigint, event_id text, event_day date, event_type text, resource_type text,
           resource_id bigint, resource_version integer, attempt_count integer, attempts text, created_at timestamptz"""
_NAMES = """webhook_id, sequence, event_id, event_day, event_type, resource_type, resource_id, resource_version,
            attempt_count, attempts, created_at"""
ADD_FINISHED = Command(
    f"""INSERT INTO deliveries (store_id, {_NAMES}, status, finished_at, finished_on)
        SELECT $1, {_NAMES}, 'succeeded', finished_at, (finished_at AT TIME ZONE 'UTC')::date
          FROM json_to_recordset($2::text::json) AS t ({_ROWS}, finished_at timestamptz)"""
)
ADD_PENDING = Command(
    f"""INSERT INTO pending_deliveries (store_id, {_NAMES}, due_at)
        SELECT $1, {_NAMES}, due_at FROM json_to_recordset($2::text::json) AS t ({_ROWS}, due_at timestamptz)"""
)
ADD_HOURS = Command(
    """INSERT INTO delivery_hours (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
       SELECT $1, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms
         FROM json_to_recordset($2::text::json) AS t (webhook_id bigint, hour timestamptz, succeeded bigint, failed bigint,
                                                      attempts bigint, failed_attempts bigint, duration_ms bigint)"""
)
FILL_LANE = Command(
    """UPDATE lanes l SET next_sequence = $3, waiting = $4, due_at = $5, breaker = h.breaker, probes = h.probes,
              failures = h.failures, hold_until = h.hold_until, window_at = h.window_at, window_total = h.window_total,
              window_failed = h.window_failed, failing_since = h.failing_since,
              failing_event_sent = h.failing_event_sent, last_success_at = h.last_success_at,
              last_attempt_at = h.last_attempt_at
         FROM json_to_recordset($6::text::json) AS h (breaker text, probes integer, failures integer, hold_until timestamptz,
              window_at timestamptz, window_total integer, window_failed integer, failing_since timestamptz,
              failing_event_sent boolean, last_success_at timestamptz, last_attempt_at timestamptz)
        WHERE l.store_id = $1 AND l.webhook_id = $2"""
)


async def deliver(db: Executor, store_id: int, failing: str, now: datetime) -> dict[int, datetime]:
    """Write the deliveries of all past events to the subscriptions of a store; `failing` names the one that fails.

    Returns the subscriptions whose breaker is open, and since when they fail."""
    events = await PAST_EVENTS.all(db, store_id)
    opened: dict[int, datetime] = {}
    for lane in await LANES.all(db, store_id):
        selected = [each for each in events if selects(lane.events, each.type) and each.created_at >= lane.since]
        deliveries = [_delivery(lane, number, event) for number, event in enumerate(selected, 1)]
        fails_at = now - FAILING_FOR if lane.name == failing else now
        health = ReceiverHealth()
        accepted = [each for each in deliveries if each.created_at < fails_at]
        for each in accepted:
            _succeed(each)
        for attempt in sorted((attempt for each in accepted for attempt in each.sent), key=lambda each: each.at):
            _judge(health, attempt, probe=False)
        _fail([each for each in deliveries if each.created_at >= fails_at], health, now)
        await _store(db, store_id, lane, deliveries, health)
        if health.breaker == "open" and health.failing_since is not None:
            opened[lane.webhook_id] = health.failing_since
    return opened


def _delivery(lane: Lane, number: int, event: PastEvent) -> Delivery:
    return Delivery(
        *(lane.webhook_id, number, event.id, event.routed_on, event.type),
        *(event.resource_type, event.resource_id, event.resource_version),
        created_at=event.created_at + timedelta(milliseconds=30 + number % 40),
    )


def _succeed(delivery: Delivery) -> None:
    """Deliver at the first attempt; sometimes the receiver is busy, and accepts the second one."""
    at, number = delivery.created_at + timedelta(milliseconds=15), delivery.sequence
    if number % _SLOW_EVERY == 0:
        _attempt(delivery, Attempt(at, 1200 + number, 503, "Busy, try again.", None))
        at += timedelta(seconds=_CONFIG.retries[0])
    _attempt(delivery, Attempt(at, 18 + number * 7 % 60, 200, _verified(delivery), None))
    delivery.finished_at = at + timedelta(milliseconds=delivery.sent[-1].duration_ms)


def _verified(delivery: Delivery) -> str:
    """The response of the receiver of the demo."""
    return f'{{"verified":true,"event":"{delivery.event_type}"}}'


def _fail(waiting: Sequence[Delivery], health: ReceiverHealth, now: datetime) -> None:
    """Attempt deliveries until now; while the breaker is open, only the oldest one is a probe."""
    due = {each.sequence: each.created_at for each in waiting}
    by_sequence = {each.sequence: each for each in waiting}
    while due:
        open_ = health.breaker == "open"
        sequence = min(due) if open_ else min(due, key=lambda each: due[each])
        at = max(due[sequence], health.hold_until) if open_ and health.hold_until else due[sequence]
        delivery = by_sequence[sequence]
        if at >= now or delivery.created_at > at:
            break
        attempt = Attempt(at, 1, None, None, "connection_refused")
        _attempt(delivery, attempt, probe=open_)
        _judge(health, attempt, probe=open_)
        due[sequence] = (health.hold_until or at) if open_ else at + _retry(delivery.attempt_count)
    for each in waiting:
        each.due_at = max(due[each.sequence], each.created_at)


def _retry(attempts: int) -> timedelta:
    return timedelta(seconds=_CONFIG.retries[min(attempts, len(_CONFIG.retries)) - 1])


def _attempt(delivery: Delivery, attempt: Attempt, *, probe: bool = False) -> None:
    """Record an attempt; a probe does not use up the attempts of its delivery."""
    delivery.attempts = append_attempt(delivery.attempts, attempt)
    delivery.attempt_count += not probe
    delivery.sent = [*delivery.sent, attempt]


def _judge(health: ReceiverHealth, attempt: Attempt, *, probe: bool) -> None:
    update_health(health, judge(attempt.response_status, None), attempt.at, _CONFIG, probe=probe)


async def _store(
    db: Executor, store_id: int, lane: Lane, deliveries: Sequence[Delivery], health: ReceiverHealth
) -> None:
    waiting = [each for each in deliveries if each.finished_at is None]
    await ADD_FINISHED.run(db, store_id, _json([each for each in deliveries if each.finished_at is not None]))
    await ADD_PENDING.run(db, store_id, _json(waiting))
    await ADD_HOURS.run(db, store_id, _json(_hours(deliveries)))
    due_at = (
        max(min(each.due_at for each in waiting if each.due_at), health.hold_until or _EARLIEST) if waiting else None
    )
    await FILL_LANE.run(db, store_id, lane.webhook_id, len(deliveries) + 1, len(waiting), due_at, _json([health]))


_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _hours(deliveries: Sequence[Delivery]) -> list[Hour]:
    """The attempts and the final outcomes, in the hours in which they happened."""
    hours: dict[datetime, Hour] = {}

    def hour(webhook_id: int, at: datetime) -> Hour:
        start = at.replace(minute=0, second=0, microsecond=0)
        return hours.setdefault(start, Hour(webhook_id, start))

    for each in deliveries:
        for attempt in each.sent:
            figures = hour(each.webhook_id, attempt.at)
            figures.attempts += 1
            figures.failed_attempts += attempt.response_status != 200
            figures.duration_ms += attempt.duration_ms
        if each.finished_at is not None:
            hour(each.webhook_id, each.finished_at).succeeded += 1
    return list(hours.values())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
