"""Work on a store in a shard beside the app API: imports, deliveries, messages to the directory, pages, and erasure."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from stoa.accounts.ownership import LIVE
from stoa.accounts.queries import SET_STORE_ROLE
from stoa.background import RECEIVERS, duties_of
from stoa.db.directory_outbox import collect
from stoa.imports.runner import claim_import, run_pending
from stoa.operations.maintenance import maintain
from stoa.settings import Settings
from stoa.webhooks.delivery.queries import LEASE_LANES
from tests.support.people import User, create_user
from tests.support.receivers import Receiver
from tests.support.sharded import Sharded, caught_up, eventually, sharded
from tests.support.shops import SHIRT, Shop
from tests.webhooks.workers import create_product, subscribe, working

pytestmark = pytest.mark.not_on_cluster("a service has either shards or a cluster")


@pytest.fixture(scope="module")
async def service(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sharded]:
    async with sharded(tmp_path_factory.mktemp("sharded") / "postgres", settings) as found:
        yield found


@pytest.fixture
async def shop(service: Sharded) -> AsyncIterator[Shop]:
    opened = await service.open_shop()
    yield opened
    await opened.client.aclose()


@pytest.fixture
async def owner(service: Sharded, shop: Shop) -> AsyncIterator[User]:
    """The owner of the store, signed in."""
    user = await create_user(service.application, service.directory)
    await SET_STORE_ROLE.run(service.directory, user.account.id, shop.store_id, "owner", LIVE)
    await caught_up(service.directory, service.shard)
    yield user
    await user.client.aclose()


async def new_import(shop: Shop) -> str:
    media = {"content-type": "application/x-ndjson"}
    made = await shop.client.post(
        "/products/imports", content=b'{"sku":"A","name":"A","price":"1.00"}\n', headers=media
    )
    return made.json()["data"]["id"]


async def test_an_import_runs_in_the_shard_and_its_owner_is_notified_once(
    service: Sharded, shop: Shop, owner: User
) -> None:
    job = await new_import(shop)
    assert await run_pending(service.directory) == 0
    assert await run_pending(service.shard) == 1
    assert (await shop.client.get(f"/products/imports/{job}")).json()["data"]["status"] == "succeeded"
    [[message]] = await service.shard.fetch("SELECT json_build_array(id, kind, content)::text FROM directory_outbox")
    assert await collect(service.shard, service.directory, RECEIVERS) == 1
    number, kind, content = msgspec.json.decode(message)
    await service.shard.fetch(  # as though the worker had died before it deleted the message
        "INSERT INTO directory_outbox (id, kind, content) VALUES ($1, $2, $3)", number, kind, content
    )
    assert await collect(service.shard, service.directory, RECEIVERS) == 1
    found = await service.directory.fetch("SELECT kind FROM notifications WHERE account_id = $1", owner.account.id)
    assert [row[0] for row in found] == ["import_finished"]


async def test_events_are_delivered_by_the_workers_of_the_shard(service: Sharded, shop: Shop) -> None:
    async with Receiver() as receiver:
        subscription = await subscribe(shop, receiver.url, "product.created")
        here = msgspec.structs.replace(service.application.settings, database_url=service.shard.url)
        async with working(here):
            product = await create_product(shop)
            [received] = await receiver.until(1)
        assert received.verify(subscription.secret)["data"]["id"] == product


async def test_work_of_a_store_that_has_left_is_not_leased(service: Sharded, shop: Shop) -> None:
    await new_import(shop)
    subscription = await subscribe(shop, "https://hooks.example.com")
    await service.shard.fetch("UPDATE lanes SET due_at = now() WHERE webhook_id = $1", subscription.id)
    await service.shard.fetch("INSERT INTO store_residence (store_id, here) VALUES ($1, false)", shop.store_id)
    buckets = list(range(64))
    assert await LEASE_LANES.all(service.shard, buckets, "me", 10, 1.0, 1.0) == []
    assert await claim_import(service.shard, "me") is None
    await service.shard.fetch("DELETE FROM store_residence WHERE store_id = $1", shop.store_id)
    assert [lane.webhook_id for lane in await LEASE_LANES.all(service.shard, buckets, "me", 10, 1.0, 1.0)] == [
        subscription.id
    ]
    assert await claim_import(service.shard, "me") is not None


def test_a_shard_has_the_duties_of_its_stores(settings: Settings) -> None:
    sending = msgspec.structs.replace(settings, smtp_url="smtp://localhost", mail_from="stoa@example.com")
    in_shard = [duty.name for duty in duties_of(sending, shard=True)]
    assert in_shard == [
        "webhook deliveries",
        "secret reminders",
        "order holds",
        "collections",
        "pictures",
        "unused pictures",
        "directory messages",
        "shard messages",
    ]
    assert "directory messages" not in [duty.name for duty in duties_of(sending)]


async def test_the_pages_of_a_store_show_what_is_in_its_shard(service: Sharded, shop: Shop, owner: User) -> None:
    await shop.add(SHIRT)
    await owner.open(f"/portal/stores/{shop.store.handle}/products")
    assert "Linen Shirt" in owner.text
    for path in ("", "/orders", "/customers", "/imports", "/locations", "/audit", "/settings", "/team"):
        await owner.open(f"/portal/stores/{shop.store.handle}{path}")
        assert owner.response.status_code == 200, path


async def test_a_location_is_added_in_the_shard_and_published_by_the_directory(
    service: Sharded, shop: Shop, owner: User
) -> None:
    fields = {"code": "annex", "name": "Annex", "address": "", "priority": "10"}
    await owner.open(f"/portal/stores/{shop.store.handle}/locations")
    await owner.submit(f"/portal/stores/{shop.store.handle}/locations", fields)
    await collect(service.shard, service.directory, RECEIVERS)
    [[published]] = await service.directory.fetch("SELECT locations FROM stores WHERE id = $1", shop.store_id)
    assert "annex" in published


async def test_a_store_is_erased_in_its_shard_before_it_is_deleted(service: Sharded, shop: Shop) -> None:
    await shop.fill()
    await service.directory.fetch(
        "INSERT INTO store_closures (store_id, suspended, erase_at) VALUES ($1, false, now())", shop.store_id
    )
    await caught_up(service.directory, service.shard)
    await maintain(service.directory)
    assert await exists(service, shop)

    async def erased() -> bool:
        await maintain(service.shard)
        return await collect(service.shard, service.directory, RECEIVERS) > 0

    await eventually(erased)
    assert not await exists(service, shop)
    for table in ("products", "orders", "events", "audit_entries", "customers"):
        rows = await service.shard.fetch(f"SELECT FROM {table} WHERE store_id = $1", shop.store_id)
        assert rows == [], table


async def exists(service: Sharded, shop: Shop) -> bool:
    return bool(await service.directory.fetch("SELECT FROM stores WHERE id = $1", shop.store_id))
