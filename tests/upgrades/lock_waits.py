"""Watches a database during an upgrade: how long statements wait for locks on tables, and whether deadlocks occur."""

import asyncio
from collections import defaultdict

from stoa.db.connection import connect
from tests.support.deadlocks import Deadlocks

EVERY_S = 0.02
_WAITS = """
SELECT l.relation::regclass::text, extract(epoch FROM clock_timestamp() - l.waitstart)::float8 FROM pg_locks l
 WHERE NOT l.granted AND l.waitstart IS NOT NULL AND l.locktype = 'relation'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class LockWaits:
    """The longest wait for a lock on each table, sampled until `over` is set."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.longest: defaultdict[str, float] = defaultdict(float)
        self.deadlocks: list[str] = []  # what the log of the server says of each
        self.samples = 0
        self.over = asyncio.Event()

    def __str__(self) -> str:
        longest = ", ".join(f"{table} {wait * 1000:.0f} ms" for table, wait in sorted(self.longest.items()))
        return (
            f"longest waits for a table: {longest or 'none'} ({self.samples} samples), {len(self.deadlocks)} deadlocks"
        )

    async def watch(self) -> None:
        db = await connect(self._url)
        deadlocks = await Deadlocks.since(db.fetch)
        while not self.over.is_set():
            for table, seconds in await db.fetch(_WAITS):
                self.longest[table] = max(self.longest[table], seconds)
            self.samples += 1
            await asyncio.sleep(EVERY_S)
        self.deadlocks = await deadlocks.found()
        await db.close()
