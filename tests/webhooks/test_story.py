"""Whole stories: what an app subscribes to by the API, a worker delivers, verified by the public library."""

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
    """Wait until something is so."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await ready()):
                await asyncio.sleep(0.02)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None


async def all_done(shop: Shop, webhook_id: int, count: int) -> list[dict[str, Any]]:
    page = await deliveries(shop, webhook_id, status="succeeded", sort="id", limit=250)
    return page["data"] if page["meta"]["total"] == count else []


def kept_to_schema(event: dict[str, Any]) -> None:
    jsonschema.validate(event, schema(EVENTS[event["type"]]), cls=jsonschema.Draft202012Validator)


async def test_a_products_life_is_told_from_its_creation_to_its_end(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, ordering="resource", headers={"X-Gate": "7"})
        product = (await shop.client.post("/products", json=SHIRT)).json()["data"]
        path = f"/products/{product['id']}"
        await shop.client.patch(path, json={"price": "54.00"})
        await shop.client.delete(path)
        got = await receiver.until(3)
        events = [each.verify(hook["secret"]) for each in got]
        log = await until(lambda: all_done(shop, hook["id"], 3), "the log is complete")
    assert [event["type"] for event in events] == ["product.created", "product.updated", "product.deleted"]
    assert [event["sequence"] for event in events] == [1, 2, 3]
    assert [event["resource"]["version"] for event in events] == sorted(e["resource"]["version"] for e in events)
    assert events[0]["data"]["name"] == "Linen Shirt"
    assert events[1]["changes"]["price"] == ["59.00", "54.00"]
    assert {each.headers["x-gate"] for each in got} == {"7"}
    assert [entry["event_id"] for entry in log] == [event["id"] for event in events]
    assert all(entry["attempts"][0]["response_status"] == 200 for entry in log)
    for event in events:
        kept_to_schema(event)
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
        kept_to_schema(event)


async def test_what_waited_through_a_pause_arrives_in_order(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, ordering="resource", events=["product.created"])
        path = f"/webhooks/{hook['id']}"
        await shop.client.patch(path, json={"status": "paused"})
        await shop.add(*({"name": f"N{n}", "price": "1.00"} for n in range(3)))

        async def three_wait() -> bool:
            return (await shop.client.get(path)).json()["data"]["pending"] == 3

        await until(three_wait, "three wait")
        assert receiver.received == []
        await shop.client.patch(path, json={"status": "active"})
        got = await receiver.until(3)
    assert sorted(each.verify(hook["secret"])["data"]["name"] for each in got) == ["N0", "N1", "N2"]


async def test_resumed_from_now_on_only_what_is_new_arrives(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"], status="paused")
        path = f"/webhooks/{hook['id']}"
        await shop.add({"name": "old", "price": "1.00"})

        async def one_waits() -> bool:
            return (await shop.client.get(path)).json()["data"]["pending"] == 1

        await until(one_waits, "one waits")
        await shop.client.patch(path, json={"status": "active", "resume": "now"})
        await shop.add({"name": "new", "price": "1.00"})
        (got,) = await receiver.until(1)

        async def skipped() -> Any:
            return (await deliveries(shop, hook["id"], status="skipped"))["data"]

        (left_out,) = await until(skipped, "what waited is skipped")
    assert got.verify(hook["secret"])["data"]["name"] == "new"
    assert left_out["sequence"] == 1
    assert len(receiver.received) == 1


async def test_a_new_address_is_used_for_what_waits(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver(answering(500)) as broken, Receiver() as healthy, working(settings):
        hook = await subscribe(shop, url=broken.url, events=["product.created"])
        await shop.add({"name": "Mug", "price": "1.00"})
        await broken.until(1)

        async def noted() -> Any:
            return (await deliveries(shop, hook["id"], status="retrying"))["data"]

        await until(noted, "the first try is in the log")
        await shop.client.patch(f"/webhooks/{hook['id']}", json={"url": healthy.url})
        (got,) = await healthy.until(1)
        (entry,) = await until(lambda: all_done(shop, hook["id"], 1), "it is recorded")
    assert got.verify(hook["secret"])["data"]["name"] == "Mug"
    assert entry["attempt_count"] >= 2
    assert entry["attempts"][0]["response_status"] == 500


async def test_an_outage_is_recovered_from_in_one_call(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"])
        await shop.add(*({"name": f"N{n}", "price": "1.00"} for n in range(5)))
        first = [each.event for each in await receiver.until(5)]
        log = await until(lambda: all_done(shop, hook["id"], 5), "the log is complete")
        answer = await shop.client.post(
            f"/webhooks/{hook['id']}/redeliver", json={"since": hook["created_at"], "rate_per_s": 500}
        )
        assert answer.json()["data"]["matched"] == 5
        again = [each.event for each in (await receiver.until(10))[5:]]
        everything = await until(lambda: all_done(shop, hook["id"], 10), "the replay is in the log")
    assert sorted(event["id"] for event in again) == sorted(event["id"] for event in first)
    assert sorted(event["sequence"] for event in again) == [6, 7, 8, 9, 10]
    assert [entry["redelivery_of"] for entry in everything[5:]] == [entry["id"] for entry in log]


async def test_an_app_is_not_told_of_its_own_changes_if_it_does_not_want_to_be(
    loopback_shop: Shop, settings: Settings
) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, url=receiver.url, events=["product.created"], skip_own=True)
        await shop.client.post("/products", json={"name": "mine", "price": "1.00"})
        other = await shop.client_with(["products:write"])
        await other.post("/products", json={"name": "theirs", "price": "1.00"})
        (got,) = await receiver.until(1)
    assert got.verify(hook["secret"])["data"]["name"] == "theirs"


async def test_after_the_end_of_a_subscription_nothing_is_sent(loopback_shop: Shop, settings: Settings) -> None:
    shop = loopback_shop
    async with Receiver() as receiver, working(settings):
        gone = await subscribe(shop, url=f"{receiver.url}/gone", events=["product.created"])
        stays = await subscribe(shop, url=f"{receiver.url}/stays", events=["product.created"])
        await shop.client.delete(f"/webhooks/{gone['id']}")
        await shop.add({"name": "Mug", "price": "1.00"})
        await until(lambda: all_done(shop, stays["id"], 1), "the other one is delivered")
        (got,) = receiver.received
    assert got.verify(stays["secret"])
