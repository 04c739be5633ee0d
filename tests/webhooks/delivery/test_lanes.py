"""Lanes among several workers: taken over from the dead, kept by the living, never lost; and sent again when asked."""

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
from tests.webhooks.workers import QUICK, Subscribed, add_note, lane, log, subscribe, until, working


async def claim(db: Database, shop: Shop, owner: str) -> list[queries.Lane]:
    """Take the lanes of a shop's bucket that are due, as a worker does."""
    found = await queries.LEASE_LANES.all(db, [shop.store_id % 64], owner, 100, QUICK.takeover_after, QUICK.lease)
    return [each for each in found if each.store_id == shop.store_id]


async def renew(db: Database, owner: str, lane: queries.Lane, takeover_s: float = 6.0) -> list[int]:
    row = queries.LaneLease(lane.store_id, lane.webhook_id, lane.epoch)
    return await queries.RENEW_LEASES.all(db, owner, takeover_s, json_rows([row]))


async def routed(shop: Shop, count: int = 1) -> Subscribed:
    """A subscription with deliveries that wait."""
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created")
    for n in range(count):
        await add_note(shop, f"Mug {n}")
    await route_events(shop.db, [shop.store_id % 64])
    return hook


async def statuses(shop: Shop, hook: Subscribed) -> list[str]:
    return [entry["status"] for entry in await log(shop.db, hook.id)]


async def test_of_many_who_reach_for_a_lane_one_gets_it(shop: Shop, db: Database) -> None:
    await routed(shop)
    taken = await asyncio.gather(*(claim(db, shop, f"worker-{n}") for n in range(8)))
    assert sorted(map(len, taken)) == [0] * 7 + [1]


async def test_a_lane_whose_owner_is_silent_is_taken_over(shop: Shop, db: Database) -> None:
    hook = await routed(shop)
    [mine] = await claim(db, shop, "dead")
    assert await claim(db, shop, "other") == []
    await db.execute("UPDATE lanes SET due_at = now() WHERE webhook_id = $1", hook.id)  # as after six silent seconds
    [theirs] = await claim(db, shop, "other")
    assert (theirs.owner, theirs.epoch) == ("other", mine.epoch + 1)
    assert await renew(db, "dead", mine) == []
    assert await renew(db, "other", theirs) == [hook.id]


async def test_a_beat_never_outlasts_the_lease(shop: Shop, db: Database) -> None:
    hook = await routed(shop)
    [mine] = await claim(db, shop, "stuck")
    await renew(db, "stuck", mine, 3600.0)
    state = await lane(db, hook.id)
    assert state["due_at"] <= datetime.now(UTC) + timedelta(seconds=QUICK.lease)


async def test_a_worker_that_dies_in_the_middle_loses_nothing(shop: Shop, settings: Settings) -> None:
    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with Receiver(hang) as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(5):
            await add_note(shop, f"Mug {n}")
        await route_events(shop.db, [shop.store_id % 64])
        [taken] = await claim(shop.db, shop, "dies at once")
        assert taken.webhook_id == hook.id
        receiver.behave = answering(200)
        async with working(settings):
            await receiver.until(5)
            await until(lambda: _all_done(shop, hook), "all are recorded")
        assert {event["sequence"] for event in receiver.events} == {1, 2, 3, 4, 5}


async def _all_done(shop: Shop, hook: Subscribed) -> bool:
    return set(await statuses(shop, hook)) == {"succeeded"}


async def test_two_workers_share_the_lanes_and_send_each_delivery_once(
    shop: Shop, other_shop: Shop, settings: Settings
) -> None:
    async with Receiver() as receiver, working(settings), working(settings):
        hooks = [await subscribe(each, receiver.url, "product.created") for each in (shop, other_shop, shop)]
        for n in range(10):
            await asyncio.gather(add_note(shop, f"Mug {n}"), add_note(other_shop, f"Mug {n}"))
        await receiver.until(30)
        for hook in hooks:
            await until(lambda hook=hook: _all_done(shop, hook), "all are recorded")
        assert len(receiver.received) == 30


async def test_a_worker_told_to_stop_finishes_what_is_in_flight(shop: Shop, settings: Settings) -> None:
    async def think(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return web.Response()

    async with Receiver(think) as receiver:
        async with working(settings):
            hook = await subscribe(shop, receiver.url, "product.created")
            for n in range(6):
                await add_note(shop, f"Mug {n}")
            await receiver.until(1)
        done = [status for status in await statuses(shop, hook) if status == "succeeded"]
        assert len(done) == len(receiver.received)
        state = await lane(shop.db, hook.id)
        assert state["owner"] == ""
        assert state["waiting"] == 6 - len(done)


async def test_a_wake_up_that_was_lost_is_found_by_the_sweeper(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await route_events(shop.db, [shop.store_id % 64])
        await shop.db.execute("UPDATE lanes SET due_at = NULL WHERE webhook_id = $1", hook.id)
        async with working(settings):
            await receiver.until(1)


async def test_an_empty_lane_with_an_open_breaker_is_not_leased_again_and_again(shop: Shop, settings: Settings) -> None:
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


async def test_a_lane_without_room_for_its_pace_sends_no_faster(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        await subscribe(shop, receiver.url, "product.created", rate_per_s=10)
        for n in range(8):
            await add_note(shop, f"Mug {n}")
        got = await receiver.until(8)
        assert got[-1].at - got[0].at >= 0.5


# --- again ------------------------------------------------------------------------------------------------------------


async def redeliver(shop: Shop, hook: Subscribed, **columns: object) -> None:
    names = ["store_id", "webhook_id", *columns]
    marks = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    await shop.db.execute(
        f"INSERT INTO redeliveries ({', '.join(names)}) VALUES ({marks})", shop.store_id, hook.id, *columns.values()
    )


async def test_deliveries_are_sent_again_under_the_same_event_id(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(3):
            await add_note(shop, f"Mug {n}")
        await until(lambda: _count_done(shop, hook, 3), "all arrived")
        await redeliver(shop, hook, sequences=[3, 1, 77])
        await until(lambda: _count_done(shop, hook, 5), "two arrived again")
        entries = await log(shop.db, hook.id)
        assert [(entry["sequence"], entry["redelivery_of"]) for entry in entries][3:] == [(4, 1), (5, 3)]
        ids = {event["sequence"]: event["id"] for event in receiver.events}
        assert (ids[4], ids[5]) == (ids[1], ids[3])


async def _count_done(shop: Shop, hook: Subscribed, count: int) -> bool:
    return [status for status in await statuses(shop, hook) if status == "succeeded"] == ["succeeded"] * count


async def test_an_outage_is_made_good_by_one_range(shop: Shop, settings: Settings) -> None:
    calm = msgspec.structs.replace(QUICK, breaker_failures=1000, breaker_window_min=1000, retries=(0.01,))
    async with Receiver(answering(500)) as receiver, working(settings, calm):
        hook = await subscribe(shop, receiver.url, "product.created")
        for n in range(4):
            await add_note(shop, f"Mug {n}")

        async def failed() -> bool:
            return await statuses(shop, hook) == ["failed"] * 4

        await until(failed, "all have failed")
        receiver.behave = answering(200)
        now = datetime.now(UTC)
        await redeliver(shop, hook, since=now - timedelta(hours=1), until=now, status="failed", rate_per_s=50)
        await until(lambda: _count_done(shop, hook, 4), "all arrived at last")
        [[queued, ended]] = await shop.db.fetch(
            "SELECT queued, finished_at IS NOT NULL FROM redeliveries WHERE store_id = $1", shop.store_id
        )
        assert (queued, ended) == (4, True)


async def test_what_still_waits_is_hurried_not_doubled(shop: Shop, settings: Settings) -> None:
    slow = msgspec.structs.replace(QUICK, retries=(600.0,) * 3)
    async with Receiver(answering(500)) as receiver, working(settings, slow):
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)

        async def retrying() -> bool:
            return await statuses(shop, hook) == ["retrying"]

        await until(retrying, "it waits for its next try")
        receiver.behave = answering(200)
        await redeliver(shop, hook, sequences=[1])
        await until(lambda: _count_done(shop, hook, 1), "it arrived")
        assert len(await log(shop.db, hook.id)) == 1


# --- days -------------------------------------------------------------------------------------------------------------


async def test_days_are_made_ahead_and_dropped_when_they_are_old(db: Database) -> None:
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


async def test_what_waits_longer_than_its_event_is_kept_is_forgotten(shop: Shop, db: Database) -> None:
    hook = await routed(shop, 2)
    await db.execute(
        "UPDATE pending_deliveries SET event_day = event_day - 40 WHERE webhook_id = $1 AND sequence = 1", hook.id
    )
    await maintenance.maintain(db, DeliveryConfig())
    assert [entry["sequence"] for entry in await log(db, hook.id)] == [2]
    assert (await lane(db, hook.id))["waiting"] == 1
