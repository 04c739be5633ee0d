"""The usage recorder: counting, logging, flushing, retries, redaction and retention."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from stoa.access.credentials import new_access_token
from stoa.app import Application
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.operations.maintenance import maintain
from stoa.rest.problems import Fault
from stoa.rest.request import Observed
from stoa.settings import Settings
from stoa.usage.queries import LoggedRequest
from stoa.usage.recorder import Recorder, Recorders
from stoa.usage.reports import (
    OUTCOMES,
    RequestFilter,
    UsageReport,
    last_hours,
    logged_requests,
    usage_by_store,
    usage_of_last_day,
    usage_report,
)
from stoa.usage.request_log import MAX_PENDING, MAX_PER_FLUSH, RequestLog
from tests.support.shops import Shop, api_client, open_shop

NOW = datetime.now(UTC)
TODAY = NOW.date()
NOTE: dict[str, Any] = {"title": "first", "price": "1.00"}
ALL = RequestFilter(before=2**62)


def recording(max_rows: int = 1_000) -> Recorder:
    return Recorder(RequestLog(frozenset({"notes"}), max_rows))


def without_shards(db: Database) -> Shards:
    return Shards(db, lambda _, url: url.decode())


async def logged(db: Database, shop: Shop, where: RequestFilter = ALL) -> list[LoggedRequest]:
    return await logged_requests(db, shop.app_id, where, 1_000)


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
    await worker.usage.flush(worker.shards)
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
    await worker.usage.flush(worker.shards)
    operations = {each.operation: each.requests for each in (await report(db, shop)).operations}
    assert operations == {"list_notes": 3, "create_note": 1}


async def test_unauthenticated_requests_are_not_counted(shop: Shop, db: Database, worker: Application) -> None:
    async with api_client(worker, shop.store.handle) as stranger:
        assert (await stranger.get("/notes")).status_code == 401
    await worker.usage.flush(worker.shards)
    assert await db.fetch("SELECT FROM usage_days WHERE store_id = $1", shop.store_id) == []


async def test_rate_limited_requests_have_their_own_counter(shop: Shop, db: Database) -> None:
    recorder = recording()
    for status in (200, 429, 429, 404, 500, 503):
        recorder(observed(shop, status))
    await recorder.flush(db)
    total = (await report(db, shop)).total
    assert (total.client_errors, total.rate_limited, total.server_errors, total.errors) == (1, 2, 2, 3)


async def test_flushes_of_several_workers_add_up(shop: Shop, db: Database) -> None:
    workers = [recording() for _ in range(6)]
    for _ in range(5):
        for worker in workers:
            for operation in ("list_notes", "get_note", "create_note"):
                worker(observed(shop, operation=operation))
        await asyncio.gather(*(worker.flush(db) for worker in workers))
    usage = await report(db, shop)
    assert usage.total.requests == 5 * 6 * 3
    assert {each.requests for each in usage.operations} == {30}


async def test_concurrent_flushes_write_each_request_once(shop: Shop, db: Database) -> None:
    recorder = recording()
    recorder(observed(shop, 404))
    await asyncio.gather(*(recorder.flush(db) for _ in range(4)))
    assert (await report(db, shop)).total.requests == 1
    assert len(await logged(db, shop)) == 1


async def test_counts_survive_an_unreachable_database(shop: Shop, db: Database) -> None:
    unreachable = Database("postgresql://stoa@127.0.0.1:1/stoa")
    recorders = Recorders(recording)
    recorders(observed(shop, 404, request_id="req_before"))
    await recorders.flush(without_shards(unreachable))
    recorders(observed(shop, 404, request_id="req_after"))
    await recorders.flush(without_shards(unreachable))
    await recorders.flush(without_shards(db))
    assert (await report(db, shop)).total.client_errors == 2
    assert [each.request_id for each in await logged(db, shop)] == ["req_after", "req_before"]


async def test_a_cancelled_flush_is_completed(shop: Shop, db: Database) -> None:
    recorders, shards = Recorders(recording), without_shards(db)
    recorders(observed(shop))
    async with db.transaction() as blocker:
        await blocker.execute("LOCK TABLE usage_days IN ACCESS EXCLUSIVE MODE")
        flushing = asyncio.create_task(recorders.flush_forever(shards, interval_s=0))
        while not await blocker.fetch("SELECT FROM pg_locks WHERE relation = 'usage_days'::regclass AND NOT granted"):
            await asyncio.sleep(0)
        flushing.cancel()
    await recorders.flush(shards)
    assert (await report(db, shop)).total.requests == 1


async def test_the_report_includes_days_without_requests(shop: Shop, db: Database) -> None:
    recorder = recording()
    recorder(observed(shop))
    await recorder.flush(db)
    usage = await usage_report(db, shop.app_id, TODAY - timedelta(days=29), TODAY + timedelta(days=1))
    assert [day.start for day in usage.periods] == [TODAY + timedelta(days=number) for number in range(-29, 2)]
    assert sum(day.requests for day in usage.periods) == 1


async def test_the_last_day_is_reported_by_hour(shop: Shop, other_shop: Shop, db: Database) -> None:
    recorder = recording()
    for status in (200, 404, 429):
        recorder(observed(shop, status))
    recorder(observed(shop, store_id=other_shop.store_id))
    await recorder.flush(db)
    usage = await usage_of_last_day(db, shop.app_id)
    assert len(usage.periods) == 24
    # The hour may end during this test.
    assert sum(hour.requests for hour in usage.periods[-2:]) == usage.total.requests == 4
    assert (usage.total.errors, usage.total.rate_limited) == (1, 1)
    assert [(each.operation, each.requests) for each in usage.operations] == [("list_notes", 4)]
    of_store = await usage_of_last_day(db, shop.app_id, store_id=shop.store_id)
    assert (of_store.total.requests, [each.requests for each in of_store.operations]) == (3, [3])
    assert [each.requests for each in await usage_by_store(db, shop.app_id, *last_hours())] == [3, 1]


async def test_usage_is_reported_by_store_and_in_total(shop: Shop, application: Application, db: Database) -> None:
    second = await open_shop(application, db)
    recorder = recording()
    recorder(observed(shop))
    recorder(observed(shop, store_id=second.store_id))
    recorder(observed(shop, store_id=second.store_id))
    await recorder.flush(db)
    tomorrow = TODAY + timedelta(days=1)
    assert (await usage_report(db, shop.app_id, TODAY, tomorrow)).total.requests == 3
    assert (await usage_report(db, shop.app_id, TODAY, tomorrow, store_id=shop.store_id)).total.requests == 1
    found = [(each.handle, each.requests) for each in await usage_by_store(db, shop.app_id, TODAY, tomorrow)]
    assert found == [(second.store.handle, 2), (shop.store.handle, 1)]


async def test_every_request_is_logged_with_its_outcome(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    body = {"title": "x", "price": "1.234", "color": 1}
    await caller.post("/notes", json=body, headers={"x-request-id": "req_mine"})
    await caller.get("/notes")
    await caller.get("/notes/999999999")
    await worker.usage.flush(worker.shards)
    missing, listed, invalid = await logged(db, shop)
    assert (invalid.request_id, invalid.method, invalid.operation, invalid.path) == (
        "req_mine", "POST", "create_note", "/notes",
    )  # fmt: skip
    assert (invalid.status, invalid.code, invalid.handle) == (422, "validation_failed", shop.store.handle)
    assert sorted(invalid.pointers) == [("/color", "invalid_type"), ("/price", "invalid_money")]
    assert invalid.duration_us > 0
    assert abs((datetime.now(UTC) - invalid.at).total_seconds()) < 60
    assert (listed.status, listed.code, listed.pointers) == (200, "", [])
    assert (missing.path, missing.status, missing.code) == ("/notes/999999999", 404, "not_found")


async def test_only_unknown_names_that_resemble_declared_ones_are_logged(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    await caller.post("/notes", json={"title": "x", "price": "1.00", "titel": "x", "jane_doe_15551234567": 1})
    await caller.get("/notes?jane_doe=1&limt=2")
    await worker.usage.flush(worker.shards)
    listed, created = await logged(db, shop)
    assert sorted(created.pointers) == [("/titel", "unknown_field"), ("/…", "unknown_field")]
    assert sorted(listed.pointers) == [("limt", "unknown_parameter"), ("…", "unknown_parameter")]


async def test_the_log_shows_what_the_usage_counts(shop: Shop, db: Database) -> None:
    recorder = recording()
    for status in (200, 201, 304, 400, 404, 429, 429, 500, 503):
        recorder(observed(shop, status))
    await recorder.flush(db)
    total = (await report(db, shop)).total
    counts = {name: len(await logged(db, shop, RequestFilter(before=2**62, outcome=name))) for name in OUTCOMES}
    assert counts == {"": total.requests, "success": 3, "error": total.errors, "4xx": total.client_errors,
                      "5xx": total.server_errors, "429": total.rate_limited}  # fmt: skip
    assert counts["429"] == counts["4xx"] == counts["5xx"] == 2


async def test_refused_tokens_and_unknown_routes_are_logged_for_their_app(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    routes = [await caller.get("/notes/7/comments"), await caller.delete("/notes"), await caller.get("/other/way")]
    await db.execute("UPDATE tokens SET expires_at = now() - interval '1 second' WHERE app_id = $1", shop.app_id)
    async with api_client(worker, shop.store.handle, shop.token) as late:
        while (expired := await late.get("/notes")).status_code == 200:
            await asyncio.sleep(0.05)  # until the cached caller expires
        await db.execute("UPDATE tokens SET revoked_at = now() WHERE app_id = $1", shop.app_id)
        revoked = await late.get("/notes")
        unknown = await late.get("/no/such")
    assert [each.status_code for each in (*routes, expired, revoked, unknown)] == [404, 405, 404, 401, 401, 404]
    await worker.usage.flush(worker.shards)
    found = [(each.path, each.operation, each.code) for each in await logged(db, shop) if each.status != 200]
    assert found == [
        ("/…/…", "", "not_found"),
        ("/notes", "list_notes", revoked.json()["code"]),
        ("/notes", "list_notes", expired.json()["code"]),
        ("/…/…", "", "not_found"),
        ("/notes", "", "method_not_allowed"),
        ("/notes/7/…", "", "not_found"),
    ]
    assert expired.json()["code"] != revoked.json()["code"]
    assert (await report(db, shop)).total.client_errors == 6


async def test_an_unknown_route_waits_for_no_connection_to_find_its_app(
    shop: Shop, worker: Application, caller: httpx.AsyncClient
) -> None:
    pool = worker.database
    async with AsyncExitStack() as stack, api_client(worker, shop.store.handle, new_access_token()) as unknown:
        for _ in range(pool.size - 1):
            await stack.enter_async_context(pool.transaction())
        assert (await caller.get("/notes")).status_code == 200  # finds the store, which is then cached
        await stack.enter_async_context(pool.transaction())
        waits = pool.line.waits
        assert (await unknown.get("/no/such")).status_code == 404
        assert pool.line.waits == waits


async def test_values_from_requests_are_not_stored(
    shop: Shop, db: Database, worker: Application, caller: httpx.AsyncClient
) -> None:
    canary = "Canary.Rossi@example.com"
    await caller.post("/notes", json={canary: canary, "title": canary * 50, "price": canary})
    await caller.get("/notes", params={canary: canary})
    await caller.get(f"/notes/{canary}")
    await caller.get(f"/{canary}/{canary}?{canary}={canary}")
    await worker.usage.flush(worker.shards)
    rows = await db.fetch("SELECT l::text FROM request_log l WHERE app_id = $1", shop.app_id)
    assert len(rows) == 4
    assert not [row for row in rows if "canary" in row[0].lower()]


async def test_above_its_rate_an_app_is_sampled(shop: Shop, other_shop: Shop, db: Database) -> None:
    recorder = recording()
    for number in range(MAX_PER_FLUSH + 50):
        recorder(observed(shop, request_id=f"req_{number}"))
    recorder(observed(shop, 404, request_id="req_failed"))
    recorder(observed(other_shop))
    await recorder.flush(db)
    found = [each.request_id for each in await logged(db, shop)]
    assert found == ["req_failed", *(f"req_{number}" for number in range(MAX_PER_FLUSH - 1, -1, -1))]
    assert len(await logged(db, other_shop)) == 1
    assert (await report(db, shop)).total.requests == MAX_PER_FLUSH + 51


async def test_the_log_takes_little_memory_while_the_database_is_unreachable(shop: Shop) -> None:
    unreachable = Database("postgresql://stoa@127.0.0.1:1/stoa")
    log = RequestLog(frozenset(), 1_000)
    recorders = Recorders(lambda: Recorder(log))
    for _ in range(MAX_PENDING // MAX_PER_FLUSH + 2):
        for _ in range(MAX_PER_FLUSH):
            recorders(observed(shop))
        log.put_back(log.take())
    await recorders.flush(without_shards(unreachable))
    assert len(log.take()) == MAX_PENDING


async def test_only_the_newest_requests_of_an_app_are_kept(shop: Shop, other_shop: Shop, db: Database) -> None:
    recorder = recording(max_rows=100)
    recorder(observed(other_shop, 404))
    for number in range(150):
        recorder(observed(shop, request_id=f"req_{number}", faults=[Fault("/a", "required", "")]))
        if number % 10 == 9:
            await recorder.flush(db)
    assert [each.request_id for each in await logged(db, shop)] == [f"req_{number}" for number in range(149, 49, -1)]
    assert len(await logged(db, other_shop)) == 1


async def test_old_rows_are_deleted(shop: Shop, db: Database) -> None:
    recorder = recording()
    recorder(observed(shop, 404))
    await recorder.flush(db)
    store_id, settings = shop.store_id, Settings(request_log_days=3)
    await db.execute("UPDATE usage_days SET day = current_date - 401 WHERE store_id = $1", store_id)
    past = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=3)
    await db.execute("UPDATE usage_hours SET hour = $2 WHERE store_id = $1", store_id, past)
    # An id begins with microseconds.
    await db.execute("UPDATE request_log SET id = id - 3::bigint * 86400 * 100000000 WHERE store_id = $1", store_id)
    recorder(observed(shop, 404))
    await recorder.flush(db)
    await maintain(db, settings)
    for table in ("usage_days", "usage_hours", "request_log"):
        [[left]] = await db.fetch(f"SELECT count(*) FROM {table} WHERE store_id = $1", store_id)
        assert left == 1, table
