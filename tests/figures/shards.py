"""A large store moves between two servers again and again while it is written to: what is lost, how long writes wait, and what differs."""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import click

from stoa.app import Application
from stoa.cluster.distribution import Step
from stoa.db.pool import Database
from stoa.settings import load
from stoa.shards import moving
from tests.support.data_folders import remove_template
from tests.support.databases import TEMPLATE
from tests.support.fleet import Fleet, Writer, replicating_server, writing
from tests.support.moved_shop import shop_of
from tests.support.sharded import as_superuser
from tests.support.shops import Shop, open_shop

PRODUCTS, ORDERS, EVENTS, WRITERS = 10_000, 20_000, 100_000, 3
MOST_PAUSE_MS, MOST_P99_S = 1_000, 2.0
_MORE_EVENTS = """INSERT INTO events (store_id, id, position, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
    SELECT e.store_id, new_event_id(), nextval('event_positions'), e.type, e.resource_type, e.resource_id, e.resource_version, e.actor,
           e.changes, e.data, e.request_id
      FROM generate_series(1, $2::integer) CROSS JOIN LATERAL (SELECT * FROM events WHERE store_id = $1 LIMIT 1) e"""


async def move_under_writes(folder: Path, moves: int) -> bool:
    """Move the store to and fro, with the rows of both sides compared at every switch."""
    os.environ.setdefault(TEMPLATE, f"figure_{os.getpid()}")
    with ExitStack() as running, ThreadPoolExecutor(1) as thread:
        running.callback(remove_template)
        urls: list[str] = []
        for name in ("first", "second"):
            server = replicating_server(folder / name)
            running.callback(server.stop)
            urls.append(as_superuser(thread.submit(server.start).result()))
        settings = load({}, database_url=urls[0], data_dir=folder, log_level="error", metrics="off", access_log=False)
        fleet = Fleet(settings, urls[0], {"second": urls[1]})
        await fleet.add_shards()
        return await _move(fleet, await _large_shop(fleet), moves)


async def _large_shop(fleet: Fleet) -> Shop:
    application, db = Application(fleet.settings), Database(fleet.directory.url, size=4, statement_timeout_ms=60_000)
    shop, rows = await open_shop(application, db), shop_of(PRODUCTS, 10, ORDERS)
    for start in range(0, PRODUCTS, 250):
        await shop.add(
            *(
                {"name": row["name"], "price": row["price"], "sku": row["sku"]}
                for row in rows.products[start : start + 250]
            )
        )
    for start in range(0, ORDERS, 100):
        body = {"historical": True, "items": rows.orders[start : start + 100]}
        answer = await shop.client.post("/orders", json=body)
        assert answer.is_success, answer.text
    events = (await db.fetch("SELECT count(*) FROM events WHERE store_id = $1", shop.store_id))[0][0]
    await db.execute(_MORE_EVENTS, shop.store_id, EVENTS - events)
    await application.close()
    await db.close()
    return shop


async def _move(fleet: Fleet, shop: Shop, moves: int) -> bool:
    writers = [Writer(fleet, shop, f"w{n}") for n in range(WRITERS)]
    different: Counter[str] = Counter()
    before = Counter(await _skus(fleet, "", shop))
    started, place = time.monotonic(), ""
    async with writing(writers):
        for _ in range(moves):
            target = "second" if not place else ""

            async def compare(step: Step, source: str = place, target: str = target) -> None:
                if step.action == "raised its ids":
                    here, there = await fleet.contents(source, shop), await fleet.contents(target, shop)
                    different.update(name for name in here if here[name] != there[name])

            # A comparison makes the pause longer, so only the other half of the moves is measured.
            await moving.move(fleet.ask(shop, target, place), moving.no_report if target else compare)
            place = target
    seconds = time.monotonic() - started
    writes = [write for writer in writers for write in writer.acknowledged]
    found = Counter(await _skus(fleet, place, shop))
    expected = before + Counter(write.sku for write in writes)
    lost, doubled = (expected - found).total(), (found - expected).total()
    descending = sum(
        later.id <= earlier.id
        for w in writers
        for earlier, later in zip(w.acknowledged, w.acknowledged[1:], strict=False)
    )
    async with fleet.connection("") as db:
        rows = await db.fetch("SELECT pause_ms FROM store_moves WHERE target = 'second' ORDER BY pause_ms")
    pauses = [row[0] for row in rows]
    latencies = sorted(write.seconds for write in writes)
    p99 = latencies[int(len(latencies) * 0.99)]
    click.echo(
        f"shards: {moves} moves of {PRODUCTS} products, {ORDERS} orders and {EVENTS} events in {seconds:.0f} s under {WRITERS} writers:"
        f" {len(writes)} writes, {lost} lost, {doubled} doubled, {descending} ids out of order; {different.total()} tables differed"
        f" at a switch; pause median {pauses[len(pauses) // 2]} ms, longest {pauses[-1]} ms; a write p99 {p99 * 1000:.0f} ms,"
        f" longest {latencies[-1] * 1000:.0f} ms"
    )
    exact = not lost and not doubled and not descending and not different
    return exact and pauses[-1] <= MOST_PAUSE_MS and p99 <= MOST_P99_S


async def _skus(fleet: Fleet, shard: str, shop: Shop) -> list[str]:
    async with fleet.connection(shard) as db:
        return [row[0] for row in await db.fetch("SELECT sku FROM variants WHERE store_id = $1", shop.store_id)]
