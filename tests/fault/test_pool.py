"""The pool never leaks a connection or hands out one in an unknown state, even if tasks are cancelled."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from stoa.db.errors import PostgresError, Unavailable, WaitedTooLong
from stoa.db.pool import Database, arrive
from stoa.db.waiting import Arrival, arrival
from tests.support.clocks import Clock

SIZE = 2


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    small = Database(database_url, size=SIZE)
    yield small
    await small.close()


async def assert_intact(pool: Database) -> None:
    """All connections of the pool can be acquired at the same time, and none is in a transaction."""
    async with contextlib.AsyncExitStack() as stack:
        acquired = [await stack.enter_async_context(pool.transaction()) for _ in range(SIZE)]
        for connection in acquired:
            assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]


@contextlib.asynccontextmanager
async def lent(pool: Database, count: int) -> AsyncGenerator[None]:
    """Connections are lent to other tasks meanwhile."""
    over = asyncio.Event()

    async def hold() -> None:
        async with pool.lend():
            await over.wait()

    before = pool.in_use
    holding = [asyncio.create_task(hold()) for _ in range(count)]
    while pool.in_use < before + count:
        await asyncio.sleep(0)
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*holding)


async def joined(pool: Database, count: int = 1) -> None:
    """Wait until tasks wait in the line."""
    while len(pool.line) < count:
        await asyncio.sleep(0)


async def cancel_me() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()  # takes effect at the next await


async def test_cancellation_during_a_rollback_leaks_no_connection(pool: Database) -> None:
    async def fail() -> None:
        async with pool.transaction():
            await cancel_me()
            raise ValueError

    for _ in range(5 * SIZE):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(fail())
    await assert_intact(pool)


async def test_cancellation_during_a_statement_leaks_no_connection(pool: Database) -> None:
    for _ in range(5 * SIZE):
        reading = asyncio.create_task(pool.fetch("SELECT pg_sleep(5)"))
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    await assert_intact(pool)


async def test_waiting_tasks_get_a_connection_in_turn_or_time_out(pool: Database) -> None:
    waiting = [asyncio.create_task(pool.fetch("SELECT pg_sleep(0.01)")) for _ in range(50)]
    for task in waiting[10:20]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait(waiting)
    assert sum(task.cancelled() for task in waiting) == 10
    async with pool.transaction(), pool.transaction():
        with pytest.raises(Unavailable, match="no database connection became free"):
            await pool.fetch("SELECT 1")
    await assert_intact(pool)


async def test_a_released_connection_goes_to_the_task_that_waited_longest(pool: Database) -> None:
    served: list[str] = []

    async def read(name: str) -> None:
        async with pool.lend():
            served.append(name)

    async with contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(pool.lend()) for _ in range(SIZE)]
        assert len(held) == SIZE
        first = asyncio.create_task(read("first"))
        await asyncio.sleep(0)
        cancelled = asyncio.create_task(read("cancelled"))
        await asyncio.sleep(0)
    # Both connections are released and belong to those two, although neither task has run since.
    cancelled.cancel()
    await read("late")
    await asyncio.gather(first, cancelled, return_exceptions=True)
    assert served == ["first", "late"]
    await assert_intact(pool)


async def test_a_transaction_with_a_suppressed_error_is_not_reported_as_committed(pool: Database) -> None:
    async def swallow() -> None:
        async with pool.transaction() as db:
            with contextlib.suppress(PostgresError):
                await db.execute("SELECT 1 / 0")

    with pytest.raises(RuntimeError, match="swallowed"):
        await swallow()
    await assert_intact(pool)


async def test_a_connection_closed_by_the_server_is_replaced(pool: Database, db: Database) -> None:
    async with pool.transaction() as connection:
        [[victim]] = await connection.fetch("SELECT pg_backend_pid()")
    await db.fetch("SELECT pg_terminate_backend($1)", victim)
    await asyncio.sleep(0.05)
    assert [tuple(row) for row in await pool.fetch("SELECT 1")] == [(1,)]
    await assert_intact(pool)


async def test_a_pool_is_saturated_by_a_long_wait_and_not_by_a_crowd(
    pool: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.db.waiting.SHED_AFTER_S", 3600)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(SIZE):
            await stack.enter_async_context(pool.transaction())
        waiting = [asyncio.create_task(pool.fetch("SELECT 1")) for _ in range(50 * SIZE)]
        await asyncio.sleep(0)
        assert len(pool.line) == len(waiting)
        assert not pool.saturated
        monkeypatch.setattr("stoa.db.waiting.SHED_AFTER_S", 0.01)
        await asyncio.sleep(0.02)
        assert pool.saturated
    await asyncio.gather(*waiting)
    assert not pool.saturated


async def test_a_request_that_has_begun_goes_first_then_the_oldest_and_a_stream_joins_as_new(
    pool: Database, clock: Clock
) -> None:
    served: list[str] = []

    async def ask(name: str, seconds_ago: float, *, begun: bool = False) -> None:
        arrival.set(Arrival(clock.now - seconds_ago, math.inf if begun else clock.now + 60))
        await pool.fetch("SELECT 1")
        served.append(name)

    asked = [
        ask("new", 0.0),
        ask("older", 0.5),
        ask("oldest", 1.0),
        ask("begun", 0.1, begun=True),
        ask("stream", 600.0, begun=True),
    ]
    async with lent(pool, SIZE - 1):
        async with lent(pool, 1):
            asking = [asyncio.create_task(each) for each in asked]
            await joined(pool, len(asking))
        await asyncio.gather(*asking)
    assert served == ["begun", "oldest", "older", "new", "stream"]


async def test_all_waits_of_a_request_count(pool: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoa.db.waiting.MOST_WAIT_S", 10)
    arrive()
    for _ in range(2):  # for its store, then for its token
        async with lent(pool, SIZE):
            looking_up = asyncio.create_task(pool.fetch("SELECT 1"))
            await joined(pool)
            clock.now += 5
        await looking_up
    async with lent(pool, SIZE):
        with pytest.raises(WaitedTooLong):
            await pool.fetch("SELECT 1")
    await assert_intact(pool)


async def test_a_late_request_gets_a_free_connection(pool: Database, clock: Clock) -> None:
    arrive()
    clock.now += 3600
    assert await pool.fetch("SELECT 1")


async def test_work_that_has_begun_waits_however_old_its_request_is(pool: Database, clock: Clock) -> None:
    arrive()
    async with pool.transaction():
        clock.now += 3600
        async with lent(pool, SIZE - 1):
            reading = asyncio.create_task(pool.fetch("SELECT 1"))
            await joined(pool)
        assert await reading


async def test_a_late_request_does_not_make_the_pool_saturated(pool: Database, clock: Clock) -> None:
    async with lent(pool, SIZE):
        arrive()
        clock.now += 3600
        with pytest.raises(WaitedTooLong):
            await pool.fetch("SELECT 1")
        assert not pool.saturated
