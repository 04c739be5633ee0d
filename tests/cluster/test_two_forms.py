"""The functions that differ on a cluster do the same as the plain ones: both run on one server, on the same rows."""

import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cluster.test_routing import CHANGED, PLAIN

from stoa.db.connection import Connection, connect
from stoa.db.query import Query, json_rows
from stoa.imports.queries import OLDEST_WAITING
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.queries import (
    DeliveryResult,
    LaneHeld,
    LaneLease,
    LaneRead,
    LaneState,
    RoutedDelivery,
    RoutedEvent,
    RoutedLane,
)
from stoa.webhooks.delivery.redelivery import DUE

pytestmark = pytest.mark.not_on_cluster("the plain forms are refused there")
STORES, SUBSCRIPTIONS, EVENTS, RESOURCES = 6, 3, 60, 4
FIRST = 7_000_000_000  # a store id that no other test uses
ALL_BUCKETS = list(range(queries.BUCKETS))
LEASE_S, TAKEOVER_S = 20.0, 6.0
ATTEMPTS = '[{"response_status":200,"response_body":"thanks"}]'
TABLES = (
    "SELECT * FROM lanes WHERE store_id >= $1 ORDER BY store_id, webhook_id",
    "SELECT * FROM pending_deliveries WHERE store_id >= $1 ORDER BY store_id, webhook_id, sequence",
    "SELECT * FROM deliveries WHERE store_id >= $1 ORDER BY store_id, webhook_id, sequence",
    "SELECT * FROM delivery_hours WHERE store_id >= $1 ORDER BY store_id, webhook_id",
    "SELECT store_id, id, routed_on FROM events WHERE store_id >= $1 ORDER BY store_id, id",
    "SELECT * FROM routing_leases WHERE bucket::bigint < $1 ORDER BY bucket",
)
FILL = f"""
UPDATE events SET routed_on = current_date WHERE routed_on = 'infinity';
UPDATE lanes SET due_at = NULL WHERE due_at IS NOT NULL;
UPDATE routing_leases SET holder = '', until = now() - interval '1 hour';
INSERT INTO stores (id, handle, name, currency)
SELECT {FIRST} + n, 'forms-' || n, 'A store', 'USD' FROM generate_series(1, {STORES}) AS n;
-- The last store has no subscription.
INSERT INTO webhooks (store_id, id, app_id, events, ordering, sealed_secret, same_key)
SELECT {FIRST} + n, {FIRST} + n * 10 + m, 1, '{{product.*}}', CASE m % 2 WHEN 0 THEN 'none' ELSE 'resource' END, '', m::text::bytea
  FROM generate_series(1, {STORES - 1}) AS n, generate_series(1, {SUBSCRIPTIONS}) AS m;
INSERT INTO lanes (store_id, webhook_id) SELECT store_id, id FROM webhooks WHERE store_id >= {FIRST};
INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
SELECT {FIRST} + 1 + n % {STORES}, 'evt_' || n, 'product.updated', 'product', n % {RESOURCES}, n, '{{}}', '{{}}', '{{"n":1}}', 'req'
  FROM generate_series(1, {EVENTS}) AS n;
INSERT INTO redeliveries (store_id, webhook_id, due_at, finished_at)
SELECT store_id, id, now() - interval '1 minute' * (id % 10), CASE WHEN id % 10 = 3 THEN now() END
  FROM webhooks WHERE store_id >= {FIRST};
-- Two of the three jobs of each app may run, and one of them runs.
INSERT INTO imports (store_id, id, resource, options, media, request_id, total)
SELECT {FIRST} + n, 'imp_' || m, 'products', '{{}}', 'text/csv', 'req', 1 FROM generate_series(1, 3) AS n, generate_series(1, 3) AS m;
INSERT INTO import_queue (store_id, import_id, app_id, lane, lease_until, created_at)
SELECT store_id, id, 1, CASE id WHEN 'imp_1' THEN 1 END, now() + CASE id WHEN 'imp_1' THEN interval '1 minute' ELSE '0' END,
       now() - interval '1 hour'
  FROM imports WHERE store_id >= {FIRST};
"""


class Forms:
    """Both forms of the functions in one transaction, each in a schema of its own."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.compared: set[str] = set()

    async def create(self) -> None:
        for schema, functions in (("plain_form", [PLAIN[each.name] for each in CHANGED]), ("cluster_form", CHANGED)):
            await self.db.execute(f"CREATE SCHEMA {schema}")
            for function in functions:
                # Inside a transaction, now() does not move, so that both forms store the same moments.
                text = function.sql.replace("clock_timestamp()", "now()")
                await self.db.execute(text.replace("CREATE FUNCTION ", f"CREATE FUNCTION {schema}."))

    async def call(self, query: Query[Any], *arguments: Any) -> list[Any]:
        """Call the form of the cluster, undo it, call the plain form, and compare their results and the rows they left."""
        self.compared |= {function.name for function in CHANGED if f"{function.name}(" in query.sql}
        await self.db.execute("SAVEPOINT before")
        cluster = await self._outcome("cluster_form", query, arguments)
        await self.db.execute("ROLLBACK TO before")
        plain = await self._outcome("plain_form", query, arguments)
        assert cluster == plain
        return plain[0]

    async def _outcome(
        self, schema: str, query: Query[Any], arguments: Sequence[Any]
    ) -> tuple[list[Any], list[list[tuple[Any, ...]]]]:
        await self.db.execute(f"SET LOCAL search_path = {schema}, public")
        found = sorted(await query.all(self.db, *arguments), key=repr)
        return found, [[tuple(row) for row in await self.db.fetch(sql, FIRST)] for sql in TABLES]


@pytest.fixture
async def forms(database_url: str) -> AsyncIterator[Forms]:
    """Stores with subscriptions and unrouted events; everything is rolled back."""
    db = await connect(database_url, statement_timeout_ms=60_000)
    await db.execute("BEGIN")
    made = Forms(db)
    await made.create()
    await db.execute(FILL)
    yield made
    await db.execute("ROLLBACK")
    await db.close()


async def route(forms: Forms, chance: random.Random) -> list[queries.Lane]:
    """Take all unrouted events, and route each to a random part of the subscriptions of its store."""
    token = chance.randrange(1, 1_000)
    await forms.call(queries.SKIP_UNSUBSCRIBED, 1_000)
    events = await forms.call(queries.TAKE_EVENTS, ALL_BUCKETS, 1_000, 4_000_000, "router", token, LEASE_S, [], False)  # noqa: FBT003
    assert events
    deliveries: dict[tuple[int, int], list[RoutedDelivery]] = {}
    for event in sorted(events, key=lambda event: event.resource_version):
        for number in range(1, SUBSCRIPTIONS + 1):
            key = (event.store_id, FIRST + (event.store_id - FIRST) * 10 + number)
            if chance.random() < 0.3:
                continue
            lane = deliveries.setdefault(key, [])
            ordered_by = f"product/{event.resource_id}" if number % 2 else None
            blocked = ordered_by is not None and any(each.ordered_by == ordered_by for each in lane)
            lane.append(
                RoutedDelivery(
                    *key,
                    len(lane),
                    event.id,
                    event.type,
                    event.resource_type,
                    event.resource_id,
                    event.resource_version,
                    ordered_by,
                    blocked,
                )
            )
    lanes = [RoutedLane(*key, len(rows), chance.random() < 0.8) for key, rows in deliveries.items()]
    return await forms.call(
        queries.ROUTE_EVENTS,
        "router",
        token,
        "worker-1",
        TAKEOVER_S,
        LEASE_S,
        json_rows([RoutedEvent(event.store_id, event.id) for event in events]),
        json_rows(lanes),
        json_rows([each for rows in deliveries.values() for each in rows]),
    )


async def settle(forms: Forms, chance: random.Random, lanes: Sequence[queries.Lane]) -> None:
    """Read the next deliveries of lanes and settle them with random outcomes; some leases are stale."""
    reads = [LaneRead(lane.store_id, lane.webhook_id, chance.randint(1, 9), chance.random() < 0.3) for lane in lanes]
    found = await forms.call(queries.DUE_DELIVERIES, json_rows(reads))
    moment = datetime.now(UTC)
    states: list[LaneState] = []
    results: list[DeliveryResult] = []
    for number, lane in enumerate(lanes, 1):
        opened = chance.random() < 0.2
        states.append(
            LaneState(
                lane=number,
                store_id=lane.store_id,
                webhook_id=lane.webhook_id,
                epoch=lane.epoch - (chance.random() < 0.2),
                released=chance.random() < 0.5,
                idle=chance.random() < 0.2,
                recovered=chance.random() < 0.3,
                succeeded=1,
                attempts=chance.randint(0, 2),
                duration_ms=7,
                breaker="open" if opened else "closed",
                hold_until=moment + timedelta(minutes=1) if opened else None,
                last_attempt_at=moment,
            )
        )
        for delivery in found:
            if (delivery.store_id, delivery.webhook_id) == (lane.store_id, lane.webhook_id):
                status = chance.choice(("succeeded", "failed", "skipped", "retrying"))
                due_at = moment + timedelta(seconds=chance.randint(-60, 60)) if status == "retrying" else None
                key = (lane.store_id, lane.webhook_id, delivery.sequence)
                results.append(DeliveryResult(*key, status, due_at, delivery.attempt_count + 1, ATTEMPTS, lane=number))
    await forms.call(queries.SETTLE, "worker-1", LEASE_S, TAKEOVER_S, json_rows(states), json_rows(results))


@pytest.mark.parametrize("seed", range(4))
async def test_both_forms_return_and_store_the_same(forms: Forms, seed: int) -> None:
    chance = random.Random(seed)
    leased = await route(forms, chance)
    assert leased
    await settle(forms, chance, leased)
    assert await forms.call(DUE)
    assert await forms.call(OLDEST_WAITING)
    for _ in range(3):
        assert await forms.call(queries.DUE_BUCKETS)
        lanes = await forms.call(queries.LEASE_LANES, ALL_BUCKETS, "worker-1", 1_000, TAKEOVER_S, LEASE_S)
        held = [LaneLease(lane.store_id, lane.webhook_id, lane.epoch - (chance.random() < 0.2)) for lane in lanes]
        await forms.call(queries.RENEW_LEASES, "worker-1", TAKEOVER_S, json_rows(held))
        # As an erasure leaves what may be in flight.
        await forms.db.execute(
            "UPDATE pending_deliveries SET due_at = '-infinity' WHERE store_id >= $1 AND sequence % 3 = 0 AND due_at < 'infinity'",
            FIRST,
        )
        assert await forms.call(
            queries.ERASED_DELIVERIES, json_rows([LaneHeld(lane.store_id, lane.webhook_id) for lane in lanes])
        )
        await settle(forms, chance, lanes)
        # What is leased or waits becomes due again.
        await forms.db.execute(f"UPDATE lanes SET due_at = now() WHERE store_id >= {FIRST} AND waiting > 0")
    assert forms.compared == {function.name for function in CHANGED}
