"""Transactions of a migration that never make requests wait for long: they give up a lock, pause, and try again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stoa.db.connection import Connection
from stoa.db.errors import LOCK_TIMEOUT, RETRYABLE, PostgresError, sqlstate
from stoa.db.query import Query
from stoa.db.schema_files import MigrationRefused

T = TypeVar("T")
# Requests queue behind a lock that waits, so it must not wait for long. Below PostgreSQL's deadlock_timeout of one second, work
# that waits for one table while it holds another also gives way before a deadlock is found, so no request is its victim.
LOCK_WAIT_MS = 300
# At first it waits much less: a request that stores an idempotency key waits 100 ms for the table, and then takes the key for one
# that another request uses.
SHORT_WAIT_MS = 50
SHORT_TRIES = 60
TRIES = 100  # within about a minute
_PAUSE = (1.0, 4.0)  # as a multiple of the wait: requests that waited are served meanwhile
# Also taken by release 0.2.0, which migrates in one transaction.
_LOCK = Query(str, "SELECT pg_advisory_xact_lock(7306217)::text", unbound="the schema belongs to no store")


async def in_short_transaction(
    db: Connection, subject: str, work: Callable[[], Awaitable[T]], *, of_rows: bool = False
) -> T:
    """Do work in a transaction, whose locks are waited for only briefly, again and again. Behind locks of rows, few requests wait."""
    for tried in range(TRIES):
        wait_ms = SHORT_WAIT_MS if tried < SHORT_TRIES and not of_rows else LOCK_WAIT_MS
        await db.execute(f"BEGIN; SET LOCAL lock_timeout = {wait_ms}")
        try:
            await _LOCK.one(db)
            result = await work()
            await db.execute("COMMIT")
        except BaseException as error:
            if not db.is_closed():
                await db.execute("ROLLBACK")
            if not isinstance(error, PostgresError) or sqlstate(error) not in {LOCK_TIMEOUT, *RETRYABLE}:
                raise
        else:
            return result
        await asyncio.sleep(wait_ms / 1000 * random.uniform(*_PAUSE))  # noqa: S311 - jitter
    raise MigrationRefused(
        f"{subject} did not get its locks in {TRIES} tries, because a long transaction, such as a backup, uses its tables. "
        "What was done before is kept. Find the transaction in pg_stat_activity, and run `stoa migrate` again."
    )
