"""Imports that are cancelled: rows that were applied stay and are reported, and no worker applies another."""

import asyncio
import secrets
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from stoa.access import audit
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.events.outbox import Cause
from stoa.imports import queries
from stoa.imports.ending import cancel_import
from stoa.imports.runner import claim_import, run_import, run_pending
from stoa.settings import Settings
from tests.imports.files import catalog, events, import_file, job_of, lines, mug, report, send
from tests.imports.test_commands import Stoa, stoa
from tests.imports.test_runner import start_worker
from tests.support.shops import Shop

assert stoa  # the fixture


async def cancel(shop: Shop, import_id: str) -> bool:
    """Cancel an import, like a caller who tries again while a worker stores some of its rows."""
    while True:
        with suppress(Unavailable):
            async with shop.db.transaction() as db:
                job = await queries.GET.one(db, shop.store_id, "products", import_id)
                store = await queries.STORE.one(db, shop.store_id)
                return await cancel_import(db, store, job, Cause(None, "req_cancel"))


async def assert_agree(shop: Shop, job: dict[str, Any]) -> None:
    """The catalog, the report, the events and the counts contain the same rows."""
    applied = job["counts"]["created"]
    assert (job["status"], job["counts"]["processed"]) == ("cancelled", applied)
    assert len(await catalog(shop)) == applied
    assert [row["row"] for row in await report(shop, job["id"])] == list(range(1, applied + 1))
    assert Counter(await events(shop)) == Counter({"product.created": applied, "product.import_finished": 1})


async def test_a_waiting_import_is_cancelled_without_a_row(shop: Shop, db: Database) -> None:
    job = await send(shop, lines([mug(1)]))
    assert await cancel(shop, job["id"])
    assert await run_pending(db) == 0
    done = await job_of(shop, job["id"])
    await assert_agree(shop, done)
    assert (done["progress"], done["finished_at"] is not None) == (0.0, True)
    assert not await shop.db.fetch("SELECT part FROM import_parts WHERE store_id = $1", shop.store_id)


async def test_a_finished_import_cannot_be_cancelled(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    assert not await cancel(shop, job["id"])
    assert (await job_of(shop, job["id"]))["status"] == "succeeded"


async def test_a_running_import_stops_between_two_parts(shop: Shop, db: Database) -> None:
    job = await send(shop, lines(mug(n) for n in range(3_000)))
    claimed = await claim_import(db, owner := secrets.token_hex(8))
    assert claimed is not None
    looks = 0

    def stopping() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            cancelling.append(asyncio.ensure_future(cancel(shop, job["id"])))
        return False

    cancelling: list[asyncio.Future[bool]] = []
    await run_import(db, claimed, owner, stopping)
    assert await cancelling[0]
    done = await job_of(shop, job["id"])
    assert 0 < done["counts"]["processed"] < 3_000
    await assert_agree(shop, done)


async def test_a_worker_that_claimed_a_cancelled_import_leaves_it_as_it_is(shop: Shop, db: Database) -> None:
    job = await send(shop, lines([mug(1)]))
    claimed = await claim_import(db, owner := secrets.token_hex(8))
    assert claimed is not None
    assert await cancel(shop, job["id"])
    await run_import(db, claimed, owner)
    await assert_agree(shop, await job_of(shop, job["id"]))


async def test_a_failure_does_not_replace_the_cancellation(shop: Shop, db: Database) -> None:
    job = await send(shop, lines([mug(1)]))
    claimed = await claim_import(db, owner := secrets.token_hex(8))
    assert claimed is not None
    assert await cancel(shop, job["id"])
    claimed.tries = 100  # the run would fail the job
    await run_import(db, claimed, owner)
    await assert_agree(shop, await job_of(shop, job["id"]))


@pytest.mark.parametrize("killed", [False, True], ids=["running", "killed"])
async def test_workers_apply_nothing_after_the_cancellation(shop: Shop, settings: Settings, killed: bool) -> None:
    job = await send(shop, lines(mug(n) for n in range(6_000)))
    workers = [start_worker(settings) for _ in range(2)]
    try:
        while not (await job_of(shop, job["id"]))["counts"]["processed"]:
            await asyncio.sleep(0.05)
        if killed:
            for worker in workers:
                worker.kill()
        assert await cancel(shop, job["id"])
        done = await job_of(shop, job["id"])
        again = await send(shop, lines([mug(10_000)]))
        if not killed:
            while (await job_of(shop, again["id"]))["finished_at"] is None:
                await asyncio.sleep(0.05)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert await job_of(shop, job["id"]) == done
    assert 0 < done["counts"]["created"] < 6_000
    assert [row["row"] for row in await report(shop, job["id"])] == list(range(1, done["counts"]["created"] + 1))
    assert len(await catalog(shop)) == done["counts"]["created"] + (0 if killed else 1)


async def test_an_operator_cancels_by_the_id(stoa: Stoa, shop: Shop) -> None:
    job = await send(shop, lines([mug(1)]))
    done = await stoa("cancel", job["id"], "--json")
    assert done.exit_code == 0, done.output
    assert '"cancelled"' in done.stdout
    [entry] = await audit.newest(shop.db, shop.store_id, 1)
    assert (entry.action, entry.subject) == ("products.import_cancelled", f"store:{shop.store_id}")
    again = await stoa("cancel", job["id"])
    assert (again.exit_code, "waiting or running" in again.output) == (1, True)


async def test_a_cancelled_file_can_be_imported_again(shop: Shop) -> None:
    job = await send(shop, lines([mug(1)]))
    assert await cancel(shop, job["id"])
    assert (await import_file(shop, lines([mug(1), mug(2)])))["counts"]["created"] == 2
