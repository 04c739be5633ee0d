"""Concurrent status changes in one transaction: each leaves what it would leave if it came after those before it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.orders.sample_store import ADA, CLASS, HOME, POT, TEA, SampleStore
from tests.support.grouping import Submissions
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop, open_shop

CALLS = 14
GUEST: dict[str, Any] = {"contact": {"email": "bo@example.com"}, "shipping_address": HOME}
# Two orders are suspected duplicates, two have one customer, one is a draft, and several have one product.
ORDERS: list[tuple[list[tuple[str, int]], dict[str, Any]]] = [
    ([("TEA", 2), ("POT-B", 1)], {"customer": ADA}),
    ([("TEA", 1)], {"customer": ADA, "payment_status": "paid"}),
    ([("POT-W", 1), ("CLASS", 1)], GUEST),
    ([("POT-W", 1), ("CLASS", 1)], GUEST),
    ([("TEA", 2)], {"payment_status": "paid"}),
    ([("POT-B", 1), ("TEA", 1)], {"status": "draft"}),
    ([("CLASS", 2)], {"payment_status": "paid", "contact": {"email": "cy@example.com"}}),
]
Body = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class GroupStore(SampleStore):
    """A store whose concurrent status changes can be made to form one group."""

    submissions: Submissions = field(kw_only=True)


@pytest.fixture
async def grouped(settings: Settings, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupStore]:
    submissions = Submissions(monkeypatch)
    application = Application(settings)
    shop = await open_shop(application, db)
    store = GroupStore(shop, submissions=submissions)
    await store.add_products(TEA, POT, CLASS)
    yield store
    await shop.client.aclose()
    await application.close()


@pytest.fixture
async def sequential(other_shop: Shop) -> SampleStore:
    return await SampleStore(other_shop).add_products(TEA, POT, CLASS)


async def place_all(store: SampleStore) -> list[dict[str, Any]]:
    adjusted = {"reason": "restock", "items": [{"sku": "POT-W", "op": "set", "quantity": 4}]}
    assert (await store.client.post("/products/inventory/adjustments", json=adjusted)).status_code == 200
    orders = [await store.place(*lines, **body) for lines, body in ORDERS]
    await store.skip_events()
    return orders


def bodies_of(seed: int) -> list[tuple[int, Body]]:
    """Calls, each with the index of its order: several are about one order, and some are refused."""
    chance = random.Random(seed)

    def part(status: str, quantity: int) -> Body:
        return lambda order: {
            "status": status,
            "line_items": [{"id": order["line_items"][0]["id"], "quantity": quantity}],
        }

    def refund(quantity: int, *, restock: bool) -> Body:
        return lambda order: {
            "refund": {
                "line_items": [
                    {"line_item_id": order["line_items"][0]["id"], "quantity": quantity, "restock": restock}
                ],
                "reason": "Broken",
            }
        }

    def fixed(**body: Any) -> Body:
        return lambda _: body

    def one() -> Body:
        amount = f"{chance.randint(0, 40)}.50"
        return chance.choice(
            [
                fixed(status=chance.choice(["pending", "processing", "on_hold", "shipped", "delivered", "completed"])),
                fixed(status="processing"),
                fixed(status="shipped", tracking={"number": f"T{chance.randint(1, 99)}"}),
                fixed(status="cancelled", reason="Changed my mind"),
                part("shipped", chance.randint(1, 3)),
                part("returned", chance.randint(1, 2)),
                fixed(payment={"amount": amount}),
                fixed(payment_status="paid", status="processing"),
                refund(chance.randint(1, 2), restock=chance.random() < 0.5),
                fixed(refund={"amount": amount}),
                fixed(fulfillment_id=1, void=True),
                fixed(amount_refunded="1.00"),  # contradicts itself
            ]
        )

    return [(chance.randrange(len(ORDERS)), one()) for _ in range(CALLS)]


async def put(store: SampleStore, order: dict[str, Any], body: Body, name: str) -> httpx.Response:
    return await store.client.put(f"/orders/{order['id']}/status", json=body(order), headers={"X-Request-Id": name})


def plain(value: Any) -> Any:
    """A value without ids and times, which differ between two stores."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: each is None if name.endswith("_at") else plain(each)
        for name, each in value.items()
        if name
        not in (
            "id",
            "variant_id",
            "product_id",
            "order_id",
            "customer_id",
            "line_item_id",
            "actor",
            "author",
            "source",
        )
    }


def outcome(answer: httpx.Response) -> tuple[int, Any]:
    body = answer.json()
    if "data" in body:
        return answer.status_code, plain(body["data"])
    return answer.status_code, (body["code"], [(each["pointer"], each["code"]) for each in body.get("errors", [])])


async def left_behind(store: SampleStore, orders: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The state of the store, the ledger and timelines, and the events of each resource with the request of each."""

    async def listed(path: str) -> list[dict[str, Any]]:
        return (await store.client.get(path, params={"limit": 250, "sort": "id"})).json()["data"]

    entry = (
        "request_id",
        "kind",
        "location",
        "delta_on_hand",
        "delta_reserved",
        "on_hand_after",
        "reserved_after",
        "reason",
    )
    rows = await listed("/products/inventory/adjustments")
    ledger = [row for row in rows if row["request_id"].startswith("call-")]
    rows = await store.shop.db.fetch(
        "SELECT position, request_id FROM events WHERE store_id = $1 AND position > $2 ORDER BY position",
        store.shop.store_id,
        store.last_event,
    )
    events = [(request, each) for (_, request), each in zip(rows, await store.events(""), strict=True)]
    resources = sorted({(each["resource_type"], each["resource_id"]) for _, each in events})
    return {
        "orders": [plain(each) for each in await listed("/orders")],
        "timelines": [[plain(each) for each in await store.timeline(order)] for order in orders],
        "ledger": {
            sku: [[row[name] for name in entry] for row in ledger if row["sku"] == sku] for sku in store.variants
        },
        "levels": [(row["sku"], row["stock"], row["version"]) for row in await listed("/products/inventory")],
        "products": [(row["name"], row["stock"], row["version"]) for row in await listed("/products")],
        "customers": [plain(each) for each in await listed("/customers")],
        "events": [
            [
                (
                    request,
                    each["type"],
                    each["version"],
                    each["parent_version"],
                    plain(each["changes"]),
                    plain(each["data"]),
                )
                for request, each in events
                if (each["resource_type"], each["resource_id"]) == resource
            ]
            for resource in resources
        ],
    }


@pytest.mark.parametrize("seed", range(12))
async def test_a_group_leaves_what_one_call_after_the_other_leaves(
    grouped: GroupStore, sequential: SampleStore, seed: int
) -> None:
    there, here = await place_all(sequential), await place_all(grouped)
    for number in range(2):  # the second group finds shipped and paid orders
        calls = bodies_of(100 * number + seed)
        names = [f"call-{number}-{n}" for n in range(len(calls))]
        together = await grouped.submissions.group(
            [put(grouped, here[index], body, name) for (index, body), name in zip(calls, names, strict=True)]
        )
        one_by_one = [
            await put(sequential, there[index], body, name) for (index, body), name in zip(calls, names, strict=True)
        ]
        assert [outcome(answer) for answer in together] == [outcome(answer) for answer in one_by_one]
    assert await left_behind(grouped, here) == await left_behind(sequential, there)
    await grouped.assert_stock_is_consistent()


async def transactions(store: SampleStore, orders: Sequence[dict[str, Any]]) -> int:
    """The number of transactions that have written the current versions of orders."""
    rows = await store.shop.db.fetch(
        "SELECT count(DISTINCT xmin::text) FROM orders WHERE store_id = $1 AND id = ANY($2)",
        store.shop.store_id,
        [order["id"] for order in orders],
    )
    return rows[0][0]


async def test_orders_of_one_product_are_shipped_in_one_transaction(grouped: GroupStore) -> None:
    orders = [await grouped.place(("TEA", 2), status="processing") for _ in range(4)]
    answers = await grouped.submissions.group([grouped.put_status(order, status="shipped") for order in orders])
    assert [answer.status_code for answer in answers] == [200] * 4
    assert await transactions(grouped, orders) == 1
    assert await grouped.stock("TEA") == (2, 0)


async def test_two_changes_of_one_order_run_one_after_the_other(grouped: GroupStore) -> None:
    order = await grouped.place(("TEA", 1), payment_status="paid")
    wanted = ("processing", "shipped", "delivered", "completed")
    answers = await grouped.submissions.group([grouped.put_status(order, status=status) for status in wanted])
    assert [answer.json()["data"]["status"] for answer in answers] == list(wanted)


async def test_cancelled_orders_without_suspected_duplicates_share_a_transaction(grouped: GroupStore) -> None:
    orders = [await grouped.place(("TEA", 1), contact={"email": f"{n}@example.com"}) for n in range(3)]
    answers = await grouped.submissions.group([grouped.put_status(order, status="cancelled") for order in orders])
    assert [answer.status_code for answer in answers] == [200] * 3
    assert await transactions(grouped, orders) == 1
    assert await grouped.stock("TEA") == (10, 0)


async def test_one_key_sent_twice_in_a_group_refunds_once(grouped: GroupStore) -> None:
    order = await grouped.place(("TEA", 2), payment_status="paid")

    async def keyed() -> httpx.Response:
        body = {"refund": {"amount": "5.00"}}
        headers = {"Idempotency-Key": "refund-1"}
        return await grouped.client.put(f"/orders/{order['id']}/status", json=body, headers=headers)

    first, second = await grouped.submissions.group([keyed(), keyed()])
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert (await grouped.get(order))["amount_refunded"] == "5.00"


async def test_a_key_sent_to_two_processes_at_once_refunds_once(
    grouped: GroupStore, settings: Settings, db: Database
) -> None:
    """The second request waits for the order, finds it refunded, and repeats the response of the first."""
    order = await grouped.place(("TEA", 2), payment_status="paid")
    request = {
        "url": f"/orders/{order['id']}/status",
        "json": {"refund": {"amount": order["total"]}},
        "headers": {"Idempotency-Key": "refund-2"},
    }
    other = Application(settings)
    base = grouped.client.base_url
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(other), base_url=base, headers=grouped.client.headers
    ) as client:
        async with db.transaction() as held:
            await held.fetch("SELECT id FROM orders WHERE store_id = $1 FOR UPDATE", grouped.shop.store_id)
            sent = [asyncio.create_task(each.put(**request)) for each in (grouped.client, client)]
            await until_somebody_waits(db, 2)
        answers = [await each for each in sent]
    await other.close()
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert sorted("idempotent-replayed" in answer.headers for answer in answers) == [False, True]
    assert (await grouped.get(order))["amount_refunded"] == order["total"]
