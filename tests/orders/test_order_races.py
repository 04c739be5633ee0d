"""Concurrent calls on the same orders and stock: no unit is sold twice, no effect happens twice, and no call is lost.

A call that is shed succeeds when it is repeated.
"""

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
from stoa.settings import Settings
from tests.orders.sample_store import ADA, SampleStore
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop, api_client, open_shop


def product(sku: str, on_hand: int) -> dict[str, Any]:
    return {"name": sku, "price": "1.00", "sku": sku, "stock": {"on_hand": on_hand}}


@pytest.fixture
async def concurrent_shop(settings: Settings, db: Database) -> AsyncIterator[Shop]:
    """A store whose app may have 1,000 concurrent requests over ten database connections, and repeats them after a 503."""
    application = Application(msgspec.structs.replace(settings, app_concurrency=1000, database_pool=10))
    shop = await open_shop(application, db, patient=True)
    yield shop
    await shop.client.aclose()
    await application.close()


async def run_concurrently(calls: Iterable[Coroutine[Any, Any, httpx.Response]]) -> list[httpx.Response]:
    """Run calls concurrently, two for each database connection; more would only queue, and time out on a slow machine."""
    slots = asyncio.Semaphore(20)

    async def each(call: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        async with slots:
            return await call

    return await asyncio.gather(*map(each, calls))


async def test_concurrent_orders_sell_all_stock_and_no_more(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("A", 60), product("B", 60), product("C", 60))
    rng = random.Random(4)
    # Lines are in random order, so that locking rows in line order would deadlock.
    baskets = [[(sku, rng.randint(1, 2)) for sku in rng.sample("ABC", rng.randint(1, 3))] for _ in range(300)]
    answers = await run_concurrently(store.post(*basket) for basket in baskets)
    assert set(Counter(answer.status_code for answer in answers)) == {201, 409}
    sold: Counter[str] = Counter()
    for answer in answers:
        if answer.status_code == 201:
            sold.update({line["sku"]: line["quantity"] for line in answer.json()["data"]["line_items"]})
        else:
            assert answer.json()["code"] == "insufficient_stock"
    for sku in "ABC":
        assert await store.stock(sku) == (60, sold[sku])
    assert max(sold.values()) == 60
    numbers = [answer.json()["data"]["number"] for answer in answers if answer.status_code == 201]
    assert len(set(numbers)) == len(numbers)
    await store.assert_stock_is_consistent()


@pytest.fixture
async def clients(concurrent_shop: Shop, settings: Settings) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of three applications that share one database, as workers do."""
    limits = msgspec.structs.replace(settings, app_concurrency=1000, database_pool=8)
    services = [Application(limits) for _ in range(2)]
    handle, token = concurrent_shop.store.handle, concurrent_shop.token
    others = [api_client(service, handle, token, patient=True) for service in services]
    yield [concurrent_shop.client, *others]
    for client, service in zip(others, services, strict=True):
        await client.aclose()
        await service.notifier.close()
        await service.database.close()


@pytest.mark.long
async def test_three_thousand_buyers_get_a_thousand_units(
    concurrent_shop: Shop, clients: list[httpx.AsyncClient]
) -> None:
    """Baskets have one to three lines in random order."""
    stock = {"A": 400, "B": 350, "C": 250}
    store = await SampleStore(concurrent_shop).add_products(*(product(sku, units) for sku, units in stock.items()))
    rng = random.Random(1000)

    async def buy(n: int) -> httpx.Response:
        lines = [{"sku": sku, "quantity": 1} for sku in rng.sample("ABC", rng.randint(1, 3))]
        body = {"line_items": lines, "contact": {"email": f"buyer{n % 900}@example.com"}}
        return await clients[n % 3].post("/orders", json=body, headers={"idempotency-key": f"buyer-{n}"})

    answers = await run_concurrently(buy(n) for n in range(3000))
    assert set(Counter(answer.status_code for answer in answers)) == {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"insufficient_stock"}
    sold = [answer.json()["data"] for answer in answers if answer.status_code == 201]
    assert Counter(line["sku"] for order in sold for line in order["line_items"]) == stock
    for sku, units in stock.items():
        assert await store.stock(sku) == (units, units)
    assert len({order["number"] for order in sold}) == len(sold)
    assert (await store.client.get("/orders")).json()["meta"]["total"] == len(sold)
    assert Counter(await store.event_names())["created"] == len(sold)
    await store.assert_stock_is_consistent()


async def test_the_last_unit_is_sold_once(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("LAST", 1))
    answers = await run_concurrently(
        store.post(("LAST", 1), customer={**ADA, "email": f"b{n}@example.com", "phone": None}) for n in range(50)
    )
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    await store.assert_stock_is_consistent()


async def test_a_unit_that_is_sold_while_an_order_waits_is_not_sold_again(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("LAST", 1))
    async with concurrent_shop.db.transaction() as db:
        names = (concurrent_shop.store_id, "LAST")
        await db.execute("SELECT id FROM products WHERE store_id = $1 AND name = $2 FOR NO KEY UPDATE", *names)
        await db.execute("UPDATE variants SET reserved = 1 WHERE store_id = $1 AND sku = $2", *names)
        placing = asyncio.create_task(store.post(("LAST", 1)))
        await until_somebody_waits(concurrent_shop.db)
    refused = await placing
    assert (refused.status_code, refused.json()["code"]) == (409, "insufficient_stock")


async def test_one_idempotency_key_places_one_order(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 500))
    key = {"idempotency-key": "order-1"}
    answers = await run_concurrently(store.post(("TEA", 1), headers=key, customer=ADA) for _ in range(100))
    kinds = Counter(answer.status_code for answer in answers)
    assert kinds[201] >= 1
    assert set(kinds) <= {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"idempotency_in_progress"}
    assert len({answer.json()["data"]["id"] for answer in answers if answer.status_code == 201}) == 1
    again = await store.post(("TEA", 1), headers=key, customer=ADA)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    page = (await store.client.get("/orders")).json()
    assert (page["meta"]["total"], await store.stock("TEA"), await store.event_names()) == (
        1,
        (500, 1),
        ["created"],
    )


async def test_concurrent_status_changes_ship_at_most_once(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 10))
    order = await store.place(("TEA", 2), status="processing", payment_status="paid")
    wanted = ["shipped", "completed", "cancelled", "on_hold", "shipped"] * 10
    answers = await run_concurrently(store.put_status(order, status=status) for status in wanted)
    assert set(Counter(answer.status_code for answer in answers)) <= {200, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"illegal_transition"}
    final = await store.get(order)
    committed = [kind for kind, _, _ in await store.ledger(order)].count("commit")
    assert committed == (final["fulfillment_status"] == "fulfilled")
    await store.assert_stock_is_consistent()


async def test_fifty_concurrent_shipments_commit_stock_once(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 10))
    order = await store.place(("TEA", 3), status="processing")
    await store.skip_events()
    answers = await run_concurrently(store.put_status(order, status="shipped") for _ in range(50))
    assert Counter(answer.status_code for answer in answers) == {200: 50}
    assert {answer.json()["data"]["version"] for answer in answers} == {2}
    assert (await store.stock("TEA"), await store.event_names()) == ((7, 0), ["status_changed", "fulfilled"])


async def test_concurrent_cancelling_and_shipping_has_one_winner(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 100))
    for n in range(15):
        order = await store.place(("TEA", 2), status="processing")
        wanted = ["shipped", "cancelled"] if n % 2 else ["cancelled", "shipped"]
        answers = await asyncio.gather(*(store.put_status(order, status=status) for status in wanted))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        kinds = [kind for kind, _, _ in await store.ledger(order)]
        assert kinds in (["reserve", "commit"], ["reserve", "release"])
    await store.assert_stock_is_consistent()


async def test_changing_a_line_while_shipping_never_ships_too_much(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 1000))
    for n in range(15):
        order = await store.place(("TEA", 4), status="processing")
        line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
        edits = [store.client.patch(line, json={"quantity": quantity}) for quantity in (1 + n % 6, 9)]
        parts = [{"id": order["line_items"][0]["id"], "quantity": 2}]
        answers = await asyncio.gather(
            *edits,
            store.put_status(order, status="shipped", line_items=parts),
            store.put_status(order, status="shipped"),
        )
        assert {answer.status_code for answer in answers} <= {200, 409, 422}
        final = (await store.get(order))["line_items"][0]
        assert 0 <= final["fulfilled_quantity"] <= final["quantity"]
    await store.assert_stock_is_consistent()


async def test_concurrent_partial_shipments_add_up(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("TEA", 50))
    order = await store.place(("TEA", 20), status="processing")
    part = [{"id": order["line_items"][0]["id"], "quantity": 1}]
    answers = await run_concurrently(store.put_status(order, status="shipped", line_items=part) for _ in range(30))
    # Calls after the last unit find the order shipped already, which is no error.
    assert Counter(answer.status_code for answer in answers) == {200: 30}
    assert (await store.get(order))["status"] == "shipped"
    assert await store.stock("TEA") == (30, 0)
    await store.assert_stock_is_consistent()


async def test_stock_stays_consistent_under_mixed_concurrent_calls(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(*(product(sku, 200) for sku in "ABCD"))
    rng = random.Random(11)
    orders = [await store.place(*[(sku, 2) for sku in "ABCD"], customer=ADA) for _ in range(6)]

    def random_call() -> Coroutine[Any, Any, httpx.Response]:
        order = rng.choice(orders)
        line = rng.choice(order["line_items"])["id"]
        path = f"/orders/{order['id']}"
        adjustment = {"items": [{"sku": sku, "quantity": rng.choice([-1, 2])} for sku in rng.sample("ABCD", 3)]}
        return rng.choice(
            [
                lambda: store.post(*[(sku, 1) for sku in rng.sample("ABCD", 3)], customer=ADA),
                lambda: store.put_status(order, status=rng.choice(["processing", "on_hold", "shipped", "cancelled"])),
                lambda: store.put_status(order, status="shipped", line_items=[{"id": line, "quantity": 1}]),
                lambda: store.client.patch(f"{path}/products/{line}", json={"quantity": rng.randint(1, 5)}),
                lambda: store.client.post(f"{path}/products", json={"line_items": [{"sku": "B", "quantity": 1}]}),
                lambda: store.client.post(f"{path}/duplicates", json={"status": "pending"}),
                lambda: store.client.post("/products/inventory/adjustments", json=adjustment),
                lambda: store.patch(order, note=f"{rng.random()}"),
            ]
        )()

    answers = await run_concurrently(random_call() for _ in range(200))
    assert max(answer.status_code for answer in answers) < 500
    await store.assert_stock_is_consistent()


async def test_the_last_order_of_a_customer_survives_concurrent_cancellations(concurrent_shop: Shop) -> None:
    store = await SampleStore(concurrent_shop).add_products(product("A", 1000))
    customer = (await store.client.post("/customers", json={"email": ADA["email"]})).json()["data"]
    rng = random.Random(7)

    async def place(minute: int) -> httpx.Response:
        at = f"2026-01-01T10:{minute:02}:00Z"
        return await store.post(("A", 1), customer_id=customer["id"], placed_at=at)

    for _ in range(4):
        orders = [(await place(rng.randrange(60))).json()["data"] for _ in range(5)]
        cancellations = [store.put_status(order, status="cancelled") for order in orders]
        calls = [*cancellations, *(place(rng.randrange(60)) for _ in range(5))]
        rng.shuffle(calls)
        assert {answer.status_code for answer in await run_concurrently(calls)} == {200, 201}
        live = (await store.client.get("/orders", params={"status": "pending", "limit": 250})).json()["data"]
        found = (await store.client.get(f"/customers/{customer['id']}")).json()["data"]
        assert (found["orders_count"], found["last_order_at"]) == (len(live), max(each["placed_at"] for each in live))
