"""Deterministic races: the loser is first observed waiting for a lock."""

import asyncio

from stoa.db.pool import Database

WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_somebody_waits(db: Database, count: int = 1) -> None:
    """Wait until this many sessions wait for a lock."""
    while len(await db.fetch(WAITING)) < count:
        await asyncio.sleep(0.01)
