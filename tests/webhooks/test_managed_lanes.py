"""Workers of 0.3.0 cannot sign for managed subscriptions, so they lease no lane of one; workers of this release do."""

import pytest

from stoa.access.apps import create_app
from stoa.access.grants import install
from stoa.settings import Settings
from stoa.webhooks.app_subscriptions import AppSubscription, declare
from stoa.webhooks.delivery.lane_scheduler import SENDS_MANAGED
from stoa.webhooks.delivery.queries import LEASE_LANES, Lease
from stoa.webhooks.delivery.router import Routed, route_events
from tests.support.receivers import Receiver
from tests.support.shops import Shop, operator_of
from tests.webhooks.workers import create_product, lane, subscribe, with_loopback, working

OLD, NEW = "0123456789abcdef", f"{SENDS_MANAGED}0123456789abcdef"
EVENTS = ["product.created"]


async def route(shop: Shop, owner: str) -> Routed:
    return await route_events(shop.db, [shop.store_id % 64], Lease(owner, 1.0, 4.0))


async def leased(shop: Shop, owner: str) -> list[int]:
    lanes = await LEASE_LANES.all(shop.db, [shop.store_id % 64], owner, 1000, 1.0, 4.0)
    return [each.webhook_id for each in lanes if each.store_id == shop.store_id]


async def managed(shop: Shop, settings: Settings, url: str = "http://127.0.0.1:1/") -> int:
    """Declare a subscription for all stores, install its app, and route what happened before; returns the copy's id."""
    by = operator_of(shop.db, with_loopback(settings))
    app = await create_app(by, "Prices", ["products:read"])
    await declare(by, app.client_id, AppSubscription("prices", EVENTS, url))
    await install(by, app.client_id, shop.store.handle)
    while (await route(shop, "")).events:
        pass
    [[copy]] = await shop.db.fetch(
        "SELECT id FROM webhooks WHERE store_id = $1 AND managed_by IS NOT NULL", shop.store_id
    )
    return copy


async def test_a_router_of_the_previous_release_leaves_the_lane_due_and_leases_the_others(
    shop: Shop, settings: Settings
) -> None:
    copy = await managed(shop, settings)
    own = await subscribe(shop, "http://127.0.0.1:1/", *EVENTS)
    await create_product(shop)
    routed = await route(shop, OLD)
    assert [each.webhook_id for each in routed.leased.lanes] == [own.id]
    state = await lane(shop.db, copy)
    assert (state["owner"], state["waiting"]) == ("", 1)
    assert await leased(shop, OLD) == []
    assert await leased(shop, NEW) == [copy]


async def test_a_router_of_this_release_leases_the_lane_with_its_deliveries(shop: Shop, settings: Settings) -> None:
    copy = await managed(shop, settings)
    await create_product(shop)
    routed = await route(shop, NEW)
    assert [(each.webhook_id, each.owner) for each in routed.leased.lanes] == [(copy, NEW)]


@pytest.mark.parametrize("owner", [OLD, NEW])
async def test_every_worker_leases_the_lanes_of_other_subscriptions(shop: Shop, owner: str) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", *EVENTS)
    while (await route(shop, "")).events:
        pass
    await create_product(shop)
    await route(shop, "")
    assert await leased(shop, owner) == [hook.id]


async def test_what_a_previous_router_left_is_sent_by_a_worker_of_this_release(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        await managed(shop, settings, receiver.url)
        await create_product(shop)
        await route(shop, OLD)
        assert await leased(shop, OLD) == []
        async with working(settings):
            [got] = await receiver.until(1)
        assert got.headers["webhook-store"] == str(shop.store_id)
