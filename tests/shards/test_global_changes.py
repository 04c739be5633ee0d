"""Changes in the directory reach a store in a shard, and changes of a store reach the directory, each exactly once."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.people import User, create_user
from tests.support.sharded import NAME, Sharded, caught_up
from tests.support.shops import PERSON, SHIRT, Shop, operator_of

from stoa.access.apps import create_app
from stoa.access.audit import verify
from stoa.access.closures import close_store, delete_store, reopen_store
from stoa.access.console import open_console
from stoa.access.contract import NotInstalled
from stoa.access.grants import install, issue_token, list_installations, revoke_token, uninstall
from stoa.access.operator import Operator
from stoa.access.stores import suspend_store, update_store
from stoa.accounts.contract import OwnedApp
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import LIVE, change_listing, owned_app
from stoa.accounts.queries import SAVE_LISTING, SET_APP_ROLE, SET_STORE_ROLE
from stoa.background import RECEIVERS, shard_receivers, store_receivers
from stoa.cli import Commands
from stoa.db.directory_outbox import collect
from stoa.db.pool import Database
from stoa.db.shard_outbox import receive_for_shard, receive_for_stores, send_to_store

pytestmark = [pytest.mark.not_on_cluster("a service has either shards or a cluster"), pytest.mark.timeout(300)]


@pytest.fixture
async def owner(service: Sharded, shop: Shop) -> AsyncIterator[User]:
    """The owner of the store, signed in."""
    user = await create_user(service.application, service.directory)
    await SET_STORE_ROLE.run(service.directory, user.account.id, shop.store_id, "owner", LIVE)
    yield user
    await user.client.aclose()


async def exchange(service: Sharded) -> int:
    """Do what the workers do every second, in both directions; returns how many messages stores have received."""
    await collect(service.shard, service.directory, RECEIVERS)
    await caught_up(service.directory, service.shard)
    settings = service.application.settings
    received = await receive_for_stores(service.shard, service.directory, store_receivers(settings))
    while await receive_for_shard(service.shard, service.directory, shard_receivers(settings)):
        pass
    return received


async def rows(db: Database, sql: str, *args: object) -> list[Any]:
    return [row[0] for row in await db.fetch(sql, *args)]


async def actions(service: Sharded, shop: Shop) -> list[str]:
    """What the audit log of the store says, in its shard, oldest first."""
    assert await verify(service.shard, shop.store_id) is None
    return await rows(
        service.shard, "SELECT action FROM audit_entries WHERE store_id = $1 ORDER BY position", shop.store_id
    )


async def events(service: Sharded, shop: Shop) -> list[str]:
    return await rows(service.shard, "SELECT type FROM events WHERE store_id = $1 ORDER BY created_at", shop.store_id)


# --- apps on a store ----------------------------------------------------------------------------------------------------


async def test_an_app_is_installed_and_uninstalled_where_the_store_is(service: Sharded, shop: Shop) -> None:
    app = await create_app(shop.operator, "Second app", ["products:read"])
    await install(shop.operator, app.client_id, shop.store.handle)  # the app has reached the shard by then
    await install(shop.operator, app.client_id, shop.store.handle, rate_burst=7)
    found = {each.app_id: each.rate_burst for each in await list_installations(shop.operator, shop.store.handle)}
    assert found[app.app_id] == 7
    await uninstall(shop.operator, app.client_id, shop.store.handle)
    with pytest.raises(NotInstalled):
        await uninstall(shop.operator, app.client_id, shop.store.handle)
    assert (await actions(service, shop))[-3:] == ["app.installed", "app.rate_changed", "app.uninstalled"]
    assert (await events(service, shop))[-2:] == ["app.installed", "app.uninstalled"]
    assert not await rows(service.directory, "SELECT 1 FROM installations WHERE store_id = $1", shop.store_id)


async def test_a_token_for_one_store_is_issued_and_revoked_by_a_command(service: Sharded, shop: Shop) -> None:
    issued = await issue_token(shop.operator, shop.client_id, shop.store.handle)
    await revoke_token(shop.operator, issued.access_token)
    assert await exchange(service) == 2
    assert (await actions(service, shop))[-2:] == ["token.issued", "token.revoked"]


async def asked(service: Sharded, shop: Shop, user: User) -> OwnedApp:
    """An app of this person that asks the store to install it."""
    made = await create_app(shop.operator, "Asking app", ["products:read"])
    await SET_APP_ROLE.run(service.directory, user.account.id, made.app_id, "owner")
    reasons = msgspec.json.encode({"products:read": "To show them."}).decode()
    await SAVE_LISTING.run(service.directory, made.app_id, "", reasons, None)
    app = await owned_app(service.directory, user.account.id, made.app_id)
    assert app is not None
    await request_install(shop.operator, user.account.id, app, shop.store.handle, "Please")
    return app


async def test_an_owner_approves_a_request_once(service: Sharded, shop: Shop, owner: User) -> None:
    app = await asked(service, shop, owner)
    page = f"/portal/stores/{shop.store.handle}"
    await owner.open(page)
    await owner.submit(f"{page}/requests/{app.id}/approve", {"scopes": ["products:read"]})
    assert owner.notice == "Asking app is installed."
    # The directory has received the answer by then, so the page shows no request.
    assert f"/requests/{app.id}/approve" not in owner.text
    assert not await rows(service.directory, "SELECT 1 FROM installation_requests WHERE app_id = $1", app.id)
    assert await rows(service.shard, "SELECT scopes FROM installations WHERE app_id = $1", app.id) == [
        ["products:read"]
    ]
    await owner.submit(f"{page}/apps/{app.id}/uninstall", {"confirmed": "on"})
    await owner.submit(f"{page}/removed/{app.id}", {"scopes": ["products:read"]})
    assert owner.notice == "Asking app is installed again."
    await exchange(service)
    assert (await events(service, shop))[-3:] == ["app.installed", "app.uninstalled", "app.installed"]


async def test_an_owner_refuses_a_request(service: Sharded, shop: Shop, owner: User) -> None:
    app = await asked(service, shop, owner)
    page = f"/portal/stores/{shop.store.handle}"
    await owner.open(page)
    await owner.submit(f"{page}/requests/{app.id}/refuse")
    await exchange(service)
    assert (await actions(service, shop))[-2:] == ["app.asked", "app.refused"]


async def test_an_answer_leaves_a_newer_request(service: Sharded, shop: Shop, owner: User) -> None:
    app = await asked(service, shop, owner)
    await caught_up(service.directory, service.shard)
    await install(shop.operator, app.client_id, shop.store.handle, ["products:read"])
    late = {"store_id": shop.store_id, "app_id": app.id, "answered_at": "2020-01-01T00:00:00Z"}
    async with service.directory.transaction() as db:
        await RECEIVERS["answered"](db, msgspec.json.encode(late))
    assert await rows(service.directory, "SELECT 1 FROM installation_requests WHERE app_id = $1", app.id) == [1]


async def test_a_development_store_grants_new_scopes(service: Sharded, shop: Shop, owner: User) -> None:
    app = await asked(service, shop, owner)
    await install(shop.operator, app.client_id, shop.store.handle, ["products:read"])
    await service.directory.fetch("UPDATE account_stores SET development = true WHERE store_id = $1", shop.store_id)
    reasons = {"products:read": "To show them.", "orders:read": "To count them."}
    await change_listing(shop.operator, owner.account.id, app, "Asking app", "", reasons)
    await exchange(service)
    granted = await rows(service.shard, "SELECT scopes FROM installations WHERE app_id = $1", app.id)
    assert [sorted(each) for each in granted] == [["orders:read", "products:read"]]


# --- the store ----------------------------------------------------------------------------------------------------------


async def test_what_the_directory_does_is_in_the_log_of_the_store_once(service: Sharded, shop: Shop) -> None:
    by, handle = shop.operator, shop.store.handle
    await update_store(by, handle, name="Renamed")
    await suspend_store(by, handle, "a reason")
    await close_store(by, handle)
    await reopen_store(by, handle)
    await delete_store(by, handle)
    assert await exchange(service) == 5
    assert await exchange(service) == 0
    assert (await actions(service, shop))[-5:] == [
        "store.updated",
        "store.suspended",
        "store.closed",
        "store.reopened",
        "store.deletion_scheduled",
    ]
    assert not await rows(service.directory, "SELECT 1 FROM shard_outbox")


async def test_an_owner_manages_a_store_on_its_pages(service: Sharded, shop: Shop, owner: User) -> None:
    page = f"/portal/stores/{shop.store.handle}"
    await owner.open(f"{page}/settings")
    await owner.submit(f"{page}/settings", {"name": "Renamed", "timezone": "UTC", "locale": "en-US"})
    assert 'value="Renamed"' in owner.text
    await owner.submit(f"{page}/settings", {"name": "Renamed", "timezone": "Nowhere", "locale": "en-US"})
    assert "timezone" in owner.faults
    await owner.open(f"{page}/team")
    await owner.submit(f"{page}/team/invite", {"email": "ben@example.com", "role": "manager"})
    assert owner.response.status_code == 200
    await owner.open(f"{page}/settings")
    await owner.submit(f"{page}/close", {"confirmed": "on"})
    await owner.submit(f"{page}/reopen")
    await exchange(service)
    assert (await actions(service, shop))[-4:] == ["store.updated", "team.invited", "store.closed", "store.reopened"]
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]["id"]
    await owner.open(f"{page}/customers/{customer}")
    await owner.submit(f"{page}/customers/{customer}/forget", {"confirmation": PERSON["email"], "key": "once"})
    assert owner.notice == "The customer was erased from every record."
    assert (await shop.client.get(f"/customers/{customer}")).status_code == 404


async def test_the_commands_for_one_store_find_it_in_its_shard(service: Sharded, shop: Shop) -> None:
    await shop.add(SHIRT)
    await update_store(shop.operator, shop.store.handle, name="Renamed")
    await exchange(service)
    console = open_console(msgspec.structs.replace(service.application.settings, database_url=service.directory.url))

    async def run(*words: str) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, Commands(), words, obj=console, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    handle = shop.store.handle
    assert "Linen Shirt" in await run("store", "export", handle)
    assert "Linen Shirt" in await run("export", "products", "--store", handle)
    assert "annex" in await run("location", "add", handle, "annex", "--name", "Annex")
    assert "active" in await run("store", "update", handle, "--locale", "de-DE")
    assert "store.updated" in await run("audit", "list", "--store", handle)
    assert handle in await run("audit", "verify", "--store", handle)
    assert "Test app" in await run("app", "list", "--store", handle)


# --- one message, once --------------------------------------------------------------------------------------------------

# Carries out one step of the exchange, and dies at the point that the test names.
_DYING = """
import asyncio, os, signal, sys
from stoa.access.operator import Operator
from stoa.access.stores import update_store
from stoa.background import store_receivers
from stoa.db import shard_outbox
from stoa.db.pool import Database
from stoa.settings import load

async def die(*_): os.kill(os.getpid(), signal.SIGKILL)

async def main(step, directory, shard, handle):
    settings = load()
    here, there = Database(directory), Database(shard)
    there.fence()
    if step == "after the directory committed":
        await update_store(Operator(here, settings, actor="operator:tests", request_id="req_tests"), handle, name="Killed")
        await die()
    if step == "before the shard commits":
        receivers = {kind: die for kind in store_receivers(settings)}
    else:
        receivers, shard_outbox.FORGET = store_receivers(settings), type("Dying", (), {"run": die})
    await shard_outbox.receive_for_stores(there, here, receivers)

asyncio.run(main(*sys.argv[1:]))
"""


async def kill(service: Sharded, shop: Shop, step: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _DYING, step, service.directory.url, service.shard.url, shop.store.handle],
        env={**os.environ, "STOA_SECRET_KEY": service.application.settings.secret_key},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -9, done.stderr


async def test_a_worker_that_is_killed_between_the_databases_loses_and_repeats_nothing(
    service: Sharded, shop: Shop
) -> None:
    await exchange(service)  # so that no message of another test waits
    before = await actions(service, shop)
    await kill(service, shop, "after the directory committed")
    assert await rows(service.directory, "SELECT name FROM stores WHERE id = $1", shop.store_id) == ["Killed"]
    await caught_up(service.directory, service.shard)
    await kill(service, shop, "before the shard commits")
    assert await actions(service, shop) == before
    await kill(service, shop, "after the shard committed")
    assert await actions(service, shop) == [*before, "store.updated"]
    assert await rows(service.directory, "SELECT 1 FROM shard_outbox WHERE store_id = $1", shop.store_id) == [1]
    assert await exchange(service) == 0
    assert await actions(service, shop) == [*before, "store.updated"]
    assert not await rows(service.directory, "SELECT 1 FROM shard_outbox WHERE store_id = $1", shop.store_id)


async def test_two_workers_receive_a_message_once(service: Sharded, shop: Shop) -> None:
    before = len(await actions(service, shop))
    for number in range(5):
        await update_store(shop.operator, shop.store.handle, name=f"Name {number}")
    await asyncio.gather(*(exchange(service) for _ in range(3)))
    assert (await actions(service, shop))[before:] == ["store.updated"] * 5


async def test_a_message_that_fails_keeps_no_other_one(service: Sharded, shop: Shop) -> None:
    async with service.directory.transaction() as db:
        await send_to_store(db, shop.store_id, "of a later release", {})
    await update_store(shop.operator, shop.store.handle, name="Renamed")
    assert await exchange(service) == 1
    assert await rows(service.directory, "SELECT kind FROM shard_outbox") == ["of a later release"]
    await service.directory.fetch("DELETE FROM shard_outbox")


async def test_what_was_sent_to_a_store_is_received_where_it_is_then(service: Sharded) -> None:
    """The message is written while the store is in the shard, and received in the directory, to which it has moved."""
    shop = await service.open_shop()
    await update_store(shop.operator, shop.store.handle, name="Renamed")
    await service.directory.fetch("UPDATE stores SET shard = '' WHERE id = $1", shop.store_id)
    assert await exchange(service) == 0
    receivers = store_receivers(service.application.settings)
    assert await receive_for_stores(service.directory, service.directory, receivers) == 1
    found = "SELECT action FROM audit_entries WHERE store_id = $1"
    assert await rows(service.directory, found, shop.store_id) == ["store.updated"]


async def test_an_operator_without_shards_is_refused(service: Sharded, shop: Shop) -> None:
    by: Operator = operator_of(service.directory, service.application.settings)
    with pytest.raises(Exception, match=NAME):
        await install(by, shop.client_id, shop.store.handle)
