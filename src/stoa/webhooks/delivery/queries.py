"""The statements of the delivery worker and the types of their rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.query import Command, InputRow, Query
from stoa.webhooks.delivery.retry_policy import ReceiverHealth
from stoa.webhooks.http.message import AddressedEvent, Event

BUCKETS = 64
APPLICATION_NAME = "stoa deliveries"
LISTENER_NAME = "stoa deliveries, listening"
DATABASE_ERRORS = (PostgresError, Unavailable, OSError)
_ALL_STORES = "workers deliver for all stores"


# --- subscriptions ----------------------------------------------------------------------------------------------------


class EventSelection(msgspec.Struct):
    """The part of a subscription that selects its events; `granted_scopes` are the scopes that it has now."""

    store_id: int
    id: int
    app_id: int
    events: list[str]
    filter: str
    changed: list[str]
    skip_own: bool
    ordered: bool
    granted_scopes: list[str] | None
    of_app: bool  # the app's own endpoint


class Subscription(EventSelection):
    """A subscription as the router and the lane runner need it: its events, its receiver and its limits."""

    url: str | None
    payload: str
    fields: list[str]
    sealed_headers: bytes | None
    sealed_secret: bytes
    sealed_old_secret: bytes | None
    status: str
    max_in_flight: int
    rate_per_s: int | None
    skip_before: datetime | None
    ended: bool
    suspended: bool
    store_handle: str
    store_name: str
    currency: str
    timezone: str
    locale: str
    managed: bool  # declared at the app for all stores


SELECTIONS_OF_STORE = Query(
    EventSelection,
    """SELECT store_id, id, app_id, events, filter, changed, skip_own, ordered, granted_scopes, of_app
         FROM event_subscriptions WHERE store_id = $1 AND NOT ended ORDER BY id""",
)
SUBSCRIPTIONS_OF_STORES = Query(
    Subscription,
    "SELECT * FROM event_subscriptions_of_stores($1::bigint[])",
    unbound="the router routes the events of many stores at once",
)
SUBSCRIPTIONS_OF_LANES = Query(
    Subscription,
    "SELECT * FROM event_subscriptions_of_lanes($1::bigint[], $2::bigint[])",
    unbound=_ALL_STORES,
)

# --- routing ----------------------------------------------------------------------------------------------------------


class WaitingEvents(msgspec.Struct):
    """The number of unrouted events of a store, and whether the store has subscriptions."""

    store_id: int
    subscribed: bool
    count: int


class RoutedEvent(InputRow):
    """An event to mark as routed; `erased` if a person was erased from it before it was read."""

    arguments = ("route_events.in_events",)

    store_id: int
    id: str
    erased: bool = False


class RoutedLane(InputRow):
    """A lane that receives deliveries; `sends` is false while its subscription is paused, disabled or has no URL."""

    arguments = ("route_events.in_lanes",)

    store_id: int
    webhook_id: int
    deliveries: int
    sends: bool


class RoutedDelivery(InputRow):
    """A new delivery; `sequence_offset` counts the deliveries of its lane from 0."""

    arguments = ("route_events.in_deliveries",)

    store_id: int
    webhook_id: int
    sequence_offset: int
    event_id: str
    event_type: str
    resource_type: str
    resource_id: int
    resource_version: int
    ordered_by: str | None
    blocked: bool


class Lane(msgspec.Struct):
    """The queue of one subscription, with the health of its receiver."""

    store_id: int
    webhook_id: int
    epoch: int
    next_sequence: int
    waiting: int
    owner: str
    breaker: str
    probes: int
    failures: int
    hold_until: datetime | None
    window_at: datetime | None
    window_total: int
    window_failed: int
    failing_since: datetime | None
    failing_event_sent: bool
    last_success_at: datetime | None
    last_attempt_at: datetime | None


SKIP_UNSUBSCRIBED = Query(
    WaitingEvents,
    "SELECT store_id, subscribed, count FROM skip_unsubscribed_events(current_date, $1)",
    unbound=_ALL_STORES,
    over="shard",
)
TAKE_EVENTS = Query(
    AddressedEvent,
    "SELECT * FROM take_events($1::smallint[], $2, $3, $4, $5, make_interval(secs => $6), $7::bigint[], $8)",
    unbound=_ALL_STORES,
    over="shard",
)
ROUTE_EVENTS = Query(
    Lane,
    """SELECT * FROM route_events(current_date, $1, $2, $3, make_interval(secs => $4), make_interval(secs => $5),
                                  $6::json, $7::json, $8::json)""",
    unbound=_ALL_STORES,
    over="shard",
)
RELEASE_BUCKETS = Command(
    "UPDATE routing_leases SET holder = '', until = clock_timestamp() WHERE holder = $1",
    unbound="a bucket holds many stores",
)
# Subscriptions that were created after the app was uninstalled belong to its next installation. The app's own endpoint stays,
# because it receives `app.uninstalled`.
END_SUBSCRIPTIONS = Command(
    """UPDATE webhooks SET ended_at = now(), updated_at = now(), version = version + 1
        WHERE store_id = $1 AND app_id = $2 AND created_at <= $3 AND ended_at IS NULL AND NOT of_app""",
)

# --- lanes ------------------------------------------------------------------------------------------------------------


class PendingDelivery(Event):
    """A delivery that is due, with its event; the data of an expired event is empty."""

    webhook_id: int
    sequence: int
    attempt_count: int
    attempts: str
    routed_at: datetime


class Lease(msgspec.Struct, frozen=True):
    """The lease to take on lanes that were idle before a batch; without an owner they stay unleased."""

    owner: str = ""
    takeover_s: float = 0
    lease_s: float = 0


NO_LEASE = Lease()


class LeasedLanes(msgspec.Struct, frozen=True):
    """Lanes that this worker leased, with their subscriptions and next deliveries."""

    lanes: Sequence[Lane] = ()
    subscriptions: Sequence[Subscription] = ()
    deliveries: Sequence[PendingDelivery] = ()


class LaneRead(InputRow):
    """A lane whose next deliveries are read; a probe reads the first one, due or not."""

    arguments = ("due_deliveries.in_lanes",)

    store_id: int
    webhook_id: int
    max_deliveries: int
    probe: bool


class LaneHeld(InputRow):
    """A lane whose deliveries wait in the memory of a worker."""

    arguments = ("erased_deliveries.in_lanes",)

    store_id: int
    webhook_id: int


class LaneLease(InputRow):
    arguments = ("renew_leases.in_lanes",)

    store_id: int
    webhook_id: int
    epoch: int


ResultStatus = Literal["succeeded", "failed", "skipped", "cancelled", "retrying"]


class DeliveryResult(InputRow):
    """The outcome of a delivery; `retrying` is not final."""

    arguments = ("settle_deliveries.in_results",)

    store_id: int
    webhook_id: int
    sequence: int
    status: ResultStatus
    due_at: datetime | None
    attempt_count: int
    attempts: str
    lane: int = 0


class LaneState(InputRow, ReceiverHealth, kw_only=True):
    """The state of a lane after some of its deliveries, and the attempts to add to the figures of the hour."""

    arguments = ("settle_deliveries.in_lanes",)

    lane: int = 0
    store_id: int
    webhook_id: int
    epoch: int
    released: bool = False
    idle: bool = False  # nothing to send until the subscription changes
    recovered: bool = False
    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    duration_ms: int = 0


class SettledLane(msgspec.Struct):
    lane: int
    state: str  # leased, released or due


class ErasedDelivery(msgspec.Struct):
    """A pending delivery that an erasure has marked, because its event was about the person."""

    webhook_id: int
    sequence: int


DUE_BUCKETS = Query(
    int,
    "SELECT due_buckets() AS bucket",
    unbound=_ALL_STORES,
    over="shard",
)
LEASE_LANES = Query(
    Lane,
    "SELECT * FROM lease_lanes($1::smallint[], $2, $3, make_interval(secs => $4), make_interval(secs => $5))",
    unbound=_ALL_STORES,
    over="shard",
)
DUE_DELIVERIES = Query(PendingDelivery, "SELECT * FROM due_deliveries($1::json)", unbound=_ALL_STORES, over="shard")
RENEW_LEASES = Query(
    int, "SELECT renew_leases($1, make_interval(secs => $2), $3::json)", unbound=_ALL_STORES, over="shard"
)
# Few rows: settling a delivery ends the mark. A worker asks with each heartbeat, for lanes whose deliveries wait in its memory.
ERASED_DELIVERIES = Query(
    ErasedDelivery, "SELECT webhook_id, sequence FROM erased_deliveries($1::json)", unbound=_ALL_STORES, over="shard"
)
SETTLE = Query(
    SettledLane,
    """SELECT lane, state
         FROM settle_deliveries($1, make_interval(secs => $2), make_interval(secs => $3), $4::json, $5::json)""",
    unbound=_ALL_STORES,
    over="shard",
)
NOW = Query(datetime, "SELECT clock_timestamp()", unbound="the time has no store")


# Workers report every two seconds.
WORKER_SEEN_S = 10
REPORT_WORKER = Command(
    """INSERT INTO delivery_workers (name, seen_at) VALUES ($1, clock_timestamp())
       ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at""",
    unbound=_ALL_STORES,
)
FORGET_WORKER = Command("DELETE FROM delivery_workers WHERE name = $1", unbound=_ALL_STORES)


class Backlog(msgspec.Struct):
    """The queue of deliveries; `late_seconds` is how long the most overdue lane has waited for a worker. `receivers` are those
    to which deliveries wait or were sent within a day."""

    pending: int
    unrouted: int
    open_breakers: int
    oldest_seconds: float
    oldest_unrouted_seconds: float
    late_seconds: float
    workers: int
    receivers: int


# Deliveries that should be sent now. Those of subscriptions that are paused, disabled or without a URL do not count.
# An age is negative after the clock stepped back.
BACKLOG = Query(
    Backlog,
    f"""WITH unrouted AS MATERIALIZED (
           SELECT count(*) AS events, min(u.created_at) AS oldest_at
             FROM (SELECT created_at FROM events WHERE routed_on = 'infinity' LIMIT 100000) u),
       queued AS MATERIALIZED (
           SELECT coalesce(sum(t.waiting), 0)::bigint AS pending, count(*) FILTER (WHERE t.breaker = 'open') AS open_breakers,
                  count(*) AS receivers, min(t.oldest_at) AS oldest_at, min(t.due_at) AS due_at
             FROM (SELECT l.waiting, l.breaker, l.due_at,
                          CASE WHEN l.waiting > 0 THEN (
                               SELECT q.created_at FROM pending_deliveries q
                                WHERE q.store_id = l.store_id AND q.webhook_id = l.webhook_id
                                ORDER BY q.sequence LIMIT 1) END AS oldest_at
                     FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
                    WHERE w.status = 'active' AND w.url IS NOT NULL AND w.ended_at IS NULL
                      AND (l.waiting > 0 OR l.breaker = 'open' OR l.last_attempt_at > now() - interval '1 day')) t)
       SELECT q.pending, u.events AS unrouted, q.open_breakers,
              greatest(0, extract(epoch FROM clock_timestamp() - q.oldest_at))::float8 AS oldest_seconds,
              greatest(0, extract(epoch FROM clock_timestamp() - u.oldest_at))::float8 AS oldest_unrouted_seconds,
              greatest(0, extract(epoch FROM clock_timestamp() - q.due_at))::float8 AS late_seconds,
              (SELECT count(*) FROM delivery_workers w
                WHERE w.seen_at BETWEEN clock_timestamp() - interval '{WORKER_SEEN_S} seconds'
                                    AND clock_timestamp() + interval '{WORKER_SEEN_S} seconds') AS workers,
              q.receivers
         FROM unrouted u CROSS JOIN queued q""",
    unbound=_ALL_STORES,
    over="shard",
)
