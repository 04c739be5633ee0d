"""The usage recorder: counting, flushing, retries, redaction and retention."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from stoa.app import Application
from stoa.db.pool import Database
from stoa.maintenance import maintain
from stoa.rest.dispatch import Observed
from stoa.rest.problems import Fault
from stoa.usage.queries import MAX_FAILURES
from stoa.usage.recorder import Recorder
from stoa.usage.reports import UsageReport, failed_requests, usage_by_store, usage_report
from tests.support.shops import Shop, api_client, open_shop

NOW = datetime.now(UTC)
TODAY = NOW.date()
NOTE: dict[str, Any] = {"title": "first", "price": "1.00"}


def observed(shop: Shop, status: int = 200, *, seconds: float = 0.004, **given: Any) -> Observed:
    values: dict[str, Any] = {
        "request_id": "req_1", "method": "GET", "operation": "list_notes", "status": status, "code": "",
        "seconds": seconds, "store_id": shop.store_id, "app_id": shop.app_id, "error": None,
    }  # fmt: skip
    return Observed(**(values | given))


async def report(db: Database, shop: Shop) -> UsageReport:
    """Return the usage of today and tomorrow, because a test may run past midnight."""
    return await usage_report(db, shop.app_id, TODAY, TODAY + timedelta(days=1))


async def test_requests_are_counted_by_their_outcome(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    assert (await caller.get("/notes")).status_code == 200
    assert (await caller.post("/notes", json=NOTE)).status_code == 201
    assert (await caller.get("/notes/999999999")).status_code == 404
    assert (await caller.post("/notes", json={"title": 1})).status_code == 422
    await worker.usage.flush(db)
    total = (await report(db, shop)).total
    assert (total.requests, total.client_errors, total.rate_limited, total.server_errors) == (4, 2, 0, 0)
    assert sum(total.buckets) == 4
    assert total.total_us > 0


async def test_requests_are_counted_by_operation(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    for _ in range(3):
        await caller.get("/notes")
    await caller.post("/notes", json=NOTE)
    await worker.usage.flush(db)
    operations = {each.operation: each.requests for each in (await report(db, shop)).operations}
    assert operations == {"list_notes": 3, "create_note": 1}


async def test_unauthenticated_requests_are_not_counted(shop: Shop, db: Database, worker: Application) -> None:
    async with api_client(worker, shop.store.handle) as stranger:
        assert (await stranger.get("/notes")).status_code == 401
    await worker.usage.flush(db)
    assert await db.fetch("SELECT FROM usage_days WHERE store_id = $1", shop.store_id) == []


async def test_rate_limited_requests_have_their_own_counter(shop: Shop, db: Database) -> None:
    recorder = Recorder()
    for status in (200, 429, 429, 404, 500, 503):
        recorder(observed(shop, status))
    await recorder.flush(db)
    total = (await report(db, shop)).total
    assert (total.client_errors, total.rate_limited, total.server_errors, total.errors) == (1, 2, 2, 3)


async def test_flushes_of_several_workers_add_up(shop: Shop, db: Database) -> None:
    workers = [Recorder() for _ in range(6)]
    for _ in range(5):
        for worker in workers:
            for operation in ("list_notes", "get_note", "create_note"):
                worker(observed(shop, operation=operation))
        await asyncio.gather(*(worker.flush(db) for worker in workers))
    usage = await report(db, shop)
    assert usage.total.requests == 5 * 6 * 3
    assert {each.requests for each in usage.operations} == {30}


async def test_concurrent_flushes_write_each_request_once(shop: Shop, db: Database) -> None:
    recorder = Recorder()
    recorder(observed(shop, 404))
    await asyncio.gather(*(recorder.flush(db) for _ in range(4)))
    assert (await report(db, shop)).total.requests == 1
    assert len(await failed_requests(db, shop.app_id)) == 1


async def test_counts_survive_an_unreachable_database(shop: Shop, db: Database) -> None:
    unreachable = Database("postgresql://stoa@127.0.0.1:1/stoa")
    recorder = Recorder()
    recorder(observed(shop, 404, request_id="req_before"))
    await recorder.finish(unreachable)
    recorder(observed(shop, 404, request_id="req_after"))
    await recorder.finish(unreachable)
    await recorder.finish(db)
    assert (await report(db, shop)).total.client_errors == 2
    assert [each.request_id for each in await failed_requests(db, shop.app_id)] == ["req_after", "req_before"]


async def test_a_cancelled_flush_is_completed(shop: Shop, db: Database) -> None:
    recorder = Recorder()
    recorder(observed(shop))
    async with db.transaction() as blocker:
        await blocker.execute("LOCK TABLE usage_days IN ACCESS EXCLUSIVE MODE")
        flushing = asyncio.create_task(recorder.flush_forever(db, interval_s=0))
        while not await blocker.fetch("SELECT FROM pg_locks WHERE relation = 'usage_days'::regclass AND NOT granted"):
            await asyncio.sleep(0)
        flushing.cancel()
    await recorder.finish(db)
    assert (await report(db, shop)).total.requests == 1


async def test_the_report_includes_days_without_requests(shop: Shop, db: Database) -> None:
    recorder = Recorder()
    recorder(observed(shop))
    await recorder.flush(db)
    usage = await usage_report(db, shop.app_id, TODAY - timedelta(days=29), TODAY + timedelta(days=1))
    assert [day.day for day in usage.days] == [TODAY + timedelta(days=number) for number in range(-29, 2)]
    assert sum(day.requests for day in usage.days) == 1


async def test_usage_is_reported_by_store_and_in_total(shop: Shop, application: Application, db: Database) -> None:
    second = await open_shop(application, db)
    recorder = Recorder()
    recorder(observed(shop))
    recorder(observed(shop, store_id=second.store_id))
    recorder(observed(shop, store_id=second.store_id))
    await recorder.flush(db)
    tomorrow = TODAY + timedelta(days=1)
    assert (await usage_report(db, shop.app_id, TODAY, tomorrow)).total.requests == 3
    assert (await usage_report(db, shop.app_id, TODAY, tomorrow, store_id=shop.store_id)).total.requests == 1
    found = [(each.handle, each.requests) for each in await usage_by_store(db, shop.app_id, TODAY, tomorrow)]
    assert found == [(second.store.handle, 2), (shop.store.handle, 1)]


async def test_a_failed_request_is_stored_with_its_code_and_fault(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    body = {"title": "x", "price": "1.234"}
    answer = await caller.post("/notes", json=body, headers={"x-request-id": "req_mine"})
    assert answer.status_code == 422
    await worker.usage.flush(db)
    [failure] = await failed_requests(db, shop.app_id, store_id=shop.store_id)
    assert (failure.request_id, failure.method, failure.operation) == ("req_mine", "POST", "create_note")
    assert (failure.status, failure.code) == (422, "validation_failed")
    assert (failure.fault_pointer, failure.fault_code) == ("/price", "invalid_money")
    assert failure.handle == shop.store.handle


async def test_values_from_requests_are_not_stored(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    canary = "Canary.Rossi@example.com"
    await caller.post("/notes", json={canary: canary, "title": canary * 50, "price": canary})
    await caller.get("/notes", params={canary: canary})
    await caller.get(f"/notes/{canary}")
    await worker.usage.flush(db)
    rows = await db.fetch("SELECT f::text FROM failed_requests f WHERE app_id = $1", shop.app_id)
    assert rows
    assert not [row for row in rows if "canary" in row[0].lower()]


async def test_only_the_latest_failed_requests_are_kept(shop: Shop, other_shop: Shop, db: Database) -> None:
    recorder = Recorder()
    recorder(observed(other_shop, 404))
    for number in range(MAX_FAILURES + 50):
        recorder(observed(shop, 404, request_id=f"req_{number}", fault=Fault("/a", "required", "")))
        if number % 40 == 0:
            await recorder.flush(db)
    await recorder.flush(db)
    stored = await failed_requests(db, shop.app_id, limit=1_000)
    assert [each.request_id for each in stored] == [f"req_{number}" for number in range(MAX_FAILURES + 49, 49, -1)]
    assert len(await failed_requests(db, other_shop.app_id)) == 1


async def test_old_rows_are_deleted(shop: Shop, db: Database) -> None:
    recorder = Recorder()
    recorder(observed(shop, 404))
    await recorder.flush(db)
    store_id = shop.store_id
    await db.execute("UPDATE usage_days SET day = current_date - 401 WHERE store_id = $1", store_id)
    await db.execute("UPDATE failed_requests SET at = now() - interval '31 days' WHERE store_id = $1", store_id)
    recorder(observed(shop, 404))
    await recorder.flush(db)
    await maintain(db)
    for table in ("usage_days", "failed_requests"):
        [[left]] = await db.fetch(f"SELECT count(*) FROM {table} WHERE store_id = $1", store_id)
        assert left == 1, table
