"""Lanes shared by several workers: leases, takeover, redelivery, and retention."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import msgspec
from aiohttp import web

from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.settings import Settings
from stoa.webhooks.delivery import maintenance, queries
from stoa.webhooks.delivery.retry_policy import DeliveryConfig
from stoa.webhooks.delivery.router import route_events
from tests.support.receivers import Received, Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, create_product, lane, log, subscribe, until, working


async def lease(db: Database, shop: Shop, owner: str) -> list[queries.Lane]:
    """Lease the due lanes of a shop's bucket, as a worker does."""
    lanes = await queries.LEASE_LANES.all(db, [shop.store_id % 64], owner, 100, QUICK.takeover_after, QUICK.lease)
    return [each for each in lanes if each.store_id == shop.store_id]


async def renew(db: Database, owner: str, lane: queries.Lane, takeover_s: float = 6.0) -> list[int]:
    row = queries.LaneLease(lane.store_id, lane.webhook_id, lane.epoch)
    return await queries.RENEW_LEASES.all(db, owner, takeover_s, json_rows([row]))


async def routed(shop: Shop, count: int = 1) -> Subscribed:
    """A subscription with this many pending deliveries."""
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created")
    for n in range(count):
        await create_product(shop, f"Mug {n}")
    await route_events(shop.db, [shop.store_id % 64])
    return hook


async def statuses(shop: Shop, hook: Subscribed) -> list[str]:
    return [entry["status"] for entry in await log(shop.db, hook.id)]


async def test_only_one_of_many_concurrent_workers_leases_a_lane(shop: Shop, db: Database) -> None:
    await routed(shop)
    leased = await asyncio.gather(*(lease(db, shop, f"worker-{n}") for n in range(8)))
    assert sorted(map(len, leased)) == [0] * 7 + [1]


async def test_another_worker_takes_over_a_lane_whose_owner_stopped_renewing(shop: Shop, db: Database) -> None:
    hook = await routed(shop)
    [first] = await lease(db, shop, "dead")
    assert await lease(db, shop, "other") == []
    # The lane is due as if its owner had sent no heartbeat for six seconds.
    await db.execute("UPDATE lanes SET due_at = now() WHERE webhook_id = $1", hook.id)
    [second] = await lease(db, shop, "other")
    assert (second.owner, second.epoch) == ("other", first.epoch + 1)
    assert await renew(db, "dead", first) == []
    assert await renew(db, "other", second) == [hook.id]


async def test_a_renewal_never_extends_past_the_lease(shop: Shop, db: Database) -> None:
    hook = await routed(shop)
    [first] = await lease(db, shop, "stuck")
    await renew(db, "stuck", first, 3600.0)
    state = await lane(db, hook.id)
    assert state["due_at"] <= datetime.now(UTC) + timedelta(seconds=QUICK.lease)


async def test_no_delivery_is_lost_when_a_worker_crashes_after_leasing(shop: Shop, settings: Settings) -> None:
    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with Receiver(hang) as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(5):
            await create_product(shop, f"Mug {n}")
        await route_events(shop.db, [shop.store_id % 64])
        [leased] = await lease(shop.db, shop, "crashed worker")
        assert leased.webhook_id == hook.id
        receiver.behave = answering(200)
        async with working(settings):
            await receiver.until(5)
            await until(lambda: _all_succeeded(shop, hook), "all deliveries are recorded")
        assert {event["sequence"] for event in receiver.events} == {1, 2, 3, 4, 5}


async def _all_succeeded(shop: Shop, hook: Subscribed) -> bool:
    return set(await statuses(shop, hook)) == {"succeeded"}


async def test_two_workers_share_the_lanes_and_send_each_delivery_once(
    shop: Shop, other_shop: Shop, settings: Settings
) -> None:
    # On a busy machine both stand still for seconds, and a lane that is taken over then is sent again.
    steady = msgspec.structs.replace(QUICK, takeover_after=60, stop_after=60, lease=60)
    async with Receiver() as receiver, working(settings, steady), working(settings, steady):
        hooks = [await subscribe(each, receiver.url, "product.created") for each in (shop, other_shop, shop)]
        for n in range(10):
            await asyncio.gather(create_product(shop, f"Mug {n}"), create_product(other_shop, f"Mug {n}"))
        await receiver.until(30)
        for hook in hooks:
            await until(lambda hook=hook: _all_succeeded(shop, hook), "all deliveries are recorded")
        assert len(receiver.received) == 30


async def test_a_stopping_worker_finishes_its_requests_in_flight(shop: Shop, settings: Settings) -> None:
    async def respond_slowly(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return web.Response()

    async with Receiver(respond_slowly) as receiver:
        async with working(settings):
            hook = await subscribe(shop, receiver.url, "product.created")
            for n in range(6):
                await create_product(shop, f"Mug {n}")
            await receiver.until(1)
        logged = await statuses(shop, hook)
        done = [status for status in logged if status == "succeeded"]
        assert len(done) == len(receiver.received)
        state = await lane(shop.db, hook.id)
        assert state["owner"] == ""
        assert state["waiting"] == len(logged) - len(done)


async def test_the_sweeper_repairs_a_lost_wake_up(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await route_events(shop.db, [shop.store_id % 64])
        await shop.db.execute("UPDATE lanes SET due_at = NULL WHERE webhook_id = $1", hook.id)
        async with working(settings):
            await receiver.until(1)


async def test_an_empty_lane_with_an_open_breaker_is_not_leased_repeatedly(shop: Shop, settings: Settings) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created")
    await shop.db.execute(
        """UPDATE lanes SET breaker = 'open', hold_until = now() - interval '1 minute', due_at = now()
            WHERE store_id = $1 AND webhook_id = $2""",
        shop.store_id,
        hook.id,
    )
    before = (await lane(shop.db, hook.id))["epoch"]

    async def released() -> bool:
        state = await lane(shop.db, hook.id)
        return state["epoch"] > before and state["owner"] == "" and state["due_at"] is None

    async with working(settings):
        await until(released, "the lane is released")
        await asyncio.sleep(0.5)
        assert (await lane(shop.db, hook.id))["epoch"] == before + 1


async def test_a_lane_does_not_exceed_its_rate_limit(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        await subscribe(shop, receiver.url, "product.created", rate_per_s=10)
        for n in range(8):
            await create_product(shop, f"Mug {n}")
        got = await receiver.until(8)
        assert got[-1].at - got[0].at >= 0.5


# --- redelivery -------------------------------------------------------------------------------------------------------


async def redeliver(shop: Shop, hook: Subscribed, **columns: object) -> None:
    names = ["store_id", "webhook_id", *columns]
    placeholders = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    await shop.db.execute(
        f"INSERT INTO redeliveries ({', '.join(names)}) VALUES ({placeholders})",
        shop.store_id,
        hook.id,
        *columns.values(),
    )


async def test_a_redelivery_keeps_the_event_id(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(3):
            await create_product(shop, f"Mug {n}")
        await until(lambda: _succeeded(shop, hook, 3), "all deliveries succeeded")
        await redeliver(shop, hook, sequences=[3, 1, 77])
        await until(lambda: _succeeded(shop, hook, 5), "two deliveries succeeded again")
        entries = await log(shop.db, hook.id)
        assert [(entry["sequence"], entry["redelivery_of"]) for entry in entries][3:] == [(4, 1), (5, 3)]
        ids = {event["sequence"]: event["id"] for event in receiver.events}
        assert (ids[4], ids[5]) == (ids[1], ids[3])


async def _succeeded(shop: Shop, hook: Subscribed, count: int) -> bool:
    return [status for status in await statuses(shop, hook) if status == "succeeded"] == ["succeeded"] * count


async def test_one_time_range_redelivers_everything_that_failed_in_an_outage(shop: Shop, settings: Settings) -> None:
    no_breaker = msgspec.structs.replace(QUICK, breaker_failures=1000, breaker_window_min=1000, retries=(0.01,))
    async with Receiver(answering(500)) as receiver, working(settings, no_breaker):
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(4):
            await create_product(shop, f"Mug {n}")

        async def failed() -> bool:
            return await statuses(shop, hook) == ["failed"] * 4

        await until(failed, "all deliveries failed")
        receiver.behave = answering(200)
        now = datetime.now(UTC)
        await redeliver(shop, hook, since=now - timedelta(hours=1), until=now, status="failed", rate_per_s=50)
        await until(lambda: _succeeded(shop, hook, 4), "all redeliveries succeeded")
        [[queued, ended]] = await shop.db.fetch(
            "SELECT queued, finished_at IS NOT NULL FROM redeliveries WHERE store_id = $1", shop.store_id
        )
        assert (queued, ended) == (4, True)


async def test_redelivering_a_pending_delivery_retries_it_immediately_without_a_copy(
    shop: Shop, settings: Settings
) -> None:
    slow = msgspec.structs.replace(QUICK, retries=(600.0,) * 3)
    async with Receiver(answering(500)) as receiver, working(settings, slow):
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)

        async def retrying() -> bool:
            return await statuses(shop, hook) == ["retrying"]

        await until(retrying, "the delivery waits for its retry")
        receiver.behave = answering(200)
        await redeliver(shop, hook, sequences=[1])
        await until(lambda: _succeeded(shop, hook, 1), "the delivery succeeded")
        assert len(await log(shop.db, hook.id)) == 1


# --- retention --------------------------------------------------------------------------------------------------------


async def test_daily_partitions_are_created_ahead_and_dropped_after_retention(db: Database) -> None:
    old = date.today() - timedelta(days=40)  # noqa: DTZ011
    for table in ("events", "deliveries"):
        await db.fetch("SELECT make_day($1, $2)", table, old)
    for _ in range(4):
        await maintenance.maintain(db, DeliveryConfig())
    rows = await db.fetch("SELECT relname::text FROM pg_class WHERE relname ~ '^(events|deliveries)_\\d{8}$'")
    names = {row[0] for row in rows}
    ahead = date.today() + timedelta(days=7)  # noqa: DTZ011
    assert f"events_{ahead:%Y%m%d}" in names
    assert f"deliveries_{ahead:%Y%m%d}" in names
    assert not names & {f"events_{old:%Y%m%d}", f"deliveries_{old:%Y%m%d}"}


async def test_a_pending_delivery_is_dropped_when_its_event_expires(shop: Shop, db: Database) -> None:
    hook = await routed(shop, 2)
    await db.execute(
        "UPDATE pending_deliveries SET event_day = event_day - 40 WHERE webhook_id = $1 AND sequence = 1", hook.id
    )
    await maintenance.maintain(db, DeliveryConfig())
    assert [entry["sequence"] for entry in await log(db, hook.id)] == [2]
    assert (await lane(db, hook.id))["waiting"] == 1


async def ordered(shop: Shop, url: str) -> Subscribed:
    """A subscription with two pending deliveries of one product, of which the second waits for the first."""
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass
    hook = await subscribe(shop, url, "product.*", ordering="resource")
    product = await create_product(shop)
    await shop.client.patch(f"/products/{product}", json={"name": "Cup"})
    await route_events(shop.db, [shop.store_id % 64])
    return hook


async def expire_first(shop: Shop, hook: Subscribed) -> None:
    await shop.db.execute(
        "UPDATE pending_deliveries SET event_day = event_day - 40 WHERE webhook_id = $1 AND sequence = 1", hook.id
    )
    await maintenance.maintain(shop.db, DeliveryConfig())


async def due_sequences(shop: Shop) -> list[int]:
    """The deliveries that a worker reads which leases the lane now."""
    reads = [
        queries.LaneRead(shop.store_id, each.webhook_id, 10, probe=False) for each in await lease(shop.db, shop, "us")
    ]
    return [each.sequence for each in await queries.DUE_DELIVERIES.all(shop.db, json_rows(reads))]


async def test_the_next_delivery_of_a_resource_is_due_when_the_one_before_it_expires(shop: Shop) -> None:
    hook = await ordered(shop, "http://127.0.0.1:1/")
    await shop.db.execute("UPDATE lanes SET due_at = now() + interval '1 hour' WHERE webhook_id = $1", hook.id)
    await expire_first(shop, hook)
    assert await due_sequences(shop) == [2]


async def test_a_resume_sends_deliveries_whose_earlier_one_expired_during_the_pause(shop: Shop) -> None:
    hook = await ordered(shop, "http://127.0.0.1:1/")
    path = f"/webhooks/{hook.id}"
    assert (await shop.client.patch(path, json={"status": "paused"})).status_code == 200
    await expire_first(shop, hook)
    assert await due_sequences(shop) == []
    assert (await shop.client.patch(path, json={"status": "active"})).status_code == 200
    assert await due_sequences(shop) == [2]


async def test_a_lane_on_hold_stays_on_hold_when_a_delivery_expires(shop: Shop) -> None:
    hook = await ordered(shop, "http://127.0.0.1:1/")
    held = "hold_until = now() + interval '1 hour', due_at = now() + interval '1 hour'"
    await shop.db.execute(f"UPDATE lanes SET {held} WHERE webhook_id = $1", hook.id)
    before = await lane(shop.db, hook.id)
    await expire_first(shop, hook)
    after = await lane(shop.db, hook.id)
    assert (after["waiting"], after["due_at"]) == (1, before["due_at"])


async def test_a_delivery_that_waits_for_nothing_is_sent_after_the_next_maintenance(
    shop: Shop, settings: Settings
) -> None:
    """The first delivery of the resource is gone, and nobody made the second one due."""
    async with Receiver() as receiver:
        hook = await ordered(shop, receiver.url)
        await shop.db.execute("DELETE FROM pending_deliveries WHERE webhook_id = $1 AND sequence = 1", hook.id)
        await shop.db.execute("UPDATE lanes SET waiting = 1 WHERE webhook_id = $1", hook.id)
        async with working(settings):
            [received] = await receiver.until(1)
        assert received.event["sequence"] == 2
