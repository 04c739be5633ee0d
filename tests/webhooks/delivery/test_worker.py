"""A change produces a signed request that its receiver can verify."""

import asyncio

from stoa.settings import Settings
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import create_product, lane, log, subscribe, until, working


async def test_a_change_is_delivered_signed_with_its_envelope(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.*", headers={"X-Warehouse": "north"})
        product = await create_product(shop, "Blue mug")
        [got] = await receiver.until(1)
        event = got.verify(hook.secret)
        assert got.headers["webhook-id"] == event["id"]
        assert got.headers["x-warehouse"] == "north"
        assert got.headers["content-type"] == "application/json"
        assert (event["type"], event["sequence"], event["api_version"]) == ("product.created", 1, "v3")
        handle = shop.store.handle
        base_url = f"http://localhost:{settings.port}/stores/{handle}"
        assert event["store"] == {"id": shop.store_id, "handle": handle, "base_url": base_url}
        assert event["resource"] == {
            "type": "product", "id": product, "version": 1, "url": f"/api/v3/app/products/{product}",
        }  # fmt: skip
        assert event["actor"] == {"type": "app", "app_id": shop.app_id}
        assert event["data"] == (await shop.client.get(f"/products/{product}")).json()["data"]
        await until(lambda: _all_settled(shop, hook.id), "the delivery is recorded")
        [entry] = await log(shop.db, hook.id)
        assert (entry["status"], entry["attempt_count"]) == ("succeeded", 1)
        [attempt] = entry["attempts"]
        assert (attempt["response_status"], attempt["response_body"], attempt["error"]) == (200, "thanks", None)
        state = await lane(shop.db, hook.id)
        assert (state["waiting"], state["due_at"], state["owner"]) == (0, None, "")


async def _all_settled(shop: Shop, webhook: int) -> bool:
    entries = await log(shop.db, webhook)
    return bool(entries) and all(entry["status"] not in ("pending", "retrying") for entry in entries)


async def test_sequences_have_no_gaps_under_concurrent_writes(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await asyncio.gather(*(create_product(shop, f"Mug {n}") for n in range(20)))
        got = await receiver.until(20)
        assert sorted(each.verify(hook.secret)["sequence"] for each in got) == list(range(1, 21))
        assert len({each.headers["webhook-id"] for each in got}) == 20
