"""A clock that jumps, of a worker's machine or of the database, does not delay what is due."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import msgspec
import pytest
from aiohttp import web

from stoa.db.pool import Database
from stoa.operations import maintenance as service_maintenance
from stoa.settings import Settings
from stoa.webhooks.delivery import maintenance, router
from stoa.webhooks.delivery.router import route_events
from tests.support.databases import PATIENCE_S
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, create_product, lane, subscribe, until, working

DAY = 86_400
JUMPED = """UPDATE lanes SET due_at = now() + interval '1 hour', hold_until = now() + interval '1 hour', owner = $2,
                             lease_until = now() + CASE WHEN $2 <> '' THEN interval '1 hour' END,
                             last_attempt_at = now() + make_interval(mins => $3) WHERE webhook_id = $1"""
CREATED = "UPDATE pending_deliveries SET due_at = now() + interval '1 hour', created_at = now() + make_interval(mins => $2) WHERE webhook_id = $1"


async def pending(shop: Shop) -> int:
    """A subscription with one pending delivery; returns its id."""
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created")
    await create_product(shop, "Mug")
    while (await route_events(shop.db, [shop.store_id % 64])).events:
        pass
    return hook.id


async def is_due(db: Database, webhook_id: int) -> bool:
    await maintenance.WAKE_STALLED.one(db, QUICK.lease)
    [[due_at]] = await db.fetch("SELECT min(due_at) FROM pending_deliveries WHERE webhook_id = $1", webhook_id)
    state = await lane(db, webhook_id)
    now = datetime.now(UTC) + timedelta(seconds=1)
    return state["due_at"] <= now and due_at <= now and (state["hold_until"] is None or state["hold_until"] <= now)


@pytest.mark.parametrize("jump", [-DAY, DAY])
async def test_a_retry_is_on_time_if_the_workers_clock_jumps(
    shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    real = time.time

    async def fail_once(_request: web.Request, received: Received) -> web.StreamResponse:
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        return web.Response(status=500 if received is receiver.received[0] else 200)

    async with Receiver(fail_once) as receiver:
        await subscribe(shop, receiver.url, "product.created")
        # Without further maintenance, which would wake a delivery whose attempt lies in the future.
        async with working(settings, msgspec.structs.replace(QUICK, maintenance_every=3600)):
            await asyncio.sleep(0.1)
            await create_product(shop, "Mug")
            await receiver.until(2, seconds=PATIENCE_S)
    monkeypatch.setattr(time, "time", real)
    [[attempts]] = await shop.db.fetch("SELECT attempts FROM deliveries WHERE store_id = $1", shop.store_id)
    assert f'"at":"{datetime.now(UTC):%Y-%m-%d}' in attempts or real() % DAY < 60


async def test_an_event_after_a_resume_is_sent_although_the_workers_clock_is_slow(
    shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) - timedelta(hours=1)

    async def knows_the_time() -> bool:
        return abs(worker.scheduler.shared.now() - datetime.now(UTC)) < timedelta(minutes=1)

    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    monkeypatch.setattr(router, "datetime", Slow)
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created", status="paused")
        resumed = await shop.client.patch(f"/webhooks/{hook.id}", json={"status": "active", "resume": "now"})
        assert resumed.status_code == 200, resumed.text
        async with working(settings) as worker:
            await until(knows_the_time, "the worker has asked the database for the time")
            await create_product(shop, "New")
            await receiver.until(1)


@pytest.mark.parametrize(("created_in", "attempted_in"), [(60, -60), (-60, 60)])
async def test_a_delivery_is_due_if_the_databases_clock_was_set_back(
    shop: Shop, db: Database, created_in: int, attempted_in: int
) -> None:
    hook = await pending(shop)
    await db.execute(JUMPED, hook, "", attempted_in)
    await db.execute(CREATED, hook, created_in)
    assert await is_due(db, hook)
    # It is woken once: the next retry waits as long as the retry policy says.
    await db.execute("UPDATE lanes SET due_at = now() + interval '1 hour' WHERE webhook_id = $1", hook)
    assert not await is_due(db, hook)


async def test_a_lease_of_a_dead_worker_ends_if_the_databases_clock_was_set_back(shop: Shop, db: Database) -> None:
    hook = await pending(shop)
    await db.execute(JUMPED, hook, "dead", -60)
    await maintenance.WAKE_STALLED.one(db, QUICK.lease)
    assert (await lane(db, hook))["due_at"] <= datetime.now(UTC) + timedelta(seconds=1)


async def test_a_retry_that_is_due_later_is_not_woken(shop: Shop, db: Database) -> None:
    hook = await pending(shop)
    await db.execute(JUMPED, hook, "", -60)
    await db.execute(CREATED, hook, -60)
    assert not await is_due(db, hook)


async def test_a_rate_limit_is_refilled_if_the_databases_clock_was_set_back(shop: Shop, db: Database) -> None:
    take = "SELECT granted FROM take_tokens($1, 1, 'requests', 1, 5, 1000)"
    await db.fetch(take, shop.store_id)
    await db.execute(
        "UPDATE rate_buckets SET tokens = 0, refilled_at = now() + interval '1 hour' WHERE store_id = $1 AND app_id = 1",
        shop.store_id,
    )
    await db.fetch(take, shop.store_id)
    await asyncio.sleep(0.05)
    assert [tuple(row) for row in await db.fetch(take, shop.store_id)] == [(1.0,)]


async def test_a_lease_of_an_import_ends_if_the_databases_clock_was_set_back(shop: Shop, db: Database) -> None:
    row, media = b'{"sku":"A","name":"A"}\n', {"content-type": "application/x-ndjson"}
    assert (await shop.client.post("/products/imports", content=row, headers=media)).status_code == 202
    await db.execute(
        "UPDATE import_queue SET lease_owner = 'dead', lease_until = now() + interval '1 hour' WHERE store_id = $1",
        shop.store_id,
    )
    await service_maintenance.END_FUTURE_LEASES.run(db)
    [[claimable]] = await db.fetch("SELECT lease_until <= now() FROM import_queue WHERE store_id = $1", shop.store_id)
    assert claimable
