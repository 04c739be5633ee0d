"""Which subscriptions receive an event, in which order and form, and what pausing, ending and suspending do."""

import asyncio
from typing import Any

import msgspec
import pytest

from stoa.access.apps import create_app, resume_app, suspend_app
from stoa.access.encryption import Cipher
from stoa.access.grants import install, uninstall
from stoa.access.stores import resume_store, suspend_store
from stoa.db.pool import Database
from stoa.settings import Settings, secret_key
from stoa.webhooks.delivery.queries import SKIP_UNSUBSCRIBED
from stoa.webhooks.delivery.router import route_events
from stoa.webhooks.http.message import new_secret
from tests.support.receivers import Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, create_product, lane, log, subscribe, until, working


async def route(shop: Shop) -> None:
    """Route all unrouted events of this store."""
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass


async def routed_types(shop: Shop, hook: Subscribed) -> list[str]:
    await route(shop)
    return [entry["event_type"] for entry in await log(shop.db, hook.id)]


@pytest.mark.parametrize(
    ("patterns", "types"),
    [
        (["product.created"], ["product.created"]),
        (["product.*"], ["product.created", "product.updated"]),
        (["*"], ["product.created", "product.updated"]),
        (["order.*", "customer.created"], []),
    ],
)
async def test_a_subscription_receives_the_events_that_match_its_patterns(
    shop: Shop, patterns: list[str], types: list[str]
) -> None:
    await route(shop)
    hook = await subscribe(shop, "http://127.0.0.1:1/", *patterns)
    product = await create_product(shop)
    await shop.client.patch(f"/products/{product}", json={"name": "Cup"})
    assert await routed_types(shop, hook) == types


async def test_an_app_receives_only_events_that_its_current_scopes_allow(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.*")
    await install(shop.operator, shop.client_id, shop.store.handle, ["orders:read", "products:write"])
    await create_product(shop)
    assert await routed_types(shop, hook) == ["product.created"]
    await install(shop.operator, shop.client_id, shop.store.handle, ["orders:read"])
    await shop.add({"name": "Cup", "price": "1.00"})
    assert await routed_types(shop, hook) == ["product.created"]


async def test_a_pending_delivery_is_skipped_after_its_scope_is_revoked(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.*")
        await create_product(shop)
        await route(shop)
        await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:read"])
        async with working(settings):
            await until(lambda: _statuses(shop, hook, ["skipped"]), "the delivery is skipped")
        assert receiver.received == []
        [entry] = await log(shop.db, hook.id)
        assert entry["attempts"][-1]["error"] == "scope_not_granted"


async def _statuses(shop: Shop, hook: Subscribed, wanted: list[str]) -> bool:
    return [entry["status"] for entry in await log(shop.db, hook.id)] == wanted


async def test_skip_own_leaves_out_the_changes_of_the_app_itself(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created", skip_own=True)
    await create_product(shop)
    other = await create_app(shop.operator, "Other", ["products:write"])
    await install(shop.operator, other.client_id, shop.store.handle)
    client = await shop.client_with(["products:write"])
    await client.post("/products", json={"name": "Cup", "price": "1.00"})
    await client.aclose()
    assert await routed_types(shop, hook) == ["product.created"]


async def test_a_filter_routes_only_matching_documents(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created", filter='{"price[gte]":"10.00"}')
    for price in ("9.99", "10.00", "12.50"):
        await shop.client.post("/products", json={"name": "Mug", "price": price})
    assert await routed_types(shop, hook) == ["product.created"] * 2
    assert [entry["sequence"] for entry in await log(shop.db, hook.id)] == [1, 2]


async def test_app_and_webhook_events_go_only_to_the_app_they_are_about(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "app.*", "webhook.*")
    await route(shop)
    before = len(await log(shop.db, hook.id))
    other = await create_app(shop.operator, "Other", ["webhooks:read"])
    await install(shop.operator, other.client_id, shop.store.handle)
    assert len(await routed_types(shop, hook)) == before
    await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:read"])
    assert (await routed_types(shop, hook))[before:] == ["app.scopes_changed"]


async def test_another_store_receives_nothing(shop: Shop, other_shop: Shop) -> None:
    other_hook = await subscribe(other_shop, "http://127.0.0.1:1/", "*")
    await route(other_shop)
    before = len(await log(shop.db, other_hook.id))
    await create_product(shop)
    await route(shop)
    assert len(await routed_types(other_shop, other_hook)) == before


async def test_a_thin_payload_omits_the_document_and_fields_narrow_it(shop: Shop, settings: Settings) -> None:
    async with Receiver() as thin, Receiver() as narrow, working(settings):
        await subscribe(shop, thin.url, "product.created", payload="thin")
        await subscribe(shop, narrow.url, "product.created", fields=["price", "name", "color"])
        await create_product(shop, "Mug")
        [one], [other] = await thin.until(1), await narrow.until(1)
        assert "data" not in one.event
        assert other.event["data"] == {"name": "Mug", "price": "1.00"}
        assert one.event["id"] == other.event["id"]


async def test_both_secrets_sign_during_a_rotation(shop: Shop, settings: Settings) -> None:
    cipher, old = Cipher(secret_key(settings)), new_secret()
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await shop.db.execute(
            "UPDATE webhooks SET sealed_old_secret = $2, old_secret_expires_at = now() + interval '1 hour' WHERE id = $1",
            hook.id,
            cipher.encrypt(old, "webhooks", "secret", shop.store_id, hook.id),
        )
        await create_product(shop)
        [got] = await receiver.until(1)
        got.verify(old)
        got.verify(hook.secret)
        await shop.db.execute("UPDATE webhooks SET old_secret_expires_at = now() WHERE id = $1", hook.id)
        await create_product(shop)
        last = (await receiver.until(2))[-1]
        assert " " not in last.headers["webhook-signature"]


async def test_resource_ordering_delivers_the_events_of_one_resource_in_order(shop: Shop, settings: Settings) -> None:
    """Every third request fails; later events of the same product wait for its retry."""
    count = 0

    async def fail_every_third(request: Any, received: Any) -> Any:
        nonlocal count
        count += 1
        await asyncio.sleep(0.01 * (count % 2))
        return await answering(500 if count % 3 == 0 else 200)(request, received)

    no_breaker = msgspec.structs.replace(QUICK, breaker_failures=1000, breaker_window_min=1000, retries=(0.02,) * 20)
    async with Receiver(fail_every_third) as receiver, working(settings, no_breaker):
        hook = await subscribe(shop, receiver.url, "product.*", ordering="resource")
        products = [await create_product(shop, f"Mug {n}") for n in range(3)]
        for turn in range(6):
            for product in products:
                await shop.client.patch(f"/products/{product}", json={"name": f"Cup {product} {turn}"})
        await until(lambda: _statuses(shop, hook, ["succeeded"] * 21), "all deliveries succeeded")
        for product in products:
            versions = [event["resource"]["version"] for event in receiver.events if event["resource"]["id"] == product]
            assert versions == sorted(versions)
            assert set(versions) == set(range(1, 8))


async def test_a_paused_subscription_queues_events_and_sends_them_when_resumed(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created", status="paused")
        for n in range(3):
            await create_product(shop, f"Mug {n}")
        await until(lambda: _statuses(shop, hook, ["pending"] * 3), "all deliveries are pending")
        assert (await lane(shop.db, hook.id))["due_at"] is None
        async with shop.db.transaction() as db:
            await db.execute("UPDATE webhooks SET status = 'active' WHERE id = $1", hook.id)
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        await receiver.until(3)
        await until(lambda: _statuses(shop, hook, ["succeeded"] * 3), "all deliveries succeeded")


async def test_resuming_from_now_skips_pending_deliveries(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created", status="paused")
        await create_product(shop, "Old")
        await until(lambda: _statuses(shop, hook, ["pending"]), "the delivery is pending")
        async with shop.db.transaction() as db:
            await db.execute("UPDATE webhooks SET status = 'active', skip_before = now() WHERE id = $1", hook.id)
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        await create_product(shop, "New")
        await until(lambda: _statuses(shop, hook, ["skipped", "succeeded"]), "only the new event is sent")
        assert [event["data"]["name"] for event in receiver.events] == ["New"]


async def test_deliveries_of_a_pull_only_subscription_stay_pending(shop: Shop, settings: Settings) -> None:
    async with working(settings):
        hook = await subscribe(shop, None, "product.created")
        await create_product(shop)
        await until(lambda: _statuses(shop, hook, ["pending"]), "the delivery is pending")
        await asyncio.sleep(3 * QUICK.maintenance_every)  # the sweeper must not make it due
        assert await _statuses(shop, hook, ["pending"])


@pytest.mark.parametrize("suspended", ["store", "app"])
async def test_deliveries_of_a_suspended_store_or_app_wait_until_it_is_resumed(
    shop: Shop, settings: Settings, suspended: str
) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await route(shop)
        if suspended == "store":
            await suspend_store(shop.operator, shop.store.handle)
        else:
            await suspend_app(shop.operator, shop.client_id)
        async with working(settings):

            async def on_hold() -> bool:
                return (await lane(shop.db, hook.id))["hold_until"] is not None

            await until(on_hold, "the lane is on hold")
            assert receiver.received == []
            if suspended == "store":
                await resume_store(shop.operator, shop.store.handle)
            else:
                await resume_app(shop.operator, shop.client_id)
            await receiver.until(1)


async def test_the_last_event_of_an_uninstalled_app_is_its_uninstallation(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "*")
        await route(shop)
        await shop.db.execute("UPDATE lanes SET due_at = NULL, waiting = 0 WHERE webhook_id = $1", hook.id)
        await shop.db.execute("DELETE FROM pending_deliveries WHERE webhook_id = $1", hook.id)
        await create_product(shop)
        await uninstall(shop.operator, shop.client_id, shop.store.handle)
        async with working(settings):
            [last] = await receiver.until(1)
            assert last.verify(hook.secret)["type"] == "app.uninstalled"
            await shop.db.execute("UPDATE webhooks SET ended_at = now() - interval '1 hour' WHERE id = $1", hook.id)

            async def deleted() -> bool:
                return not await shop.db.fetch("SELECT 1 FROM webhooks WHERE id = $1", hook.id)

            await until(deleted, "the subscription is deleted")
        assert len(receiver.received) == 1


async def test_an_uninstallation_is_sent_in_order_although_an_earlier_event_of_the_app_waits_for_its_retry(
    shop: Shop, settings: Settings
) -> None:
    async with Receiver() as receiver:
        await route(shop)
        hook = await subscribe(shop, receiver.url, "app.*", ordering="resource")
        await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:read"])
        await route(shop)
        for table in ("pending_deliveries", "lanes"):
            later = "due_at = now() + interval '2 minutes'"
            await shop.db.execute(f"UPDATE {table} SET {later} WHERE webhook_id = $1", hook.id)
        await uninstall(shop.operator, shop.client_id, shop.store.handle)
        async with working(settings):
            [last] = await receiver.until(1)
        assert last.verify(hook.secret)["type"] == "app.uninstalled"


async def test_an_ended_subscription_receives_nothing_more(shop: Shop, settings: Settings, db: Database) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await route(shop)
        async with db.transaction() as connection:
            await connection.execute("UPDATE webhooks SET ended_at = now() - interval '1 hour' WHERE id = $1", hook.id)
            await connection.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        async with working(settings):

            async def deleted() -> bool:
                return not await db.fetch("SELECT 1 FROM lanes WHERE webhook_id = $1", hook.id)

            await until(deleted, "the lane is deleted")
        assert receiver.received == []


# --- stores without subscriptions -------------------------------------------------------------------------------------


async def unrouted(shop: Shop) -> int:
    [[count]] = await shop.db.fetch(
        "SELECT count(*) FROM events WHERE store_id = $1 AND routed_on = 'infinity'", shop.store_id
    )
    return count


async def skip_unsubscribed(shop: Shop) -> bool | None:
    """Skip events of stores without subscriptions; returns whether this store has one, None if it had no events."""
    subscribed: bool | None = None
    while found := await SKIP_UNSUBSCRIBED.all(shop.db, 10_000):
        subscribed = next((each.subscribed for each in found if each.store_id == shop.store_id), subscribed)
        if all(each.subscribed for each in found):
            break
    return subscribed


async def test_events_of_a_store_without_subscriptions_are_skipped(shop: Shop) -> None:
    await create_product(shop)
    assert await skip_unsubscribed(shop) is False
    assert await unrouted(shop) == 0
    hook = await subscribe(shop, "http://127.0.0.1:1/")
    assert await routed_types(shop, hook) == []


async def test_events_of_a_store_with_a_subscription_are_not_skipped(shop: Shop) -> None:
    await skip_unsubscribed(shop)
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.*")
    await create_product(shop)
    assert await skip_unsubscribed(shop) is True
    assert await routed_types(shop, hook) == ["product.created"]


async def test_an_uninstallation_is_routed_in_a_store_without_subscriptions(shop: Shop) -> None:
    await skip_unsubscribed(shop)
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    assert await skip_unsubscribed(shop) is True
    await route(shop)
    assert await unrouted(shop) == 0


async def test_the_router_reports_stores_without_subscriptions(shop: Shop) -> None:
    await create_product(shop)
    routed = await route_events(shop.db, [shop.store_id % 64], batch=10_000)
    assert shop.store_id in routed.unsubscribed
    await subscribe(shop, "http://127.0.0.1:1/")
    await create_product(shop)
    assert shop.store_id not in (await route_events(shop.db, [shop.store_id % 64], batch=10_000)).unsubscribed


async def test_the_first_subscription_of_a_store_receives_the_events_that_follow_it(
    shop: Shop, settings: Settings
) -> None:
    async with Receiver() as receiver, working(settings):
        for n in range(3):
            await create_product(shop, f"Before {n}")

        async def skipped() -> bool:
            return await unrouted(shop) == 0

        await until(skipped, "the events without subscriptions are skipped")
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop, "After")
        [got] = await receiver.until(1)
        event = got.verify(hook.secret)
        assert (event["sequence"], event["data"]["name"]) == (1, "After")
