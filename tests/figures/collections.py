"""A rule that matches 100,000 products: applied in the background beside another store's traffic, and listed as fast as a tag."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Sequence
from datetime import datetime
from pathlib import Path

import click

from stoa.db.connection import Connection, connect
from tests.figures.calling import Line, call
from tests.support.receivers import Receiver
from tests.support.service import Account, Service

PRODUCTS, CALLERS, THINK_MS, RUNS = 100_000, 4, 20, 5
MOST_MINUTES, MOST_GROWTH, MOST_OF_A_TAG = 10.0, 2.0, 1.1
_TAGGED = {"name": "Linen Shirt", "price": "59.00", "tags": ["linen"]}
_COLUMNS = """SELECT attname::text FROM pg_attribute
               WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"""
_COPIED = {"id": "t.id + n", "product_id": "t.product_id + n", "slug": "t.slug || '-' || n"}
_LISTS = ("tag=linen", "collection=linen", "collection=linen&sort=position")


async def apply_a_wide_rule(folder: Path, seconds: float) -> bool:
    """Create a collection whose rule matches every product of a large store, and measure another store meanwhile."""
    async with Receiver() as receiver:
        with Service(folder, workers=1, access_log=False, log_level="error", webhook_allow="127.0.0.0/8") as service:
            large, other = await service.account("large"), await service.account("other")
            db = await connect(service.database_url, statement_timeout_ms=0)
            try:
                await _fill(db, large)
                async with other.client() as client:
                    hook = {"url": receiver.url, "events": ["product.created"]}
                    assert (await client.post("/webhooks", json=hook)).status_code == 201
                alone, delays_alone = await _traffic(folder, other, receiver, asyncio.sleep(seconds))
                started = time.monotonic()
                done = service.run("collection", "create", "large", "linen", "--title", "Linen", "--rule", "tag=linen")
                assert done.returncode == 0, done.stderr
                beside, delays = await _traffic(folder, other, receiver, _applied(db))
                minutes = (time.monotonic() - started) / 60
                [[members, events]] = await db.fetch(
                    """SELECT (SELECT count(*) FROM collection_products),
                              (SELECT count(*) FROM events WHERE type = 'product.updated')"""
                )
                await db.execute("VACUUM ANALYZE")
                listed = await _list_times(folder, large, seconds / 6)
            finally:
                await db.close()
    growth = statistics.median(beside) / statistics.median(alone)
    click.echo(
        f"collections: {members} products entered a collection in {minutes:.1f} minutes, with {events} events; median of another"
        f" store's API {statistics.median(alone):.1f} ms alone, {statistics.median(beside):.1f} ms beside; its events arrive"
        f" after {_shown(delays_alone)} alone, {_shown(delays)} beside; a page by"
        f" {', by '.join(f'{name} {took:.1f} ms' for name, took in listed.items())}"
    )
    by_tag, *by_collection = listed.values()
    whole = members == events == PRODUCTS
    return whole and minutes <= MOST_MINUTES and growth <= MOST_GROWTH and max(by_collection) <= MOST_OF_A_TAG * by_tag


def _shown(delays: Sequence[float]) -> str:
    percentiles = statistics.quantiles(delays, n=20)
    return f"{percentiles[9] * 1000:.0f} ms (p95 {percentiles[18] * 1000:.0f})"


async def _fill(db: Connection, account: Account) -> None:
    """Create one product through the service, and copies by SQL."""
    async with account.client() as client:
        assert (await client.post("/products", json=_TAGGED)).status_code == 201
    for table in ("products", "product_terms", "variants"):
        columns = [row[0] for row in await db.fetch(_COLUMNS, table)]
        values = ", ".join(_COPIED.get(column, f"t.{column}") for column in columns)
        await db.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} t, generate_series(1, {PRODUCTS - 1}) n"
        )
    await db.execute(
        f"INSERT INTO row_counts (store_id, resource, delta) SELECT store_id, 'products', {PRODUCTS - 1} FROM products LIMIT 1"
    )
    for name in ("product_ids", "variant_ids"):
        await db.execute(f"SELECT setval('{name}', {10 * PRODUCTS})")
    await db.execute("VACUUM ANALYZE")


async def _applied(db: Connection) -> None:
    while (
        await db.fetch(
            "SELECT count(*) FROM collection_scans s JOIN collection_revisions r USING (store_id) WHERE applied < revision"
        )
    )[0][0]:
        await asyncio.sleep(0.5)


async def _traffic(
    folder: Path, account: Account, receiver: Receiver, work: Awaitable[None]
) -> tuple[list[float], list[float]]:
    """Read and write in a store until the work is done; returns medians of reading in ms, and delays of events in seconds."""
    first, over = len(receiver.received), asyncio.Event()

    async def write() -> None:
        async with account.client() as client:
            while not over.is_set():
                assert (await client.post("/products", json={"name": "Mug", "price": "9.00"})).status_code == 201
                await asyncio.sleep(THINK_MS / 1000)

    async def until_done() -> None:
        await work
        over.set()

    writing, waiting = asyncio.create_task(write()), asyncio.create_task(until_done())
    medians: list[float] = []
    while not over.is_set():
        medians.append(
            (
                await call(folder, [Line(account, "/products?limit=20")], callers=CALLERS, seconds=2, think_ms=THINK_MS)
            ).p50_ms
        )
    await asyncio.gather(writing, waiting)
    since_boot = time.time() - time.monotonic()
    return medians, [
        since_boot + each.at - datetime.fromisoformat(each.event["timestamp"]).timestamp()
        for each in receiver.received[first:]
    ]


async def _list_times(folder: Path, account: Account, seconds: float) -> dict[str, float]:
    """The median time of a page in ms, by its filter, taking turns."""
    found: dict[str, list[float]] = {name: [] for name in _LISTS}
    for _ in range(RUNS):
        for name, times in found.items():
            times.append(
                (
                    await call(
                        folder, [Line(account, f"/products?{name}")], callers=1, seconds=max(3.0, seconds / RUNS)
                    )
                ).p50_ms
            )
    return {name: statistics.median(times) for name, times in found.items()}
