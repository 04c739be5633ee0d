"""Who hears of what, in which order and form; and how pausing, ending and suspending are kept."""

import asyncio
from typing import Any

import msgspec
import pytest

from stoa.access.apps import create_app, resume_app, suspend_app
from stoa.access.grants import install, uninstall
from stoa.access.sealing import Sealer
from stoa.access.stores import resume_store, suspend_store
from stoa.db.pool import Database
from stoa.settings import Settings, secret_key
from stoa.webhooks.delivery.queries import SKIP_UNSUBSCRIBED
from stoa.webhooks.delivery.router import route_events
from stoa.webhooks.http.signing import new_secret
from tests.support.receivers import Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, add_note, lane, log, subscribe, until, working


async def route(shop: Shop) -> None:
    """Route all that waits for this store."""
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass


async def heard(shop: Shop, hook: Subscribed) -> list[str]:
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
async def test_a_subscription_hears_what_its_patterns_name(shop: Shop, patterns: list[str], types: list[str]) -> None:
    await route(shop)
    hook = await subscribe(shop, "http://127.0.0.1:1/", *patterns)
    product = await add_note(shop)
    await shop.client.patch(f"/products/{product}", json={"name": "Cup"})
    assert await heard(shop, hook) == types


async def test_an_app_hears_only_what_its_scopes_let_it_see_now(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.*")
    await install(shop.operator, shop.client_id, shop.store.handle, ["orders:read", "products:write"])
    await add_note(shop)
    assert await heard(shop, hook) == ["product.created"]
    await install(shop.operator, shop.client_id, shop.store.handle, ["orders:read"])
    await shop.add({"name": "Cup", "price": "1.00"})
    assert await heard(shop, hook) == ["product.created"]


async def test_what_waits_is_not_sent_once_the_scope_is_taken_away(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.*")
        await add_note(shop)
        await route(shop)
        await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:read"])
        async with working(settings):
            await until(lambda: _statuses(shop, hook, ["skipped"]), "the delivery is skipped")
        assert receiver.received == []
        [entry] = await log(shop.db, hook.id)
        assert entry["attempts"][-1]["error"] == "scope_not_granted"


async def _statuses(shop: Shop, hook: Subscribed, wanted: list[str]) -> bool:
    return [entry["status"] for entry in await log(shop.db, hook.id)] == wanted


async def test_an_app_need_not_hear_of_its_own_changes(shop: Shop) -> None:
    deaf = await subscribe(shop, "http://127.0.0.1:1/", "product.created", skip_own=True)
    await add_note(shop)
    other = await create_app(shop.operator, "Other", ["products:write"])
    await install(shop.operator, other.client_id, shop.store.handle)
    client = await shop.client_with(["products:write"])
    await client.post("/products", json={"name": "Cup", "price": "1.00"})
    await client.aclose()
    assert await heard(shop, deaf) == ["product.created"]


async def test_a_filter_lets_only_matching_documents_through(shop: Shop) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created", filter='{"price[gte]":"10.00"}')
    for price in ("9.99", "10.00", "12.50"):
        await shop.client.post("/products", json={"name": "Mug", "price": price})
    assert await heard(shop, hook) == ["product.created"] * 2
    assert [entry["sequence"] for entry in await log(shop.db, hook.id)] == [1, 2]


async def test_of_an_app_and_its_subscriptions_only_that_app_hears(shop: Shop) -> None:
    mine = await subscribe(shop, "http://127.0.0.1:1/", "app.*", "webhook.*")
    await route(shop)
    before = len(await log(shop.db, mine.id))
    other = await create_app(shop.operator, "Other", ["webhooks:read"])
    await install(shop.operator, other.client_id, shop.store.handle)
    assert len(await heard(shop, mine)) == before
    await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:read"])
    assert (await heard(shop, mine))[before:] == ["app.scopes_changed"]


async def test_another_store_hears_nothing(shop: Shop, other_shop: Shop) -> None:
    foreign = await subscribe(other_shop, "http://127.0.0.1:1/", "*")
    await route(other_shop)
    before = len(await log(shop.db, foreign.id))
    await add_note(shop)
    await route(shop)
    assert len(await heard(other_shop, foreign)) == before


async def test_a_thin_payload_leaves_the_document_out(shop: Shop, settings: Settings) -> None:
    async with Receiver() as thin, Receiver() as narrow, working(settings):
        await subscribe(shop, thin.url, "product.created", payload="thin")
        await subscribe(shop, narrow.url, "product.created", fields=["price", "name", "colour"])
        await add_note(shop, "Mug")
        [one], [other] = await thin.until(1), await narrow.until(1)
        assert "data" not in one.event
        assert other.event["data"] == {"name": "Mug", "price": "1.00"}
        assert one.event["id"] == other.event["id"]


async def test_while_secrets_rotate_both_sign(shop: Shop, settings: Settings) -> None:
    sealer, old = Sealer(secret_key(settings)), new_secret()
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await shop.db.execute(
            "UPDATE webhooks SET sealed_old_secret = $2, old_secret_expires_at = now() + interval '1 hour' WHERE id = $1",
            hook.id,
            sealer.seal(old, "webhooks", "secret", shop.store_id, hook.id),
        )
        await add_note(shop)
        [got] = await receiver.until(1)
        got.verify(old)
        got.verify(hook.secret)
        await shop.db.execute("UPDATE webhooks SET old_secret_expires_at = now() WHERE id = $1", hook.id)
        await add_note(shop)
        last = (await receiver.until(2))[-1]
        assert " " not in last.headers["webhook-signature"]


async def test_what_happens_to_one_resource_arrives_in_order_where_asked(shop: Shop, settings: Settings) -> None:
    """Every third request fails; what comes later of the same product waits for it."""
    count = 0

    async def stumble(request: Any, received: Any) -> Any:
        nonlocal count
        count += 1
        await asyncio.sleep(0.01 * (count % 2))
        return await answering(500 if count % 3 == 0 else 200)(request, received)

    calm = msgspec.structs.replace(QUICK, breaker_failures=1000, breaker_window_min=1000, retries=(0.02,) * 20)
    async with Receiver(stumble) as receiver, working(settings, calm):
        hook = await subscribe(shop, receiver.url, "product.*", ordering="resource")
        products = [await add_note(shop, f"Mug {n}") for n in range(3)]
        for turn in range(6):
            for product in products:
                await shop.client.patch(f"/products/{product}", json={"name": f"Cup {product} {turn}"})
        await until(lambda: _statuses(shop, hook, ["succeeded"] * 21), "all have arrived")
        for product in products:
            versions = [event["resource"]["version"] for event in receiver.events if event["resource"]["id"] == product]
            assert versions == sorted(versions)
            assert set(versions) == set(range(1, 8))


async def test_a_paused_subscription_queues_and_a_resumed_one_goes_on(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created", status="paused")
        for n in range(3):
            await add_note(shop, f"Mug {n}")
        await until(lambda: _statuses(shop, hook, ["pending"] * 3), "all wait")
        assert (await lane(shop.db, hook.id))["due_at"] is None
        async with shop.db.transaction() as db:
            await db.execute("UPDATE webhooks SET status = 'active' WHERE id = $1", hook.id)
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        await receiver.until(3)
        await until(lambda: _statuses(shop, hook, ["succeeded"] * 3), "all arrived")


async def test_resuming_now_skips_what_waited(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created", status="paused")
        await add_note(shop, "Old")
        await until(lambda: _statuses(shop, hook, ["pending"]), "it waits")
        async with shop.db.transaction() as db:
            await db.execute(
                "UPDATE webhooks SET status = 'active', skip_before = clock_timestamp() WHERE id = $1", hook.id
            )
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        await add_note(shop, "New")
        await until(lambda: _statuses(shop, hook, ["skipped", "succeeded"]), "only the new one is sent")
        assert [event["data"]["name"] for event in receiver.events] == ["New"]


async def test_what_is_only_pulled_is_kept_and_never_sent(shop: Shop, settings: Settings) -> None:
    async with working(settings):
        hook = await subscribe(shop, None, "product.created")
        await add_note(shop)
        await until(lambda: _statuses(shop, hook, ["pending"]), "it waits")
        await asyncio.sleep(3 * QUICK.maintenance_every)  # the sweeper leaves it alone
        assert await _statuses(shop, hook, ["pending"])


@pytest.mark.parametrize("who", ["store", "app"])
async def test_whoever_is_suspended_hears_later(shop: Shop, settings: Settings, who: str) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await route(shop)
        if who == "store":
            await suspend_store(shop.operator, shop.store.handle)
        else:
            await suspend_app(shop.operator, shop.client_id)
        async with working(settings):

            async def held() -> bool:
                return (await lane(shop.db, hook.id))["hold_until"] is not None

            await until(held, "the lane is held")
            assert receiver.received == []
            if who == "store":
                await resume_store(shop.operator, shop.store.handle)
            else:
                await resume_app(shop.operator, shop.client_id)
            await receiver.until(1)


async def test_an_app_that_is_uninstalled_hears_of_that_last(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "*")
        await route(shop)
        await shop.db.execute("UPDATE lanes SET due_at = NULL, waiting = 0 WHERE webhook_id = $1", hook.id)
        await shop.db.execute("DELETE FROM pending_deliveries WHERE webhook_id = $1", hook.id)
        await add_note(shop)
        await uninstall(shop.operator, shop.client_id, shop.store.handle)
        async with working(settings):
            [last] = await receiver.until(1)
            assert last.verify(hook.secret)["type"] == "app.uninstalled"
            await shop.db.execute("UPDATE webhooks SET ended_at = now() - interval '1 hour' WHERE id = $1", hook.id)

            async def gone() -> bool:
                return not await shop.db.fetch("SELECT 1 FROM webhooks WHERE id = $1", hook.id)

            await until(gone, "the subscription is cleared away")
        assert len(receiver.received) == 1


async def test_an_ended_subscription_is_sent_nothing_more(shop: Shop, settings: Settings, db: Database) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await route(shop)
        async with db.transaction() as connection:
            await connection.execute("UPDATE webhooks SET ended_at = now() - interval '1 hour' WHERE id = $1", hook.id)
            await connection.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        async with working(settings):

            async def gone() -> bool:
                return not await db.fetch("SELECT 1 FROM lanes WHERE webhook_id = $1", hook.id)

            await until(gone, "the lane is cleared away")
        assert receiver.received == []


# --- where nobody listens ---------------------------------------------------------------------------------------------


async def waiting(shop: Shop) -> int:
    [[count]] = await shop.db.fetch(
        "SELECT count(*) FROM events WHERE store_id = $1 AND routed_on = 'infinity'", shop.store_id
    )
    return count


async def looked_over(shop: Shop) -> bool | None:
    """Look over all that waits; says whether somebody listens in this store, None when nothing waited there."""
    told: bool | None = None
    while found := await SKIP_UNSUBSCRIBED.all(shop.db, 10_000):
        told = next((each.subscribed for each in found if each.store_id == shop.store_id), told)
        if all(each.subscribed for each in found):
            break
    return told


async def test_events_that_nobody_hears_are_passed_over_unread(shop: Shop) -> None:
    await add_note(shop)
    assert await looked_over(shop) is False
    assert await waiting(shop) == 0
    hook = await subscribe(shop, "http://127.0.0.1:1/")
    assert await heard(shop, hook) == []


async def test_events_that_somebody_hears_are_not_passed_over(shop: Shop) -> None:
    await looked_over(shop)
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.*")
    await add_note(shop)
    assert await looked_over(shop) is True
    assert await heard(shop, hook) == ["product.created"]


async def test_an_end_is_told_although_nobody_listens(shop: Shop) -> None:
    await looked_over(shop)
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    assert await looked_over(shop) is True
    await route(shop)
    assert await waiting(shop) == 0


async def test_stores_without_listeners_are_named_by_the_router_too(shop: Shop) -> None:
    await add_note(shop)
    routed = await route_events(shop.db, [shop.store_id % 64], batch=10_000)
    assert shop.store_id in routed.unsubscribed
    await subscribe(shop, "http://127.0.0.1:1/")
    await add_note(shop)
    assert shop.store_id not in (await route_events(shop.db, [shop.store_id % 64], batch=10_000)).unsubscribed


async def test_whoever_subscribes_where_nobody_listened_hears_what_happens_next(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        for n in range(3):
            await add_note(shop, f"Unheard {n}")

        async def passed_over() -> bool:
            return await waiting(shop) == 0

        await until(passed_over, "what nobody hears is passed over")
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop, "Heard")
        [got] = await receiver.until(1)
        event = got.verify(hook.secret)
        assert (event["sequence"], event["data"]["name"]) == (1, "Heard")
