"""Concurrent calls on the same orders and stock: no unit is sold twice, no effect happens twice, and no call fails with 5xx."""

import asyncio
import random
from collections import Counter as Tally
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import httpx
import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.orders.counter import ADA, Counter
from tests.support.shops import Shop, api_client, open_shop


def product(sku: str, on_hand: int) -> dict[str, Any]:
    return {"name": sku, "price": "1.00", "sku": sku, "stock": {"on_hand": on_hand}}


@pytest.fixture
async def busy(settings: Settings, db: Database) -> AsyncIterator[Shop]:
    """A store whose app may have 1,000 requests in flight, over ten database connections."""
    application = Application(msgspec.structs.replace(settings, app_concurrency=1000, database_pool=10))
    shop = await open_shop(application, db)
    yield shop
    await shop.client.aclose()
    await application.close()


async def rush(calls: Iterable[Coroutine[Any, Any, httpx.Response]]) -> list[httpx.Response]:
    """Run calls concurrently, two for each database connection; more would only wait, on a busy machine for too long."""
    turn = asyncio.Semaphore(20)

    async def each(call: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        async with turn:
            return await call

    return await asyncio.gather(*map(each, calls))


async def test_all_stock_is_sold_and_no_unit_more(busy: Shop) -> None:
    counter = await Counter(busy).open(product("A", 60), product("B", 60), product("C", 60))
    dice = random.Random(4)
    # Lines are in random order, so that they give the locks no order.
    baskets = [[(sku, dice.randint(1, 2)) for sku in dice.sample("ABC", dice.randint(1, 3))] for _ in range(300)]
    answers = await rush(counter.post(*basket) for basket in baskets)
    assert set(Tally(answer.status_code for answer in answers)) == {201, 409}
    sold: Tally[str] = Tally()
    for answer in answers:
        if answer.status_code == 201:
            sold.update({line["sku"]: line["quantity"] for line in answer.json()["data"]["line_items"]})
        else:
            assert answer.json()["code"] == "insufficient_stock"
    for sku in "ABC":
        assert await counter.stock(sku) == (60, sold[sku])
    assert max(sold.values()) == 60
    numbers = [answer.json()["data"]["number"] for answer in answers if answer.status_code == 201]
    assert len(set(numbers)) == len(numbers)
    await counter.assert_books_balance()


async def test_three_thousand_buyers_get_a_thousand_units(busy: Shop, settings: Settings) -> None:
    """Three applications on one database, as workers are, and baskets of one to three lines in random order."""
    stock = {"A": 400, "B": 350, "C": 250}
    counter = await Counter(busy).open(*(product(sku, units) for sku, units in stock.items()))
    roomy = msgspec.structs.replace(settings, app_concurrency=1000, database_pool=8)
    services = [Application(roomy) for _ in range(2)]
    clients = [busy.client, *(api_client(service, busy.store.handle, busy.token) for service in services)]
    dice = random.Random(1000)

    def buy(n: int) -> Coroutine[Any, Any, httpx.Response]:
        lines = [{"sku": sku, "quantity": 1} for sku in dice.sample("ABC", dice.randint(1, 3))]
        body = {"line_items": lines, "contact": {"email": f"buyer{n % 900}@example.com"}}
        return clients[n % 3].post("/orders", json=body, headers={"idempotency-key": f"buyer-{n}"})

    answers = await rush(buy(n) for n in range(3000))
    assert set(Tally(answer.status_code for answer in answers)) == {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"insufficient_stock"}
    sold = [answer.json()["data"] for answer in answers if answer.status_code == 201]
    assert Tally(line["sku"] for order in sold for line in order["line_items"]) == stock
    for sku, units in stock.items():
        assert await counter.stock(sku) == (units, units)
    assert len({order["number"] for order in sold}) == len(sold)
    assert (await counter.client.get("/orders")).json()["meta"]["total"] == len(sold)
    assert Tally(await counter.event_names())["created"] == len(sold)
    await counter.assert_books_balance()
    for client, service in zip(clients[1:], services, strict=True):
        await client.aclose()
        await service.notifier.close()
        await service.database.close()


async def test_the_last_unit_is_sold_once(busy: Shop) -> None:
    counter = await Counter(busy).open(product("LAST", 1))
    answers = await rush(
        counter.post(("LAST", 1), customer={**ADA, "email": f"b{n}@example.com", "phone": None}) for n in range(50)
    )
    assert Tally(answer.status_code for answer in answers) == {201: 1, 409: 49}
    await counter.assert_books_balance()


async def test_one_key_places_one_order_however_often_it_is_sent(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 500))
    key = {"idempotency-key": "order-1"}
    answers = await rush(counter.post(("TEA", 1), headers=key, customer=ADA) for _ in range(100))
    kinds = Tally(answer.status_code for answer in answers)
    assert kinds[201] >= 1
    assert set(kinds) <= {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"idempotency_in_progress"}
    assert len({answer.json()["data"]["id"] for answer in answers if answer.status_code == 201}) == 1
    again = await counter.post(("TEA", 1), headers=key, customer=ADA)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    page = (await counter.client.get("/orders")).json()
    assert (page["meta"]["total"], await counter.stock("TEA"), await counter.event_names()) == (
        1,
        (500, 1),
        ["created"],
    )


async def test_of_racing_moves_to_different_places_one_wins(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 10))
    order = await counter.place(("TEA", 2), status="processing", payment_status="paid")
    wanted = ["shipped", "completed", "cancelled", "on_hold", "shipped"] * 10
    answers = await rush(counter.put(order, status=status) for status in wanted)
    assert set(Tally(answer.status_code for answer in answers)) <= {200, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"illegal_transition"}
    final = await counter.get(order)
    committed = [kind for kind, _, _ in await counter.ledger(order)].count("commit")
    assert committed == (final["fulfillment_status"] == "fulfilled")
    await counter.assert_books_balance()


async def test_fifty_shipments_of_one_order_leave_the_shelf_once(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 10))
    order = await counter.place(("TEA", 3), status="processing")
    await counter.forget()
    answers = await rush(counter.put(order, status="shipped") for _ in range(50))
    assert Tally(answer.status_code for answer in answers) == {200: 50}
    assert {answer.json()["data"]["version"] for answer in answers} == {2}
    assert (await counter.stock("TEA"), await counter.event_names()) == ((7, 0), ["status_changed"])


async def test_cancelling_while_shipping_does_one_of_both(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 100))
    for n in range(15):
        order = await counter.place(("TEA", 2), status="processing")
        wanted = ["shipped", "cancelled"] if n % 2 else ["cancelled", "shipped"]
        answers = await asyncio.gather(*(counter.put(order, status=status) for status in wanted))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        kinds = [kind for kind, _, _ in await counter.ledger(order)]
        assert kinds in (["reserve", "commit"], ["reserve", "release"])
    await counter.assert_books_balance()


async def test_changing_a_line_while_shipping_never_ships_what_is_not_on_it(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 1000))
    for n in range(15):
        order = await counter.place(("TEA", 4), status="processing")
        line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
        edits = [counter.client.patch(line, json={"quantity": quantity}) for quantity in (1 + n % 6, 9)]
        parts = [{"id": order["line_items"][0]["id"], "quantity": 2}]
        answers = await asyncio.gather(
            *edits, counter.put(order, status="shipped", line_items=parts), counter.put(order, status="shipped")
        )
        assert {answer.status_code for answer in answers} <= {200, 409, 422}
        final = (await counter.get(order))["line_items"][0]
        assert 0 <= final["fulfilled_quantity"] <= final["quantity"]
    await counter.assert_books_balance()


async def test_parts_shipped_at_once_add_up(busy: Shop) -> None:
    counter = await Counter(busy).open(product("TEA", 50))
    order = await counter.place(("TEA", 20), status="processing")
    part = [{"id": order["line_items"][0]["id"], "quantity": 1}]
    answers = await rush(counter.put(order, status="shipped", line_items=part) for _ in range(30))
    # Calls after the last unit find the order shipped already, which is no error.
    assert Tally(answer.status_code for answer in answers) == {200: 30}
    assert (await counter.get(order))["status"] == "shipped"
    assert await counter.stock("TEA") == (30, 0)
    await counter.assert_books_balance()


async def test_orders_edits_adjustments_and_moves_together_leave_the_books_balanced(busy: Shop) -> None:
    counter = await Counter(busy).open(*(product(sku, 200) for sku in "ABCD"))
    dice = random.Random(11)
    orders = [await counter.place(*[(sku, 2) for sku in "ABCD"], customer=ADA) for _ in range(6)]

    def some() -> Coroutine[Any, Any, httpx.Response]:
        order = dice.choice(orders)
        line = dice.choice(order["line_items"])["id"]
        path = f"/orders/{order['id']}"
        adjustment = {"items": [{"sku": sku, "quantity": dice.choice([-1, 2])} for sku in dice.sample("ABCD", 3)]}
        return dice.choice(
            [
                lambda: counter.post(*[(sku, 1) for sku in dice.sample("ABCD", 3)], customer=ADA),
                lambda: counter.put(order, status=dice.choice(["processing", "on_hold", "shipped", "cancelled"])),
                lambda: counter.put(order, status="shipped", line_items=[{"id": line, "quantity": 1}]),
                lambda: counter.client.patch(f"{path}/products/{line}", json={"quantity": dice.randint(1, 5)}),
                lambda: counter.client.post(f"{path}/products", json={"line_items": [{"sku": "B", "quantity": 1}]}),
                lambda: counter.client.post(f"{path}/duplicates", json={"status": "pending"}),
                lambda: counter.client.post("/products/inventory/adjustments", json=adjustment),
                lambda: counter.patch(order, note=f"{dice.random()}"),
            ]
        )()

    answers = await rush(some() for _ in range(200))
    assert max(answer.status_code for answer in answers) < 500
    await counter.assert_books_balance()
