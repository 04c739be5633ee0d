"""The store that samples name: the demo store, where the service has it."""

import time
from contextlib import suppress

from stoa.access.addresses import YOUR_STORE
from stoa.access.queries import STORE_BY_HANDLE
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database

DEMO = "demo"
_REMEMBERED_S = 60.0


class SampleStore:
    """Looks the demo store up once a minute; if the database is away, the last answer holds."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._handle = YOUR_STORE
        self._until = 0.0

    async def handle(self) -> str:
        if time.monotonic() >= self._until:
            self._until = time.monotonic() + _REMEMBERED_S
            with suppress(Unavailable, PostgresError):
                self._handle = DEMO if await STORE_BY_HANDLE.maybe(self._db, DEMO) else YOUR_STORE
        return self._handle
