"""The feed: every event of a subscription in order and without gaps, which the app pulls."""

import asyncio
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from stoa.products.events import ProductBackInStock, ProductInventoryChanged
from stoa.webhooks.api import feed
from tests.support.shops import Shop
from tests.webhooks.subscriptions import add_products, deliveries, finish, route, subscribe


async def pull(shop: Shop, webhook_id: int, after: int = 0, **query: Any) -> list[int]:
    return [each["sequence"] for each in (await deliveries(shop, webhook_id, after=after, **query))["data"]]


async def test_a_feed_is_in_order_regardless_of_the_status_of_each_delivery(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A", "B", "C", "D")
    await finish(shop, hook["id"], 2, "succeeded")
    await finish(shop, hook["id"], 3, "failed")
    assert await pull(shop, hook["id"]) == [1, 2, 3, 4]
    assert await pull(shop, hook["id"], 2) == [3, 4]
    assert await pull(shop, hook["id"], 4) == []


async def test_a_feed_is_read_page_by_page(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    await add_products(shop, *"ABCDE")
    after, seen = 0, list[int]()
    while (page := await deliveries(shop, hook["id"], after=after, limit=2))["data"]:
        assert page["meta"]["total"] == 5 - after
        seen += [each["sequence"] for each in page["data"]]
        after = page["meta"]["after"]
    assert seen == [1, 2, 3, 4, 5]
    assert page["meta"] | {"limit": 0} == {
        "total": 0, "limit": 0, "page": None, "next_cursor": None, "prev_cursor": None, "after": 5,
    }  # fmt: skip


async def test_deliveries_of_a_pull_only_subscription_are_held_and_never_due(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    await add_products(shop, "A")
    (item,) = (await deliveries(shop, hook["id"], after=0))["data"]
    assert item["status"] == "held"
    due = await shop.db.fetch("SELECT due_at FROM lanes WHERE webhook_id = $1", hook["id"])
    assert due[0][0] is None


async def test_a_feed_item_has_the_bytes_and_headers_of_a_delivery(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    await add_products(shop, "Café Mug")
    answer = await shop.client.get(f"/webhooks/{hook['id']}/deliveries", params={"after": 0, "include": "payload"})
    (item,) = answer.json()["data"]
    raw = answer.content.partition(b'"payload":')[2].partition(b',"headers":')[0]
    assert item["headers"]["content-type"] == "application/json"
    assert Webhook(hook["secret"]).verify(raw, item["headers"]) == item["payload"]
    assert item["headers"]["webhook-id"] == item["event_id"]


async def test_a_waiting_request_returns_as_soon_as_an_event_is_routed(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    waiting = asyncio.create_task(deliveries(shop, hook["id"], after=0, wait=20))
    await until_waiting(shop, 1)
    await add_products(shop, "A")
    async with asyncio.timeout(10):
        page = await waiting
    assert [each["sequence"] for each in page["data"]] == [1]


async def until_waiting(shop: Shop, count: int) -> None:
    watch = feed.watch_of(await shop.application.shards.of_store(shop.store_id))
    async with asyncio.timeout(10):
        while len(watch._waiting) < count:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)


async def test_a_wait_without_events_returns_an_empty_page(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    page = await deliveries(shop, hook["id"], after=0, wait=1)
    assert (page["data"], page["meta"]["after"]) == ([], 0)


async def test_a_request_does_not_wait_when_the_feed_has_events(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    await add_products(shop, "A")
    async with asyncio.timeout(10):
        assert await pull(shop, hook["id"], wait=20) == [1]


async def test_waiting_requests_hold_no_database_connection(shop: Shop) -> None:
    """Five requests wait for five subscriptions, and each returns only the events of its own."""
    hooks = [await subscribe(shop, url=None, name=str(n), filter={"name": f"N{n}"}) for n in range(5)]
    waiting = [asyncio.create_task(pull(shop, hook["id"], wait=20)) for hook in hooks]
    await until_waiting(shop, 5)
    busy = await shop.db.fetch(
        """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
              AND state LIKE 'idle in transaction%'"""
    )
    assert busy[0][0] == 0
    await add_products(shop, "N3")
    async with asyncio.timeout(10):
        assert await waiting[3] == [1]
    assert not any(task.done() for task in waiting[:3] + waiting[4:])
    await add_products(shop, "N0", "N1", "N2", "N4")
    assert await asyncio.gather(*waiting) == [[1]] * 5


async def test_the_number_of_waiting_requests_of_an_app_is_limited(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    waiting = [asyncio.create_task(pull(shop, hook["id"], wait=20)) for _ in range(feed.MAX_PER_APP)]
    await until_waiting(shop, feed.MAX_PER_APP)
    answer = await shop.client.get(f"/webhooks/{hook['id']}/deliveries", params={"after": 0, "wait": 20})
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_in_flight")
    assert await pull(shop, hook["id"]) == []
    await add_products(shop, "A")
    assert await asyncio.gather(*waiting) == [[1]] * feed.MAX_PER_APP


async def test_the_waiting_requests_of_an_account_are_limited_over_all_its_apps(
    shop: Shop, other_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_PER_ACCOUNT", 7)
    rows = await shop.db.fetch(
        "INSERT INTO accounts (email, name, password_hash) VALUES ($1, 'Owner', '') RETURNING id",
        f"{shop.store.handle}@example.com",
    )
    for each in (shop, other_shop):
        await shop.db.execute(
            "INSERT INTO account_apps (account_id, app_id, role) VALUES ($1, $2, 'owner')", rows[0][0], each.app_id
        )
    hook, other_hook = await subscribe(shop, url=None), await subscribe(other_shop, url=None)
    waiting = [asyncio.create_task(pull(shop, hook["id"], wait=20)) for _ in range(5)]
    waiting += [asyncio.create_task(pull(other_shop, other_hook["id"], wait=20)) for _ in range(2)]
    await until_waiting(shop, 7)
    path, query = f"/webhooks/{other_hook['id']}/deliveries", {"after": 0, "wait": 20}
    answer = await other_shop.client.get(path, params=query)
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        429,
        "too_many_in_flight",
        "1",
    )
    await add_products(shop, "A")
    await add_products(other_shop, "A")
    assert await asyncio.gather(*waiting) == [[1]] * 7


async def test_stopping_the_watch_ends_all_waits(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    watch = feed.Watch(shop.db)
    waiting = asyncio.create_task(watch.until_after(shop.store_id, shop.app_id, hook["id"], 0, 60))
    async with asyncio.timeout(10):
        while not watch._waiting:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)
        watch.stop()
        await waiting
        await watch.until_after(shop.store_id, shop.app_id, hook["id"], 0, 60)


@pytest.mark.parametrize(
    "query",
    [
        {"wait": 5},
        {"after": 0, "status": "failed"},
        {"after": 0, "event": "product.created"},
        {"after": 0, "sort": "id"},
        {"after": 0, "page": 2},
        {"after": -1},
        {"after": "x"},
        {"after": 0, "wait": "long"},
        {"after": 0, "wait": 21},
    ],
)
async def test_a_feed_refuses_invalid_or_incompatible_parameters(shop: Shop, query: dict[str, Any]) -> None:
    hook = await subscribe(shop, url=None)
    answer: httpx.Response = await shop.client.get(f"/webhooks/{hook['id']}/deliveries", params=query)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_a_feed_misses_no_event_under_concurrent_writes(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    seen: list[int] = []

    async def read_feed() -> None:
        while len(seen) < 40:
            seen.extend(await pull(shop, hook["id"], seen[-1] if seen else 0, wait=5, limit=7))

    async def write(writer: int) -> None:
        for number in range(10):
            await shop.add({"name": f"W{writer} {number}", "price": "1.00"})
            await route(shop)

    async with asyncio.timeout(60):
        await asyncio.gather(read_feed(), *(write(n) for n in range(4)))
    assert seen == list(range(1, 41))


async def test_only_its_own_app_receives_an_event_of_private_metadata(shop: Shop) -> None:
    theirs = await shop.client_with(["customers:write", "webhooks:write"])
    subscription = {"events": ["customer.*"], "url": None}
    hooks = [(await client.post("/webhooks", json=subscription)).json()["data"] for client in (shop.client, theirs)]
    metadata = {"shared.tier": "gold", "visits": 1}
    customer = await shop.client.post("/customers", json={"email": "jun@example.com", "metadata": metadata})
    path = f"/customers/{customer.json()['data']['id']}"
    assert (await shop.client.patch(f"{path}/metadata", json={"visits": 2})).status_code == 200
    await route(shop)
    feeds: list[list[dict[str, Any]]] = []
    for client, hook in zip((shop.client, theirs), hooks, strict=True):
        query = {"after": 0, "include": "payload"}
        page = (await client.get(f"/webhooks/{hook['id']}/deliveries", params=query)).json()
        feeds.append([each["payload"] for each in page["data"]])
    mine, others = feeds
    assert [event["type"] for event in mine] == ["customer.created", "customer.metadata_changed"]
    assert mine[1]["changes"] == {"metadata": [{"visits": 1}, {"visits": 2}]}
    assert mine[1]["data"] == (await shop.client.get(path)).json()["data"]
    assert [event["type"] for event in others] == ["customer.created"]
    asked = {"event_id": mine[1]["id"]}
    page = (await theirs.get(f"/webhooks/{hooks[1]['id']}/deliveries", params=asked)).json()
    assert page["meta"]["not_sent"]["reason"] == "other_app"
    await theirs.aclose()


async def test_an_event_of_stock_shows_no_more_than_the_stock_level_without_the_scope_of_products(shop: Shop) -> None:
    body = {"name": "Mug", "price": "8.00", "sku": "MUG", "cost_price": "3.00", "metadata": {"margin": "high"}}
    product = (await shop.client.post("/products", json=body)).json()["data"]
    theirs = await shop.client_with(["inventory:read", "webhooks:write"])
    plain = {"events": [ProductInventoryChanged.name], "url": None}
    both = [ProductInventoryChanged.name, ProductBackInStock.name]
    wanted = [plain, {**plain, "events": both, "filter": {"effective_price": "8.00"}}]
    answers = [await theirs.post("/webhooks", json=each) for each in wanted]
    assert [answer.status_code for answer in answers] == [201, 201], [answer.text for answer in answers]
    hooks = [answer.json()["data"]["id"] for answer in answers]
    mine = (await shop.client.post("/webhooks", json=wanted[0])).json()["data"]["id"]
    adjustment = {"reason": "restock", "items": [{"sku": "MUG", "op": "set", "quantity": 4}]}
    assert (await shop.client.post("/products/inventory/adjustments", json=adjustment)).status_code == 200
    await route(shop)
    shown, hidden = [await _data(theirs, hook) for hook in hooks]
    assert [set(each) for each in shown] == [set(ProductInventoryChanged.basic_fields)] * len(shown)
    assert shown[0]["stock"]["on_hand"] == 4
    assert hidden == []  # a filter cannot ask about a field that the app does not see
    variant = (await shop.client.get(f"/products/{product['id']}/variants")).json()["data"][0]
    assert (await _data(shop.client, mine))[0] == variant
    await theirs.aclose()


async def _data(client: httpx.AsyncClient, hook: int) -> list[dict[str, Any]]:
    page = await client.get(f"/webhooks/{hook}/deliveries", params={"after": 0, "include": "payload"})
    return [each["payload"]["data"] for each in page.json()["data"]]
