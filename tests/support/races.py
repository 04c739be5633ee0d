"""Races that come out one way: whoever loses is first seen to wait."""

import asyncio

from stoa.db.pool import Database

WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_somebody_waits(db: Database, count: int = 1) -> None:
    """Until so many wait for what others hold."""
    while len(await db.fetch(WAITING)) < count:
        await asyncio.sleep(0.01)
