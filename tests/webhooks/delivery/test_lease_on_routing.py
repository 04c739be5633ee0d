"""Lanes that are taken as they are filled: who gets them, with what, and who does not."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from stoa.settings import Settings
from stoa.webhooks.delivery.queries import NO_LEASE, RELEASE_BUCKETS, Lease
from stoa.webhooks.delivery.router import Routed, route_batch, route_events
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import Subscribed, add_note, lane, log, subscribe, until, working

US = Lease("us", 1.0, 4.0)


async def route(shop: Shop, lease: Lease = US) -> Routed:
    return await route_events(shop.db, [shop.store_id % 64], lease)


async def nothing_waits(shop: Shop) -> None:
    while (await route(shop, NO_LEASE)).events:
        pass


async def hooked(shop: Shop, **columns: Any) -> Subscribed:
    await nothing_waits(shop)
    return await subscribe(shop, "http://127.0.0.1:1/", "product.*", **columns)


async def test_a_lane_in_which_nothing_waited_is_taken_with_what_was_put_there(shop: Shop) -> None:
    hook = await hooked(shop)
    for n in range(3):
        await add_note(shop, f"Mug {n}")
    routed = await route(shop)
    assert [(each.webhook_id, each.owner, each.waiting) for each in routed.leased.lanes] == [(hook.id, "us", 3)]
    assert [head.sequence for head in routed.leased.deliveries] == [1, 2, 3]
    assert [msgspec.json.decode(head.data)["name"] for head in routed.leased.deliveries] == ["Mug 0", "Mug 1", "Mug 2"]
    assert hook.id in [each.id for each in routed.leased.subscriptions]
    assert not routed.waiting
    state = await lane(shop.db, hook.id)
    assert (state["owner"], state["epoch"]) == ("us", routed.leased.lanes[0].epoch)


async def test_where_order_is_kept_one_of_each_resource_comes_first(shop: Shop) -> None:
    await hooked(shop, ordering="resource")
    first = await add_note(shop, "Mug")
    await add_note(shop, "Bowl")
    await shop.client.patch(f"/products/{first}", json={"name": "Cup"})
    routed = await route(shop)
    assert [head.sequence for head in routed.leased.deliveries] == [1, 2]
    assert routed.leased.lanes[0].waiting == 3


async def test_a_lane_in_which_something_waits_is_left_for_whoever_looks_next(shop: Shop) -> None:
    hook = await hooked(shop)
    await add_note(shop)
    await route(shop, NO_LEASE)
    await add_note(shop)
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
async def test_a_lane_that_is_held_or_rests_is_not_taken(shop: Shop, state: str) -> None:
    hook = await hooked(shop)
    await shop.db.execute(f"UPDATE lanes SET {state} WHERE webhook_id = $1", hook.id)
    before = await lane(shop.db, hook.id)
    await add_note(shop)
    assert not (await route(shop)).leased.lanes
    after = await lane(shop.db, hook.id)
    assert (after["owner"], after["epoch"], after["waiting"]) == (before["owner"], before["epoch"], 1)


@pytest.mark.parametrize("columns", [{"status": "paused"}, {"url": None}])
async def test_a_subscription_that_is_not_to_be_sent_to_is_only_filled(shop: Shop, columns: dict[str, Any]) -> None:
    hook = await hooked(shop)
    [(name, value)] = columns.items()
    await shop.db.execute(f"UPDATE webhooks SET {name} = $2 WHERE id = $1", hook.id, value)
    await add_note(shop)
    assert not (await route(shop)).leased.lanes
    state = await lane(shop.db, hook.id)
    assert (state["owner"], state["due_at"], state["waiting"]) == ("", None, 1)


async def test_a_bucket_is_routed_by_one_at_a_time_and_given_back(shop: Shop) -> None:
    await hooked(shop)
    bucket = shop.store_id % 64
    await add_note(shop)
    async with shop.db.session() as db:
        assert (await route_batch(db, [bucket], US)).events == 1
        await add_note(shop)
        assert (await route(shop)).events == 0
        await route_batch(db, [(bucket + 1) % 64], US)  # which gives back what it had before
        assert (await route(shop)).events == 1
        await RELEASE_BUCKETS.one(db)


async def test_a_bucket_whose_router_dies_is_free_again(shop: Shop) -> None:
    await hooked(shop)
    with contextlib.suppress(asyncio.CancelledError):
        async with shop.db.session() as db:
            await route_batch(db, [shop.store_id % 64], US)
            raise asyncio.CancelledError
    await add_note(shop)

    async def free() -> bool:
        return (await route(shop)).events > 0

    await until(free, "the bucket can be routed")


async def test_what_was_taken_by_one_who_died_is_sent_by_another(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        await nothing_waits(shop)
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        assert (await route(shop)).leased.lanes  # and then nothing more is heard of us
        async with working(settings):
            await receiver.until(1)

            async def done() -> bool:
                return [entry["status"] for entry in await log(shop.db, hook.id)] == ["succeeded"]

            await until(done, "it is recorded")


async def test_large_events_are_taken_a_few_at_a_time(shop: Shop) -> None:
    await hooked(shop)
    await shop.db.execute(
        """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
           SELECT $1, 'evt_large_' || n, 'product.updated', 'product', n, 1, '{"type":"operator"}', '{}',
                  '"' || repeat('x', 9000000) || '"', 'req_tests'
             FROM generate_series(1, 3) AS n""",
        shop.store_id,
    )
    assert [(await route(shop, NO_LEASE)).events for _ in range(3)] == [2, 1, 0]
