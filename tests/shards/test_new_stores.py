"""Where new stores go in a service with shards, and how a store gets its first rows there, also if that is interrupted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from tests.support.people import User, create_user
from tests.support.sharded import NAME, Sharded, caught_up
from tests.support.shops import Shop, api_client, operator_of, service_client, token_for

from stoa.access import stores
from stoa.access.apps import create_app
from stoa.access.operator import known_store
from stoa.background import store_receivers
from stoa.db import shard_outbox
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.db.shard_outbox import LATE, MESSAGES, Retries, receive_for_stores, send_to_store
from stoa.db.shards import Shards
from stoa.demo import development_stores
from stoa.demo.development_stores import create_development_store
from stoa.operations.shard_checks import check_shards

pytestmark = [pytest.mark.not_on_cluster("a service has either shards or a cluster"), pytest.mark.timeout(300)]


@pytest.fixture
async def maria(service: Sharded) -> AsyncIterator[User]:
    user = await create_user(service.application, service.directory)
    yield user
    await user.client.aclose()


@pytest.fixture
async def fuller_directory(service: Sharded) -> None:
    """The directory has more stores than the shard, so a new one goes there."""
    by = operator_of(service.directory, service.application.settings)
    while (
        await stores.choose_shard(operator_of(service.directory, by.settings, service.application.shards))
    ).shard == "":
        await stores.create_store(by, f"filler-{await _count(service.directory, 'stores')}", "Filler", "EUR")


async def _count(db: Database, table: str, store_id: int | None = None) -> int:
    bound = "" if store_id is None else f" WHERE store_id = {store_id}"
    return (await db.fetch(f"SELECT count(*) FROM {table}{bound}"))[0][0]


async def _messages(service: Sharded, store_id: int) -> list[Any]:
    return [
        row[0] for row in await service.directory.fetch("SELECT kind FROM shard_outbox WHERE store_id = $1", store_id)
    ]


async def _receive(service: Sharded, retries: Retries | None = None) -> int:
    """Do what the background worker of the shard does every second."""
    await caught_up(service.directory, service.shard)
    receivers = store_receivers(service.application.settings)
    return await receive_for_stores(service.shard, service.directory, receivers, retries)


@pytest.mark.usefixtures("fuller_directory")
async def test_a_store_of_the_portal_goes_to_the_database_with_the_fewest(service: Sharded, maria: User) -> None:
    await maria.open("/portal/open-store")
    await maria.submit("/portal/open-store", handle="from-the-portal", name="Portal", currency="EUR")
    assert (maria.path, maria.notice) == ("/portal/stores/from-the-portal", "Portal was created.")
    store = await known_store(service.directory, "from-the-portal")
    assert store.shard == NAME
    assert [await _count(each, "locations", store.id) for each in (service.directory, service.shard)] == [0, 1]
    entries = await service.shard.fetch("SELECT action, actor FROM audit_entries WHERE store_id = $1", store.id)
    assert [tuple(row) for row in entries] == [("store.created", f"account:{maria.account.id}")]
    assert await _messages(service, store.id) == []
    await maria.open("/portal/stores/from-the-portal/products/new")
    assert maria.response.status_code == 200


@pytest.mark.usefixtures("fuller_directory")
async def test_a_development_store_is_created_with_its_app_and_reset_in_a_shard(service: Sharded, maria: User) -> None:
    operator = operator_of(service.directory, service.application.settings, service.application.shards)
    app = await create_app(operator, "Walker", ["products:read"])
    names = {"name": "Development store", "app": app.client_id, "key": "twice"}
    store = await create_development_store(operator, maria.account.id, **names)
    again = await create_development_store(operator, maria.account.id, **names)
    assert (store.shard, again.id) == (NAME, store.id)
    products = await _count(service.shard, "products", store.id)
    assert products > 0
    for table in ("products", "orders", "customers", "installations", "audit_entries", "locations"):
        assert await _count(service.directory, table, store.id) == 0, table
    async with service_client(service.application) as client:
        token = await token_for(client, app.client_id, app.client_secret)
    async with api_client(service.application, store.handle, token) as client:
        assert (await client.get("/products")).json()["meta"]["total"] == products
    defined = "SELECT metadata_definitions::text FROM stores WHERE id = $1"
    before = await service.directory.fetch(defined, store.id)
    assert before[0][0] not in (None, "[]")
    await maria.open(f"/portal/stores/{store.handle}/settings")
    await maria.submit(f"/portal/stores/{store.handle}/development/reset", confirmed="on")
    assert maria.notice == "The store has only the sample data now."
    assert await _count(service.shard, "products", store.id) == products
    assert [await each.fetch(defined, store.id) for each in (service.directory, service.shard)] == [before, before]


@pytest.mark.usefixtures("fuller_directory")
async def test_an_interrupted_development_store_is_filled_once_by_the_worker(
    service: Sharded, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = operator_of(service.directory, service.application.settings, service.application.shards)

    async def lost(*_: object) -> None:
        raise ConnectionAbortedError

    with monkeypatch.context() as patched:
        patched.setattr(development_stores, "receive_in_shard", lost)
        with pytest.raises(ConnectionAbortedError):
            await create_development_store(operator, maria.account.id, name="Interrupted", key="interrupted")
    await _receive(service)
    store = await create_development_store(operator, maria.account.id, name="Interrupted", key="interrupted")
    filled = await _count(service.shard, "products", store.id)
    assert filled > 0
    assert await _count(service.shard, "locations", store.id) >= 1
    assert await _messages(service, store.id) == []
    await _receive(service)
    assert await _count(service.shard, "products", store.id) == filled


@pytest.mark.usefixtures("fuller_directory")
async def test_a_shard_that_is_behind_gets_no_new_store(service: Sharded, monkeypatch: pytest.MonkeyPatch) -> None:
    by = operator_of(service.directory, service.application.settings, service.application.shards)
    assert (await stores.choose_shard(by)).shard == NAME

    async def behind(_: Shards, name: str, within_s: float = 0.0) -> None:
        if name:
            raise Unavailable("the global tables are behind")

    monkeypatch.setattr(Shards, "catch_up", behind)
    chosen = await stores.choose_shard(by)
    assert chosen.shard == ""
    assert chosen.why.endswith("of those that are up to date")


@pytest.fixture
async def failing(service: Sharded, shop: Shop) -> AsyncIterator[Shop]:
    """A store to which one message fails, and no other message waits."""
    await service.directory.fetch("DELETE FROM shard_outbox")
    async with service.directory.transaction() as db:
        await send_to_store(db, shop.store_id, "of a later release", {})
    await caught_up(service.directory, service.shard)
    yield shop
    await service.directory.fetch("DELETE FROM shard_outbox")


async def test_a_message_that_fails_is_tried_less_and_less_often(
    service: Sharded, failing: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The duty runs every second of 200, by a clock that the test sets."""
    now, retries = 0.0, Retries()
    monkeypatch.setattr(shard_outbox, "monotonic", lambda: now)
    with structlog.testing.capture_logs() as logged:
        for _ in range(200):
            now += 1
            await receive_for_stores(service.shard, service.directory, {}, retries)
    pauses = [each["retry_in_s"] for each in logged]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert logged[0]["store_id"] == failing.store_id


async def test_a_message_that_waits_is_named(service: Sharded, failing: Shop) -> None:
    settings = service.application.settings
    assert not [each for each in await check_shards(service.directory, settings) if each.check == "messages"]
    await service.directory.fetch("UPDATE shard_outbox SET created_at = now() - interval '5 minutes'")
    [late] = await LATE.all(service.directory, 120.0)
    assert (late.receiver, late.messages) == (f"store {failing.store.handle}", 1)
    assert (await MESSAGES.one(service.directory)).oldest_seconds > 299
    [found] = [each for each in await check_shards(service.directory, settings) if each.check == "messages"]
    assert f"of a later release to store {failing.store.handle}" in found.detail
