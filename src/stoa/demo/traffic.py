"""The past requests of the demo app: counted by hour and day, and logged, as if a worker had answered them."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from stoa.db.query import Command, Executor, Query
from stoa.ids import new_id
from stoa.usage.queries import ADD_DAYS, ADD_HOURS, ADD_REQUESTS, TYPED_COLUMNS
from stoa.usage.request_log import NewRequest, first_id
from stoa.usage.rules import COUNTERS, REQUESTS, TOTAL_US, bucket_of, error_counter

DAYS, LOGGED_DAYS, HOURS_KEPT = 30, 7, 48
_SEED = 2207
_SERVICE = "the load of the service belongs to no store"


class Operation(msgspec.Struct, frozen=True):
    """An endpoint that the app calls: how often compared with the others, how long it takes, and how it fails."""

    name: str
    method: str
    path: str
    weight: int
    milliseconds: float
    failures: tuple[tuple[int, str, str], ...] = ()  # status, code, and pairs of pointer and code as JSON


_INVALID = '[["/items/0/sku","unknown_sku"]]'
OPERATIONS = (
    Operation("list_products", "GET", "/products", 30, 3.4, ((400, "invalid_parameter", '[["sort","not_allowed"]]'),)),
    Operation("get_product", "GET", "/products/{id}", 24, 1.6, ((404, "not_found", "[]"),)),
    Operation("list_orders", "GET", "/orders", 20, 4.1),
    Operation("get_order", "GET", "/orders/{id}", 12, 1.9, ((404, "not_found", "[]"),)),
    Operation("list_inventory", "GET", "/products/inventory", 8, 2.8),
    Operation(
        "adjust_inventory", "POST", "/products/inventory/adjustments", 6, 7.2, ((422, "validation_failed", _INVALID),)
    ),
)
PLACED = Operation("create_order", "POST", "/orders", 0, 9.5)


class PlacedOrder(msgspec.Struct):
    id: int
    created_at: datetime


# The orders that the app placed are requests of it.
PLACED_BY_APP = Query(
    PlacedOrder,
    """SELECT o.id, o.created_at FROM orders o JOIN events e ON e.store_id = $1 AND e.resource_id = o.id
        WHERE o.store_id = $1 AND e.type = 'order.created' AND (e.actor::json ->> 'app_id')::bigint = $2""",
)
SOME_PRODUCTS = Query(int, "SELECT id FROM products WHERE store_id = $1 ORDER BY id LIMIT 40")
ADD_SAMPLES = Command(
    f"""INSERT INTO service_samples AS s (minutes, at, {", ".join(COUNTERS)})
        SELECT r.minutes, r.at, {", ".join(f"r.{name}" for name in COUNTERS)}
          FROM json_to_recordset($1::text::json) AS r(minutes integer, at timestamptz, {TYPED_COLUMNS})
        ON CONFLICT (minutes, at) DO UPDATE SET {", ".join(f"{name} = s.{name} + excluded.{name}" for name in COUNTERS)}""",
    unbound=_SERVICE,
)


async def add_traffic(db: Executor, store_id: int, app_id: int, now: datetime, per_hour: int) -> None:
    """Write the requests of the last days; their log is kept for some days, and their hours for two."""
    placed = await PLACED_BY_APP.all(db, store_id, app_id)
    products = await SOME_PRODUCTS.all(db, store_id)
    requests = [*_placed(store_id, app_id, placed), *_drawn(store_id, app_id, now, per_hour, placed, products)]
    requests.sort(key=lambda each: each.id)
    hours: dict[tuple[datetime, str], list[int]] = {}
    samples: dict[tuple[int, datetime], list[int]] = {}  # by their minutes; those of five minutes are kept for a day
    for each in requests:
        hour = each.at.replace(minute=0, second=0, microsecond=0)
        counts = [0] * len(COUNTERS)
        counts[REQUESTS], counts[TOTAL_US] = 1, each.duration_us
        counts[bucket_of(each.duration_us / 1_000_000)] = 1
        if each.status >= 400:
            counts[error_counter(each.status)] = 1
        _add(hours.setdefault((hour, each.operation), [0] * len(COUNTERS)), counts)
        _add(samples.setdefault((60, hour), [0] * len(COUNTERS)), counts)
        if each.at > now - timedelta(days=1):
            five = hour + timedelta(minutes=each.at.minute // 5 * 5)
            _add(samples.setdefault((5, five), [0] * len(COUNTERS)), counts)
    days: dict[tuple[str, str], list[int]] = {}
    for (hour, operation), counts in hours.items():
        _add(days.setdefault((hour.date().isoformat(), operation), [0] * len(COUNTERS)), counts)
    recent = {key: counts for key, counts in hours.items() if key[0] > now - timedelta(hours=HOURS_KEPT)}
    of_app = {"store_id": store_id, "app_id": app_id}
    named = [{**of_app, "day": day, "operation": name, **_counters(counts)} for (day, name), counts in days.items()]
    await ADD_DAYS.run(db, _json(named))
    named = [
        {**of_app, "hour": hour, "operation": name, **_counters(counts)} for (hour, name), counts in recent.items()
    ]
    await ADD_HOURS.run(db, _json(named))
    await ADD_SAMPLES.run(
        db, _json([{"minutes": minutes, "at": at, **_counters(counts)} for (minutes, at), counts in samples.items()])
    )
    since = first_id(now - timedelta(days=LOGGED_DAYS))
    await ADD_REQUESTS.run(db, _json([each for each in requests if each.id >= since]))


def _placed(store_id: int, app_id: int, orders: Sequence[PlacedOrder]) -> Iterator[NewRequest]:
    for order in orders:
        microseconds = 7_000 + order.id * 613 % 6_000
        yield _request(store_id, app_id, order.created_at, PLACED, PLACED.path, (201, "", "[]"), microseconds)


def _drawn(
    store_id: int, app_id: int, now: datetime, per_hour: int, orders: Sequence[PlacedOrder], products: Sequence[int]
) -> Iterator[NewRequest]:
    """Reads and stock updates: more by day than by night, and a few that fail."""
    draw = random.Random(_SEED + store_id)  # noqa: S311 - a story, not a secret
    weights = [each.weight for each in OPERATIONS]
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
    for back in range((DAYS - 1) * 24):
        hour = first + timedelta(hours=back)
        busy = per_hour * (0.35 if hour.hour < 12 else 1.0) * (0.7 if hour.weekday() >= 5 else 1.0)
        for _ in range(round(busy * draw.uniform(0.6, 1.4))):
            operation = draw.choices(OPERATIONS, weights)[0]
            at = hour + timedelta(microseconds=draw.randrange(3_600_000_000))
            ids = [order.id for order in orders if order.created_at < at] if "/orders/" in operation.path else products
            path = operation.path.replace("{id}", str(draw.choice(ids))) if ids else operation.path
            failed = operation.failures and draw.random() < 0.03
            outcome = draw.choice(operation.failures) if failed else (200, "", "[]")
            microseconds = int(operation.milliseconds * 1000 * draw.lognormvariate(0, 0.5))
            yield _request(store_id, app_id, at, operation, path, outcome, microseconds)


def _request(
    store_id: int,
    app_id: int,
    at: datetime,
    operation: Operation,
    path: str,
    outcome: tuple[int, str, str],
    microseconds: int,
) -> NewRequest:
    status, code, faults = outcome
    return NewRequest(
        *(store_id, app_id, first_id(at), at, new_id("req"), operation.method, operation.name, path),
        *(status, code, faults, microseconds),
    )


def _add(sums: list[int], counts: Sequence[int]) -> None:
    for index, count in enumerate(counts):
        sums[index] += count


def _counters(counts: Sequence[int]) -> dict[str, int]:
    return dict(zip(COUNTERS, counts, strict=True))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
