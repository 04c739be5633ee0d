"""Deterministic races: the loser is first observed waiting for a lock."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from stoa.db.connection import Connection
from stoa.db.pool import Database
from tests.support.databases import on_cluster

WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
# Rows of a store are locked on its node, where the session of the waiting request is another one.
_WAITING_ANYWHERE = f"""SELECT generate_series(1, result::integer)
      FROM run_command_on_all_nodes($command$SELECT count(*) FROM ({WAITING}) w$command$) WHERE success"""


async def until_somebody_waits(db: Database, count: int = 1) -> None:
    """Wait until this many sessions wait for a lock."""
    while len(await db.fetch(_WAITING_ANYWHERE if on_cluster() else WAITING)) < count:
        await asyncio.sleep(0.01)


async def until_it_waits(task: asyncio.Task[Any], db: Database) -> None:
    """Wait until the task waits for a lock, or has ended without one."""
    waiting = asyncio.create_task(until_somebody_waits(db))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


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
