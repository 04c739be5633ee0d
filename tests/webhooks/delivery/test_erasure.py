"""Erasing a customer removes their data from the delivery log."""

import secrets

from aiohttp import web

from stoa.settings import Settings
from tests.support.canaries import traces
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import log, subscribe, until, working


async def test_erasing_a_customer_removes_response_bodies_from_the_delivery_log(shop: Shop, settings: Settings) -> None:
    canary = f"canary{secrets.token_hex(6)}"

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        """Echo the request body: with 200 at first, then with 500, so that one delivery is still pending."""
        return web.Response(body=received.body, status=200 if len(received_all) < 2 else 500)

    async with Receiver(echo) as receiver:
        received_all = receiver.received
        hook = await subscribe(shop, receiver.url, "customer.*")
        async with working(settings):
            body = {"email": f"{canary}@example.com", "first_name": canary}
            customer = (await shop.client.post("/customers", json=body)).json()["data"]["id"]
            await shop.client.patch(f"/customers/{customer}", json={"last_name": canary})
            await receiver.until(2)

            async def attempted() -> bool:
                entries = await log(shop.db, hook.id)
                return len(entries) == 2 and all(entry["attempts"] for entry in entries)

            await until(attempted, "both deliveries have an attempt")
            assert canary in str(await log(shop.db, hook.id))
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        assert await traces(shop.db, [canary], store_id=shop.store.id) == []
        entries = await log(shop.db, hook.id)
        assert all(attempt["response_body"] is None for entry in entries for attempt in entry["attempts"])
        assert [entry["attempts"][0]["response_status"] for entry in entries] == [200, 500]


async def test_erasing_a_customer_removes_response_bodies_about_their_guest_orders_and_comments(
    shop: Shop, settings: Settings
) -> None:
    canary = f"canary{secrets.token_hex(6)}"

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        return web.Response(body=received.body)

    product = {"name": "Mug", "price": "9.00", "sku": f"MUG-{canary}", "stock": {"on_hand": 5}}
    assert (await shop.client.post("/products", json=product)).status_code == 201
    email = f"{canary}@example.com"
    made = await shop.client.post("/customers", json={"email": email})
    async with Receiver(echo) as receiver:
        hook = await subscribe(shop, receiver.url, "order.*")
        async with working(settings):
            line = {"sku": product["sku"], "quantity": 1}
            placed = await shop.client.post("/orders", json={"line_items": [line], "contact": {"email": email}})
            order = placed.json()["data"]["id"]
            comment = {"body": f"{canary} called", "visibility": "internal"}
            assert (await shop.client.post(f"/orders/{order}/comments", json=comment)).status_code == 201

            async def attempted() -> bool:
                entries = await log(shop.db, hook.id)
                return len(entries) == 2 and all(entry["attempts"] for entry in entries)

            await until(attempted, "both deliveries have an attempt")
        assert f"{canary} called" in str(await log(shop.db, hook.id))
        assert (await shop.client.delete(f"/customers/{made.json()['data']['id']}")).status_code == 204
        bodies = [attempt["response_body"] for entry in await log(shop.db, hook.id) for attempt in entry["attempts"]]
        assert bodies == [None, None]
