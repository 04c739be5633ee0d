"""The pool loses no connection and lends none in a doubtful state, whatever happens to its borrowers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import MOST_WAITING, Database

SIZE = 2


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    small = Database(database_url, size=SIZE)
    yield small
    await small.close()


async def assert_whole(pool: Database) -> None:
    """Every place in the pool can be had, at the same time, and none stands in somebody's transaction."""
    async with contextlib.AsyncExitStack() as stack:
        lent = [await stack.enter_async_context(pool.transaction()) for _ in range(SIZE)]
        for connection in lent:
            assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]


async def cancel_me() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()  # takes effect where the task waits next


async def test_a_borrower_cancelled_in_its_rollback_costs_no_connection(pool: Database) -> None:
    async def fail() -> None:
        async with pool.transaction():
            await cancel_me()
            raise ValueError

    for _ in range(5 * SIZE):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(fail())
    await assert_whole(pool)


async def test_a_borrower_cancelled_in_its_statement_costs_no_connection(pool: Database) -> None:
    for _ in range(5 * SIZE):
        reading = asyncio.create_task(pool.fetch("SELECT pg_sleep(5)"))
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    await assert_whole(pool)


async def test_those_who_wait_for_a_connection_get_one_in_turn_or_hear_that_there_is_none(pool: Database) -> None:
    waiting = [asyncio.create_task(pool.fetch("SELECT pg_sleep(0.01)")) for _ in range(50)]
    for gone in waiting[10:20]:
        await asyncio.sleep(0)
        gone.cancel()
    await asyncio.wait(waiting)
    assert sum(task.cancelled() for task in waiting) == 10
    async with pool.transaction(), pool.transaction():
        with pytest.raises(Unavailable, match="no database connection became free"):
            await pool.fetch("SELECT 1")
    await assert_whole(pool)


async def test_a_transaction_in_which_an_error_was_swallowed_is_not_taken_for_committed(pool: Database) -> None:
    async def swallow() -> None:
        async with pool.transaction() as db:
            with contextlib.suppress(PostgresError):
                await db.execute("SELECT 1 / 0")

    with pytest.raises(RuntimeError, match="swallowed"):
        await swallow()
    await assert_whole(pool)


async def test_a_connection_that_the_server_ends_is_replaced(pool: Database, db: Database) -> None:
    async with pool.transaction() as lent:
        [[victim]] = await lent.fetch("SELECT pg_backend_pid()")
    await db.fetch("SELECT pg_terminate_backend($1)", victim)
    await asyncio.sleep(0.05)
    assert [tuple(row) for row in await pool.fetch("SELECT 1")] == [(1,)]
    await assert_whole(pool)


async def test_a_pool_says_when_so_many_wait_that_newcomers_should_not(pool: Database) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(SIZE):
            await stack.enter_async_context(pool.transaction())
        waiting = [asyncio.create_task(pool.fetch("SELECT 1")) for _ in range(MOST_WAITING * SIZE)]
        assert not pool.saturated
        await asyncio.sleep(0)
        assert pool.saturated
    await asyncio.gather(*waiting)
    assert not pool.saturated
