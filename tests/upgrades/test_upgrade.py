"""The previous release serves at full load while the next one migrates its database, works on the new schema, and reloads
into the next release. No request fails, nothing is lost or doubled, and no lock on a table is waited for longer than a second."""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from signal import SIGHUP

import pytest

from stoa.access.contract import SCOPES
from stoa.db.connection import Connection, connect
from tests.figures.trade import Trade, finish, verify
from tests.support.receivers import Receiver
from tests.support.service import Account, Service, alive, new_database, until
from tests.support.shops import token_for
from tests.upgrades.later_release import PROBE, write_later_release
from tests.upgrades.lock_waits import LockWaits
from tests.upgrades.releases import Installation, exported

# `make upgrade` sets a million products, more apps, and libraries of its own.
PRODUCTS = int(os.environ.get("UPGRADE_PRODUCTS", "3000"))
WRITERS = int(os.environ.get("UPGRADE_WRITERS", "2"))
OWN_LIBRARIES = "UPGRADE_LIBRARIES" in os.environ
DEEP = "UPGRADE_PRODUCTS" in os.environ  # however many, because installing the libraries alone takes minutes
WRITES = 400 if DEEP else 40  # acknowledged before the migration, on the new schema, and by the next release
THINK_S = 0.0 if DEEP else 0.02
SLOWEST_S = 1800 if DEEP else 90
LONGEST_WAIT_S = 1.0
HANDLE = "upgraded"

# Products without variants, with all that belongs to them, as the previous release would have left them.
_FILL = (
    """INSERT INTO products (store_id, slug, name, status, price, on_hand, reserved, in_stock, external_id, head)
       SELECT p.store_id, 'copy-' || n, 'Copy ' || n, p.status, p.price, 0, 0, false, 'copy-' || n, p.head
         FROM products p, generate_series(1, $2::integer) n
        WHERE p.store_id = $1 AND p.id = (SELECT min(id) FROM products WHERE store_id = $1)""",
    """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                           request_id, routed_on)
       SELECT store_id, 'evt_copy_' || id, 'product.created', 'product', id, 1, '{"type":"operator"}', '{}', '{}', 'req',
              current_date
         FROM products WHERE store_id = $1 AND external_id LIKE 'copy-%' AND $2::integer > 0""",
    "INSERT INTO row_counts (store_id, resource, delta) SELECT $1, 'products', $2::integer",
)
NEW_SCOPES = {"orders:import"}  # which the previous release does not know


async def open_store(service: Service) -> Account:
    """Create a store and an app with the commands of the release that runs, because only it knows its schema."""

    async def run(*arguments: str) -> dict[str, str]:
        ended = await asyncio.to_thread(service.run, *arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    await run("store", "create", HANDLE, "--name", "A store", "--currency", "USD")
    app = await run("app", "create", "An app", "--scopes", ",".join(each for each in SCOPES if each not in NEW_SCOPES))
    limits = ("--rate-burst", "10000000", "--rate-refill", "1000000")
    await run("app", "install", app["client_id"], HANDLE, *limits)
    async with service.client() as client:
        token = await token_for(client, app["client_id"], app["client_secret"])
    return Account(service, HANDLE, app["client_id"], app["client_secret"], token)


async def fill(db: Connection) -> None:
    [[store]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", HANDLE)
    for statement in _FILL:
        await db.execute(statement, store, PRODUCTS)
    await db.execute("ANALYZE")


async def acknowledged(trade: Trade, more: int) -> None:
    """Wait until the apps have written this much more."""
    count = len(trade.ledger) + more
    async with asyncio.timeout(SLOWEST_S):
        while len(trade.ledger) < count:
            assert not trade.trouble, f"{dict(trade.trouble)} {trade.wrong[:3]}"
            await asyncio.sleep(0.02)


async def functions(db: Connection) -> list[tuple[str, str]]:
    rows = await db.fetch(
        "SELECT oid::regprocedure::text, xmin::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
    )
    return [(signature, row) for signature, row in rows]


async def migrate(source: Path, service: Service, *arguments: str) -> str:
    """Run `stoa migrate` of a release in a folder on the database of the service; returns its output."""
    path = os.pathsep.join([str(source / "src"), str(source / "sdk/python/src")])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stoa", "migrate", *arguments, env={**service.environment, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def delivered(db: Connection) -> set[str]:
    """Wait until no event of the subscription is left to send; returns the events that must have arrived."""
    async with asyncio.timeout(SLOWEST_S):
        while True:
            [[left]] = await db.fetch(
                """SELECT (SELECT coalesce(sum(waiting), 0)::bigint FROM lanes)
                        + (SELECT count(*) FROM events WHERE routed_on = 'infinity')"""
            )
            if not left:
                break
            await asyncio.sleep(0.1)
    rows = await db.fetch("SELECT event_id FROM deliveries")
    return {event for [event] in rows}


async def upgrade(
    service: Service, installation: Installation, trade: Trade, receiver: Receiver, db: Connection
) -> float:
    """Migrate under load, work on the new schema, and reload; returns how long the migration took."""
    later = write_later_release(service.folder / "later")
    await acknowledged(trade, WRITES)
    started = time.monotonic()
    await migrate(later, service)
    seconds = time.monotonic() - started
    # The old API and the old couriers work on the new schema.
    await acknowledged(trade, WRITES)
    await receiver.until(len(receiver.received) + WRITES // 2, seconds=SLOWEST_S)
    # The old release calls one overload, the next release the other. A process of the old release that starts now
    # leaves both alone.
    before = await functions(db)
    assert len([name for name, _ in before if name.startswith("take_order_numbers(")]) == 2
    assert (await asyncio.to_thread(service.run, "migrate")).returncode == 0
    assert await functions(db) == before
    installation.install(later)
    old = service.workers()
    os.kill(service.pid, SIGHUP)
    finished = "the reload is finished"
    await asyncio.to_thread(until, lambda: "reload finished" in service.output(), finished, seconds=SLOWEST_S)
    assert not any(map(alive, old))
    await acknowledged(trade, WRITES)
    return seconds


async def verify_deliveries(db: Connection, receiver: Receiver, position: int) -> None:
    """Each change since a position arrived once, and no sequence number is missing."""
    expected = await delivered(db)
    arrived = Counter(each.headers["webhook-id"] for each in receiver.received)
    changes = await db.fetch(
        "SELECT id FROM events WHERE position > $1 AND resource_type IN ('order', 'product', 'variant')", position
    )
    assert arrived.keys() == expected >= {event for [event] in changes}
    assert {event: times for event, times in arrived.items() if times > 1} == {}
    assert sorted(each["sequence"] for each in receiver.events) == list(range(1, len(arrived) + 1))


async def verify_schema(db: Connection) -> None:
    """Every phase is done: existing rows are filled, and both indexes are valid."""
    [[unfilled]] = await db.fetch(f"SELECT count(*) FROM products WHERE {PROBE} IS NULL AND external_id LIKE 'copy-%'")
    [[valid]] = await db.fetch(
        f"SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid::regclass::text LIKE '{PROBE}%idx'"
    )
    assert (unfilled, valid) == (0, 2)


@pytest.mark.timeout(2 * SLOWEST_S + 60)
@pytest.mark.not_on_cluster("the previous release is installed on one server")
async def test_the_previous_release_serves_while_the_next_one_migrates(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "environment", exported(), own_libraries=OWN_LIBRARIES)
    url = await new_database(f"upgrade_{os.getpid()}")
    service = Service(
        tmp_path / "data",
        database_url=url,
        command=installation.command,
        webhook_allow="127.0.0.0/8",
        access_log=False,
        workers=2 if DEEP else 1,
    )
    del service.environment["PYTHONPATH"]
    async with Receiver() as receiver:
        with service:
            trade = Trade(await open_store(service))
            await trade.create_products()
            db = await connect(url, statement_timeout_ms=0)
            await fill(db)
            async with trade.account.client() as client:
                created = await client.post("/webhooks", json={"url": receiver.url, "events": ["*"]})
                assert created.status_code == 201, created.text
            [[position]] = await db.fetch("SELECT max(position) FROM events")
            waits = LockWaits(url)
            watching = asyncio.create_task(waits.watch())
            apps = [*(trade.write_on(fresh=n == 0, think_s=THINK_S) for n in range(WRITERS)), trade.read_on(fresh=True)]
            running = [asyncio.create_task(app) for app in apps]
            try:
                seconds = await upgrade(service, installation, trade, receiver, db)
                await finish(trade, running)
            finally:
                for task in running:
                    task.cancel()
                waits.over.set()
                await watching
            found = await verify(trade)
            print(  # noqa: T201
                f"{PRODUCTS} products, migrated in {seconds:.1f} s under {WRITERS} writers and a reader: {trade.reads} reads, "
                f"{len(receiver.received)} deliveries, failed: {dict(trade.trouble)}; {found}; {waits}"
            )
            assert not trade.trouble
            assert found.intact, found
            assert not waits.deadlocks, "".join(waits.deadlocks)
            assert {table: wait for table, wait in waits.longest.items() if wait > LONGEST_WAIT_S} == {}
            await verify_deliveries(db, receiver, position)
            await verify_schema(db)
            await db.close()
            assert service.stop() == 0
    assert "Traceback" not in service.output()
