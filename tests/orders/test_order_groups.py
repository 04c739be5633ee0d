"""Orders that are placed in one group: each has the same outcome, stock and events as if it were placed by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.orders.sample_store import ADA, HOME, SampleStore
from tests.support.grouping import Submissions
from tests.support.locations import open_locations, spread
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop, open_shop

CUP: dict[str, Any] = {
    "name": "Cup",
    "price": "6.00",
    "variants": [{"sku": "CUP", "stock": {"on_hand": 12}, "low_stock_threshold": 9}],
}
JUG: dict[str, Any] = {"name": "Jug", "price": "20.00", "sku": "JUG", "stock": {"on_hand": 50}}
BASKETS: list[list[tuple[str, int]]] = [
    [("CUP", 2), ("JUG", 1)],
    [("CUP", 1), ("CUP", 2)],
    [("JUG", 4)],
    [("CUP", 7), ("JUG", 2)],
]


@dataclass
class GroupStore(SampleStore):
    """A store whose concurrent orders can be made to form one group."""

    submissions: Submissions = field(kw_only=True)


@pytest.fixture
async def group_store(settings: Settings, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupStore]:
    submissions = Submissions(monkeypatch)
    application = Application(settings)
    shop = await open_shop(application, db)
    store = GroupStore(shop, submissions=submissions)
    await store.add_products(CUP, JUG)
    yield store
    await shop.client.aclose()
    await application.close()


@pytest.fixture
async def sequential_store(other_shop: Shop) -> SampleStore:
    return await SampleStore(other_shop).add_products(CUP, JUG)


async def post_group(store: GroupStore, bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """Send orders that form one group. `headers` and `dry_run` of a body become a header and a parameter."""

    async def post(body: dict[str, Any]) -> httpx.Response:
        body = dict(body)
        headers, dry_run = body.pop("headers", None), body.pop("dry_run", None)
        params = {"dry_run": "true"} if dry_run else None
        return await store.client.post("/orders", json=body, headers=headers, params=params)

    return await store.submissions.group([post(body) for body in bodies])


async def post_sequentially(store: SampleStore, bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """Send the same orders, one after the other."""
    return [await store.client.post("/orders", json=body) for body in bodies]


def statuses(answers: Sequence[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


def lines(*wanted: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"sku": sku, "quantity": quantity} for sku, quantity in wanted]


async def transactions(store: GroupStore, answers: Sequence[httpx.Response]) -> int:
    ids = [answer.json()["data"]["id"] for answer in answers if answer.status_code == 201]
    rows = await store.shop.db.fetch(
        "SELECT count(DISTINCT xmin::text) FROM orders WHERE store_id = $1 AND id = ANY($2)", store.shop.store_id, ids
    )
    return rows[0][0]


async def written_state(store: SampleStore) -> dict[str, Any]:
    """All rows that the orders wrote, without ids and times."""

    async def listed(path: str) -> list[dict[str, Any]]:
        return (await store.client.get(path, params={"limit": 250, "sort": "id"})).json()["data"]

    entry = ("sku", "kind", "delta_reserved", "on_hand_after", "reserved_after")
    return {
        "orders": sorted(
            (
                order["number"],
                order["total"],
                order["suspected_duplicates_count"],
                order["version"],
                [(line["sku"], line["quantity"]) for line in order["line_items"]],
            )
            for order in await listed("/orders")
        ),
        "events": [
            (
                *(event[name] for name in ("type", "version", "parent_version", "changes")),
                *(event["data"].get("stock"), event["data"]["version"]),
            )
            for event in await store.events("")
        ],
        "ledger": [[row[name] for name in entry] for row in await listed("/products/inventory/adjustments")],
        "levels": [(row["sku"], row["stock"], row["version"]) for row in await listed("/products/inventory")],
        "products": [(row["name"], row["stock"], row["in_stock"], row["version"]) for row in await listed("/products")],
        "customers": [
            (row["email"], row["orders_count"], row["total_spent"], row["version"])
            for row in await listed("/customers")
        ],
    }


GUEST: dict[str, Any] = {"contact": {"email": "bo@example.com"}, "shipping_address": HOME}
SCENARIOS: dict[str, list[dict[str, Any]]] = {
    "plain orders": [{"line_items": lines(*basket)} for basket in BASKETS],
    "suspected duplicates": [
        {"line_items": lines(("JUG", 1)), **GUEST},
        {"line_items": lines(("JUG", 1)), **GUEST},
        {"line_items": lines(("CUP", 1)), "contact": {"email": "cy@example.com"}},
        {"line_items": lines(("CUP", 2)), **GUEST},
        {"line_items": lines(("JUG", 1)), **GUEST, "reject_suspected_duplicates": True},
        {"line_items": lines(("JUG", 1)), "contact": {"email": "cy@example.com"}, "reject_suspected_duplicates": True},
    ],
    "the last units": [
        {"line_items": lines(("CUP", 8))},
        {"line_items": lines(("JUG", 1), ("CUP", 3), ("CUP", 2))},
        {"line_items": lines(("CUP", 4))},
        {"line_items": lines(("CUP", 1))},
        {"status": "draft", "line_items": lines(("CUP", 9))},
        {"line_items": lines(("JUG", 2))},
    ],
    "one external id": [
        {"line_items": lines(("CUP", 13)), "external_id": "web-1"},
        {"line_items": lines(("CUP", 2)), "external_id": "web-1"},
        {"line_items": lines(("CUP", 1)), "external_id": "web-1"},
        {"line_items": lines(("CUP", 1)), "external_id": "web-2"},
    ],
    "one customer": [
        {"line_items": lines(("JUG", 1)), "payment_status": "paid", "customer": ADA},
        {"line_items": lines(("JUG", 2)), "payment_status": "paid", "customer": {"email": ADA["email"]}},
        {"line_items": lines(("CUP", 99)), "customer": {"email": "di@example.com"}},
        {"line_items": lines(("CUP", 1)), "customer": {"email": "di@example.com", "first_name": "Di"}},
        {"status": "draft", "line_items": lines(("JUG", 3)), "customer": {"phone": ADA["phone"]}},
        {"line_items": lines(("CUP", 1)), "customer_id": 10**12},
    ],
}


def outcome(answer: httpx.Response) -> tuple[Any, ...]:
    body = answer.json()
    if answer.status_code < 300:
        order = body["data"]
        return answer.status_code, order["total"], order["suspected_duplicates_count"], order["contact"]
    numbers = [body.get("existing_number"), body.get("score"), body.get("reasons")]
    faults = [(fault["pointer"], fault["code"], fault["detail"]) for fault in body.get("errors", [])]
    return answer.status_code, body["code"], faults, "existing_id" in body, numbers


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_group_writes_the_same_as_sequential_orders(
    group_store: GroupStore, sequential_store: SampleStore, scenario: str
) -> None:
    bodies = SCENARIOS[scenario]
    grouped = await post_group(group_store, bodies)
    sequential = await post_sequentially(sequential_store, bodies)
    assert [outcome(answer) for answer in grouped] == [outcome(answer) for answer in sequential]
    if scenario == "one customer":  # orders of a customer that the group creates follow in another transaction
        return
    assert await transactions(group_store, grouped) == 1
    assert await written_state(group_store) == await written_state(sequential_store)
    await group_store.assert_stock_is_consistent()


async def test_an_order_finds_the_customer_that_its_group_creates(
    group_store: GroupStore, sequential_store: SampleStore
) -> None:
    bodies = SCENARIOS["one customer"]
    grouped = await post_group(group_store, bodies)
    first, second, refused, third, draft, _ = [answer.json().get("data", {}) for answer in grouped]
    assert refused == {}
    assert first["customer_id"] == second["customer_id"] == draft["customer_id"] != third["customer_id"]
    await post_sequentially(sequential_store, bodies)
    grouped_state, sequential_state = await written_state(group_store), await written_state(sequential_store)
    assert grouped_state["customers"] == sequential_state["customers"]
    assert grouped_state["levels"] == sequential_state["levels"]
    await group_store.assert_stock_is_consistent()


async def test_a_suspected_duplicate_in_a_group_names_the_earlier_order(group_store: GroupStore) -> None:
    body = {"line_items": lines(("JUG", 1)), **GUEST}
    first, second = await post_group(group_store, [body, {**body, "reject_suspected_duplicates": True}])
    assert statuses([first, second]) == [201, 409]
    placed = first.json()["data"]
    assert (second.json()["existing_id"], second.json()["existing_number"]) == (placed["id"], placed["number"])


async def test_a_group_with_idempotency_keys_replays_refuses_and_places(group_store: GroupStore) -> None:
    body = {"line_items": lines(("JUG", 1))}
    stored = await group_store.post(("JUG", 1), headers={"idempotency-key": "old"})
    answers = await post_group(
        group_store,
        [
            {**body, "headers": {"idempotency-key": "old"}},
            {**body, "headers": {"idempotency-key": "new"}},
            {**body, "note": "x", "headers": {"idempotency-key": "old"}},
            {**body, "headers": {"idempotency-key": "new"}},
            {"line_items": lines(("CUP", 13)), "headers": {"idempotency-key": "short"}},
        ],
    )
    assert statuses(answers) == [201, 201, 422, 201, 409]
    assert answers[0].content == stored.content
    assert answers[3].content == answers[1].content
    assert (await group_store.post(("CUP", 1), headers={"idempotency-key": "short"})).status_code == 201
    assert await group_store.stock("JUG") == (50, 2)


async def test_a_dry_run_in_a_group_reserves_nothing(group_store: GroupStore) -> None:
    body = {"line_items": lines(("CUP", 8)), **GUEST, "external_id": "web-1"}
    tried, placed, late = await post_group(
        group_store, [{**body, "dry_run": True}, body, {"line_items": lines(("CUP", 4)), **GUEST, "dry_run": True}]
    )
    assert statuses([tried, placed, late]) == [200, 201, 200]
    assert tried.json()["meta"]["suspected_duplicates"] == []
    assert placed.json()["data"]["suspected_duplicates_count"] == 0
    [suspect] = late.json()["meta"]["suspected_duplicates"]
    assert suspect["order_id"] == placed.json()["data"]["id"]
    assert await group_store.stock("CUP") == (12, 8)


async def test_a_dry_run_in_a_group_takes_nothing_from_the_next_one(group_store: GroupStore) -> None:
    await open_locations(group_store.shop, east=1)
    await spread(group_store.shop, "CUP", east=1)
    body = {"line_items": lines(("CUP", 1)), "location": "east", "dry_run": True}
    tried = await post_group(group_store, [body, body, {**body, "line_items": lines(("CUP", 2))}, body])
    assert statuses(tried) == [200, 200, 409, 200]
    assert tried[2].json()["errors"][0]["meta"]["available"] == 1
    for answer in (tried[0], tried[1], tried[3]):
        assert answer.json()["data"]["line_items"][0]["allocations"] == [{"location": "east", "quantity": 1}]


async def test_an_order_that_loses_the_race_for_the_last_unit_leaves_no_customer(group_store: GroupStore) -> None:
    """The stock runs out only when it is reserved: the group runs again without the refused order."""
    before = group_store.submissions.count
    async with group_store.shop.db.transaction() as db:
        await db.execute(
            "UPDATE variants SET on_hand = 3 WHERE store_id = $1 AND sku = 'CUP'", group_store.shop.store_id
        )
        await db.fetch(
            "SELECT id FROM products WHERE store_id = $1 AND name = 'Cup' FOR UPDATE", group_store.shop.store_id
        )
        first = asyncio.create_task(group_store.post(("CUP", 2), customer={"email": "eve@example.com"}))
        await until_somebody_waits(group_store.shop.db)
        await db.execute(
            "UPDATE variants SET reserved = 2 WHERE store_id = $1 AND sku = 'CUP'", group_store.shop.store_id
        )
        await group_store.submissions.until(before + 1)
    answer = await first
    assert (answer.status_code, answer.json()["errors"][0]["meta"]["available"]) == (409, 1)
    assert (await group_store.client.get("/customers")).json()["meta"]["total"] == 0


async def test_numbers_of_a_group_are_consecutive(group_store: GroupStore) -> None:
    answers = await post_group(group_store, [{"line_items": lines(("JUG", 1))} for _ in range(4)])
    numbers = [answer.json()["data"]["number"] for answer in answers]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    references = await group_store.shop.db.fetch(
        "SELECT reference FROM stock_movements WHERE store_id = $1 AND sku = 'JUG' AND kind = 'reserve' ORDER BY id",
        group_store.shop.store_id,
    )
    assert [row[0] for row in references] == [str(number) for number in numbers]


async def test_each_response_is_the_stored_order(group_store: GroupStore) -> None:
    bodies = [{"line_items": lines(("JUG", 1)), "note": "Ünïcode", "metadata": {"n": n}} for n in range(3)]
    for answer in await post_group(group_store, bodies):
        stored = await group_store.client.get(answer.headers["location"])
        assert stored.json()["data"] == answer.json()["data"]
        assert stored.headers["etag"] == answer.headers["etag"]
        [entry] = await group_store.timeline(answer.json()["data"])
        assert entry["body"].startswith("Placed by ")


async def test_an_order_without_enough_stock_does_not_affect_the_others(group_store: GroupStore) -> None:
    bodies = [{"line_items": lines(("CUP", 5), ("JUG", 1))} for _ in range(3)] + [{"line_items": lines(("NONE", 1))}]
    answers = await post_group(group_store, bodies)
    assert statuses(answers) == [201, 201, 409, 422]
    [fault] = answers[2].json()["errors"]
    assert (fault["pointer"], fault["meta"]["available"]) == ("/line_items/0/quantity", 2)
    assert await transactions(group_store, answers) == 1
    assert await group_store.stock("CUP") == (12, 10)
    await group_store.assert_stock_is_consistent()


async def test_suspected_duplicates_of_one_group_are_found(group_store: GroupStore) -> None:
    body = {"line_items": lines(("JUG", 1)), "contact": {"email": "ada@example.com"}, "shipping_address": HOME}
    answers = await post_group(group_store, [body, body, {**body, "reject_suspected_duplicates": True}])
    refused = [answer for answer in answers if answer.status_code == 409]
    placed = [answer.json()["data"] for answer in answers if answer.status_code == 201]
    assert [answer.json()["code"] for answer in refused] == ["duplicate_order_suspected"]
    assert [(await group_store.get(order))["suspected_duplicates_count"] for order in placed] == [1, 1]


async def test_an_external_id_is_used_once(group_store: GroupStore) -> None:
    body = {"line_items": lines(("JUG", 1)), "external_id": "web-1"}
    answers = await post_group(group_store, [body, body, {"line_items": lines(("JUG", 1)), "external_id": "web-2"}])
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409]
    [refused] = [answer for answer in answers if answer.status_code == 409]
    [won] = [a for a in answers if a.status_code == 201 and a.json()["data"]["external_id"] == "web-1"]
    assert refused.json()["existing_id"] == won.json()["data"]["id"]


async def test_orders_of_a_group_count_for_their_customers(group_store: GroupStore) -> None:
    known = (await group_store.client.post("/customers", json=ADA)).json()["data"]
    paid = {"payment_status": "paid", "line_items": lines(("JUG", 1))}
    answers = await post_group(
        group_store,
        [
            {**paid, "customer": {"email": "ADA.moor@example.com"}},
            {**paid, "customer": {"email": "new@example.com", "first_name": "New"}},
            {"status": "draft", "line_items": lines(("JUG", 1)), "customer_id": known["id"] + 10**9},
        ],
    )
    assert statuses(answers) == [201, 201, 422]
    assert answers[0].json()["data"]["customer_id"] == known["id"]
    assert answers[0].json()["data"]["contact"]["last_name"] == "Moor"
    ada = (await group_store.client.get(f"/customers/{known['id']}")).json()["data"]
    assert (ada["orders_count"], ada["total_spent"], ada["version"]) == (1, "20.00", 2)
    assert ada["last_order_at"] == answers[0].json()["data"]["placed_at"]
    new = answers[1].json()["data"]["customer_id"]
    assert (await group_store.client.get(f"/customers/{new}")).json()["data"]["orders_count"] == 1


async def test_a_draft_reserves_nothing_and_does_not_change_its_customer(group_store: GroupStore) -> None:
    known = (await group_store.client.post("/customers", json=ADA)).json()["data"]
    draft = {"status": "draft", "line_items": lines(("CUP", 3)), "customer_id": known["id"]}
    answers = await post_group(group_store, [draft, {"line_items": lines(("CUP", 1))}])
    assert statuses(answers) == [201, 201]
    assert await transactions(group_store, answers) == 1
    assert await group_store.stock("CUP") == (12, 1)
    assert (await group_store.client.get(f"/customers/{known['id']}")).json()["data"]["version"] == known["version"]
