"""What an app developer expects of app subscriptions when stores uninstall, reinstall, change scopes, or refuse events."""

import asyncio

import pytest
from aiohttp import web

from stoa.access.apps import change_app, delete_app
from stoa.access.contract import AppDeleted, NewSecret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import Settings
from stoa.webhooks.app_subscription_rollout import apply_app_subscriptions
from stoa.webhooks.app_subscriptions import declare, declared_by, remove
from tests.support.races import until_it_waits
from tests.support.receivers import Received, Receiver, answering
from tests.support.shops import Shop, open_shop
from tests.webhooks.test_app_subscriptions import SCOPES, app, at, by, copies, declaration, receiver
from tests.webhooks.workers import create_product, log, until, working

__all__ = ["app", "by", "receiver"]


async def test_a_reinstall_brings_the_current_settings_not_those_at_the_uninstall(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    await uninstall(by, app.client_id, shop.store.handle)
    await declare(by, app.client_id, at(receiver, changed=["price"], events=["product.*"]))
    await apply_app_subscriptions(db)
    assert (await declaration(db, app)).stores == 0
    await install(by, app.client_id, shop.store.handle)
    [copy] = await copies(db, app)
    assert (copy["events"], copy["changed"]) == (["product.*"], ["price"])
    found = await declaration(db, app)
    assert (found.current_stores, found.stores, found.applied) == (1, 1, True)


async def test_a_declaration_that_is_removed_meanwhile_does_not_come_back(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver))
    await install(by, app.client_id, shop.store.handle)
    await uninstall(by, app.client_id, shop.store.handle)
    await remove(by, app.client_id, "prices")
    await install(by, app.client_id, shop.store.handle)  # before the removal has reached any store
    assert await copies(db, app) == []
    await apply_app_subscriptions(db)
    assert (await copies(db, app), await declared_by(db, app.app_id)) == ([], [])


async def test_an_app_that_is_deleted_meanwhile_declares_nothing(
    app: NewSecret, by: Operator, receiver: Receiver, db: Database
) -> None:
    async with by.transaction() as first:
        await delete_app(first, app.client_id)
        late = asyncio.create_task(declare(by, app.client_id, at(receiver)))
        await until_it_waits(late, db)
    with pytest.raises(AppDeleted):
        await late
    assert await declared_by(db, app.app_id) == []


async def test_what_waits_at_an_uninstall_is_not_sent_and_not_sent_after_a_reinstall(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    receiver.behave = answering(503)
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    [first] = await copies(db, app)
    async with working(settings):
        await create_product(shop, "Waiting")
        await receiver.until(1)
        await uninstall(by, app.client_id, shop.store.handle)

        async def ended() -> bool:
            rows = await db.fetch("SELECT 1 FROM webhooks WHERE id = $1 AND ended_at IS NULL", first["id"])
            return not rows

        await until(ended, "the router ends the subscription")
        receiver.behave = answering(200)
        await install(by, app.client_id, shop.store.handle)
        await create_product(shop, "New")

        [second] = await copies(db, app)

        async def sent() -> list[str]:
            entries = await log(db, second["id"])
            return [each["status"] for each in entries if each["status"] != "pending"]

        assert await until(sent, "the new event is recorded as sent") == ["succeeded"]
        assert len(await log(db, second["id"])) == 1  # what waited is not in it, not even as pending
        assert receiver.events[-1]["data"]["name"] == "New"


async def test_a_store_that_takes_a_scope_back_sends_no_more_of_its_events(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["*"]))
    await install(by, app.client_id, shop.store.handle)
    order = {"status": "draft", "line_items": [{"name": "A", "quantity": 1, "unit_price": "1.00"}]}
    async with working(settings):
        await create_product(shop, "Before")
        await receiver.until(1)
        await install(by, app.client_id, shop.store.handle, ["orders:read"])
        await create_product(shop, "Hidden")
        await shop.client.post("/orders", json=order)

        async def arrived() -> bool:
            return any(each["type"] == "order.created" for each in receiver.events)

        await until(arrived, "the order arrives")
    products = [each["data"]["name"] for each in receiver.events if each["type"] == "product.created"]
    assert products == ["Before"]
    assert [each["status"] for each in await copies(db, app)] == ["active"]  # the declaration is not at fault


async def test_a_scope_that_the_app_no_longer_requests_stays_granted_until_a_store_takes_it_back(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    await install(by, app.client_id, shop.store.handle)
    await change_app(by, app.client_id, "Prices", ["orders:read"])
    async with working(settings):
        await create_product(shop)
        await receiver.until(1)
    assert receiver.events[0]["type"] == "product.created"


async def test_one_store_that_is_refused_does_not_stop_the_others(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings, db: Database
) -> None:
    """The receiver refuses one store with 410, which ends sending there, and there alone."""
    other = await open_shop(shop.application, db)
    await declare(by, app.client_id, at(receiver, changed=[], events=["product.created"]))
    for each in (shop, other):
        await install(by, app.client_id, each.store.handle, SCOPES)
    refused = str(shop.store_id)

    async def behave(request: web.Request, received: Received) -> web.StreamResponse:
        status = 410 if received.headers.get("webhook-store") == refused else 200
        return await answering(status)(request, received)

    receiver.behave = behave
    async with working(settings):
        await create_product(shop, "Refused")
        await create_product(other, "Accepted")

        async def settled() -> bool:
            found = await declaration(db, app)
            return found.disabled_stores == 1 and any(
                each["data"]["name"] == "Accepted" for each in receiver.events if each["type"] == "product.created"
            )

        await until(settled, "one store is disabled, the other one receives")
    states = {each["store_id"]: each["status"] for each in await copies(db, app)}
    assert states == {shop.store_id: "disabled", other.store_id: "active"}
    await other.client.aclose()
