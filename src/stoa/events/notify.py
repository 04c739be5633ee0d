"""Notifies workers of committed events, so that they need not wait for their next poll."""

import asyncio
from itertools import islice

from stoa.db.connection import APPLICATION_NAME
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query

CHANNEL = "stoa_events"
PAUSE_S = 0.001  # notifications in this time are sent together; a longer one delays every delivery
NOTIFIER_NAME = f"{APPLICATION_NAME} notifications"
_MOST_STORES = 300  # in one notification, whose payload is limited to 8,000 bytes

# A crash of the database loses waiting notifications in any case, and workers also poll: this commit need not wait for the disk.
NOTIFY = Query(
    str,
    f"SELECT pg_notify('{CHANNEL}', $1)::text FROM set_config('synchronous_commit', 'off', true)",
    unbound="workers listen for all stores",
)


class Notifier:
    """Notifies on its own connection after the commit, because NOTIFY in a transaction serializes all commits."""

    def __init__(self, url: str) -> None:
        self.database = Database(url, size=1, name=NOTIFIER_NAME)
        self._stores: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, store_id: int) -> None:
        """Schedule a notification for a store; concurrent ones are sent together."""
        self._stores.add(store_id)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        if self._task is not None:
            await self._task
        await self.database.close()

    async def _send(self) -> None:
        try:
            while self._stores:
                stores = list(islice(self._stores, _MOST_STORES))
                self._stores.difference_update(stores)
                await NOTIFY.one(self.database, ",".join(map(str, stores)))
                await asyncio.sleep(PAUSE_S)
        except (PostgresError, Unavailable):
            self._stores.clear()  # workers also poll
        finally:
            self._task = None


class Notifiers:
    """One notifier for each database: the workers of a shard listen there."""

    def __init__(self) -> None:
        self._of: dict[str, Notifier] = {}

    def __call__(self, database: Database) -> Notifier:
        notifier = self._of.get(database.url)
        if notifier is None:
            notifier = self._of[database.url] = Notifier(database.url)
        return notifier

    async def close(self) -> None:
        for notifier in self._of.values():
            await notifier.close()
