"""Workers and jobs: each job is claimed by one worker, applied once, and taken over if the worker dies."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from signal import SIGTERM
from typing import Any

import msgspec
import pytest

from stoa.access.grants import uninstall
from stoa.app import Application
from stoa.db.pool import Database
from stoa.imports import queries
from stoa.imports.runner import claim_import, run_import, run_pending
from stoa.settings import Settings
from tests.imports.files import catalog, import_file, job_of, lines, mug, report, send
from tests.support.service import migrated_database
from tests.support.shops import Shop, open_shop

WORKER = (sys.executable, "-m", "stoa.worker")


def start_worker(settings: Settings) -> subprocess.Popen[bytes]:
    mine = {
        **{name: value for name, value in os.environ.items() if not name.startswith("STOA_")},
        "STOA_DATABASE_URL": settings.database_url,
        "STOA_SECRET_KEY": settings.secret_key,
        "STOA_METRICS": "off",
        "STOA_LOG_LEVEL": "error",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.Popen(WORKER, env=mine)


async def numbers(shop: Shop, sql: str) -> list[Any]:
    return [tuple(row) for row in await shop.db.fetch(sql, shop.store_id)]


async def assert_once(shop: Shop, count: int, job: dict[str, Any]) -> None:
    """Every row was applied exactly once, according to the catalog, ledger, outbox, report and counts."""
    assert (await shop.client.get("/products")).json()["meta"]["total"] == count
    assert await numbers(shop, "SELECT count(*), sum(on_hand) FROM variants WHERE store_id = $1") == [
        (count, 3 * count)
    ]
    assert await numbers(
        shop, "SELECT count(*), count(DISTINCT variant_id), sum(delta_on_hand) FROM stock_movements WHERE store_id = $1"
    ) == [(count, count, 3 * count)]
    told = Counter(row[0] for row in await numbers(shop, "SELECT type FROM events WHERE store_id = $1"))
    assert (told["product.created"], told["product.updated"], told["product.import_finished"]) == (count, 0, 1)
    assert job["status"] == "succeeded", job
    assert (job["counts"]["created"], job["counts"]["processed"], job["counts"]["unchanged"]) == (count, count, 0)
    rows = await report(shop, job["id"])
    assert [row["row"] for row in rows] == list(range(1, count + 1))


@pytest.mark.long
async def test_a_job_survives_killed_workers(shop: Shop, settings: Settings) -> None:
    count = 8_000
    job = await send(shop, lines(mug(n) for n in range(count)))
    random_ = random.Random(7)
    for kills in range(4):
        if kills > 1:  # the first lease expires by itself; the test ends the later ones
            await shop.db.execute("UPDATE import_queue SET lease_until = now() WHERE store_id = $1", shop.store_id)
        before = (await job_of(shop, job["id"]))["counts"]["processed"]
        worker = start_worker(settings)
        try:
            async with asyncio.timeout(60):
                while True:
                    now = await job_of(shop, job["id"])
                    if now["finished_at"] or (kills < 3 and now["counts"]["processed"] > before):
                        break
                    await asyncio.sleep(0.005)
            assert now["finished_at"] is None or kills == 3, "killed in the middle of the job"
            await asyncio.sleep(random_.uniform(0, 0.1))
        finally:
            worker.kill()
            worker.wait()
    await assert_once(shop, count, await job_of(shop, job["id"]))


async def test_two_workers_share_the_jobs(shop: Shop, settings: Settings) -> None:
    jobs = [await send(shop, lines(mug(n) for n in range(k * 100, k * 100 + 100))) for k in range(6)]
    workers = [start_worker(settings), start_worker(settings)]
    try:
        async with asyncio.timeout(60):
            for job in jobs:
                while (await job_of(shop, job["id"]))["finished_at"] is None:
                    await asyncio.sleep(0.05)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    ended = [await job_of(shop, job["id"]) for job in jobs]
    assert [job["counts"]["created"] for job in ended] == [100] * 6
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 600


async def test_a_stopping_worker_finishes_only_its_current_part(shop: Shop, settings: Settings) -> None:
    count = 20_000
    job = await send(shop, lines(mug(n) for n in range(count)))
    worker = start_worker(settings)
    async with asyncio.timeout(60):
        while not (await job_of(shop, job["id"]))["counts"]["processed"]:
            await asyncio.sleep(0.01)
    worker.send_signal(SIGTERM)
    assert worker.wait(30) == 0
    now = await job_of(shop, job["id"])
    assert (now["status"], 0 < now["counts"]["processed"] < count) == ("running", True)
    assert now["counts"]["processed"] % 500 == 0
    [[free]] = await shop.db.fetch("SELECT lease_until <= now() FROM import_queue WHERE store_id = $1", shop.store_id)
    assert free, "the next worker need not wait until the lease expires"
    await shop.db.execute("DELETE FROM import_queue WHERE store_id = $1", shop.store_id)


async def test_a_worker_without_the_lease_writes_nothing(shop: Shop) -> None:
    job = await send(shop, lines(mug(n) for n in range(1_200)))
    slow = await claim_import(shop.db, "slow")
    await shop.db.execute("UPDATE import_queue SET lease_until = now() WHERE store_id = $1", shop.store_id)
    quick = await claim_import(shop.db, "quick")
    assert slow is not None
    assert quick is not None
    await run_import(shop.db, slow, "slow")
    assert (await job_of(shop, job["id"]))["counts"]["processed"] == 0
    await asyncio.gather(run_import(shop.db, quick, "quick"), run_import(shop.db, slow, "slow"))
    await assert_once(shop, 1_200, await job_of(shop, job["id"]))


async def test_duplicates_are_found_across_a_crash(shop: Shop) -> None:
    job = await send(shop, lines([*(mug(n) for n in range(600)), mug(3, price="99")]))
    claimed = await claim_import(shop.db, "first")
    assert claimed is not None
    stops = iter([False, True])
    await run_import(shop.db, claimed, "first", lambda: next(stops))
    assert (await job_of(shop, job["id"]))["counts"]["processed"] == 500
    await run_pending(shop.db)
    done = await job_of(shop, job["id"])
    assert [(e["row"], e["code"]) for e in done["errors"]] == [(601, "duplicate_row")]
    assert (await catalog(shop))["Mug 3"]["price"] == "12.50"


async def test_at_most_two_jobs_of_an_app_run_at_once(shop: Shop, other_shop: Shop) -> None:
    for n in range(3):
        await send(shop, lines([mug(n)]))
    await send(other_shop, lines([mug(1)]))
    taken = [claimed for n in range(3) if (claimed := await claim_import(shop.db, f"w{n}")) is not None]
    assert [each.store_id for each in taken] == [shop.store_id, shop.store_id, other_shop.store_id]
    assert await claim_import(shop.db, "w3") is None
    await run_import(shop.db, taken[0], "w0")
    waited = await claim_import(shop.db, "w3")
    assert waited is not None
    assert waited.store_id == shop.store_id
    for claimed, owner in ((taken[1], "w1"), (taken[2], "w2"), (waited, "w3")):
        await run_import(shop.db, claimed, owner)
    assert len(await catalog(shop)) == 3


async def test_concurrent_claims_never_share_a_lane(shop: Shop) -> None:
    for n in range(6):
        await send(shop, lines([mug(n)]))
    claims = await asyncio.gather(*(claim_import(shop.db, f"w{n}") for n in range(6)))
    taken = {f"w{n}": claimed for n, claimed in enumerate(claims) if claimed}
    assert len(taken) <= 2
    assert len({claimed.import_id for claimed in taken.values()}) == len(taken)
    for owner, claimed in taken.items():
        await run_import(shop.db, claimed, owner)
    await run_pending(shop.db)
    assert len(await catalog(shop)) == 6


async def test_an_uninstalled_app_stops_writing(shop: Shop) -> None:
    job = await send(shop, lines(mug(n) for n in range(1_200)))
    claimed = await claim_import(shop.db, "w")
    assert claimed is not None
    stops = iter([False, True])
    await run_import(shop.db, claimed, "w", lambda: next(stops))
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    await run_pending(shop.db)
    [[status, failure, processed]] = await shop.db.fetch(
        "SELECT status, failure, processed FROM imports WHERE store_id = $1 AND id = $2", shop.store_id, job["id"]
    )
    assert (status, processed) == ("failed", 500)
    assert "app_not_installed" in failure


async def test_a_job_that_crashes_every_worker_fails(shop: Shop) -> None:
    job = await send(shop, lines(mug(n) for n in range(10)))
    for _ in range(5):
        assert await claim_import(shop.db, "dies at once")
        await shop.db.execute("UPDATE import_queue SET lease_until = now() WHERE store_id = $1", shop.store_id)
    await run_pending(shop.db)
    done = await job_of(shop, job["id"])
    assert done["status"] == "failed"
    assert [(e["row"], e["code"]) for e in done["errors"]] == [(None, "internal_error")]


async def test_an_internal_error_fails_only_its_row(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from stoa.imports import products

    put = products.product_from_row

    def broken(row: Any, store: Any) -> Any:
        if row["sku"] == "MUG-2":
            raise ZeroDivisionError
        return put(row, store)

    monkeypatch.setattr(products, "product_from_row", broken)
    job = await import_file(shop, lines([mug(1), mug(2), mug(3)]))
    assert [(e["row"], e["code"]) for e in job["errors"]] == [(2, "internal_error")]
    assert set(await catalog(shop)) == {"Mug 1", "Mug 3"}


async def test_an_import_waits_for_a_locked_product(shop: Shop) -> None:
    [product] = await shop.add(mug(1))
    job = await send(shop, lines([mug(1, price="20")]))
    async with shop.db.transaction() as db:
        await db.fetch("SELECT id FROM products WHERE store_id = $1 AND id = $2 FOR UPDATE", shop.store_id, product)
        running = asyncio.create_task(run_pending(shop.db))
        await asyncio.sleep(2.5)  # longer than the lock timeout
        assert not running.done()
    await running
    assert (await job_of(shop, job["id"]))["counts"]["updated"] == 1


@pytest.fixture
async def separate_shop(settings: Settings, worker_id: str) -> AsyncIterator[Shop]:
    """A shop in its own database, so that planner statistics cover only this shop."""
    url = await migrated_database(f"test_lonely_{worker_id}_{os.getpid()}")
    db = Database(url, size=4)
    application = Application(msgspec.structs.replace(settings, database_url=url))
    shop = await open_shop(application, db)
    yield shop
    await shop.client.aclose()
    await application.close()
    await db.close()


async def test_a_large_import_updates_the_planner_statistics(separate_shop: Shop) -> None:
    assert await queries.KNOWN_SIZE.one(separate_shop.db, "products") == 0
    await import_file(separate_shop, lines(mug(n) for n in range(1_000)))
    assert await queries.KNOWN_SIZE.one(separate_shop.db, "products") >= 500
