"""The service behind PgBouncer in transaction mode: what works, what it needs a direct URL for, and what it gives up."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoa.db.connection import path_to_server
from stoa.db.pool import Database
from tests.fault.test_lost_database import Postgres
from tests.figures.trade import Trade, verify
from tests.support.data_folders import copy_migrated
from tests.support.pgbouncer import PgBouncer, keeps_prepared_statements, needs_pgbouncer
from tests.support.receivers import Receiver
from tests.support.service import Service

pytestmark = [needs_pgbouncer, pytest.mark.timeout(300)]
IMPORTED = 300
THINK_S = 0.02  # busy enough for a restart to interrupt requests, without using the whole processor
RUNNING = ("queued", "running")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that PgBouncer can read, which refuses to run as root; pytest's own folders are private."""
    with tempfile.TemporaryDirectory(prefix="stoa-pooler-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Postgres]:
    with Postgres(copy_migrated(folder / "postgres"), durable=False) as running:
        yield running


@pytest.fixture
def pooler(server: Postgres, folder: Path) -> Iterator[PgBouncer]:
    with PgBouncer(folder / "pgbouncer", server.dsn) as running:
        yield running


async def test_a_pool_through_a_pooler_keeps_its_limits_and_leaves_nothing_in_the_session(
    server: Postgres, folder: Path
) -> None:
    ignored = "jit,statement_timeout,lock_timeout,idle_in_transaction_session_timeout"
    with PgBouncer(folder / "crowded", server.dsn, connections=2, ignored=ignored) as pooler:
        path = await path_to_server(pooler.url)
        assert (path.pooled, path.prepares) == (True, keeps_prepared_statements())
        assert not (await path_to_server(server.dsn)).pooled
        pools = [Database(pooler.url, size=8) for _ in range(3)]
        # Many clients share two sessions, so that each statement is known there under the names of others.
        for _ in range(15):
            answers = await asyncio.gather(
                *(pools[n % 3].fetch(f"SELECT $1::bigint + {n % 20}", n) for n in range(24)),
            )
            assert [rows[0][0] for rows in answers] == [n + n % 20 for n in range(24)]
        async with pools[0].transaction() as db:
            names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "jit")
            inside = [(await db.fetch(f"SHOW {name}"))[0][0] for name in names]
        assert inside == ["5s", "2s", "10s", "off"]
        assert (await pools[0].fetch("SHOW lock_timeout"))[0][0] == "0"
        left = await pools[1].fetch(r"SELECT name FROM pg_prepared_statements WHERE name LIKE '\_\_asyncpg%'")
        assert left == []
        for pool in pools:
            await pool.close()


@pytest.mark.long
async def test_requests_deliveries_and_imports_survive_a_restart_of_the_pooler_under_load(
    server: Postgres, pooler: PgBouncer, tmp_path: Path
) -> None:
    service = Service(
        tmp_path / "service",
        database_url=pooler.url,
        database_direct_url=server.dsn,
        webhook_allow="127.0.0.0/8",
        workers=2,
    )
    async with Receiver() as receiver:
        with service:
            trade = Trade(await service.account("pooled"))
            await trade.create_products()
            async with trade.account.client() as client:
                hook = {"url": receiver.url, "events": ["order.created", "product.created"]}
                assert (await client.post("/webhooks", json=hook)).status_code == 201
                rows = "".join(
                    json.dumps({"name": f"Imported {n}", "sku": f"I-{n}", "price": "1.00"}) + "\n"
                    for n in range(IMPORTED)
                )
                sent = await client.post(
                    "/products/imports", content=rows, headers={"content-type": "application/x-ndjson"}
                )
                assert sent.status_code == 202, sent.text
                job = sent.json()["data"]["id"]
            work = [asyncio.create_task(trade.write_on(think_s=THINK_S)) for _ in range(6)]
            work += [asyncio.create_task(trade.read_on(think_s=THINK_S)) for _ in range(2)]
            for _ in range(2):
                await asyncio.sleep(2.5)
                await asyncio.to_thread(pooler.stop)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(pooler.start)
            await asyncio.sleep(2.5)
            trade.over.set()
            await asyncio.gather(*work)
            async with trade.account.client() as client:
                while (state := (await client.get(f"/products/imports/{job}")).json()["data"])["status"] in RUNNING:
                    await asyncio.sleep(0.2)
            assert (state["status"], state["counts"]["created"]) == ("succeeded", IMPORTED), state
            verification = await verify(trade)
            expected = IMPORTED + sum(write.kind in ("order", "product") for write in trade.ledger)
            async with asyncio.timeout(120):
                while len({received.headers["webhook-id"] for received in receiver.received}) < expected:
                    await asyncio.sleep(0.1)
            deep, found = service.status("/ready?deep"), service.run("doctor", "--json")
            backup = service.run("backup", str(tmp_path / "backup.zip"))
    direct = Database(server.dsn, size=1)
    [[locks]] = await direct.fetch("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
    await direct.close()
    assert verification.intact, verification
    assert trade.trouble, "the restarts interrupted nothing"
    assert (deep, locks, backup.returncode) == (200, 0, 0), backup.stderr
    [connections] = [each for each in json.loads(found.stdout) if each["check"] == "connections"]
    assert "STOA_DATABASE_DIRECT_URL" not in connections["detail"]


@pytest.mark.long
async def test_without_a_direct_url_deliveries_poll_and_the_service_says_so(
    server: Postgres, pooler: PgBouncer, tmp_path: Path
) -> None:
    service = Service(tmp_path / "service", database_url=pooler.url, webhook_allow="127.0.0.0/8")
    async with Receiver() as receiver:
        with service:
            account = await service.account("polling")
            async with account.client() as client:
                assert (
                    await client.post("/webhooks", json={"url": receiver.url, "events": ["product.*"]})
                ).status_code == 201
                assert (await client.post("/products", json={"name": "Mug", "price": "1.00"})).status_code == 201
            await receiver.until(1, seconds=60)
            assert service.status("/ready?deep") == 200
            migrated, saved = service.run("migrate"), service.run("backup", str(tmp_path / "backup.zip"))
            found = service.run("doctor", "--json")
    output = service.output()
    assert "deliveries poll for events instead of being notified" in output
    assert "events are polled" in output
    for refused in (migrated, saved):
        assert refused.returncode != 0
        assert "set STOA_DATABASE_DIRECT_URL" in refused.stderr
    [connections] = [each for each in json.loads(found.stdout) if each["check"] == "connections"]
    assert connections["status"] == "warning"
    assert "set STOA_DATABASE_DIRECT_URL" in connections["detail"]


async def test_a_direct_url_through_the_pooler_is_refused(pooler: PgBouncer, tmp_path: Path) -> None:
    service = Service(tmp_path / "service", database_url=pooler.url, database_direct_url=pooler.url)
    service.launch()
    assert await asyncio.to_thread(service.wait) != 0
    assert "STOA_DATABASE_DIRECT_URL leads through a connection pooler" in service.output()
