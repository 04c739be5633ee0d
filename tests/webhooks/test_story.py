"""End to end: an app subscribes through the API, a worker delivers, and the reference library verifies."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema

from stoa.api import EVENTS
from stoa.settings import Settings
from stoa.webhooks.api.schemas import schema
from tests.support.receivers import Receiver, answering
from tests.support.shops import SHIRT, Shop
from tests.webhooks.subscriptions import deliveries, subscribe
from tests.webhooks.workers import working

PATIENCE_S = 30


async def until(ready: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Call `ready` until it returns a true value, and return that value."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await ready()):
                await asyncio.sleep(0.02)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None


async def all_succeeded(shop: Shop, webhook_id: int, count: int) -> list[dict[str, Any]]:
    page = await deliveries(shop, webhook_id, status="succeeded", sort="id", limit=250)
    return page["data"] if page["meta"]["total"] == count else []


def validate_schema(event: dict[str, Any]) -> None:
    jsonschema.validate(event, schema(EVENTS[event["type"]]), cls=jsonschema.Draft202012Validator)


async def test_creating_changing_and_deleting_a_product_delivers_three_events_in_order(
    loopback_shop: Shop, settings: Settings
) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, ordering="resource", headers={"X-Gate": "7"})
        product = (await shop.client.post("/products", json=SHIRT)).json()["data"]
        path = f"/products/{product['id']}"
        await shop.client.patch(path, json={"price": "54.00"})
        await shop.client.delete(path)
        got = await receiver.until(3)
        events = [each.verify(hook["secret"]) for each in got]
        log = await until(lambda: all_succeeded(shop, hook["id"], 3), "the log is complete")
    assert [event["type"] for event in events] == ["product.created", "product.updated", "product.deleted"]
    assert [event["sequence"] for event in events] == [1, 2, 3]
    assert [event["resource"]["version"] for event in events] == sorted(e["resource"]["version"] for e in events)
    assert events[0]["data"]["name"] == "Linen Shirt"
    assert events[1]["changes"]["price"] == ["59.00", "54.00"]
    assert {each.headers["x-gate"] for each in got} == {"7"}
    assert [entry["event_id"] for entry in log] == [event["id"] for event in events]
    assert all(entry["attempts"][0]["response_status"] == 200 for entry in log)
    for event in events:
        validate_schema(event)
    seen = (await shop.client.get(f"/webhooks/{hook['id']}")).json()["data"]
    assert (seen["pending"], seen["health"], seen["stats_24h"]["succeeded"]) == (0, "healthy", 3)


async def test_an_order_becomes_a_verified_delivery(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(
            shop, url=receiver.url, events=["order.created", "order.status_changed"], filter={"total[gte]": "100.00"}
        )
        await shop.add(SHIRT)
        ids: list[int] = []
        for quantity in (1, 2):
            body = {"line_items": [{"sku": "LS-S", "quantity": quantity}], "contact": {"email": "ada@example.com"}}
            answer = await shop.client.post("/orders", json=body)
            assert answer.status_code == 201, answer.text
            ids.append(answer.json()["data"]["id"])
        await shop.client.put(f"/orders/{ids[1]}/status", json={"status": "processing"})
        got = await receiver.until(2)
        events = [each.verify(hook["secret"]) for each in got]
    assert sorted(event["type"] for event in events) == ["order.created", "order.status_changed"]
    assert {event["resource"]["id"] for event in events} == {ids[1]}
    moved = next(event for event in events if event["type"] == "order.status_changed")
    assert moved["changes"]["status"] == ["pending", "processing"]
    for event in events:
        validate_schema(event)


async def test_events_during_a_pause_are_delivered_when_the_subscription_resumes(
    loopback_shop: Shop, settings: Settings
) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, ordering="resource", events=["product.created"])
        path = f"/webhooks/{hook['id']}"
        await shop.client.patch(path, json={"status": "paused"})
        await shop.add(*({"name": f"N{n}", "price": "1.00"} for n in range(3)))

        async def three_pending() -> bool:
            return (await shop.client.get(path)).json()["data"]["pending"] == 3

        await until(three_pending, "three deliveries are pending")
        assert receiver.received == []
        await shop.client.patch(path, json={"status": "active"})
        got = await receiver.until(3)
    assert sorted(each.verify(hook["secret"])["data"]["name"] for each in got) == ["N0", "N1", "N2"]


async def test_resuming_from_now_delivers_only_new_events(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"], status="paused")
        path = f"/webhooks/{hook['id']}"
        await shop.add({"name": "old", "price": "1.00"})

        async def one_pending() -> bool:
            return (await shop.client.get(path)).json()["data"]["pending"] == 1

        await until(one_pending, "one delivery is pending")
        await shop.client.patch(path, json={"status": "active", "resume": "now"})
        await shop.add({"name": "new", "price": "1.00"})
        (got,) = await receiver.until(1)

        async def skipped() -> Any:
            return (await deliveries(shop, hook["id"], status="skipped"))["data"]

        (entry,) = await until(skipped, "the pending delivery is skipped")
    assert got.verify(hook["secret"])["data"]["name"] == "new"
    assert entry["sequence"] == 1
    assert len(receiver.received) == 1


async def test_pending_deliveries_go_to_the_new_url(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver(answering(500)) as broken, Receiver() as healthy, working(settings):
        hook = await subscribe(shop, url=broken.url, events=["product.created"])
        await shop.add({"name": "Mug", "price": "1.00"})
        await broken.until(1)

        async def retrying() -> Any:
            return (await deliveries(shop, hook["id"], status="retrying"))["data"]

        await until(retrying, "the first attempt is in the log")
        await shop.client.patch(f"/webhooks/{hook['id']}", json={"url": healthy.url})
        (got,) = await healthy.until(1)
        (entry,) = await until(lambda: all_succeeded(shop, hook["id"], 1), "the delivery is recorded")
    assert got.verify(hook["secret"])["data"]["name"] == "Mug"
    assert entry["attempt_count"] >= 2
    assert entry["attempts"][0]["response_status"] == 500


async def test_one_call_redelivers_everything_since_an_outage(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"])
        await shop.add(*({"name": f"N{n}", "price": "1.00"} for n in range(5)))
        first = [each.event for each in await receiver.until(5)]
        log = await until(lambda: all_succeeded(shop, hook["id"], 5), "the log is complete")
        answer = await shop.client.post(
            f"/webhooks/{hook['id']}/redeliver", json={"since": hook["created_at"], "rate_per_s": 500}
        )
        assert answer.json()["data"]["matched"] == 5
        again = [each.event for each in (await receiver.until(10))[5:]]
        everything = await until(lambda: all_succeeded(shop, hook["id"], 10), "the redeliveries are in the log")
    assert sorted(event["id"] for event in again) == sorted(event["id"] for event in first)
    assert sorted(event["sequence"] for event in again) == [6, 7, 8, 9, 10]
    assert [entry["redelivery_of"] for entry in everything[5:]] == [entry["id"] for entry in log]


async def test_skip_own_leaves_out_the_changes_of_the_app_itself(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"], skip_own=True)
        await shop.client.post("/products", json={"name": "mine", "price": "1.00"})
        other = await shop.client_with(["products:write"])
        await other.post("/products", json={"name": "theirs", "price": "1.00"})
        (got,) = await receiver.until(1)
    assert got.verify(hook["secret"])["data"]["name"] == "theirs"


async def test_a_deleted_subscription_receives_nothing(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        deleted = await subscribe(shop, url=f"{receiver.url}/gone", events=["product.created"])
        remaining = await subscribe(shop, url=f"{receiver.url}/stays", events=["product.created"])
        await shop.client.delete(f"/webhooks/{deleted['id']}")
        await shop.add({"name": "Mug", "price": "1.00"})
        await until(lambda: all_succeeded(shop, remaining["id"], 1), "the remaining subscription received the event")
        (got,) = receiver.received
    assert got.verify(remaining["secret"])
