"""What an app has for all stores reaches those in shards: its endpoint, its secret, its subscriptions and its deletion."""

import msgspec
import pytest
from tests.shards.test_global_changes import actions, events, exchange, rows
from tests.support.fleet import FENCING, Fleet
from tests.support.receivers import Receiver
from tests.support.sharded import Sharded, caught_up
from tests.support.shops import Shop
from tests.webhooks.workers import create_product, with_loopback, working

from stoa.access.apps import delete_app
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.background import shard_receivers, store_receivers
from stoa.cluster.distribution import Step
from stoa.db import connection
from stoa.db.connection import session_settings
from stoa.db.pool import Database
from stoa.db.shard_outbox import receive_for_shard, receive_for_stores
from stoa.settings import Settings
from stoa.shards import moving
from stoa.webhooks import app_rollout
from stoa.webhooks.app_callbacks import resume_endpoint, rotate_signing_secret, save_callbacks, set_callbacks
from stoa.webhooks.app_subscriptions import AppSubscription, declare, remove

pytestmark = [pytest.mark.not_on_cluster("a service has either shards or a cluster"), pytest.mark.timeout(300)]
ENDPOINT = "SELECT url FROM webhooks WHERE store_id = $1 AND of_app AND ended_at IS NULL"
MANAGED = "SELECT name FROM webhooks WHERE store_id = $1 AND managed_by IS NOT NULL AND ended_at IS NULL ORDER BY name"


@pytest.fixture
async def developer(shop: Shop) -> Operator:
    """The developer of the app, which may send to this machine."""
    by = shop.operator
    by.settings = with_loopback(by.settings)
    return by


def in_shard(service: Sharded) -> Settings:
    return msgspec.structs.replace(service.application.settings, database_url=service.shard.url)


async def test_an_endpoint_reaches_the_stores_of_a_shard(service: Sharded, shop: Shop, developer: Operator) -> None:
    async with Receiver() as receiver:
        made = await set_callbacks(developer, shop.client_id, endpoint_url=receiver.url, return_urls=[])
        assert made.signing_secret is not None
        await exchange(service)
        assert await rows(service.shard, ENDPOINT, shop.store_id) == [receiver.url]
        async with working(in_shard(service)):
            await install(developer, shop.client_id, shop.store.handle, ["products:read"])
            received = await receiver.until(2)
        types = [each.verify(made.signing_secret)["type"] for each in received]
        assert types == ["app.installed", "app.scopes_changed"]
    await set_callbacks(developer, shop.client_id, endpoint_url=None, return_urls=[])
    await exchange(service)
    assert await rows(service.shard, ENDPOINT, shop.store_id) == []


async def test_deliveries_are_signed_with_the_new_secret_and_the_old_one(
    service: Sharded, shop: Shop, developer: Operator
) -> None:
    async with Receiver() as receiver, working(in_shard(service)):
        declared = AppSubscription("Products", ["product.created"], receiver.url)
        old = (await declare(developer, shop.client_id, declared))[1]
        await exchange(service)
        await create_product(shop, "One")
        await receiver.until(1)
        await set_callbacks(developer, shop.client_id, endpoint_url=receiver.url, return_urls=[])
        await exchange(service)
        new = (await rotate_signing_secret(developer, shop.client_id)).signing_secret
        assert old is not None
        assert new is not None
        await exchange(service)
        await create_product(shop, "Two")
        await install(developer, shop.client_id, shop.store.handle, ["products:write"])
        received = await receiver.until(3)
        for each in received[1:]:  # both secrets sign, those of the subscription and of the endpoint
            assert each.verify(new) == each.verify(old)
        last = (await rotate_signing_secret(developer, shop.client_id, grace_hours=0, force=True)).signing_secret
        assert last is not None
        await exchange(service)
        await create_product(shop, "Three")
        final = (await receiver.until(4))[3]
        final.verify(last)
        with pytest.raises(Exception, match="signature"):
            final.verify(old)


async def test_declared_subscriptions_follow_until_they_are_removed(
    service: Sharded, shop: Shop, developer: Operator
) -> None:
    for name in ("One", "Two"):
        await declare(developer, shop.client_id, AppSubscription(name, ["product.created"]))
    await exchange(service)
    assert await rows(service.shard, MANAGED, shop.store_id) == ["One", "Two"]
    await declare(developer, shop.client_id, AppSubscription("Two", ["product.deleted"]))
    await remove(developer, shop.client_id, "One")
    # The directory deletes the declaration when its own stores have followed, perhaps before a shard has.
    await service.directory.fetch("DELETE FROM app_subscriptions WHERE removed_at IS NOT NULL")
    await exchange(service)
    assert await rows(service.shard, MANAGED, shop.store_id) == ["Two"]
    found = "SELECT events FROM webhooks WHERE store_id = $1 AND name = 'Two'"
    assert await rows(service.shard, found, shop.store_id) == [["product.deleted"]]
    await uninstall(developer, shop.client_id, shop.store.handle)
    await install(developer, shop.client_id, shop.store.handle)  # an installation in the shard brings what is declared
    assert await rows(service.shard, MANAGED, shop.store_id) == ["Two"]


async def test_a_disabled_endpoint_is_resumed(service: Sharded, shop: Shop, developer: Operator) -> None:
    url = "https://app.example.com/events"
    await save_callbacks(developer, shop.client_id, endpoint_url=url, return_urls=[])
    await exchange(service)
    disabled = "UPDATE webhooks SET status = 'disabled', disabled_reason = 'failing' WHERE store_id = $1 AND of_app"
    await service.shard.fetch(disabled, shop.store_id)
    await rotate_signing_secret(developer, shop.client_id)
    await exchange(service)
    status = "SELECT status FROM webhooks WHERE store_id = $1 AND of_app AND ended_at IS NULL"
    assert await rows(service.shard, status, shop.store_id) == ["disabled"]
    await resume_endpoint(developer, shop.client_id)
    await exchange(service)
    assert await rows(service.shard, status, shop.store_id) == ["active"]


async def test_a_deleted_app_is_uninstalled(service: Sharded, shop: Shop, developer: Operator) -> None:
    await save_callbacks(developer, shop.client_id, endpoint_url="https://app.example.com/events", return_urls=[])
    await exchange(service)
    await delete_app(developer, shop.client_id)
    await exchange(service)
    assert await rows(service.shard, "SELECT 1 FROM installations WHERE app_id = $1", shop.app_id) == []
    assert await rows(service.shard, ENDPOINT, shop.store_id) == []
    assert (await actions(service, shop))[-1] == "app.uninstalled"
    assert (await events(service, shop))[-1] == "app.uninstalled"
    assert await exchange(service) == 0


async def test_a_store_that_fails_is_tried_again_by_itself(
    service: Sharded, shop: Shop, developer: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await service.open_shop()
    await install(developer, shop.client_id, other.store.handle)
    url = "https://app.example.com/events"
    monkeypatch.setattr(app_rollout, "BATCH", 1)  # a step for each store
    broken = f"ALTER TABLE webhooks ADD CONSTRAINT broken CHECK (store_id <> {shop.store_id}) NOT VALID"
    await service.shard.execute(broken)
    await save_callbacks(developer, shop.client_id, endpoint_url=url, return_urls=[])
    await exchange(service)
    assert await rows(service.shard, ENDPOINT, other.store_id) == [url]
    assert await rows(service.shard, ENDPOINT, shop.store_id) == []
    await exchange(service)  # the directory sends the store a message of its own
    await service.shard.execute("ALTER TABLE webhooks DROP CONSTRAINT broken")
    assert await exchange(service) == 1
    assert await rows(service.shard, ENDPOINT, shop.store_id) == [url]


async def test_a_shard_with_slow_stores_is_reached_in_short_steps(
    service: Sharded, shop: Shop, developer: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [await service.open_shop() for _ in range(4)]
    for other in others:
        await install(developer, shop.client_id, other.store.handle)
    await exchange(service)

    def ended_soon(*limits: int) -> dict[str, str]:
        return session_settings(*limits) | {"idle_in_transaction_session_timeout": "3000"}

    monkeypatch.setattr(connection, "session_settings", ended_soon)
    monkeypatch.setattr(app_rollout, "BATCH", 4)
    monkeypatch.setattr(app_rollout, "STEP_S", 0.5)
    await service.shard.execute(
        """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN new; END $$;
           CREATE TRIGGER slow BEFORE INSERT ON webhooks FOR EACH ROW EXECUTE FUNCTION slow()"""
    )
    here = Database(service.shard.url, size=2)
    here.fence()
    url = "https://app.example.com/events"
    try:
        await save_callbacks(developer, shop.client_id, endpoint_url=url, return_urls=[])
        await caught_up(service.directory, service.shard)
        while await receive_for_shard(here, service.directory, shard_receivers(service.application.settings)):
            pass
    finally:
        await here.close()
        await service.shard.execute("DROP FUNCTION slow CASCADE")
    for store in (shop, *others):
        assert await rows(service.shard, ENDPOINT, store.store_id) == [url]
    assert await rows(service.directory, "SELECT kind FROM shard_outbox") == []


@pytest.mark.parametrize("undone", [False, True])
async def test_a_store_follows_what_its_apps_changed_during_its_move(fleet: Fleet, *, undone: bool) -> None:
    shop = await fleet.open_shop(filled=False)
    url = "https://app.example.com/events"

    class Stopped(BaseException):
        pass

    async def change(step: Step) -> None:
        if step.action == "closed":
            async with fleet.operator() as by:
                await save_callbacks(by, shop.client_id, endpoint_url=url, return_urls=[])
            if undone:
                raise Stopped

    ask = fleet.ask(shop, "east")
    if undone:
        with pytest.raises(Stopped):
            await moving.move(ask, change)
        await moving.undo(ask)
    else:
        await moving.move(ask, change)
    place = "" if undone else "east"
    assert await fleet.holders(shop) == [place]
    here = Database(fleet.shards[place].url, size=2, name=FENCING)
    directory = Database(fleet.directory.url, size=2, name=FENCING)
    try:
        here.fence()
        assert await rows(here, ENDPOINT, shop.store_id) == []
        assert await receive_for_stores(here, directory, store_receivers(fleet.settings)) == 1
        assert await rows(here, ENDPOINT, shop.store_id) == [url]
    finally:
        await here.close()
        await directory.close()
