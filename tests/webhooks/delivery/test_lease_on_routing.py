"""The router leases empty lanes as it fills them: which lanes, with which deliveries, and which lanes it leaves."""

from typing import Any

import msgspec
import pytest

from stoa.settings import Settings
from stoa.webhooks.delivery.queries import NO_LEASE, Lease
from stoa.webhooks.delivery.router import Routed, route_events
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import Subscribed, create_product, lane, log, subscribe, until, working

LEASE = Lease("us", 1.0, 4.0)


async def route(shop: Shop, lease: Lease = LEASE) -> Routed:
    return await route_events(shop.db, [shop.store_id % 64], lease)


async def route_all(shop: Shop) -> None:
    while (await route(shop, NO_LEASE)).events:
        pass


async def subscribe_to_products(shop: Shop, **columns: Any) -> Subscribed:
    await route_all(shop)
    return await subscribe(shop, "http://127.0.0.1:1/", "product.*", **columns)


async def test_an_empty_lane_is_leased_together_with_its_new_deliveries(shop: Shop) -> None:
    hook = await subscribe_to_products(shop)
    for n in range(3):
        await create_product(shop, f"Mug {n}")
    routed = await route(shop)
    assert [(each.webhook_id, each.owner, each.waiting) for each in routed.leased.lanes] == [(hook.id, "us", 3)]
    assert [head.sequence for head in routed.leased.deliveries] == [1, 2, 3]
    assert [msgspec.json.decode(head.data)["name"] for head in routed.leased.deliveries] == ["Mug 0", "Mug 1", "Mug 2"]
    assert hook.id in [each.id for each in routed.leased.subscriptions]
    assert not routed.waiting
    state = await lane(shop.db, hook.id)
    assert (state["owner"], state["epoch"]) == ("us", routed.leased.lanes[0].epoch)


async def test_with_resource_ordering_one_delivery_per_resource_is_returned(shop: Shop) -> None:
    await subscribe_to_products(shop, ordering="resource")
    first = await create_product(shop, "Mug")
    await create_product(shop, "Bowl")
    await shop.client.patch(f"/products/{first}", json={"name": "Cup"})
    routed = await route(shop)
    assert [head.sequence for head in routed.leased.deliveries] == [1, 2]
    assert routed.leased.lanes[0].waiting == 3


async def test_with_resource_ordering_a_delivery_waits_for_the_earlier_ones_of_its_resource(shop: Shop) -> None:
    hook = await subscribe_to_products(shop, ordering="resource")
    first = await create_product(shop, "Mug")
    await create_product(shop, "Bowl")
    due = "SELECT sequence FROM pending_deliveries WHERE store_id = $1 AND webhook_id = $2 AND due_at < 'infinity' ORDER BY 1"
    for name in ("Cup", "Jug"):  # the first is routed together with the creation, the second later
        await shop.client.patch(f"/products/{first}", json={"name": name})
        await route(shop)
        assert [sequence for (sequence,) in await shop.db.fetch(due, shop.store_id, hook.id)] == [1, 2], name


async def test_a_lane_with_pending_deliveries_is_not_leased_by_the_router(shop: Shop) -> None:
    hook = await subscribe_to_products(shop)
    await create_product(shop)
    await route(shop, NO_LEASE)
    await create_product(shop)
    routed = await route(shop)
    assert not routed.leased.lanes
    assert not routed.leased.deliveries
    assert routed.waiting == {shop.store_id % 64}
    assert (await lane(shop.db, hook.id))["owner"] == ""


@pytest.mark.parametrize(
    "state",
    [
        "breaker = 'open', hold_until = now() + interval '1 minute'",
        "hold_until = now() + interval '1 minute'",
        "owner = 'them', epoch = epoch + 1, due_at = now() + interval '6 seconds'",
    ],
)
async def test_a_lane_on_hold_or_leased_by_another_worker_is_not_leased(shop: Shop, state: str) -> None:
    hook = await subscribe_to_products(shop)
    await shop.db.execute(f"UPDATE lanes SET {state} WHERE webhook_id = $1", hook.id)
    before = await lane(shop.db, hook.id)
    await create_product(shop)
    assert not (await route(shop)).leased.lanes
    after = await lane(shop.db, hook.id)
    assert (after["owner"], after["epoch"], after["waiting"]) == (before["owner"], before["epoch"], 1)


@pytest.mark.parametrize("columns", [{"status": "paused"}, {"url": None}])
async def test_the_lane_of_a_paused_or_pull_only_subscription_is_filled_but_not_leased(
    shop: Shop, columns: dict[str, Any]
) -> None:
    hook = await subscribe_to_products(shop)
    [(name, value)] = columns.items()
    await shop.db.execute(f"UPDATE webhooks SET {name} = $2 WHERE id = $1", hook.id, value)
    await create_product(shop)
    assert not (await route(shop)).leased.lanes
    state = await lane(shop.db, hook.id)
    assert (state["owner"], state["due_at"], state["waiting"]) == ("", None, 1)


async def test_another_worker_sends_the_deliveries_of_a_crashed_owner(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        await route_all(shop)
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        assert (await route(shop)).leased.lanes  # and then this owner never renews
        async with working(settings):
            await receiver.until(1)

            async def done() -> bool:
                return [entry["status"] for entry in await log(shop.db, hook.id)] == ["succeeded"]

            await until(done, "the delivery is recorded")


async def test_large_events_are_routed_in_small_batches(shop: Shop) -> None:
    await subscribe_to_products(shop)
    await shop.db.execute(
        """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
           SELECT $1, 'evt_large_' || n, 'product.updated', 'product', n, 1, '{"type":"operator"}', '{}',
                  '"' || repeat('x', 3000000) || '"', 'req_tests'
             FROM generate_series(1, 3) AS n""",
        shop.store_id,
    )
    assert [(await route(shop, NO_LEASE)).events for _ in range(4)] == [1, 1, 1, 0]
