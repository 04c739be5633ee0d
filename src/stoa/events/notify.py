"""A word to the workers that events were committed, so that they need not wait for their next look."""

import asyncio
from itertools import islice

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query

CHANNEL = "stoa_events"
PAUSE_S = 0.004
_MOST_STORES = 300  # in one word, which may have 8,000 bytes

NOTIFY = Query(str, f"SELECT pg_notify('{CHANNEL}', $1)::text", unbound="workers listen for all stores")


class Notifier:
    """Speaks on a connection of its own, after the commit: inside a transaction it would hold up every other commit."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, size=1)
        self._stores: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, store_id: int) -> None:
        """Something happened in this store; several at once are one word."""
        self._stores.add(store_id)
        if self._task is None:
            self._task = asyncio.create_task(self._speak())

    async def close(self) -> None:
        if self._task is not None:
            await self._task
        await self._database.close()

    async def _speak(self) -> None:
        try:
            while self._stores:
                told = list(islice(self._stores, _MOST_STORES))
                self._stores.difference_update(told)
                await NOTIFY.one(self._database, ",".join(map(str, told)))
                await asyncio.sleep(PAUSE_S)
        except (PostgresError, Unavailable):
            self._stores.clear()  # workers look by themselves, a moment later
        finally:
            self._task = None
