"""Erasing a customer removes their data from the delivery log."""

import asyncio
import json
import secrets
import time
from typing import Any

import msgspec
import pytest
from aiohttp import web

from stoa.db.errors import PostgresError
from stoa.db.query import json_rows
from stoa.settings import Settings
from stoa.webhooks.delivery import router
from stoa.webhooks.delivery.matching import Matched, match
from stoa.webhooks.delivery.queries import ERASED_DELIVERIES, RELEASE_BUCKETS, LaneHeld
from tests.support.canaries import traces
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.subscriptions import route
from tests.webhooks.workers import QUICK, lane, log, subscribe, until, working

# What settle_deliveries does with a delivery that succeeded.
FINISH = """WITH done AS (
    DELETE FROM pending_deliveries WHERE store_id = $1 AND webhook_id = $2 RETURNING *)
    INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type, resource_type,
                            resource_id, resource_version, status, attempt_count, attempts, created_at, finished_at)
    SELECT store_id, webhook_id, sequence, current_date, event_id, event_day, event_type, resource_type, resource_id,
           resource_version, 'succeeded', attempt_count, attempts, created_at, now() FROM done"""


async def created_customer(shop: Shop, name: str) -> int:
    body = {"email": f"{name}@example.com", "first_name": name}
    return (await shop.client.post("/customers", json=body)).json()["data"]["id"]


async def attempted(shop: Shop, webhook: int, attempts: int) -> list[dict[str, Any]]:
    """The log of the subscription, if each delivery has this many attempts."""
    entries = await log(shop.db, webhook)
    return entries if entries and all(len(entry["attempts"]) == attempts for entry in entries) else []


async def waits_for_a_lock(shop: Shop) -> bool:
    return bool(
        await shop.db.fetch(
            """SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                  AND query LIKE '%pending_deliveries%'"""
        )
    )


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


@pytest.mark.parametrize("status", [200, 500])
async def test_a_response_that_arrives_after_the_erasure_is_not_kept(
    shop: Shop, settings: Settings, status: int
) -> None:
    """A first attempt failed, and the receiver answers the second one only after the customer is erased."""
    canary = f"canary{secrets.token_hex(6)}"
    respond = asyncio.Event()

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        if received is receiver.received[0]:
            return web.Response(body=received.body, status=500)
        await respond.wait()
        return web.Response(body=received.body, status=status)

    retries = msgspec.structs.replace(QUICK, retries=(0.05, 3600))
    async with Receiver(echo) as receiver, working(settings, retries):
        hook = await subscribe(shop, receiver.url, "customer.created")
        customer = await created_customer(shop, canary)
        await receiver.until(2)
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        respond.set()
        [entry] = await until(lambda: attempted(shop, hook.id, 2), "both attempts are stored")
        assert [attempt["response_status"] for attempt in entry["attempts"]] == [500, status]
        assert [attempt["response_body"] for attempt in entry["attempts"]] == [None, None]
        assert await traces(shop.db, [canary], store_id=shop.store.id) == []


async def test_a_response_to_the_first_attempt_that_arrives_after_the_erasure_is_not_kept(
    shop: Shop, settings: Settings
) -> None:
    canary = f"canary{secrets.token_hex(6)}"
    respond = asyncio.Event()

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        await respond.wait()
        return web.Response(body=received.body)

    async with Receiver(echo) as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "customer.created")
        customer = await created_customer(shop, canary)
        await receiver.until(1)
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        respond.set()
        await until(lambda: attempted(shop, hook.id, 1), "the attempt is stored")
        assert await traces(shop.db, [canary], store_id=shop.store.id) == []


async def test_a_probe_that_ends_after_the_erasure_keeps_no_response(shop: Shop, settings: Settings) -> None:
    """Its delivery is due only in an hour: an open breaker sends the next one, due or not."""
    canary = f"canary{secrets.token_hex(6)}"
    respond = asyncio.Event()

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        if received is not receiver.received[0]:
            await respond.wait()
        return web.Response(body=received.body, status=500)

    opening = msgspec.structs.replace(QUICK, retries=(3600, 3600), breaker_failures=1, probes=(0.1, 3600))
    async with Receiver(echo) as receiver, working(settings, opening):
        hook = await subscribe(shop, receiver.url, "customer.created")
        customer = await created_customer(shop, canary)
        await receiver.until(2)
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        respond.set()
        await until(lambda: attempted(shop, hook.id, 2), "the probe is stored")
        assert await traces(shop.db, [canary], store_id=shop.store.id) == []


async def test_an_erasure_clears_what_is_settled_meanwhile(shop: Shop, settings: Settings) -> None:
    """The outcome of a delivery is being stored while the erasure clears the log."""
    canary = f"canary{secrets.token_hex(6)}"

    async def echo(_request: web.Request, received: Received) -> web.StreamResponse:
        return web.Response(body=received.body, status=500)

    waiting = msgspec.structs.replace(QUICK, retries=(3600,))
    async with Receiver(echo) as receiver:
        hook = await subscribe(shop, receiver.url, "customer.created")
        customer = await created_customer(shop, canary)
        async with working(settings, waiting):
            await receiver.until(1)
            await until(lambda: attempted(shop, hook.id, 1), "the attempt is stored")
        assert canary in str(await log(shop.db, hook.id))
        async with shop.db.transaction() as db:
            await db.execute(FINISH, shop.store_id, hook.id)
            erasing = asyncio.create_task(shop.client.delete(f"/customers/{customer}"))
            await until(lambda: waits_for_a_lock(shop), "the erasure waits for the outcome")
        assert (await erasing).status_code == 204
        assert [entry["status"] for entry in await log(shop.db, hook.id)] == ["succeeded"]
        assert await traces(shop.db, [canary], store_id=shop.store.id) == []


async def order_of(shop: Shop, email: str) -> None:
    """An order that a guest places with this email address."""
    product = {"name": "Mug", "price": "9.00", "sku": "MUG-1", "stock": {"on_hand": 5}}
    assert (await shop.client.post("/products", json=product)).status_code == 201
    order = {"line_items": [{"sku": "MUG-1", "quantity": 1}], "contact": {"email": email}}
    placed = await shop.client.post("/orders", json=order)
    assert placed.status_code == 201, placed.text


@pytest.mark.parametrize("events", ["customer.created", "order.created"])
async def test_an_event_that_a_router_took_before_the_erasure_is_sent_without_the_person(
    shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch, events: str
) -> None:
    canary = f"canary{secrets.token_hex(6)}"
    customer = await created_customer(shop, canary)
    if events == "order.created":
        await order_of(shop, f"{canary}@example.com")

    async def erase_first(*arguments: Any) -> Matched:
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        return await match(*arguments)

    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, events)
        with monkeypatch.context() as patched:
            patched.setattr(router, "match", erase_first)
            with pytest.raises(PostgresError, match="erased meanwhile"):
                await router.route_events(shop.db, [shop.store_id % 64], holder="first")
        await RELEASE_BUCKETS.run(shop.db, "first")
        async with working(settings):
            await until(lambda: attempted(shop, hook.id, 1), "the attempt is stored")
        assert [event["type"] for event in receiver.events] == [events]
        assert canary not in str(receiver.events)


async def test_a_delivery_that_a_worker_read_before_the_erasure_is_sent_without_the_person(
    shop: Shop, settings: Settings
) -> None:
    """It waits in the memory of the worker, because the receiver takes one request at a time."""
    canary = f"canary{secrets.token_hex(6)}"
    respond = asyncio.Event()

    async def slow(_request: web.Request, _received: Received) -> web.StreamResponse:
        await respond.wait()
        return web.Response()

    async with Receiver(slow) as receiver:
        hook = await subscribe(shop, receiver.url, "customer.created", max_in_flight=1)
        await created_customer(shop, "first")
        customer = await created_customer(shop, canary)
        await created_customer(shop, "last")
        async with working(settings) as worker:
            await receiver.until(1)
            assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
            erased_at = time.monotonic()

            async def beaten() -> bool:
                return worker.scheduler.shared.renewed_at > erased_at

            await until(beaten, "a heartbeat after the erasure")
            respond.set()
            await until(lambda: attempted(shop, hook.id, 1), "all attempts are stored")
        assert {event["data"].get("first_name") for event in receiver.events} == {"first", None, "last"}
        assert canary not in str(receiver.events)


async def test_a_delivery_that_an_erasure_found_waiting_is_sent_once(shop: Shop, settings: Settings) -> None:
    """The erasure changes neither when a delivery is due, nor what the log says about it later."""
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "customer.created")
        customer = await created_customer(shop, "maya")
        await route(shop)
        assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
        [shown] = (await shop.client.get(f"/webhooks/{hook.id}/deliveries")).json()["data"]
        assert (shown["status"], shown["next_attempt_at"]) == ("pending", None)
        async with working(settings):
            [entry] = await until(lambda: attempted(shop, hook.id, 1), "the attempt is stored")
        assert (entry["status"], entry["attempt_count"]) == ("succeeded", 1)
        assert [event["data"] for event in receiver.events] == [{"id": customer}]
        state = await lane(shop.db, hook.id)
        assert (state["waiting"], state["due_at"]) == (0, None)


@pytest.mark.not_on_cluster("it counts the blocks that one server reads")
async def test_a_heartbeat_reads_only_what_an_erasure_marked(shop: Shop) -> None:
    """However many deliveries are pending in its lanes: it reads some blocks of an index for each lane."""
    hooks = [(await subscribe(shop, f"http://127.0.0.1:1/{n}", "customer.created")).id for n in range(20)]
    await shop.db.execute(
        """INSERT INTO pending_deliveries (store_id, webhook_id, sequence, event_id, event_day, event_type, resource_type, resource_id,
                                           resource_version, due_at, created_at)
           SELECT $1, h, n, 'evt', current_date, 'customer.created', 'customer', n, 1,
                  CASE n WHEN 400 THEN '-infinity'::timestamptz ELSE now() END, now()
             FROM unnest($2::bigint[]) AS h, generate_series(1, 1000) AS n""",
        shop.store_id,
        hooks,
    )
    await shop.db.execute("ANALYZE pending_deliveries")
    rows = json_rows([LaneHeld(shop.store_id, hook) for hook in hooks])
    found = await ERASED_DELIVERIES.all(shop.db, rows)
    assert sorted((each.webhook_id, each.sequence) for each in found) == [(hook, 400) for hook in sorted(hooks)]
    [[plan]] = await shop.db.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {ERASED_DELIVERIES.sql}", rows)
    [root] = json.loads(plan)
    assert root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"] < 10 * len(hooks)
