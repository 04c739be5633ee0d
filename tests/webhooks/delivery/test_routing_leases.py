"""Routing is exactly once: one router at a time leases a bucket, and a late holder of a lease changes nothing."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from stoa.db.errors import PostgresError, sqlstate
from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.settings import Settings
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.maintenance import maintain
from stoa.webhooks.delivery.queries import RoutedEvent
from stoa.webhooks.delivery.router import route_events
from tests.support.races import rolled_back
from tests.support.sharded import url_of_stores
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, create_product, log, subscribe, until

# A router in a process of its own. It takes the events of a bucket, says so, waits for its input to end, and routes them.
HOLDER = """
import asyncio, sys
import stoa.api  # declares the events
from stoa.db.pool import Database
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.router import route_events

class Waiting:
    async def all(self, db, *arguments):
        print("taken", flush=True)
        sys.stdin.read()
        return await ROUTE.all(db, *arguments)

ROUTE, queries.ROUTE_EVENTS = queries.ROUTE_EVENTS, Waiting()
database = Database(sys.argv[1], size=2)
try:
    routed = asyncio.run(route_events(database, [int(sys.argv[2])], lease_s=float(sys.argv[3])))
except Exception as error:
    print(getattr(error, "sqlstate", error))
else:
    print("routed", routed.events)
"""
LEASE_S = 1.0


class Holder:
    """A real process that has taken the events of a bucket and has not routed them yet."""

    def __init__(self, settings: Settings, bucket: int, lease_s: float = LEASE_S) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, url_of_stores(settings.database_url), str(bucket), str(lease_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(queries.__file__).parents[3])},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "taken\n"

    def finish(self) -> str:
        output, _ = self.process.communicate(timeout=60)
        return output.strip()


async def ready(shop: Shop) -> tuple[int, Subscribed]:
    """A bucket without unrouted events, and a subscription; then two events."""
    bucket = shop.store_id % 64
    while (await route_events(shop.db, [bucket])).events:
        pass
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.*")
    for n in range(2):
        await create_product(shop, f"Mug {n}")
    return bucket, hook


async def routed_after_the_lease(shop: Shop, bucket: int) -> int:
    """Route as another router, as soon as the lease has expired."""

    async def once() -> int:
        return (await route_events(shop.db, [bucket])).events

    return await until(once, "the bucket is taken over")


async def sequences(shop: Shop, hook: Subscribed) -> list[int]:
    return sorted(entry["sequence"] for entry in await log(shop.db, hook.id))


async def test_a_leased_bucket_is_left_to_its_holder(shop: Shop, settings: Settings) -> None:
    bucket, hook = await ready(shop)
    holder = await asyncio.to_thread(Holder, settings, bucket, 60)
    assert (await route_events(shop.db, [bucket])).events == 0
    found = await queries.SKIP_UNSUBSCRIBED.all(shop.db, 10_000)
    assert shop.store_id not in {each.store_id for each in found}
    assert await asyncio.to_thread(holder.finish) == "routed 2"
    assert await sequences(shop, hook) == [1, 2]
    await create_product(shop, "Bowl")
    assert (await route_events(shop.db, [bucket])).events == 1  # routing ended the lease


async def test_the_bucket_of_a_killed_router_is_taken_over_after_its_lease(shop: Shop, settings: Settings) -> None:
    bucket, hook = await ready(shop)
    holder = await asyncio.to_thread(Holder, settings, bucket)
    holder.process.send_signal(SIGKILL)
    await asyncio.to_thread(holder.finish)
    assert await routed_after_the_lease(shop, bucket) == 2
    assert await sequences(shop, hook) == [1, 2]


async def test_a_paused_router_that_wakes_up_late_routes_nothing(shop: Shop, settings: Settings) -> None:
    bucket, hook = await ready(shop)
    holder = await asyncio.to_thread(Holder, settings, bucket)
    holder.process.send_signal(SIGSTOP)
    assert await routed_after_the_lease(shop, bucket) == 2
    holder.process.send_signal(SIGCONT)
    assert await asyncio.to_thread(holder.finish) == "40001"
    assert await sequences(shop, hook) == [1, 2]


async def test_a_late_holder_does_not_route_while_its_successor_has_only_read(shop: Shop, settings: Settings) -> None:
    bucket, hook = await ready(shop)
    late = await asyncio.to_thread(Holder, settings, bucket, 0)
    successor = await asyncio.to_thread(Holder, settings, bucket, 60)
    assert await asyncio.to_thread(late.finish) == "40001"
    assert await asyncio.to_thread(successor.finish) == "routed 2"
    assert await sequences(shop, hook) == [1, 2]


async def test_an_event_that_is_already_routed_fails_the_batch_even_under_a_valid_lease(shop: Shop) -> None:
    bucket, _ = await ready(shop)
    events = await queries.TAKE_EVENTS.all(shop.db, [bucket], 10, 10**6, "us", 1, 60.0, [], False)  # noqa: FBT003 - a bind value
    rows = json_rows([RoutedEvent(event.store_id, event.id) for event in events])
    await shop.db.execute(
        "UPDATE events SET routed_on = current_date WHERE store_id = $1 AND id = $2", shop.store_id, events[0].id
    )
    with pytest.raises(PostgresError) as failed:
        await queries.ROUTE_EVENTS.all(shop.db, "us", 1, "", 0.0, 0.0, rows, "[]", "[]")
    assert sqlstate(failed.value) == "40001"
    await queries.RELEASE_BUCKETS.run(shop.db, "us")
    assert (await route_events(shop.db, [bucket])).events == 1


async def test_polling_does_not_wait_for_a_bucket_that_is_being_routed(shop: Shop) -> None:
    bucket, _ = await ready(shop)
    async with rolled_back(shop.db) as db:
        await db.execute("SELECT FROM routing_leases WHERE bucket = $1 FOR UPDATE", bucket)
        assert (await route_events(shop.db, [bucket])).events == 0
        found = await queries.SKIP_UNSUBSCRIBED.all(shop.db, 10_000)
        assert shop.store_id not in {each.store_id for each in found}
    assert (await route_events(shop.db, [bucket])).events == 2


async def test_a_lease_from_before_the_clock_was_set_back_is_ended(shop: Shop, db: Database) -> None:
    bucket, _ = await ready(shop)
    await db.execute(
        "UPDATE routing_leases SET holder = 'gone', until = now() + interval '1 day' WHERE bucket = $1", bucket
    )
    assert (await route_events(shop.db, [bucket])).events == 0
    await maintain(db, QUICK)
    assert (await route_events(shop.db, [bucket])).events == 2
