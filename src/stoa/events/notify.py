"""Notifies delivery workers of committed events, so that they need not wait for their next poll."""

import asyncio
from itertools import islice

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query

CHANNEL = "stoa_events"
PAUSE_S = 0.004
_MAX_STORES = 300  # in one payload, which PostgreSQL limits to 8,000 bytes

NOTIFY = Query(str, f"SELECT pg_notify('{CHANNEL}', $1)::text", unbound="workers listen for all stores")


class Notifier:
    """Notifies on its own connection after the commit: NOTIFY inside a transaction would serialize all commits."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, size=1)
        self._stores: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, store_id: int) -> None:
        """Events were committed in this store; calls in quick succession form one notification."""
        self._stores.add(store_id)
        if self._task is None:
            self._task = asyncio.create_task(self._notify())

    async def close(self) -> None:
        if self._task is not None:
            await self._task
        await self._database.close()

    async def _notify(self) -> None:
        try:
            while self._stores:
                stores = list(islice(self._stores, _MAX_STORES))
                self._stores.difference_update(stores)
                await NOTIFY.one(self._database, ",".join(map(str, stores)))
                await asyncio.sleep(PAUSE_S)
        except (PostgresError, Unavailable):
            self._stores.clear()  # workers poll, a moment later
        finally:
            self._task = None
