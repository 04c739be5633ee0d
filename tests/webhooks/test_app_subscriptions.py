"""Subscriptions that an app declares once for all stores: at the installation, in the background, signed, and on each store."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from stoa.access.apps import create_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.rest.problems import ValidationFailed
from stoa.settings import Settings
from stoa.webhooks import app_subscriptions
from stoa.webhooks.app_callbacks import rotate_signing_secret
from stoa.webhooks.app_subscription_rollout import apply_app_subscriptions
from stoa.webhooks.app_subscriptions import (
    MAX_DECLARED,
    AppSubscription,
    Declared,
    NoSuchDeclaration,
    TooManyDeclarations,
    declare,
    declared_by,
    remove,
    resume,
    set_on_store,
)
from stoa_client.webhooks import SignatureRefused, store_of, verify
from tests.support.receivers import Receiver, answering
from tests.support.shops import Shop, api_client, operator_of, token_for
from tests.webhooks.workers import create_product, log, until, with_loopback, working

SCOPES = ["products:read", "orders:read", "webhooks:write"]
PRICES = AppSubscription("prices", ["product.*"], "https://app.example.com/hooks", changed=["price"])


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as opened:
        yield opened


@pytest.fixture
def by(db: Database, settings: Settings) -> Operator:
    return operator_of(db, with_loopback(settings))


@pytest.fixture
async def app(by: Operator) -> NewSecret:
    return await create_app(by, "Prices", SCOPES)


def at(receiver: Receiver, **more: Any) -> AppSubscription:
    return msgspec.structs.replace(PRICES, url=receiver.url, **more)


async def copies(db: Database, app: NewSecret) -> list[dict[str, Any]]:
    """The managed subscriptions of an app on all stores, by store."""
    rows = await db.fetch(
        """SELECT store_id, id, name, url, events, changed, status, managed_revision FROM webhooks
            WHERE app_id = $1 AND managed_by IS NOT NULL AND ended_at IS NULL ORDER BY store_id, id""",
        app.app_id,
    )
    return [dict(row) for row in rows]


async def declaration(db: Database, app: NewSecret, name: str = "prices") -> Declared:
    return next(each for each in await declared_by(db, app.app_id) if each.name == name)


async def app_client(shop: Shop, app: NewSecret) -> Any:
    token = await token_for(shop.service, app.client_id, app.client_secret)
    return api_client(shop.application, shop.store.handle, token)


# --- on stores --------------------------------------------------------------------------------------------------------


async def test_an_installation_gets_the_declared_subscriptions_at_once(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    _, secret = await declare(by, app.client_id, PRICES)
    assert secret is not None
    await install(by, app.client_id, shop.store.handle)
    [copy] = await copies(db, app)
    assert (copy["store_id"], copy["name"], copy["events"], copy["changed"]) == (
        shop.store_id, "prices", ["product.*"], ["price"],
    )  # fmt: skip
    await install(by, app.client_id, other_shop.store.handle)
    assert len(await copies(db, app)) == 2
    await install(by, app.client_id, shop.store.handle, SCOPES[:2])  # other scopes, the same installation
    assert len(await copies(db, app)) == 2


async def test_an_installation_that_fails_leaves_no_subscription(
    shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    await declare(by, app.client_id, PRICES)

    async def fail() -> None:
        async with by.transaction() as joined:
            await install(joined, app.client_id, shop.store.handle)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await copies(db, app) == []


async def test_changes_reach_every_store_in_the_background(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    for each in (shop, other_shop):
        await install(by, app.client_id, each.store.handle)
    await declare(by, app.client_id, PRICES)
    assert await copies(db, app) == []
    assert not (await declaration(db, app)).applied
    await apply_app_subscriptions(db)
    found = await declaration(db, app)
    assert (found.applied, found.current_stores, found.stores, found.failed_stores) == (True, 2, 2, 0)
    changed = msgspec.structs.replace(PRICES, events=["product.updated"], changed=["name"], rate_per_s=5)
    _, secret = await declare(by, app.client_id, changed)
    assert secret is None
    assert (await declaration(db, app)).current_stores == 0
    await apply_app_subscriptions(db)
    assert [(each["events"], each["changed"]) for each in await copies(db, app)] == [
        (["product.updated"], ["name"])
    ] * 2
    revision = (await declaration(db, app)).revision
    await declare(by, app.client_id, changed)  # nothing changed
    assert (await declaration(db, app)).revision == revision
    await remove(by, app.client_id, "prices")
    await apply_app_subscriptions(db)
    assert await copies(db, app) == []
    assert await declared_by(db, app.app_id) == []


async def test_the_rollout_continues_after_its_last_committed_batch(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    for each in (shop, other_shop):
        await install(by, app.client_id, each.store.handle)
    await declare(by, app.client_id, PRICES)
    assert (await db.fetch("SELECT apply_app_subscriptions(1, '30 s')"))[0][0] == 1
    [first] = await copies(db, app)
    found = await declaration(db, app)
    assert (found.applied, found.current_stores) == (False, 1)

    async def die() -> None:
        async with db.transaction() as connection:
            await connection.fetch("SELECT apply_app_subscriptions(1, '30 s')")
            raise RuntimeError

    with pytest.raises(RuntimeError):  # a worker dies within its batch
        await die()
    assert len(await copies(db, app)) == 1
    await apply_app_subscriptions(db, batch=1)
    both = await copies(db, app)
    assert both[0] == first
    assert len(both) == 2
    assert (await declaration(db, app)).applied


async def test_several_workers_share_the_rollout(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    for each in (shop, other_shop):
        await install(by, app.client_id, each.store.handle)
    for number in range(4):
        await declare(by, app.client_id, msgspec.structs.replace(PRICES, name=f"prices {number}"))
    await asyncio.gather(*(apply_app_subscriptions(db, batch=1) for _ in range(4)))
    await apply_app_subscriptions(db)
    assert len(await copies(db, app)) == 8
    assert all(each.applied for each in await declared_by(db, app.app_id))


@pytest.mark.not_on_cluster("the lock timeout of the coordinator is not known on workers")
async def test_a_store_that_fails_is_shown_and_tried_again(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, db: Database
) -> None:
    for each in (shop, other_shop):
        await install(by, app.client_id, each.store.handle)
    await declare(by, app.client_id, PRICES)
    await apply_app_subscriptions(db)
    await declare(by, app.client_id, msgspec.structs.replace(PRICES, changed=["name"]))
    async with db.transaction() as locking:
        lock = "SELECT id FROM webhooks WHERE store_id = $1 AND app_id = $2 AND managed_by IS NOT NULL FOR UPDATE"
        await locking.fetch(lock, shop.store_id, app.app_id)
        await apply_app_subscriptions(db)
        found = await declaration(db, app)
        assert (found.applied, found.current_stores, found.failed_stores) == (True, 1, 1)
        [failed] = await app_subscriptions.FAILED.all(db, found.id)
        assert (failed.handle, failed.error) == (shop.store.handle, "55P03")
    # A store that has left meanwhile has nothing to be tried again for, until it is back.
    await db.execute("INSERT INTO store_residence (store_id, here) VALUES ($1, false)", shop.store_id)
    try:
        async with asyncio.timeout(20):
            assert await apply_app_subscriptions(db, retry_s=0) == 0
    finally:
        await db.execute("DELETE FROM store_residence WHERE store_id = $1", shop.store_id)
    await apply_app_subscriptions(db, retry_s=0)
    found = await declaration(db, app)
    assert (found.current_stores, found.failed_stores) == (2, 0)


async def test_an_uninstall_ends_it_and_a_reinstall_brings_it_back(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    _, secret = await declare(by, app.client_id, at(receiver, changed=[]))
    assert secret is not None
    handle = shop.store.handle
    async with working(settings):
        await install(by, app.client_id, handle)
        [first] = await copies(db, app)
        await uninstall(by, app.client_id, handle)
        await create_product(shop, "Nobody's mug")

        async def routed() -> bool:  # a new subscription may receive what is not routed yet
            waiting = "SELECT count(*) FROM events WHERE store_id = $1 AND routed_on = 'infinity'"
            return (await db.fetch(waiting, shop.store_id))[0][0] == 0

        await until(routed, "all events are routed")
        await install(by, app.client_id, handle)
        [second] = await copies(db, app)
        assert second["id"] != first["id"]
        await create_product(shop, "Mug")
        await receiver.until(1)
        assert [each["data"]["name"] for each in receiver.events if each["type"] == "product.created"] == ["Mug"]


# --- deliveries -------------------------------------------------------------------------------------------------------


async def test_one_secret_verifies_the_deliveries_of_all_stores_and_names_them(
    shop: Shop, other_shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    _, secret = await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    assert secret is not None
    for each in (shop, other_shop):
        await install(by, app.client_id, each.store.handle)
    async with working(settings):
        await create_product(shop)
        await create_product(other_shop)
        await receiver.until(2)
    found: set[int] = set()
    for got in receiver.received:
        assert got.verify(secret)["type"] == "product.created"  # the reference library ignores the further signature
        event = verify(got.body, got.headers, secret)
        assert event.store is not None
        assert store_of(got.headers, secret) == event.store.id == int(got.headers["webhook-store"])
        found.add(event.store.id)
        for wrong in ({"webhook-store": "1"}, {"webhook-id": "evt_other"}):
            with pytest.raises(SignatureRefused):
                store_of({**got.headers, **wrong}, secret)
        with pytest.raises(SignatureRefused):
            verify(got.body, {**got.headers, "webhook-store": "1"}, secret)
        plain = got.headers["webhook-signature"].split(" ")[0]
        with pytest.raises(SignatureRefused):
            verify(got.body, {**got.headers, "webhook-signature": plain}, secret)
    assert found == {shop.store_id, other_shop.store_id}


async def test_two_secrets_sign_after_a_rotation(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    _, old = await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    rotated = await rotate_signing_secret(by, app.client_id, grace_hours=1)
    assert old is not None
    assert rotated.signing_secret is not None
    async with working(settings):
        await create_product(shop)
        await receiver.until(1)
        for secret in (old, rotated.signing_secret):
            assert verify(receiver.received[0].body, receiver.received[0].headers, secret).store is not None
        last = await rotate_signing_secret(by, app.client_id, grace_hours=0, force=True)
        assert last.signing_secret is not None
        await create_product(shop, "Cup")
        await receiver.until(2)
        got = receiver.received[1]
        assert store_of(got.headers, last.signing_secret) == shop.store_id
        for secret in (old, rotated.signing_secret):
            with pytest.raises(SignatureRefused):
                verify(got.body, got.headers, secret)


async def test_the_scopes_of_an_installation_bound_what_is_sent(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["*"]))
    await install(by, app.client_id, shop.store.handle, ["orders:read"])
    async with working(settings):
        await create_product(shop)
        await shop.client.post(
            "/orders", json={"status": "draft", "line_items": [{"name": "A", "quantity": 1, "unit_price": "1.00"}]}
        )
        await receiver.until(1)
        assert {each["type"] for each in receiver.events} == {"order.created"}
        await install(by, app.client_id, shop.store.handle, SCOPES)
        await create_product(shop, "Cup")

        async def arrived() -> bool:
            return any(each["type"] == "product.created" for each in receiver.events)

        await until(arrived, "a product arrives")
    assert [each["data"]["name"] for each in receiver.events if each["type"] == "product.created"] == ["Cup"]


async def test_a_store_that_pauses_it_keeps_the_events_through_changes_of_the_declaration(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    [copy] = await copies(db, app)
    await set_on_store(by, shop.store_id, app.app_id, copy["id"], paused=True)
    async with working(settings):
        await create_product(shop)
        await declare(by, app.client_id, at(receiver, changed=[], events=["product.*"]))
        await apply_app_subscriptions(db)

        async def routed() -> bool:
            return len(await log(db, copy["id"])) == 1

        await until(routed, "the event is kept")
        assert receiver.received == []
        assert (await declaration(db, app)).paused_stores == 1
        await set_on_store(by, shop.store_id, app.app_id, copy["id"], paused=False)
        await receiver.until(1)
    audited = await db.fetch(
        "SELECT detail FROM audit_entries WHERE store_id = $1 AND action = 'webhook.changed' ORDER BY position",
        shop.store_id,
    )
    assert [msgspec.json.decode(row[0])["status"] for row in audited] == ["paused", "active"]


async def test_a_disabled_store_is_sent_to_again_after_a_resume_at_the_app(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    receiver.behave = answering(410)
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)

    async def disabled() -> bool:
        return [each["status"] for each in await copies(db, app)] == ["disabled"]

    async with working(settings):
        await create_product(shop)
        await until(disabled, "the subscription is disabled")
        assert (await declaration(db, app)).disabled_stores == 1
        receiver.behave = answering(200)
        sent = len(receiver.received)
        await resume(by, app.client_id, "prices")
        await apply_app_subscriptions(db)
        await receiver.until(sent + 1)
    assert (await declaration(db, app)).disabled_stores == 0


async def test_without_a_url_the_app_reads_the_feed_of_each_store(
    shop: Shop, by: Operator, app: NewSecret, settings: Settings
) -> None:
    await declare(by, app.client_id, AppSubscription("feed", ["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    async with await app_client(shop, app) as client, working(settings):
        [hook] = (await client.get("/webhooks")).json()["data"]
        assert hook["url"] is None
        await create_product(shop)
        path, query = f"/webhooks/{hook['id']}/deliveries", {"after": 0, "wait": 20}
        assert [each["event_type"] for each in (await client.get(path, params=query)).json()["data"]] == [
            "product.created"
        ]


# --- the API of a store -----------------------------------------------------------------------------------------------


async def test_on_a_store_it_is_listed_and_redelivered_but_not_changed(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    async with await app_client(shop, app) as client, working(settings):
        [hook] = (await client.get("/webhooks")).json()["data"]
        assert (hook["managed"], hook["name"], hook["events"]) == (True, "prices", ["product.created"])
        path = f"/webhooks/{hook['id']}"
        for answer in (
            await client.patch(path, json={"status": "paused"}),
            await client.delete(path),
            await client.post(f"{path}/rotate-secret"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "managed_subscription")
        await create_product(shop)
        await receiver.until(1)

        async def succeeded() -> bool:
            page = (await client.get(f"{path}/deliveries")).json()
            return [each["status"] for each in page["data"]] == ["succeeded"]

        await until(succeeded, "the delivery is logged")
        again = await client.post(f"{path}/redeliver", json={"status": "succeeded"})
        assert again.status_code == 202
        await receiver.until(2)
        fed = (await client.get(f"{path}/deliveries", params={"after": 0, "include": "payload"})).json()["data"]
        assert fed[0]["headers"]["webhook-store"] == str(shop.store_id)
        own = await client.post("/webhooks", json={"url": "https://hooks.example.com/a", "events": ["product.*"]})
        assert own.json()["data"]["managed"] is False


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"events": ["product.gone"]}, "/events/0", "unknown_event"),
        ({"events": ["customer.*"], "changed": []}, "/events/0", "insufficient_scope"),
        ({"changed": ["prise"]}, "/changed/0", "unknown_field"),
        ({"filter": {"price": "5.00"}}, "/filter/price", "invalid_format"),
        ({"url": "http://10.0.0.1/"}, "/url", "url_not_allowed"),
    ],
)
async def test_a_declaration_is_checked_like_a_subscription(
    by: Operator, app: NewSecret, db: Database, changes: dict[str, Any], pointer: str, code: str
) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        await declare(by, app.client_id, msgspec.structs.replace(PRICES, **changes))
    assert (pointer, code) in [(each.pointer, each.code) for each in refusal.value.faults]
    assert await declared_by(db, app.app_id) == []


async def test_ranges_of_amounts_are_allowed_for_all_currencies(by: Operator, app: NewSecret) -> None:
    declared, _ = await declare(by, app.client_id, msgspec.structs.replace(PRICES, filter={"price[gte]": "5"}))
    assert msgspec.json.decode(declared.filter) == {"price[gte]": "5"}


async def test_the_number_of_declarations_is_limited(by: Operator, app: NewSecret) -> None:
    for number in range(MAX_DECLARED):
        await declare(by, app.client_id, msgspec.structs.replace(PRICES, name=f"prices {number}"))
    with pytest.raises(TooManyDeclarations):
        await declare(by, app.client_id, PRICES)
    with pytest.raises(NoSuchDeclaration):
        await remove(by, app.client_id, "other")


async def test_declarations_are_audited(by: Operator, app: NewSecret, db: Database) -> None:
    await declare(by, app.client_id, PRICES)
    await declare(by, app.client_id, msgspec.structs.replace(PRICES, changed=[]))
    await resume(by, app.client_id, "prices")
    await remove(by, app.client_id, "prices")
    rows = await db.fetch(
        "SELECT action FROM service_audit_entries WHERE subject = $1 AND action LIKE 'app.subscription%' ORDER BY position",
        f"app:{app.app_id}",
    )
    assert [row[0] for row in rows] == [
        f"app.subscription_{each}" for each in ("declared", "changed", "resumed", "removed")
    ]
