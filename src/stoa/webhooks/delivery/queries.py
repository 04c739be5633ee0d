"""What the database does for delivery: lanes taken and given back, what waits in them, and what became of it."""

from datetime import UTC, datetime

import msgspec

from stoa.db.query import Command, Query
from stoa.webhooks.delivery.envelope import Event
from stoa.webhooks.delivery.retry_policy import Standing

BUCKETS = 64
_ALL_STORES = "workers deliver for all stores"


class Lane(msgspec.Struct):
    """A subscription's queue, with what is known of its receiver."""

    bucket: int
    webhook_id: int
    store_id: int
    next_sequence: int
    waiting: int
    due_at: datetime | None
    owner: str
    epoch: int
    lease_until: datetime | None
    hold_until: datetime | None
    breaker: str
    probes: int
    failures: int
    window_at: datetime | None
    window_total: int
    window_failed: int
    failing_since: datetime | None
    told: bool
    last_success_at: datetime | None
    last_attempt_at: datetime | None

    def standing(self) -> Standing:
        return Standing(**{name: getattr(self, name) for name in Standing.__struct_fields__})


class Head(msgspec.Struct):
    """A delivery that comes next, with its event; an event that is there no more has no data."""

    webhook_id: int
    sequence: int
    attempt_count: int
    attempts: str
    routed_at: datetime
    store_id: int
    id: str
    type: str
    resource_type: str
    resource_id: int
    resource_version: int | None
    actor: str | None
    changes: str | None
    data: str | None
    created_at: datetime | None

    @classmethod
    def first(cls, webhook_id: int, sequence: int, event: Event) -> "Head":
        """A delivery that was routed this moment."""
        told = (event.actor, event.changes, event.data, event.created_at)
        of = (event.resource_type, event.resource_id, event.resource_version)
        return cls(webhook_id, sequence, 0, "[]", datetime.now(UTC), event.store_id, event.id, event.type, *of, *told)

    def event(self) -> Event:
        """The event of a delivery that still has one."""
        if self.resource_version is None or self.created_at is None:
            raise LookupError(self.id)
        return Event(
            self.store_id,
            self.id,
            self.type,
            self.resource_type,
            self.resource_id,
            self.resource_version,
            self.actor or "{}",
            self.changes or "{}",
            self.data or "null",
            self.created_at,
        )


CLAIM = Query(
    Lane,
    "SELECT * FROM claim_lanes($1::text[]::smallint[], $2, $3, make_interval(secs => $4), make_interval(secs => $5))",
    unbound=_ALL_STORES,
)
DUE_BUCKETS = Query(int, "SELECT DISTINCT bucket FROM lanes WHERE due_at <= clock_timestamp()", unbound=_ALL_STORES)
HEADS = Query(
    Head,
    "SELECT * FROM lane_heads($1::text[]::smallint[], $2::text[]::bigint[], $3::text[]::integer[], $4::text[]::boolean[])",
    unbound=_ALL_STORES,
)
RENEW = Query(
    list[bool],
    """SELECT renew_lanes($1, make_interval(secs => $2), $3::text[]::smallint[], $4::text[]::bigint[],
                          $5::text[]::bigint[])""",
    unbound=_ALL_STORES,
)
SETTLE = Query(
    list[int],
    """SELECT settle_deliveries(
           $1, make_interval(secs => $2), make_interval(secs => $3), $4::text[]::smallint[], $5::text[]::bigint[],
           $6::text[]::bigint[], $7::text[]::boolean[], $8::text[]::boolean[], $9::text[]::boolean[], $10,
           $11::text[]::integer[], $12::text[]::integer[], $13::text[]::timestamptz[], $14::text[]::timestamptz[],
           $15::text[]::integer[], $16::text[]::integer[], $17::text[]::timestamptz[], $18::text[]::boolean[],
           $19::text[]::timestamptz[], $20::text[]::timestamptz[], $21::text[]::integer[], $22::text[]::integer[],
           $23::text[]::integer[], $24::text[]::integer[], $25::text[]::bigint[],
           $26::text[]::integer[], $27::text[]::bigint[], $28, $29::text[]::timestamptz[], $30::text[]::integer[], $31)""",
    unbound=_ALL_STORES,
)
# What settling says of each lane.
LOST, DUE = 0, 2
NOW = Query(datetime, "SELECT clock_timestamp()", unbound="the time is the same everywhere")

# --- chores -----------------------------------------------------------------------------------------------------------

SWEEP = Query(int, "SELECT sweep_lanes()", unbound=_ALL_STORES)
CLEAR = Query(int, "SELECT clear_lanes($1, 20000)", unbound=_ALL_STORES)
REMOVE_ENDED = Query(int, "SELECT remove_ended()", unbound=_ALL_STORES)
MAKE_DAYS = Query(
    int,
    """SELECT count(*) FROM unnest(ARRAY['events', 'deliveries']) AS t (name), generate_series(-1, 7) AS d
        WHERE make_day(t.name, current_date + d)""",
    unbound=_ALL_STORES,
)
OLD_DAYS = Query(
    str,
    """SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('events'::regclass, 'deliveries'::regclass)
          AND c.relname ~ '_\\d{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < current_date - $1::integer
        ORDER BY c.relname LIMIT 1""",
    unbound=_ALL_STORES,
)
FORGET_OLD_HOURS = Command(
    "DELETE FROM delivery_hours WHERE hour < now() - make_interval(days => $1::integer)", unbound=_ALL_STORES
)


class Backlog(msgspec.Struct):
    pending: int
    unrouted: int
    open_breakers: int
    oldest_seconds: float


# What ought to be going out: what is kept to be pulled, and what waits while its receiver is paused or disabled, is at rest.
BACKLOG = Query(
    Backlog,
    """SELECT coalesce(sum(l.waiting), 0)::bigint AS pending,
              (SELECT count(*) FROM (SELECT 1 FROM events WHERE routed_on = 'infinity' LIMIT 100000) e) AS unrouted,
              count(*) FILTER (WHERE l.breaker = 'open') AS open_breakers,
              coalesce(extract(epoch FROM clock_timestamp() - min(p.created_at)), 0)::float8 AS oldest_seconds
         FROM lanes l
         JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
          AND w.status = 'active' AND w.url IS NOT NULL AND w.ended_at IS NULL
         LEFT JOIN LATERAL (
              SELECT q.created_at FROM pending_deliveries q
               WHERE q.bucket = l.bucket AND q.webhook_id = l.webhook_id ORDER BY q.sequence LIMIT 1) p ON l.waiting > 0
        WHERE l.waiting > 0 OR l.breaker = 'open'""",
    unbound=_ALL_STORES,
)
