"""Orders that are placed together: to their buyers, the shelves and the listeners as if each had come alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.orders.counter import ADA, HOME, Counter
from tests.support.company import Company
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop, open_shop

CUP: dict[str, Any] = {
    "name": "Cup",
    "price": "6.00",
    "variants": [{"sku": "CUP", "stock": {"on_hand": 12}, "low_stock_threshold": 9}],
}
JUG: dict[str, Any] = {"name": "Jug", "price": "20.00", "sku": "JUG", "stock": {"on_hand": 50}}
BARRIER: dict[str, Any] = {"name": "Barrier", "price": "1.00", "sku": "BARRIER", "stock": {"on_hand": 50}}
BASKETS: list[list[tuple[str, int]]] = [
    [("CUP", 2), ("JUG", 1)],
    [("CUP", 1), ("CUP", 2)],
    [("JUG", 4)],
    [("CUP", 7), ("JUG", 2)],
]


@dataclass
class Busy(Counter):
    """A counter at which orders wait for one another."""

    company: Company = field(kw_only=True)


@pytest.fixture
async def here(settings: Settings, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    company = Company(monkeypatch)
    application = Application(settings)
    shop = await open_shop(application, db)
    counter = Busy(shop, company=company)
    await counter.open(CUP, JUG, BARRIER)
    yield counter
    await shop.client.aclose()
    await application.close()


@pytest.fixture
async def there(other_shop: Shop) -> Counter:
    return await Counter(other_shop).open(CUP, JUG, BARRIER)


async def at_once(counter: Busy, bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """Send one ahead that waits for a row, and the others meanwhile, so that they go together."""
    before = counter.company.come
    async with counter.shop.db.transaction() as db:
        await db.fetch(
            "SELECT id FROM products WHERE store_id = $1 AND name = 'Barrier' FOR UPDATE", counter.shop.store_id
        )
        first = asyncio.create_task(counter.post(("BARRIER", 1)))
        await until_somebody_waits(counter.shop.db)
        sent = [asyncio.create_task(counter.post(**body)) for body in bodies]
        await counter.company.until(before + 1 + len(sent))
    assert (await first).status_code == 201
    return [await each for each in sent]


def lines(*wanted: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"sku": sku, "quantity": quantity} for sku, quantity in wanted]


async def transactions(counter: Busy, answers: Sequence[httpx.Response]) -> int:
    ids = [answer.json()["data"]["id"] for answer in answers if answer.status_code == 201]
    rows = await counter.shop.db.fetch(
        "SELECT count(DISTINCT xmin::text) FROM orders WHERE store_id = $1 AND id = ANY($2)", counter.shop.store_id, ids
    )
    return rows[0][0]


async def books(counter: Counter) -> dict[str, Any]:
    """All that was written, without ids and times."""

    async def listed(path: str) -> list[dict[str, Any]]:
        return (await counter.client.get(path, params={"limit": 250, "sort": "id"})).json()["data"]

    entry = ("sku", "kind", "delta_reserved", "on_hand_after", "reserved_after")
    return {
        "orders": sorted(
            (order["total"], [(line["sku"], line["quantity"]) for line in order["line_items"]])
            for order in await listed("/orders")
        ),
        "events": [
            (event["type"], event["version"], event["changes"], event["data"].get("stock"), event["data"]["version"])
            for event in await counter.events("")
        ],
        "ledger": [[row[name] for name in entry] for row in await listed("/products/inventory/adjustments")],
        "levels": [(row["sku"], row["stock"], row["version"]) for row in await listed("/products/inventory")],
        "products": [(row["name"], row["stock"], row["in_stock"]) for row in await listed("/products")],
    }


async def test_they_leave_what_one_after_the_other_would_have_left(here: Busy, there: Counter) -> None:
    answers = await at_once(here, [{"line_items": lines(*basket)} for basket in BASKETS])
    assert [answer.status_code for answer in answers] == [201] * len(BASKETS)
    assert await transactions(here, answers) == 1
    for basket in [[("BARRIER", 1)], *BASKETS]:
        await there.place(*basket)
    assert await books(here) == await books(there)
    await here.assert_books_balance()


async def test_their_numbers_follow_one_another(here: Busy) -> None:
    answers = await at_once(here, [{"line_items": lines(("JUG", 1))} for _ in range(4)])
    numbers = [answer.json()["data"]["number"] for answer in answers]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    references = await here.shop.db.fetch(
        "SELECT reference FROM stock_movements WHERE store_id = $1 AND sku = 'JUG' AND kind = 'reserve' ORDER BY id",
        here.shop.store_id,
    )
    assert [row[0] for row in references] == [str(number) for number in numbers]


async def test_each_answer_is_the_stored_order(here: Busy) -> None:
    bodies = [{"line_items": lines(("JUG", 1)), "note": "Ünïcode", "metadata": {"n": n}} for n in range(3)]
    for answer in await at_once(here, bodies):
        there = await here.client.get(answer.headers["location"])
        assert there.json()["data"] == answer.json()["data"]
        assert there.headers["etag"] == answer.headers["etag"]
        [entry] = await here.timeline(answer.json()["data"])
        assert entry["body"].startswith("Placed by ")


async def test_one_that_cannot_be_had_leaves_the_others_alone(here: Busy) -> None:
    bodies = [{"line_items": lines(("CUP", 5), ("JUG", 1))} for _ in range(3)] + [{"line_items": lines(("NONE", 1))}]
    answers = await at_once(here, bodies)
    assert [answer.status_code for answer in answers] == [201, 201, 409, 422]
    [fault] = answers[2].json()["errors"]
    assert (fault["pointer"], fault["meta"]["available"]) == ("/line_items/0/quantity", 2)
    assert await transactions(here, answers) == 1
    assert await here.stock("CUP") == (12, 10)
    await here.assert_books_balance()


async def test_doubles_that_come_together_are_seen(here: Busy) -> None:
    body = {"line_items": lines(("JUG", 1)), "contact": {"email": "ada@example.com"}, "shipping_address": HOME}
    answers = await at_once(here, [body, body, {**body, "reject_suspected_duplicates": True}])
    refused = [answer for answer in answers if answer.status_code == 409]
    placed = [answer.json()["data"] for answer in answers if answer.status_code == 201]
    assert [answer.json()["code"] for answer in refused] == ["duplicate_order_suspected"]
    assert [(await here.get(order))["suspected_duplicates_count"] for order in placed] == [1, 1]


async def test_an_external_id_is_given_once(here: Busy) -> None:
    body = {"line_items": lines(("JUG", 1)), "external_id": "web-1"}
    answers = await at_once(here, [body, body, {"line_items": lines(("JUG", 1)), "external_id": "web-2"}])
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409]
    [refused] = [answer for answer in answers if answer.status_code == 409]
    [won] = [a for a in answers if a.status_code == 201 and a.json()["data"]["external_id"] == "web-1"]
    assert refused.json()["existing_id"] == won.json()["data"]["id"]


async def test_customers_are_found_and_counted(here: Busy) -> None:
    known = (await here.client.post("/customers", json=ADA)).json()["data"]
    paid = {"payment_status": "paid", "line_items": lines(("JUG", 1))}
    answers = await at_once(
        here,
        [
            {**paid, "customer": {"email": "ADA.moor@example.com"}},
            {**paid, "customer": {"email": "new@example.com", "first_name": "New"}},
            {"status": "draft", "line_items": lines(("JUG", 1)), "customer_id": known["id"] + 10**9},
        ],
    )
    assert [answer.status_code for answer in answers] == [201, 201, 422]
    assert answers[0].json()["data"]["customer_id"] == known["id"]
    assert answers[0].json()["data"]["contact"]["last_name"] == "Moor"
    ada = (await here.client.get(f"/customers/{known['id']}")).json()["data"]
    assert (ada["orders_count"], ada["total_spent"], ada["version"]) == (1, "20.00", 2)
    assert ada["last_order_at"] == answers[0].json()["data"]["placed_at"]
    new = answers[1].json()["data"]["customer_id"]
    assert (await here.client.get(f"/customers/{new}")).json()["data"]["orders_count"] == 1


async def test_a_draft_takes_nothing_and_leaves_its_customer_as_it_was(here: Busy) -> None:
    known = (await here.client.post("/customers", json=ADA)).json()["data"]
    draft = {"status": "draft", "line_items": lines(("CUP", 3)), "customer_id": known["id"]}
    answers = await at_once(here, [draft, {"line_items": lines(("CUP", 1))}])
    assert [answer.status_code for answer in answers] == [201, 201]
    assert await transactions(here, answers) == 1
    assert await here.stock("CUP") == (12, 1)
    assert (await here.client.get(f"/customers/{known['id']}")).json()["data"]["version"] == known["version"]
