"""Concurrent changes of stock: no overselling, no lost updates, no deadlocks."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import httpx
import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.inventory.endpoints import routes
from stoa.settings import Settings
from tests.inventory.shelves import Shelves
from tests.support.deadlocks import Deadlocks
from tests.support.shops import Shop, api_client, open_shop

HOT: dict[str, Any] = {"name": "Hot", "price": "1.00", "sku": "HOT", "stock": {"on_hand": 100}}


def shared(number: int) -> dict[str, Any]:
    sizes = [str(n) for n in range(5)]
    return {
        "name": f"Shared {number}",
        "price": "1.00",
        "options": [{"name": "Size", "values": sizes}],
        "variants": [
            {"sku": f"P{number}-{size}", "option_values": {"Size": size}, "stock": {"on_hand": 1000}} for size in sizes
        ],
    }


@pytest.fixture
async def busy_shop(settings: Settings, db: Database) -> AsyncIterator[Shop]:
    """A shop whose app has no limit on concurrent requests, with ten connections."""
    open_to_all = msgspec.structs.replace(settings, app_concurrency=1000, database_pool=10)
    application = Application(open_to_all, routes.endpoints)
    shop = await open_shop(application, db, patient=True)
    yield shop
    await shop.client.aclose()
    await application.close()


async def rush(calls: Iterable[Coroutine[Any, Any, httpx.Response]], at_once: int = 40) -> list[httpx.Response]:
    """Run all concurrently, a few for each connection, because more would only wait for a connection."""
    turn = asyncio.Semaphore(at_once)

    async def each(call: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        async with turn:
            return await call

    return await asyncio.gather(*map(each, calls))


async def assert_books_balance(shelves: Shelves) -> None:
    """The ledger sums to the stock on hand, and products to their variants."""
    store_id = shelves.shop.store_id
    rows = await shelves.shop.db.fetch(
        """SELECT v.sku, v.on_hand, sum(m.delta_on_hand)::bigint
             FROM variants v JOIN stock_movements m ON m.store_id = $1 AND m.variant_id = v.id
            WHERE v.store_id = $1 GROUP BY v.sku, v.on_hand""",
        store_id,
    )
    assert rows
    for sku, on_hand, moved in rows:
        assert on_hand == moved, f"{sku} has {on_hand} on hand, its ledger says {moved}"
    rows = await shelves.shop.db.fetch(
        """SELECT p.id FROM products p JOIN variants v ON v.store_id = $1 AND v.product_id = p.id
            WHERE p.store_id = $1 GROUP BY p.id, p.on_hand, p.reserved, p.in_stock
           HAVING (p.on_hand, p.reserved) <> (sum(v.on_hand), sum(v.reserved))
               OR p.in_stock <> bool_or(v.on_hand > v.reserved)""",
        store_id,
    )
    assert rows == []


async def test_concurrent_requests_sell_a_hundred_units_exactly_a_hundred_times(busy_shop: Shop) -> None:
    shelves = await Shelves(busy_shop).open(HOT)
    answers = await rush(shelves.adjust({"sku": "HOT", "quantity": -1}, reference=f"S-{n}") for n in range(200))
    assert Counter(answer.status_code for answer in answers) == {200: 100, 409: 100}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"insufficient_stock"}
    level = await shelves.level("HOT")
    assert (level["stock"]["on_hand"], level["version"]) == (0, 101)
    entries = await shelves.entries()
    assert [entry["on_hand_after"] for entry in entries] == sorted(range(100), reverse=True)
    types = Counter(kind for kind, _ in await shelves.event_types())
    assert types == {"inventory_changed": 100, "out_of_stock": 1}
    await assert_books_balance(shelves)


async def test_a_thousand_concurrent_requests_to_several_services_keep_the_ledger_exact(
    busy_shop: Shop, settings: Settings
) -> None:
    """Services share only the database, as workers do."""
    shelves = await Shelves(busy_shop).open({**HOT, "stock": {"on_hand": 600}})
    deadlocks = await Deadlocks.since(busy_shop.db.fetch)
    others = [
        Application(msgspec.structs.replace(settings, app_concurrency=1000, database_pool=8), routes.endpoints)
        for _ in range(2)
    ]
    handle, token = busy_shop.store.handle, busy_shop.token
    clients = [busy_shop.client, *(api_client(each, handle, token, patient=True) for each in others)]

    async def take(number: int) -> httpx.Response:
        body = {"reference": f"S-{number}", "items": [{"sku": "HOT", "quantity": -1}]}
        return await clients[number % len(clients)].post("/products/inventory/adjustments", json=body)

    answers = await rush((take(n) for n in range(1_000)), at_once=50)
    for client, other in zip(clients[1:], others, strict=True):
        await client.aclose()
        await other.close()
    assert Counter(answer.status_code for answer in answers) == {200: 600, 409: 400}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"insufficient_stock"}
    assert not (found := await deadlocks.found()), "".join(found)
    level = await shelves.level("HOT")
    assert (level["stock"]["on_hand"], level["version"]) == (0, 601)
    entries = await busy_shop.db.fetch(
        """SELECT delta_on_hand, on_hand_after, reference FROM stock_movements
            WHERE store_id = $1 AND id > $2 ORDER BY on_hand_after DESC""",
        busy_shop.store_id,
        shelves.last_entry,
    )
    assert [(delta, after) for delta, after, _ in entries] == [(-1, after) for after in reversed(range(600))]
    applied = {answer.json()["data"][0]["resource"]["reference"] for answer in answers if answer.status_code == 200}
    assert {reference for _, _, reference in entries} == applied
    assert Counter(kind for kind, _ in await shelves.event_types()) == {"inventory_changed": 600, "out_of_stock": 1}
    await assert_books_balance(shelves)


async def test_one_of_concurrent_compared_changes_succeeds_for_each_level(busy_shop: Shop) -> None:
    shelves = await Shelves(busy_shop).open(HOT)
    item = {"sku": "HOT", "quantity": 5, "compare_quantity": 100}
    answers = await rush(shelves.adjust(item) for _ in range(20))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}
    assert await shelves.on_hand("HOT") == 105


async def test_batches_in_any_order_never_deadlock(busy_shop: Shop) -> None:
    shelves = await Shelves(busy_shop).open(shared(1), shared(2))
    deadlocks = await Deadlocks.since(busy_shop.db.fetch)
    dice = random.Random(17)
    skus = list(shelves.variants)

    def batch() -> Coroutine[Any, Any, httpx.Response]:
        # By SKU and by id, ascending and descending, so that the items imply no lock order.
        chosen = dice.sample(skus, dice.randint(2, 10))
        items = [{"sku": sku} if dice.random() < 0.5 else {"variant_id": shelves.variants[sku]} for sku in chosen]
        return shelves.adjust(*({**item, "quantity": dice.choice([-2, -1, 1, 3])} for item in items))

    answers = await rush(batch() for _ in range(150))
    assert Counter(answer.status_code for answer in answers) == {200: 150}
    assert not (found := await deadlocks.found()), "".join(found)
    moved = sum(len(answer.json()["data"]) for answer in answers)
    rows = await busy_shop.db.fetch(
        "SELECT count(*) FROM stock_movements WHERE store_id = $1 AND id > $2", busy_shop.store_id, shelves.last_entry
    )
    assert rows[0][0] == moved
    await assert_books_balance(shelves)
