"""Deterministic races: the loser is first observed waiting for a lock."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from stoa.db.pool import Connection, Database

WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_somebody_waits(db: Database, count: int = 1) -> None:
    """Wait until this many sessions wait for a lock."""
    while len(await db.fetch(WAITING)) < count:
        await asyncio.sleep(0.01)


class _RolledBack(Exception):
    pass


@asynccontextmanager
async def rolled_back(database: Database) -> AsyncGenerator[Connection]:
    """A transaction that holds its locks until the end of the block, and is then rolled back."""
    try:
        async with database.transaction() as db:
            yield db
            raise _RolledBack  # noqa: TRY301
    except _RolledBack:
        pass
