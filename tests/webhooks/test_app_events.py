"""The endpoint of an app: its events from every store, by the pipeline of subscriptions."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from stoa.access.apps import create_app, delete_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.events.outbox import Event
from stoa.settings import Settings
from stoa.webhooks.app_callbacks import (
    Callbacks,
    InvalidEndpoint,
    InvalidReturnUrl,
    SigningRotationActive,
    TooManyReturnUrls,
    callbacks_of,
    resume_endpoint,
    rotate_signing_secret,
    set_callbacks,
)
from stoa.webhooks.delivery.router import SKIP_BATCH
from tests.support.receivers import Receiver, answering
from tests.support.shops import PERSON, Shop, operator_of
from tests.webhooks.workers import create_product, log, subscribe, until, with_loopback, working

SCOPES = ["products:read", "orders:read"]
EVENTS = ["app.installed", "app.uninstalled", "app.scopes_changed", "customer.erased"]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as opened:
        yield opened


@pytest.fixture
def by(db: Database, settings: Settings) -> Operator:
    return operator_of(db, with_loopback(settings))


@pytest.fixture
async def app(by: Operator) -> NewSecret:
    return await create_app(by, "Narrow app", [*SCOPES, "webhooks:write"])


async def endpoint_id(db: Database, store_id: int, app_id: int) -> int:
    [[found]] = await db.fetch(
        "SELECT id FROM webhooks WHERE store_id = $1 AND app_id = $2 AND of_app AND ended_at IS NULL", store_id, app_id
    )
    return found


async def settled(db: Database, webhook_id: int, count: int) -> list[dict[str, Any]]:
    """The delivery log, once this many deliveries have ended."""

    async def ended() -> list[dict[str, Any]]:
        found = await log(db, webhook_id)
        return found if len(found) >= count and all(each["status"] == "succeeded" for each in found) else []

    return await until(ended, "the deliveries end")


async def test_the_endpoint_receives_the_life_of_an_installation_signed_and_with_the_store(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    callbacks = await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    secret = callbacks.signing_secret
    assert secret is not None
    handle = shop.store.handle
    await install(by, app.client_id, handle, SCOPES)
    await install(by, app.client_id, handle, SCOPES[:1])
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]["id"]
    await create_product(shop)  # not an event of the endpoint
    assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
    async with working(settings):
        await receiver.until(3)
        # Subscriptions end with the installation; the endpoint does not.
        await uninstall(by, app.client_id, handle)
        received = await receiver.until(4)
        webhook_id = await endpoint_id(shop.db, shop.store_id, app.app_id)
        deliveries = await settled(shop.db, webhook_id, 4)
    events = [each.verify(secret) for each in received]
    by_type = {event["type"]: event for event in events}
    assert set(by_type) == set(EVENTS)
    about_app = [event["type"] for event in events if event["resource"]["type"] == "app"]
    assert about_app == ["app.installed", "app.scopes_changed", "app.uninstalled"]
    assert sorted(event["sequence"] for event in events) == [1, 2, 3, 4]
    assert [each["sequence"] for each in deliveries] == [1, 2, 3, 4]
    for event in events:
        assert event["store"] == {
            "id": shop.store_id,
            "handle": handle,
            "base_url": f"http://localhost:{settings.port}/stores/{handle}",
            "name": "A shop",
            "currency": "USD",
            "timezone": "UTC",
            "locale": "en-US",
        }
    assert by_type["app.installed"]["data"] == {"id": app.app_id, "name": "Narrow app", "scopes": SCOPES}
    assert by_type["app.scopes_changed"]["changes"] == {"scopes": [SCOPES, SCOPES[:1]]}
    # The app has no scope for customers, and gets the id alone.
    erased = by_type["customer.erased"]
    assert (erased["data"], erased["changes"]) == ({"id": customer}, {})
    assert erased["resource"]["url"] == f"/api/v3/app/customers/{customer}"
    assert PERSON["email"] not in msgspec.json.encode(events).decode()


async def test_an_uninstalled_app_receives_nothing_more_from_that_store(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    await install(by, app.client_id, shop.store.handle, SCOPES)
    await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    await uninstall(by, app.client_id, shop.store.handle)
    async with working(settings):
        await receiver.until(2)
        customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]["id"]
        await shop.client.delete(f"/customers/{customer}")

        async def routed() -> bool:
            waiting = "SELECT count(*) FROM events WHERE store_id = $1 AND routed_on = 'infinity'"
            return (await shop.db.fetch(waiting, shop.store_id))[0][0] == 0

        await until(routed, "the erasure is routed")
        await install(by, app.client_id, shop.store.handle, SCOPES)
        await receiver.until(3)
    types = [event["type"] for event in receiver.events]
    assert types == ["app.installed", "app.uninstalled", "app.installed"]


async def test_subscriptions_do_not_receive_what_is_for_endpoints(
    shop: Shop, receiver: Receiver, settings: Settings
) -> None:
    await subscribe(shop, receiver.url, "*")
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]["id"]
    await shop.client.delete(f"/customers/{customer}")
    await create_product(shop)
    async with working(settings):
        await receiver.until(3)
    types = [event["type"] for event in receiver.events if event["type"] != "app.installed"]
    assert sorted(types) == ["customer.created", "customer.deleted", "product.created"]
    assert all(set(event["store"]) == {"id", "handle", "base_url"} for event in receiver.events)
    refused = await shop.client.post("/webhooks", json={"events": ["customer.erased"]})
    assert refused.json()["errors"][0]["code"] == "unknown_event"
    available = (await shop.client.get("/webhooks")).json()["meta"]["available_events"]
    assert "customer.erased" not in [each["name"] for each in available]


async def test_the_store_api_does_not_show_the_endpoint(shop: Shop, by: Operator, receiver: Receiver) -> None:
    await set_callbacks(by, shop.client_id, endpoint_url=receiver.url, return_urls=[])
    webhook_id = await endpoint_id(shop.db, shop.store_id, shop.app_id)
    assert (await shop.client.get("/webhooks")).json()["data"] == []
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"url": "https://hooks.example.com/"}),
        ("DELETE", "", None),
        ("POST", "/rotate-secret", {}),
        ("POST", "/test", {}),
        ("GET", "/deliveries", None),
        ("POST", "/redeliver", {"since": "2026-01-01T00:00:00Z"}),
    ):
        answer = await shop.client.request(method, f"/webhooks/{webhook_id}{path}", json=body)
        assert answer.status_code == 404, f"{method} {path}: {answer.text}"


async def test_events_that_no_endpoint_receives_are_skipped_unread(
    shop: Shop, by: Operator, receiver: Receiver
) -> None:
    """A store whose only receiver is an endpoint costs the router no more than a store without one."""
    await set_callbacks(by, shop.client_id, endpoint_url=receiver.url, return_urls=[])
    await shop.db.execute(
        "UPDATE events SET routed_on = current_date WHERE store_id = $1 AND routed_on = 'infinity'", shop.store_id
    )
    await create_product(shop)
    rows = await shop.db.fetch(
        "SELECT subscribed, count FROM skip_unsubscribed_events(current_date, $1) WHERE store_id = $2",
        SKIP_BATCH,
        shop.store_id,
    )
    assert [tuple(row) for row in rows] == [(False, 1)]


async def test_a_rotation_signs_with_both_secrets_and_reaches_waiting_events(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    first = await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    await install(by, app.client_id, shop.store.handle)
    second = await rotate_signing_secret(by, app.client_id)
    with pytest.raises(SigningRotationActive):
        await rotate_signing_secret(by, app.client_id)
    async with working(settings):
        [received] = await receiver.until(1)
        assert received.headers["webhook-signature"].count("v1,") == 2
        for callbacks in (first, second):
            received.verify(callbacks.signing_secret or "")
        third = await rotate_signing_secret(by, app.client_id, grace_hours=0, force=True)
        await uninstall(by, app.client_id, shop.store.handle)
        received = (await receiver.until(2))[1]
    received.verify(third.signing_secret or "")
    assert received.headers["webhook-signature"].count("v1,") == 1
    shown = await callbacks_of(by.db, app.app_id)
    assert (shown.signing_secret, shown.previous_until) == (None, None)


async def test_a_gone_endpoint_is_disabled_on_that_store_until_it_is_resumed(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver, settings: Settings
) -> None:
    receiver.behave = answering(410)
    await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    await install(by, app.client_id, shop.store.handle)
    webhook_id = await endpoint_id(shop.db, shop.store_id, app.app_id)

    async def disabled() -> bool:
        [[status]] = await shop.db.fetch("SELECT status FROM webhooks WHERE id = $1", webhook_id)
        return status == "disabled"

    async with working(settings):
        await until(disabled, "the endpoint is disabled")
        receiver.behave = answering(204)
        await resume_endpoint(by, app.client_id)
        [delivered] = await settled(shop.db, webhook_id, 1)
    assert (delivered["event_type"], delivered["attempts"][-1]["response_status"]) == ("app.installed", 204)
    assert len(receiver.received) > 1


async def test_the_endpoint_of_an_app_is_removed_with_its_url_and_with_the_app(
    shop: Shop, by: Operator, app: NewSecret, receiver: Receiver
) -> None:
    async def endpoints() -> list[str]:
        rows = await shop.db.fetch(
            "SELECT url FROM webhooks WHERE app_id = $1 AND of_app AND ended_at IS NULL", app.app_id
        )
        return [row[0] for row in rows]

    await install(by, app.client_id, shop.store.handle)
    await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    assert await endpoints() == [receiver.url]
    await set_callbacks(by, app.client_id, endpoint_url=f"{receiver.url}/2", return_urls=[])
    assert await endpoints() == [f"{receiver.url}/2"]
    unset = await set_callbacks(by, app.client_id, endpoint_url=None, return_urls=["https://app.example.com/"])
    assert (unset, await endpoints()) == (Callbacks(None, ["https://app.example.com/"]), [])
    await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
    assert await endpoints() == [receiver.url]
    await delete_app(by, app.client_id)
    assert (await endpoints(), await callbacks_of(by.db, app.app_id)) == ([], Callbacks())


async def test_addresses_that_must_not_be_called_are_refused(db: Database, settings: Settings, app: NewSecret) -> None:
    strict = operator_of(db, settings)
    for url in ("http://127.0.0.1/", "https://169.254.169.254/latest", "ftp://hooks.example.com/", "https://"):
        with pytest.raises(InvalidEndpoint):
            await set_callbacks(strict, app.client_id, endpoint_url=url, return_urls=[])
    for url in (
        "http://app.example.com/",
        "https://user@app.example.com/",
        "https://app.example.com/#x",
        "https://app.example.com/ x",
        "https://a;b.example.com/",
        "//app.example.com/",
        "javascript:alert(1)",
        "https://[::1",
        f"https://app.example.com/{'x' * 500}",
    ):
        with pytest.raises(InvalidReturnUrl):
            await set_callbacks(strict, app.client_id, endpoint_url=None, return_urls=[url])
    many = [f"https://app.example.com/{n}" for n in range(11)]
    with pytest.raises(TooManyReturnUrls):
        await set_callbacks(strict, app.client_id, endpoint_url=None, return_urls=many)
    assert await callbacks_of(db, app.app_id) == Callbacks()


async def test_the_endpoint_subscribes_to_exactly_the_events_that_are_for_apps(
    shop: Shop, by: Operator, receiver: Receiver
) -> None:
    await set_callbacks(by, shop.client_id, endpoint_url=receiver.url, return_urls=[])
    [[stored]] = await shop.db.fetch("SELECT events FROM webhooks WHERE app_id = $1 AND of_app", shop.app_id)
    kinds = Event.known.values()
    assert sorted(stored) == sorted(each.name for each in kinds if each.app_only or each.resource_type == "app")
    assert stored == EVENTS
