"""The statements of the webhooks API; `$1` is the store in every statement."""

from datetime import date, datetime

import msgspec

from stoa.db.listing import Listing
from stoa.db.query import Command, Query
from stoa.webhooks.http.message import AddressedEvent, Event

_MINE = "w.store_id = $1 AND w.app_id = $2 AND NOT w.of_app AND w.ended_at IS NULL"


class Row(msgspec.Struct):
    """A subscription with its settings, its lane and its figures of the last day."""

    id: int
    app_id: int
    of_app: bool
    managed: bool  # declared at the app for all stores
    name: str
    url: str | None
    events: list[str]
    filter: str
    changed: list[str]
    fields: list[str]
    payload: str
    ordering: str
    skip_own: bool
    header_names: list[str]
    sealed_headers: bytes | None
    sealed_secret: bytes
    sealed_old_secret: bytes | None
    old_secret_expires_at: datetime | None  # null after it has expired
    status: str
    disabled_reason: str | None
    max_in_flight: int
    rate_per_s: int | None
    created_at: datetime
    updated_at: datetime
    version: int
    readable: list[str] | None  # the scopes that bound it; null: those of the installation
    waiting: int
    oldest_age_s: int | None
    breaker: str
    failures: int
    failing: bool
    hold_until: datetime | None
    last_sequence: int
    last_delivery_at: datetime | None
    succeeded: int
    failed: int
    attempts: int

    @property
    def shared_secret(self) -> bool:
        """Whether it signs with the secret that the app uses on all stores."""
        return self.of_app or self.managed

    @property
    def held(self) -> bool:
        """Whether pending deliveries are not sent: paused, disabled, or without a URL."""
        return self.status != "active" or self.url is None


_ROW = f"""
    SELECT w.id, w.app_id, w.of_app, w.managed_by IS NOT NULL AS managed, w.name, w.url, w.events, w.filter, w.changed, w.fields, w.payload, w.ordering, w.skip_own,
           w.header_names, w.sealed_headers, coalesce(c.sealed_secret, w.sealed_secret) AS sealed_secret,
           CASE WHEN e.at > now() THEN coalesce(c.sealed_old_secret, w.sealed_old_secret) END AS sealed_old_secret,
           CASE WHEN e.at > now() THEN e.at END AS old_secret_expires_at,
           w.status, w.disabled_reason, w.max_in_flight, w.rate_per_s, w.created_at, w.updated_at, w.version,
           w.readable,
           coalesce(l.waiting, 0) AS waiting,
           (SELECT greatest(0, extract(epoch FROM now() - p.created_at))::bigint FROM pending_deliveries p
             WHERE p.store_id = $1 AND p.webhook_id = w.id ORDER BY p.sequence LIMIT 1) AS oldest_age_s,
           coalesce(l.breaker, 'closed') AS breaker, coalesce(l.failures, 0) AS failures,
           l.failing_since IS NOT NULL AS failing,
           l.hold_until, coalesce(l.next_sequence, 1) - 1 AS last_sequence, l.last_attempt_at AS last_delivery_at,
           h.succeeded, h.failed, h.attempts
      FROM webhooks w
           LEFT JOIN lanes l ON l.store_id = $1 AND l.webhook_id = w.id
           LEFT JOIN app_callbacks c ON c.app_id = w.app_id AND w.managed_by IS NOT NULL
           CROSS JOIN LATERAL (SELECT coalesce(c.old_secret_expires_at, w.old_secret_expires_at) AS at) e
           CROSS JOIN LATERAL (
               SELECT coalesce(sum(d.succeeded), 0)::bigint AS succeeded, coalesce(sum(d.failed), 0)::bigint AS failed,
                      coalesce(sum(d.attempts), 0)::bigint AS attempts
                 FROM delivery_hours d
                WHERE d.store_id = $1 AND d.webhook_id = w.id AND d.hour > now() - interval '24 hours') h
     WHERE {_MINE}"""  # fmt: skip
GET = Query(Row, f"{_ROW} AND w.id = $3")
# The app's own endpoint is the same kind of row. Apps manage it in the portal, so the API does not show it.
GET_ENDPOINT = Query(Row, f"{_ROW.replace('NOT w.of_app', 'w.of_app')} AND w.id = $3")
THESE = Query(Row, f"{_ROW} AND w.id = ANY ($3::bigint[])")
LOCK = Query(int, f"SELECT w.id FROM webhooks w WHERE {_MINE} AND w.id = $3 FOR NO KEY UPDATE")

# Serializes concurrent subscribes of one app, so that their number is exact, and keeps the installation from being removed.
LOCK_INSTALLATION = Query(int, "SELECT app_id FROM installations WHERE store_id = $1 AND app_id = $2 FOR NO KEY UPDATE")
COUNT = Query(int, f"SELECT count(*) FROM webhooks w WHERE {_MINE} AND w.managed_by IS NULL")
SAME = Query(int, f"SELECT w.id FROM webhooks w WHERE {_MINE} AND w.same_key = $3")
NEW_ID = Query(int, "SELECT nextval('webhook_ids')", unbound="a sequence has no store")
INSERT = Command(
    """INSERT INTO webhooks (store_id, id, app_id, name, url, events, filter, fields, payload, ordering, skip_own,
                             header_names, sealed_headers, sealed_secret, same_key, status, max_in_flight, rate_per_s,
                             readable, changed)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"""
)
INSERT_LANE = Command("INSERT INTO lanes (store_id, webhook_id) VALUES ($1, $2)")
UPDATE = Command(
    """UPDATE webhooks
          SET name = $3, url = $4, events = $5, filter = $6, fields = $7, payload = $8, ordering = $9, skip_own = $10,
              header_names = $11, sealed_headers = $12, same_key = $13, status = $14, max_in_flight = $15,
              rate_per_s = $16, skip_before = CASE WHEN $20 THEN $17 ELSE skip_before END, readable = $18, changed = $19,
              disabled_reason = CASE WHEN $14 = 'disabled' THEN disabled_reason END,
              version = version + 1, updated_at = now()
        WHERE store_id = $1 AND id = $2"""
)
ROTATE = Command(
    """UPDATE webhooks
          SET sealed_secret = $3, sealed_old_secret = $4, old_secret_expires_at = $5, readable = $6,
              version = version + 1, updated_at = now()
        WHERE store_id = $1 AND id = $2"""
)
END = Command(
    "UPDATE webhooks SET ended_at = now(), updated_at = now(), version = version + 1 WHERE store_id = $1 AND id = $2"
)
RESUME_LANE = Query(int, "SELECT count(*) FROM resume_lane($1, $2)")
PAUSE_LANE = Query(int, "SELECT count(*) FROM pause_lane($1, $2)")
NOW = Query(datetime, "SELECT now()", unbound="the time has no store")

# The list only selects and orders ids; `THESE` reads the rows.
LISTING = Listing(
    table="webhooks",
    doc="id::text",
    where={
        "app_id": "app_id = {} AND NOT of_app AND ended_at IS NULL",
        "status": "status = ANY ({}::text[])",
        "updated_since": "updated_at >= {}",
    },
    sorts={"id": "id"},
)

_DOC = """'{"id":"dlv_' || webhook_id || '_' || sequence || '","webhook_id":' || webhook_id
    || ',"event_id":"' || event_id || '","event_type":"' || event_type || '","sequence":' || sequence
    || ',"resource":{"type":"' || resource_type || '","id":' || resource_id || ',"version":' || resource_version
    || '},"status":"' || status || '","attempts":' || attempts || ',"attempt_count":' || attempt_count
    || ',"next_attempt_at":'
    || CASE WHEN isfinite(next_attempt_at) THEN '"' || rfc3339(next_attempt_at) || '"' ELSE 'null' END
    || ',"redelivery_of":' || coalesce('"dlv_' || webhook_id || '_' || redelivery_of || '"', 'null')
    || ',"created_at":"' || rfc3339(created_at) || '"}'"""
_OF_ONE = "store_id = $1 AND webhook_id = $2"
DELIVERIES = Listing(
    table="delivery_log",
    doc=_DOC,
    where={
        "webhook_id": "webhook_id = {}",
        "status": "status = ANY ({}::text[])",
        "event": "event_type = ANY ({}::text[])",
        "event_type": "event_type = ANY ({}::text[])",
        "resource_id": "resource_id = {}",
        "resource_type": "resource_type = ANY ({}::text[])",
        "since": "created_at >= {}",
        "until": "created_at < {}",
        "event_id": "event_id = {} AND resource_id = ("
        "SELECT e.resource_id FROM events e WHERE e.store_id = $1 AND e.id = {} LIMIT 1)",
    },
    sorts={"id": "sequence"},
)


class Fed(msgspec.Struct):
    sequence: int
    doc: bytes


FEED = Query(
    Fed,
    f"""SELECT sequence, textsend({_DOC}) AS doc FROM delivery_log
         WHERE {_OF_ONE} AND sequence > $3 ORDER BY sequence LIMIT $4""",
)


class EventKey(msgspec.Struct):
    """The key of the event of a delivery."""

    sequence: int
    event_id: str
    event_day: date


EVENT_KEYS = Query(
    EventKey,
    f"SELECT sequence, event_id, event_day FROM delivery_log WHERE {_OF_ONE} AND sequence = ANY ($3::bigint[])",
)
_EVENT = "store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, created_at, parent_version, app_views"
EVENTS = Query(
    Event,
    f"SELECT {_EVENT} FROM events WHERE store_id = $1 AND id = ANY ($2::text[]) AND routed_on = ANY ($3::date[])",
)
EVENT_ANY_DAY = Query(AddressedEvent, f"SELECT {_EVENT}, audience FROM events WHERE store_id = $1 AND id = $2")
EXISTING = Query(int, f"SELECT sequence FROM delivery_log WHERE {_OF_ONE} AND sequence = ANY ($3::bigint[])")


class MatchedType(msgspec.Struct):
    """The deliveries of one type of event that a redelivery sends."""

    event_type: str
    deliveries: int


_BY_TYPE = f"SELECT event_type, count(*) AS deliveries FROM delivery_log WHERE {_OF_ONE}"
CHOSEN = Query(MatchedType, f"{_BY_TYPE} AND sequence = ANY ($3::bigint[]) GROUP BY event_type ORDER BY event_type")
IN_RANGE = Query(
    MatchedType,
    f"""{_BY_TYPE} AND created_at >= coalesce($3::timestamptz, '-infinity')
           AND created_at < coalesce($4::timestamptz, 'infinity')
           AND status = coalesce($5, status) GROUP BY event_type ORDER BY event_type""",
)
GRANTED = Query(
    list[str], "SELECT coalesce(granted_scopes, '{}') FROM event_subscriptions WHERE store_id = $1 AND id = $2"
)
UNFINISHED = Query(
    int, "SELECT count(*) FROM redeliveries WHERE store_id = $1 AND webhook_id = $2 AND finished_at IS NULL"
)


class Queued(msgspec.Struct):
    id: int
    created_at: datetime


INSERT_REDELIVERY = Query(
    Queued,
    """INSERT INTO redeliveries (store_id, webhook_id, sequences, since, until, status, rate_per_s)
       VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id, created_at""",
)


class LastSequence(msgspec.Struct):
    """The last sequence of a lane."""

    webhook_id: int
    last_sequence: int


# The first owner, if the app has any: operators also create apps without.
OWNER_OF_APP = Query[int | None](
    int,
    "SELECT min(account_id) FROM account_apps WHERE app_id = $1 AND role = 'owner'",
    unbound="an app is of no store",
)
LAST_SEQUENCES = Query(
    LastSequence,
    """SELECT webhook_id, next_sequence - 1 AS last_sequence FROM lanes
        WHERE store_id = ANY ($1::bigint[]) AND webhook_id = ANY ($2::bigint[])""",
    unbound="one query serves the waiting feeds of all stores",
    over="shard",
)
