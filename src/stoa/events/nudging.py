"""A word to the workers that events were committed, so that they need not wait for their next look."""

import asyncio

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query

CHANNEL = "stoa_events"
BUCKETS = 64
PAUSE_S = 0.004

NOTIFY = Query(str, f"SELECT pg_notify('{CHANNEL}', $1)::text", unbound="workers listen for all stores")


class Nudger:
    """Speaks on a connection of its own, after the commit: inside a transaction it would hold up every other commit."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, size=1)
        self._buckets: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, store_id: int) -> None:
        """Something happened in this store; several at once are one word."""
        self._buckets.add(store_id % BUCKETS)
        if self._task is None:
            self._task = asyncio.create_task(self._speak())

    async def close(self) -> None:
        if self._task is not None:
            await self._task
        await self._database.close()

    async def _speak(self) -> None:
        try:
            while self._buckets:
                words = ",".join(map(str, self._buckets))
                self._buckets.clear()
                await NOTIFY.one(self._database, words)
                await asyncio.sleep(PAUSE_S)
        except (PostgresError, Unavailable):
            self._buckets.clear()  # workers look by themselves, a moment later
        finally:
            self._task = None
