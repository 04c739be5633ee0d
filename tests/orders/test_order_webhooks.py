"""Webhook secrets, delivery logs and erasure in a store with orders."""

import msgspec
from aiohttp import web

from stoa.imports.runner import run_pending
from stoa.settings import Settings
from tests.orders.sample_store import SampleStore
from tests.support.canaries import traces
from tests.support.receivers import Received, Receiver
from tests.webhooks.workers import log, subscribe, until, working

HOOK = {"url": "https://hooks.example.com/stoa", "events": ["order.*"]}


async def test_a_signing_secret_cannot_be_chosen_by_the_caller(store: SampleStore) -> None:
    hook = (await store.client.post("/webhooks", json=HOOK)).json()["data"]
    path = f"/webhooks/{hook['id']}"
    chosen = await store.client.patch(path, json={"secret": "whsec_" + "A" * 44})
    assert chosen.status_code == 422
    assert [(fault["pointer"], fault["code"]) for fault in chosen.json()["errors"]] == [("/secret", "read_only_field")]
    assert (await store.client.patch(path, json=hook)).status_code == 200


async def test_the_delivery_log_refuses_unknown_event_names(store: SampleStore) -> None:
    hook = (await store.client.post("/webhooks", json=HOOK)).json()["data"]
    path = f"/webhooks/{hook['id']}/deliveries"
    for name, status in (("order.created", 200), ("order.*", 200), ("order.creatd", 400)):
        answer = await store.client.get(path, params={"event": name})
        assert answer.status_code == status, name
    assert answer.json()["code"] == "invalid_parameter"


async def test_responses_of_receivers_to_import_events_are_erased_with_the_customer(
    store: SampleStore, settings: Settings
) -> None:
    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        return web.Response(body=received.body)

    person = {"email": "whimbrel@aviary.example", "first_name": "Whimbrel"}
    shop, media = store.shop, {"content-type": "application/x-ndjson"}
    async with Receiver(echo) as receiver:
        hook = await subscribe(shop, receiver.url, "customer.import_finished")
        async with working(settings):
            rows = b"".join(msgspec.json.encode(each) + b"\n" for each in (person, {**person, "phone": "whimbrel"}))
            done = await shop.client.post("/customers/imports?match_by=email", content=rows, headers=media)
            assert done.status_code == 202, done.text
            await run_pending(shop.db)
            await receiver.until(1)

            async def attempted() -> bool:
                return any(entry["attempts"] for entry in await log(shop.db, hook.id))

            await until(attempted, "a delivery was attempted")
        assert "whimbrel" in str(await log(shop.db, hook.id)).lower()
    found = (await shop.client.get("/customers", params={"email": person["email"]})).json()["data"]
    assert (await shop.client.delete(f"/customers/{found[0]['id']}")).status_code == 204
    assert await traces(shop.db, ["whimbrel"], store_id=shop.store.id) == []
