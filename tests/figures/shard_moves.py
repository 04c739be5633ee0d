"""A large store moves between two servers again and again while apps use it: what is lost, how long writes wait, what differs."""

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import click
import msgspec

from stoa.app import Application
from stoa.cluster.distribution import Step
from stoa.db.connection import Connection, connect
from stoa.db.pool import Database
from stoa.settings import load
from stoa.shards import moving
from stoa.shards.registry import SESSION_NAME
from tests.conftest import SECRET_KEY
from tests.figures.arrivals import delivered_to
from tests.figures.shard_apps import Findings, StoreApps, stored_in
from tests.support.data_folders import remove_template
from tests.support.databases import TEMPLATE
from tests.support.fleet import FENCING, Fleet, contents_of, replicating_server
from tests.support.moved_shop import shop_of
from tests.support.receivers import Receiver
from tests.support.service import Account, Service
from tests.support.sharded import as_superuser
from tests.support.shops import Shop, open_shop

PRODUCTS, ORDERS, EVENTS = 10_000, 20_000, 100_000
TIMES = 5  # each historical order that is created is stored so often
MOST_PAUSE_MS, MOST_P99_S = 1_000, 2.0
GRACE_S = 3.0  # shorter than that of the command: no read of this figure takes that long
_MORE_EVENTS = """INSERT INTO events (
        store_id, id, position, type, resource_type, resource_id, resource_version, actor, changes, data, request_id, routed_on)
    SELECT e.store_id, new_event_id(), nextval('event_positions'), e.type, e.resource_type, e.resource_id, e.resource_version,
           e.actor, e.changes, e.data, e.request_id, current_date
      FROM generate_series(1, $2::integer) CROSS JOIN LATERAL (SELECT * FROM events WHERE store_id = $1 LIMIT 1) e"""
_COLUMNS = """SELECT column_name::text FROM information_schema.columns
               WHERE table_name = $1 AND table_schema = 'public' AND is_generated = 'NEVER' ORDER BY ordinal_position"""
_SHIFTED = "{} + n * 1000000"
_COPIED = {
    "orders": {
        "id": _SHIFTED.format("id"),
        "number": _SHIFTED.format("number"),
        "external_id": "external_id || '-' || n",
    },
    "order_lines": {"id": _SHIFTED.format("id"), "order_id": _SHIFTED.format("order_id")},
}
# Writers neither take the lock of their store nor look whether it is here; the mover does both.
_WITHOUT_FENCE = f"""
CREATE OR REPLACE FUNCTION enter_store(in_store_id bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS 'BEGIN END';
ALTER FUNCTION store_is_here(bigint) RENAME TO store_is_really_here;
CREATE FUNCTION store_is_here(in_store_id bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('application_name') <> '{SESSION_NAME}' OR store_is_really_here(in_store_id)
$$"""


class Moves(msgspec.Struct):
    """The result of some moves, and the shard in which the store is then."""

    place: str
    seconds: float
    found: Findings
    different: Counter[str]  # by table: how often its rows differed at a switch
    pauses: list[int]
    took: list[float]
    refused: Counter[str]

    @property
    def p99_s(self) -> float:
        return self.took[int(len(self.took) * 0.99)]

    @property
    def exact(self) -> bool:
        return self.found.exact and not self.different

    def __str__(self) -> str:
        return (
            f"{len(self.pauses)} moves in {self.seconds:.0f} s; {self.found}; {self.different.total()} tables differed at a switch;"
            f" pause median {self.pauses[len(self.pauses) // 2]} ms, longest {self.pauses[-1]} ms; a write p50"
            f" {self.took[len(self.took) // 2] * 1000:.0f} ms, p99 {self.p99_s * 1000:.0f} ms, longest {self.took[-1] * 1000:.0f} ms;"
            f" repeated: {dict(self.refused)}"
        )


class Comparison:
    """Compares both sides of a move as they were when neither accepted a write. Their snapshots are taken in the pause, and
    read after the switch, so that the comparison does not prolong it."""

    def __init__(self, source: Connection, target: Connection, store_id: int) -> None:
        self._sides = source, target
        self._store_id = store_id
        self.different: list[str] = []

    async def __call__(self, step: Step) -> None:
        if step.action == "raised its ids":
            for side in self._sides:
                await side.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        elif step.action == "opened":
            here, there = await asyncio.gather(*(contents_of(side, self._store_id) for side in self._sides))
            self.different = [name for name in here if here[name] != there[name]]
            for side in self._sides:
                await side.execute("COMMIT")


@asynccontextmanager
async def comparing(fleet: Fleet, source: str, target: str, store_id: int) -> AsyncGenerator[Comparison]:
    here = await connect(fleet.shards[source].url, statement_timeout_ms=0, name=FENCING)
    there = await connect(fleet.shards[target].url, statement_timeout_ms=0, name=FENCING)
    try:
        yield Comparison(here, there, store_id)
    finally:
        await here.close()
        await there.close()


async def move_under_load(folder: Path, moves: int, minutes: float) -> bool:
    """Move a store to and fro while apps use it, then once more without the fence, which must be noticed."""
    folder.chmod(0o755)
    os.environ.setdefault(TEMPLATE, f"figure_{os.getpid()}")
    with ExitStack() as running:
        running.callback(remove_template)
        urls: list[str] = []
        for name in ("first", "second"):
            server = replicating_server(folder / name, durable=True)
            running.callback(server.stop)
            urls.append(as_superuser(await asyncio.to_thread(server.start)))
        fleet = Fleet(
            load({}, secret_key=SECRET_KEY, data_dir=folder, access_log=False),
            urls[0],
            {"second": urls[1]},
        )
        started = time.monotonic()
        shop = await _large_shop(fleet)
        await fleet.add_shards()
        click.echo(
            f"shards: {PRODUCTS} products, {ORDERS} orders and {EVENTS} events loaded in {time.monotonic() - started:.0f} s"
        )
        service = running.enter_context(
            Service(folder / "service", database_url=urls[0], access_log=False, webhook_allow="127.0.0.0/8")
        )
        account = Account(service, shop.store.handle, shop.client_id, shop.client_secret, shop.token)
        async with Receiver() as receiver:
            apps = StoreApps(account, "fenced")
            await apps.prepare(receiver.url)
            fenced = await _move(fleet, shop, apps, moves, time.monotonic() + minutes * 60)
            delivered = await delivered_to(receiver, fleet.shards[fenced.place].url)
        click.echo(f"shards: {fenced}; {delivered}")
        unfenced = await _move_without_fence(fleet, shop, StoreApps(account, "unfenced", apps), fenced.place)
        click.echo(f"  without the fence: {unfenced}")
    within = fenced.pauses[-1] <= MOST_PAUSE_MS and fenced.p99_s <= MOST_P99_S
    return len(fenced.pauses) == moves and fenced.exact and within and delivered.intact and not unfenced.exact


async def _large_shop(fleet: Fleet) -> Shop:
    application, db = Application(fleet.settings), Database(fleet.directory.url, size=4, statement_timeout_ms=60_000)
    shop, rows = await open_shop(application, db), shop_of(PRODUCTS, 10, ORDERS // TIMES)
    for start in range(0, PRODUCTS, 250):
        await shop.add(
            *(
                {"name": row["name"], "price": row["price"], "sku": row["sku"]}
                for row in rows.products[start : start + 250]
            )
        )
    for start in range(0, ORDERS // TIMES, 100):
        body = {"historical": True, "items": rows.orders[start : start + 100]}
        answer = await shop.client.post("/orders", json=body)
        assert answer.is_success, answer.text
    await _multiply_orders(db, shop.store_id)
    events = (await db.fetch("SELECT count(*) FROM events WHERE store_id = $1", shop.store_id))[0][0]
    await db.execute(_MORE_EVENTS, shop.store_id, EVENTS - events)
    await application.close()
    await db.close()
    return shop


async def _multiply_orders(db: Database, store_id: int) -> None:
    """Copy the orders with their line items, under other ids and numbers."""
    for table, values in _COPIED.items():
        columns: list[str] = [row[0] for row in await db.fetch(_COLUMNS, table)]
        await db.execute(
            f"""INSERT INTO {table} ({", ".join(columns)}) SELECT {", ".join(values.get(name, name) for name in columns)}
                  FROM {table} CROSS JOIN generate_series(1, $2::integer) n WHERE store_id = $1""",
            store_id,
            TIMES - 1,
        )
    count = "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'orders', $2)"
    await db.execute(count, store_id, ORDERS - ORDERS // TIMES)


async def _move(
    fleet: Fleet, shop: Shop, apps: StoreApps, moves: int, deadline: float = math.inf, place: str = ""
) -> Moves:
    """Move the store while the apps use it, and compare what they were told with where it is then. No move begins after the
    deadline."""
    different: Counter[str] = Counter()
    async with fleet.connection(place) as db:
        before = await stored_in(db, shop.store_id)
    last = await fleet.one("", "SELECT coalesce(max(id), 0) FROM store_moves")
    started = time.monotonic()
    using = asyncio.create_task(apps.run())
    for _ in range(moves):
        if time.monotonic() > deadline:
            break
        target = "" if place else "second"
        async with comparing(fleet, place, target, shop.store_id) as comparison:
            await moving.move(fleet.ask(shop, target, place, grace_s=GRACE_S), comparison)
        different.update(comparison.different)
        place = target
    seconds = time.monotonic() - started
    apps.stop()
    await using
    async with fleet.connection(place) as db:
        found = await apps.compare(db, shop.store_id, before)
    async with fleet.connection("") as db:
        rows = await db.fetch("SELECT pause_ms FROM store_moves WHERE id > $1 ORDER BY pause_ms", last)
    return Moves(place, seconds, found, different, [row[0] for row in rows], sorted(apps.took), apps.refused)


async def _move_without_fence(fleet: Fleet, shop: Shop, apps: StoreApps, place: str) -> Moves:
    for shard in fleet.shards:
        async with fleet.connection(shard) as db:
            await db.execute(_WITHOUT_FENCE)
    return await _move(fleet, shop, apps, 1, place=place)
