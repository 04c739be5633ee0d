"""SQL for usage metrics and the request log: writes from the workers, retention, and the portal's reports."""

from datetime import UTC, date, datetime

import msgspec

from stoa.db.fan_out import FanOut, added, in_order
from stoa.db.query import Command, Query
from stoa.usage.rules import BUCKETS, COUNTERS, percentile_ms

_MANY_STORES = "a worker writes the metrics of many stores at once"
_ALL_STORES = "an app's developer sees its usage of all stores"
_MAINTENANCE = "maintenance covers all stores"

_COLUMNS = ", ".join(COUNTERS)
TYPED_COLUMNS = ", ".join(f"{name} bigint" for name in COUNTERS)
_INCREMENTS = ", ".join(f"{name} = u.{name} + excluded.{name}" for name in COUNTERS)

# Rows are sorted by primary key, so that concurrent workers cannot deadlock.
_ADD = f"""INSERT INTO {{0}} AS u (store_id, app_id, {{1}}, operation, {_COLUMNS})
        SELECT store_id, app_id, {{1}}, operation, {_COLUMNS} FROM json_to_recordset($1::text::json) AS r(
               store_id bigint, app_id bigint, {{1}} {{2}}, operation text, {TYPED_COLUMNS})
         ORDER BY store_id, app_id, {{1}}, operation
        ON CONFLICT (store_id, app_id, {{1}}, operation) DO UPDATE SET {_INCREMENTS}"""
ADD_DAYS = Command(_ADD.format("usage_days", "day", "date"), unbound=_MANY_STORES, over="shard")
ADD_HOURS = Command(_ADD.format("usage_hours", "hour", "timestamptz"), unbound=_MANY_STORES, over="shard")
# Workers rarely assign the same id; then one of the two requests is lost.
ADD_REQUESTS = Command(
    """INSERT INTO request_log (
           store_id, app_id, id, at, request_id, method, operation, path, status, code, faults, duration_us)
       SELECT store_id, app_id, id, at, request_id, method, operation, path, status, code, faults, duration_us
         FROM json_to_recordset($1::text::json) AS r(
              store_id bigint, app_id bigint, id bigint, at timestamptz, request_id text, method text, operation text,
              path text, status integer, code text, faults text, duration_us bigint)
       ON CONFLICT (store_id, app_id, id) DO NOTHING""",
    unbound=_MANY_STORES,
    over="shard",
)
NEWEST_TO_DELETE = Query(
    int,
    "SELECT id FROM request_log WHERE app_id = $1 ORDER BY app_id DESC, id DESC OFFSET $2 LIMIT 1",
    unbound=_ALL_STORES,
    over="shard",
)
TRIM_REQUESTS = Command("DELETE FROM request_log WHERE app_id = $1 AND id <= $2", unbound=_ALL_STORES, over="shard")
FORGET_OLD_REQUESTS = Command(
    """DELETE FROM request_log WHERE (store_id, app_id, id) IN (
           SELECT store_id, app_id, id FROM request_log
            WHERE id < (extract(epoch FROM now() - make_interval(days => $1::integer)) * 1000000)::bigint * 100
            ORDER BY id LIMIT 10000)""",
    unbound=_MAINTENANCE,
    over="shard",
)
FORGET_OLD_DAYS = Command(
    """DELETE FROM usage_days WHERE (store_id, app_id, day, operation) IN (
           SELECT store_id, app_id, day, operation FROM usage_days WHERE day < current_date - 400 LIMIT 1000)""",
    unbound=_MAINTENANCE,
    over="shard",
)
FORGET_OLD_HOURS = Command(
    """DELETE FROM usage_hours WHERE (store_id, app_id, hour, operation) IN (
           SELECT store_id, app_id, hour, operation FROM usage_hours
            WHERE hour < now() - interval '2 days' LIMIT 10000)""",
    unbound=_MAINTENANCE,
    over="shard",
)
# Release 0.2.0 wrote this table; the request log has replaced it.
FORGET_OLD_FAILURES = Command(
    """DELETE FROM failed_requests WHERE (store_id, app_id, at, id) IN (
           SELECT store_id, app_id, at, id FROM failed_requests WHERE at < now() - interval '30 days' LIMIT 1000)""",
    unbound=_MAINTENANCE,
    over="shard",
)


class Metrics(msgspec.Struct):
    """Request counts, the total duration, and a latency histogram."""

    requests: int = 0
    client_errors: int = 0
    rate_limited: int = 0
    server_errors: int = 0
    total_us: int = 0
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * len(BUCKETS))

    def add(self, other: "Metrics") -> None:
        self.requests += other.requests
        self.client_errors += other.client_errors
        self.rate_limited += other.rate_limited
        self.server_errors += other.server_errors
        self.total_us += other.total_us
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]

    @property
    def errors(self) -> int:
        return self.client_errors + self.server_errors

    @property
    def mean_ms(self) -> float | None:
        return self.total_us / 1000 / self.requests if self.requests else None

    @property
    def p50_ms(self) -> float | None:
        return percentile_ms(self.buckets, 0.5)

    @property
    def p95_ms(self) -> float | None:
        return percentile_ms(self.buckets, 0.95)


class DayMetrics(Metrics):
    day: date = date.min

    @property
    def start(self) -> date:
        return self.day


class HourMetrics(Metrics):
    hour: datetime = datetime.min.replace(tzinfo=UTC)

    @property
    def start(self) -> date:
        return self.hour


class OperationMetrics(Metrics):
    operation: str = ""


class StoreMetrics(Metrics):
    store_id: int = 0
    handle: str = ""
    name: str = ""


class LoggedRequest(msgspec.Struct):
    """A request of the log; `handle` is the store's, and `faults` are pairs of pointer and code as JSON."""

    id: int
    at: datetime
    handle: str
    request_id: str
    method: str
    operation: str
    path: str
    status: int
    code: str
    faults: str
    duration_us: int

    @property
    def duration_ms(self) -> float:
        return self.duration_us / 1000

    @property
    def pointers(self) -> list[tuple[str, str]]:
        return msgspec.json.decode(self.faults, type=list[tuple[str, str]])


SUMS = (
    "coalesce(sum(u.requests), 0)::bigint AS requests, coalesce(sum(u.client_errors), 0)::bigint AS client_errors, "
    "coalesce(sum(u.rate_limited), 0)::bigint AS rate_limited, coalesce(sum(u.server_errors), 0)::bigint AS server_errors, "
    "coalesce(sum(u.total_us), 0)::bigint AS total_us, "
    f"ARRAY[{', '.join(f'coalesce(sum(u.{name}), 0)' for name in BUCKETS)}]::bigint[] AS buckets"
)
_IN_ONE_STORE = "u.store_id = $1 AND u.app_id = $2 AND u.{1} BETWEEN $3 AND $4"
_IN_ALL_STORES = "u.app_id = $1 AND u.{1} BETWEEN $2 AND $3 AND u.store_id <> ALL ($4::bigint[])"
# The table and its column of time are filled in.
_PERIODS = f"SELECT {SUMS}, u.{{1}} FROM {{0}} u WHERE %s GROUP BY u.{{1}} ORDER BY u.{{1}}"
_OPERATIONS = (
    f"SELECT {SUMS}, u.operation FROM {{0}} u WHERE %s GROUP BY u.operation ORDER BY requests DESC, u.operation"
)
_STORES = f"""SELECT {SUMS}, u.store_id, s.handle, s.name FROM {{0}} u JOIN stores s ON s.id = u.store_id
         WHERE {_IN_ALL_STORES} GROUP BY u.store_id, s.handle, s.name ORDER BY requests DESC, u.store_id"""
_BY_DAY, _BY_HOUR = ("usage_days", "day"), ("usage_hours", "hour")
_SUMMED = ("requests", "client_errors", "rate_limited", "server_errors", "total_us", "buckets")
_OPERATIONS_OF_SHARDS = added(*_SUMMED, by=["operation"], order=["-requests", "operation"])
_STORES_OF_SHARDS = in_order("-requests", "store_id", unique=["store_id"])

DAYS = Query(DayMetrics, (_PERIODS % _IN_ONE_STORE).format(*_BY_DAY))
DAYS_ALL_STORES = FanOut(
    DayMetrics,
    (_PERIODS % _IN_ALL_STORES).format(*_BY_DAY),
    added(*_SUMMED, by=["day"], order=["day"]),
    unbound=_ALL_STORES,
)


class RequestsOfDay(msgspec.Struct):
    """The requests of one day by an app to all stores, or by all apps to a store."""

    id: int
    day: date
    requests: int
    errors: int


_REQUESTS_BY_DAY = """SELECT {0} AS id, day, sum(requests)::bigint AS requests,
       sum(client_errors + server_errors)::bigint AS errors
  FROM usage_days WHERE {0} = ANY ($1::bigint[]) AND day >= $2 AND store_id <> ALL ($3::bigint[])
 GROUP BY {0}, day ORDER BY {0}, day"""
_DAYS_OF_SHARDS = added("requests", "errors", by=["id", "day"], order=["id", "day"])
REQUESTS_OF_APPS = FanOut(
    RequestsOfDay,
    _REQUESTS_BY_DAY.format("app_id"),
    _DAYS_OF_SHARDS,
    unbound="it sums up the usage of an account's apps, by the apps",
)
REQUESTS_OF_STORES = FanOut(
    RequestsOfDay,
    _REQUESTS_BY_DAY.format("store_id"),
    _DAYS_OF_SHARDS,
    unbound="it sums up the usage of an account's stores, by the stores",
)
OPERATIONS = Query(OperationMetrics, (_OPERATIONS % _IN_ONE_STORE).format(*_BY_DAY))
OPERATIONS_ALL_STORES = FanOut(
    OperationMetrics, (_OPERATIONS % _IN_ALL_STORES).format(*_BY_DAY), _OPERATIONS_OF_SHARDS, unbound=_ALL_STORES
)
STORES = FanOut(StoreMetrics, _STORES.format(*_BY_DAY), _STORES_OF_SHARDS, unbound=_ALL_STORES)
HOURS = Query(HourMetrics, (_PERIODS % _IN_ONE_STORE).format(*_BY_HOUR))
HOURS_ALL_STORES = FanOut(
    HourMetrics,
    (_PERIODS % _IN_ALL_STORES).format(*_BY_HOUR),
    added(*_SUMMED, by=["hour"], order=["hour"]),
    unbound=_ALL_STORES,
)
OPERATIONS_BY_HOUR = Query(OperationMetrics, (_OPERATIONS % _IN_ONE_STORE).format(*_BY_HOUR))
OPERATIONS_BY_HOUR_ALL_STORES = FanOut(
    OperationMetrics, (_OPERATIONS % _IN_ALL_STORES).format(*_BY_HOUR), _OPERATIONS_OF_SHARDS, unbound=_ALL_STORES
)
STORES_BY_HOUR = FanOut(StoreMetrics, _STORES.format(*_BY_HOUR), _STORES_OF_SHARDS, unbound=_ALL_STORES)
_REQUEST = """SELECT l.id, l.at, s.handle, l.request_id, l.method, l.operation, l.path, l.status, l.code, l.faults,
                     l.duration_us
                FROM request_log l JOIN stores s ON s.id = l.store_id"""
# An app has few requests in the log, so the filters read them along the index, newest first.
REQUESTS = FanOut(
    LoggedRequest,
    f"""{_REQUEST}
        WHERE l.app_id = $1 AND l.id >= $2 AND l.id < $3 AND l.status BETWEEN $4 AND $5
          AND NOT (l.status = 429 AND $6) AND ($7::bigint IS NULL OR l.store_id = $7)
          AND ($8::text IS NULL OR l.operation = $8) AND ($9 = '' OR l.request_id = $9)
          AND l.store_id <> ALL ($11::bigint[])
        ORDER BY l.app_id DESC, l.id DESC LIMIT $10""",
    in_order("-id", limit=10, unique=["id", "handle"]),
    unbound=_ALL_STORES,
)
REQUEST = FanOut(
    LoggedRequest,
    f"{_REQUEST} WHERE l.app_id = $1 AND l.id = $2 AND l.store_id <> ALL ($3::bigint[])",
    in_order("handle"),
    unbound=_ALL_STORES,
)
