"""Webhook subscriptions on pages: creating, testing, changing and deleting them within the app's scopes."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import pytest

from stoa.access import audit
from stoa.access.encryption import Cipher
from stoa.access.grants import install
from stoa.accounts.ownership import open_store
from stoa.app import Application
from stoa.db.pool import Database
from stoa.events.outbox import Event
from stoa.portal.apps.subscriptions import event_groups
from stoa.settings import Settings, secret_key
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.webhook_data import add_subscription
from tests.support.people import User, create_user
from tests.support.receivers import Receiver, answering
from tests.webhooks.workers import with_loopback


@pytest.fixture
async def local_user(settings: Settings, db: Database) -> AsyncIterator[User]:
    """A user of a service that can deliver to localhost."""
    application = Application(with_loopback(settings))
    user = await create_user(application, db)
    yield user
    await user.client.aclose()
    await application.close()


async def subscribe(app: InstalledApp, **fields: Any) -> int:
    """Submit the form; return the ID of the subscription."""
    await app.user.open(f"{app.path}/new-webhook")
    form = {"store": app.handle, "url": "https://hooks.example.com/stoa", "events": ["product.created"], **fields}
    await app.user.submit(f"{app.path}/new-webhook", form)
    assert app.user.response.status_code == 200, app.user.faults
    found = re.search(rf"/webhooks/{app.handle}/(\d+)", app.user.text)
    assert found
    return int(found[1])


def secret_in(text: str) -> str:
    found = re.search(r"whsec_[A-Za-z0-9+/=]+", text)
    assert found
    return found[0]


# --- creating -----------------------------------------------------------------------------------------------


async def test_a_new_subscription_receives_a_verifiable_test(local_user: User, db: Database) -> None:
    app = await install_app(local_user, db)
    await local_user.open(f"{app.path}/webhooks")
    assert "No subscriptions yet" in local_user.text
    async with Receiver() as receiver:
        number = await subscribe(app, url=receiver.url, name="First", events=["product.*"])
        secret = secret_in(local_user.text)
        assert "receiver.py" in local_user.text
        await local_user.submit(app.hook(number, "/test"))
        assert "Test succeeded" in local_user.text
        assert "The receiver responded with 200" in local_user.text
        assert "thanks" in local_user.text
        assert "DNS lookup" in local_user.text
        [received] = receiver.received
        assert received.verify(secret)["type"] == "webhook.test"
        assert local_user.text.count(secret) == 0
    await local_user.open(f"{app.path}/webhooks")
    assert "First" in local_user.text
    assert "Healthy" in local_user.text


async def test_a_failed_test_shows_the_reason(local_user: User, db: Database) -> None:
    app = await install_app(local_user, db)
    async with Receiver(answering(503)) as receiver:
        number = await subscribe(app, url=receiver.url)
        await local_user.submit(app.hook(number, "/test"), event="product.created")
        assert "Test failed" in local_user.text
        assert "The receiver responded with 503" in local_user.text
        assert receiver.events[0]["type"] == "product.created"
    await local_user.submit(app.hook(number, "/test"))
    assert "No response: connection refused" in local_user.text


async def test_the_secret_is_shown_once_and_never_compressed(app: InstalledApp) -> None:
    user = app.user
    await user.open(f"{app.path}/new-webhook")
    data = {
        "_token": user.token,
        "store": app.handle,
        "events": "product.created",
        "url": "https://h.example.com/",
    }
    headers = {"origin": "http://testserver", "sec-fetch-site": "same-origin", "accept-encoding": "gzip"}
    response = await user.client.post(f"{app.path}/new-webhook", data=data, headers=headers, follow_redirects=True)
    assert "whsec_" in response.text
    assert "content-encoding" not in response.headers
    again = await user.client.post(f"{app.path}/new-webhook", data=data, headers=headers)
    assert again.status_code == 422
    assert "already sends these events" in again.text
    assert "whsec_" not in again.text
    await user.open(f"{app.path}/webhooks")
    assert "whsec_" not in user.text


async def test_a_new_subscription_is_recorded_in_the_audit_log(app: InstalledApp) -> None:
    number = await subscribe(app)
    entries = await audit.newest(app.db, app.store_id, 5)
    entry = next(each for each in entries if each.action == "webhook.created")
    assert entry.actor == f"account:{app.user.account.id}"
    assert entry.subject == f"webhook:{number}"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"events": []}, "events", "at least one"),
        ({"events": ["product.nothing"]}, "events", "from this list"),
        ({"events": ["x" * 900]}, "events", "from this list"),
        ({"url": "ftp://example.com"}, "url", "https://"),
        ({"url": "https://a b"}, "url", "without spaces"),
        ({"url": "http://localhost:1/"}, "url", "stoa listen"),
        ({"url": "https://10.0.0.7/"}, "url", "stoa listen"),
        ({"url": "https://" + "a" * 3000}, "url", "2048"),
        ({"name": "n" * 101}, "name", "100"),
        ({"events": ["order.created"]}, "", "orders:read"),
        ({"events": ["product.created"], "url": "http://["}, "url", "."),
    ],
)
async def test_a_fault_is_shown_beside_its_field(
    app: InstalledApp, fields: dict[str, Any], field: str, message: str
) -> None:
    await app.user.open(f"{app.path}/new-webhook")
    form = {"store": app.handle, "url": "https://hooks.example.com/", "events": ["product.created"], **fields}
    await app.user.submit(f"{app.path}/new-webhook", form)
    assert app.user.response.status_code == 422
    assert message in app.user.faults[field]


async def test_a_wildcard_replaces_the_events_it_covers(app: InstalledApp) -> None:
    number = await subscribe(app, events=["product.created", "product.*", "app.installed"], url="")
    [[events]] = await app.db.fetch("SELECT events FROM webhooks WHERE id = $1", number)
    assert events == ["product.*", "app.installed"]
    assert "stoa listen" in app.user.text


async def test_a_subscription_requires_the_scope(maria: User, db: Database) -> None:
    app = await install_app(maria, db, {"products:read": "To list them."})
    await maria.open(f"{app.path}/webhooks")
    assert "No store grants webhooks:write" in maria.text
    await maria.open(f"{app.path}/new-webhook")
    form = {"store": app.handle, "url": "https://hooks.example.com/", "events": ["product.created"]}
    await maria.submit(f"{app.path}/new-webhook", form)
    assert maria.response.status_code == 422
    assert await db.fetch("SELECT id FROM webhooks WHERE app_id = $1", app.app_id) == []


async def test_a_store_without_the_app_is_not_found(app: InstalledApp, maria: User) -> None:
    other = await open_store(app.by, maria.account.id, f"without-{maria.account.id}", "Without", "EUR")
    for handle in (other.handle, "nowhere", "../x", ""):
        await maria.open(f"{app.path}/new-webhook")
        form = {"store": handle, "url": "https://hooks.example.com/", "events": ["product.created"]}
        await maria.submit(f"{app.path}/new-webhook", form)
        assert maria.response.status_code == 404


def test_every_event_except_the_test_can_be_selected() -> None:
    assert {each.name for _, _, group in event_groups() for each in group} == set(Event.subscribable()) - {
        "webhook.test"
    }


async def test_the_example_receiver_uses_the_port_of_the_url(local_user: User, db: Database) -> None:
    app = await install_app(local_user, db)
    await subscribe(app, url="http://localhost:8790/hook")
    assert 'os.environ.get("PORT", "8790")' in local_user.text
    assert 'process.env["PORT"] ?? "8790"' in unquote(local_user.text), "in both languages"


# --- one subscription ---------------------------------------------------------------------------------------


async def test_a_subscription_is_paused_resumed_changed_and_deleted(app: InstalledApp) -> None:
    user = app.user
    number = await subscribe(app)
    await user.open(app.hook(number))
    await user.submit(app.hook(number, "/pause"))
    assert "Paused" in user.text
    await user.submit(app.hook(number, "/resume"), what="now")
    assert user.notice == "Subscription resumed."
    await user.open(app.hook(number, "/settings"))
    await user.submit(app.hook(number, "/settings"), url="https://two.example.com/", name="Two", events=["app.*"])
    assert user.notice == "Saved."
    assert "https://two.example.com/" in user.text
    await user.open(app.hook(number, "/settings"))
    await user.submit(app.hook(number, "/settings"), url="http://127.0.0.1/", events=["app.*"])
    assert "stoa listen" in user.faults["url"]
    await user.open(app.hook(number))
    await user.submit(app.hook(number, "/delete"))
    assert user.faults["confirmed"]
    await user.submit(app.hook(number, "/delete"), confirmed="on")
    assert user.notice == "Subscription deleted."
    await user.open(app.hook(number))
    assert user.response.status_code == 404


async def test_both_secrets_sign_during_the_grace_period(local_user: User, db: Database) -> None:
    app = await install_app(local_user, db)
    async with Receiver() as receiver:
        number = await subscribe(app, url=receiver.url)
        old = secret_in(local_user.text)
        await local_user.open(app.hook(number))
        await local_user.submit(app.hook(number, "/secret"), grace_hours="24")
        new = secret_in(local_user.text)
        assert new != old
        await local_user.submit(app.hook(number, "/test"))
        [received] = receiver.received
        assert received.verify(old)
        assert received.verify(new)
        assert "signed with two secrets" in local_user.text
        await local_user.submit(app.hook(number, "/secret"), grace_hours="0")
        assert secret_in(local_user.text) not in (old, new)
        await local_user.submit(app.hook(number, "/secret"), grace_hours="169")
        assert local_user.response.status_code == 422


async def test_a_subscription_of_another_app_is_not_found(app: InstalledApp, maria: User, db: Database) -> None:
    other = await install_app(maria, db)
    elsewhere = await add_subscription(other.by, other.store_id, other.app_id)
    same_store = await add_subscription(other.by, app.store_id, other.app_id)
    for number in (elsewhere, same_store, 2**60):
        for rest in ("", "/settings", "/deliveries", "/deliveries/1"):
            await maria.open(app.hook(number, rest))
            assert maria.response.status_code == 404, rest
        await maria.open(f"{app.path}/webhooks")
        for rest in ("/pause", "/secret", "/test", "/deliveries/1/again"):
            await maria.submit(app.hook(number, rest), grace_hours="1")
            assert maria.response.status_code == 404, rest
            await maria.open(f"{app.path}/new-webhook")


# --- several stores -----------------------------------------------------------------------------------------


async def add_second_store(app: InstalledApp) -> str:
    """Install the app on a second store that sorts first and grants fewer scopes."""
    store = await open_store(app.by, app.user.account.id, f"a-{app.handle}", "Second", "EUR")
    await install(app.by, app.client_id, store.handle, ["webhooks:write"])
    return store.handle


async def test_the_default_store_is_the_first_that_installed_the_app(app: InstalledApp) -> None:
    second = await add_second_store(app)
    await app.user.open(f"{app.path}/new-webhook")
    assert f'<option value="{app.handle}" selected>' in app.user.text
    assert f'<option value="{second}">' in app.user.text
    await app.user.open(app.path)
    assert f"/stores/{app.handle}\n" in app.user.text


async def test_a_missing_scope_is_reported_and_the_store_stays_selected(app: InstalledApp) -> None:
    second = await add_second_store(app)
    await app.user.open(f"{app.path}/new-webhook")
    form = {"store": second, "url": "https://hooks.example.com/", "events": ["product.created"]}
    await app.user.submit(f"{app.path}/new-webhook", form)
    assert app.user.response.status_code == 422
    assert "products:read" in " ".join(app.user.faults.values())
    assert f'<option value="{second}" selected>' in app.user.text


async def test_a_change_of_host_names_the_headers_that_it_removes(app: InstalledApp) -> None:
    number = await add_subscription(await app.at_store(), app.store_id, app.app_id, "app.*", header_names=["X-Key"])
    cipher = Cipher(secret_key(app.by.settings))
    encrypted = cipher.encrypt('{"X-Key":"canary"}', "webhooks", "headers", app.store_id, number)
    await app.db.execute("UPDATE webhooks SET sealed_headers = $2 WHERE id = $1", number, encrypted)
    await app.user.open(app.hook(number, "/settings"))
    await app.user.submit(app.hook(number, "/settings"), url="https://two.example.com/", events=["app.*"])
    assert "removed: X-Key." in app.user.notice
