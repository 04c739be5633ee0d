"""The statements of usage: figures added up, refusals appended, and what the portal reads of both."""

from datetime import UTC, date, datetime

import msgspec

from stoa.db.query import Command, Query
from stoa.usage.rules import CLASSES, FIGURES, percentile_ms

RING = 200  # refusals kept of each app in each store
_MANY_STORES = "a worker's figures of many stores are added at once"
_OVERALL = "the developer of an app sees it in all stores"
_CHORE = "housekeeping goes over all stores"

_NAMES = ", ".join(FIGURES)
_TYPES = ", ".join(f"{name} bigint" for name in FIGURES)


def _add(table: str, keys: dict[str, str]) -> Command:
    """Rows given as JSON, added to what is there; in the order of their keys, so that two workers never cross."""
    named = ", ".join(keys)
    typed = ", ".join(f"{name} {kind}" for name, kind in keys.items())
    grown = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in FIGURES)
    return Command(
        f"""INSERT INTO {table} ({named}, {_NAMES})
            SELECT {named}, {_NAMES} FROM json_to_recordset($1::text::json) AS r({typed}, {_TYPES}) ORDER BY {named}
            ON CONFLICT ({named}) DO UPDATE SET {grown}""",
        unbound=_MANY_STORES,
    )


_PAIR = {"store_id": "bigint", "app_id": "bigint"}
ADD_DAYS = _add("usage_days", {**_PAIR, "day": "date", "operation": "text"})
ADD_HOURS = _add("usage_hours", {**_PAIR, "hour": "timestamptz"})
ADD_FAILURES = Command(
    """INSERT INTO failed_requests (
           store_id, app_id, at, request_id, method, operation, status, code, fault_pointer, fault_code, duration_us)
       SELECT store_id, app_id, at, request_id, method, operation, status, code, fault_pointer, fault_code, duration_us
         FROM json_to_recordset($1::text::json) AS r(
              store_id bigint, app_id bigint, at timestamptz, request_id text, method text, operation text,
              status integer, code text, fault_pointer text, fault_code text, duration_us bigint)""",
    unbound=_MANY_STORES,
)
TRIM_FAILURES = Command(
    f"""DELETE FROM failed_requests WHERE store_id = $1 AND app_id = $2 AND (at, id) <= (
           SELECT at, id FROM failed_requests WHERE store_id = $1 AND app_id = $2
            ORDER BY at DESC, id DESC OFFSET {RING} LIMIT 1)"""
)
FORGET_OLD_DAYS = Command(
    """DELETE FROM usage_days WHERE (store_id, app_id, day, operation) IN (
           SELECT store_id, app_id, day, operation FROM usage_days WHERE day < current_date - 400 LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_HOURS = Command(
    """DELETE FROM usage_hours WHERE (store_id, app_id, hour) IN (
           SELECT store_id, app_id, hour FROM usage_hours WHERE hour < now() - interval '14 days' LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_FAILURES = Command(
    """DELETE FROM failed_requests WHERE (store_id, app_id, at, id) IN (
           SELECT store_id, app_id, at, id FROM failed_requests WHERE at < now() - interval '30 days' LIMIT 1000)""",
    unbound=_CHORE,
)


class Figures(msgspec.Struct):
    """Requests of some time and place, with how long they took by classes."""

    requests: int = 0
    client_errors: int = 0
    rate_limited: int = 0
    server_errors: int = 0
    total_us: int = 0
    classes: list[int] = msgspec.field(default_factory=lambda: [0] * len(CLASSES))

    @property
    def errors(self) -> int:
        return self.client_errors + self.server_errors

    @property
    def mean_ms(self) -> float | None:
        return round(self.total_us / self.requests / 1000, 2) if self.requests else None

    @property
    def p50_ms(self) -> float | None:
        return percentile_ms(self.classes, 0.5)

    @property
    def p95_ms(self) -> float | None:
        return percentile_ms(self.classes, 0.95)


class Day(Figures):
    day: date = date.min


class Hour(Figures):
    hour: datetime = datetime.min.replace(tzinfo=UTC)


class OfOperation(Figures):
    operation: str = ""


class OfStore(Figures):
    store_id: int = 0
    handle: str = ""
    name: str = ""


class OfApp(Figures):
    app_id: int = 0
    name: str = ""


class Failure(msgspec.Struct):
    """A request that was refused; `handle` is the store's."""

    at: datetime
    store_id: int
    handle: str
    request_id: str
    method: str
    operation: str
    status: int
    code: str
    fault_pointer: str
    fault_code: str
    duration_us: int


_SUMMED = (
    "coalesce(sum(u.requests), 0)::bigint AS requests, coalesce(sum(u.client_errors), 0)::bigint AS client_errors, "
    "coalesce(sum(u.rate_limited), 0)::bigint AS rate_limited, coalesce(sum(u.server_errors), 0)::bigint AS server_errors, "
    "coalesce(sum(u.total_us), 0)::bigint AS total_us, "
    f"ARRAY[{', '.join(f'coalesce(sum(u.{name}), 0)' for name in CLASSES)}]::bigint[] AS classes"
)
_OF_ONE_STORE = "u.store_id = $1 AND u.app_id = $2 AND u.day BETWEEN $3 AND $4"
_OF_ALL_STORES = "u.app_id = $1 AND u.day BETWEEN $2 AND $3"
_DAYS = f"SELECT {_SUMMED}, u.day FROM usage_days u WHERE %s GROUP BY u.day ORDER BY u.day"
_OPERATIONS = (
    f"SELECT {_SUMMED}, u.operation FROM usage_days u WHERE %s GROUP BY u.operation ORDER BY requests DESC, u.operation"
)
_HOURS = f"SELECT {_SUMMED}, u.hour FROM usage_hours u WHERE %s GROUP BY u.hour ORDER BY u.hour"

DAYS = Query(Day, _DAYS % _OF_ONE_STORE)
DAYS_OVERALL = Query(Day, _DAYS % _OF_ALL_STORES, unbound=_OVERALL)
OPERATIONS = Query(OfOperation, _OPERATIONS % _OF_ONE_STORE)
OPERATIONS_OVERALL = Query(OfOperation, _OPERATIONS % _OF_ALL_STORES, unbound=_OVERALL)
HOURS = Query(Hour, _HOURS % "u.store_id = $1 AND u.app_id = $2 AND u.hour >= $3")
HOURS_OVERALL = Query(Hour, _HOURS % "u.app_id = $1 AND u.hour >= $2", unbound=_OVERALL)
STORES = Query(
    OfStore,
    f"""SELECT {_SUMMED}, u.store_id, s.handle, s.name FROM usage_days u JOIN stores s ON s.id = u.store_id
         WHERE {_OF_ALL_STORES} GROUP BY u.store_id, s.handle, s.name ORDER BY requests DESC, u.store_id""",
    unbound=_OVERALL,
)
APPS = Query(
    OfApp,
    f"""SELECT {_SUMMED}, u.app_id, a.name FROM usage_days u JOIN apps a ON a.id = u.app_id
         WHERE u.store_id = $1 AND u.day BETWEEN $2 AND $3 GROUP BY u.app_id, a.name ORDER BY requests DESC, u.app_id""",
)
_FAILURES = """SELECT f.at, f.store_id, s.handle, f.request_id, f.method, f.operation, f.status, f.code,
                      f.fault_pointer, f.fault_code, f.duration_us
                 FROM failed_requests f JOIN stores s ON s.id = f.store_id
                WHERE %s ORDER BY f.at DESC, f.id DESC LIMIT %s"""
FAILURES = Query(Failure, _FAILURES % ("f.store_id = $1 AND f.app_id = $2", "$3"))
FAILURES_OVERALL = Query(Failure, _FAILURES % ("f.app_id = $1", "$2"), unbound=_OVERALL)
