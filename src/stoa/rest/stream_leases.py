"""The lease of a stream: an app reads one stream of a store at a time, whichever worker serves it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.query import Command, Executor, Query
from stoa.rest.problems import Refusal

LEASE_S, RENEW_EVERY_S = 10.0, 3.0  # a worker that is killed blocks the next stream of the app for this long

# Takes a lease that is free or has expired, or renews the holder's own.
# Two statements, because Citus refuses the clock in the condition of ON CONFLICT.
RENEW = Query(
    str,
    """UPDATE stream_leases SET holder = $3, lease_until = now() + make_interval(secs => $4)
        WHERE store_id = $1 AND app_id = $2 AND (holder = $3 OR lease_until <= now())
       RETURNING holder""",
)
TAKE = Query(
    str,
    """INSERT INTO stream_leases (store_id, app_id, holder, lease_until)
       VALUES ($1, $2, $3, now() + make_interval(secs => $4)) ON CONFLICT (store_id, app_id) DO NOTHING
       RETURNING holder""",
)
RELEASE = Command("DELETE FROM stream_leases WHERE store_id = $1 AND app_id = $2 AND holder = $3")


class ExportInProgress(Refusal):
    """The app reads another stream of this store. It can read one at a time: retry when that one has ended, or after the number
    of seconds in `Retry-After`. A stream whose connection broke ends within 10 seconds."""

    status, code, title, retryable = 409, "export_in_progress", "Another stream of this store is in progress", True

    def __init__(self) -> None:
        super().__init__("An app can read one stream of a store at a time.", headers=[(b"retry-after", b"2")])


class StreamLease:
    """A row that says which stream of an app runs. It expires unless its worker renews it."""

    def __init__(self, db: Executor, store_id: int, app_id: int, holder: str, on_loss: Callable[[], None]) -> None:
        self._db = db
        self._of = (store_id, app_id, holder)
        self._on_loss = on_loss
        self.lost = False

    async def take(self) -> None:
        if not await self._hold():
            raise ExportInProgress

    async def renew_forever(self) -> None:
        """Keep the lease while the client reads, however slowly. Without a database, nobody else can take it either."""
        while not self.lost:
            await asyncio.sleep(RENEW_EVERY_S)
            with suppress(PostgresError, Unavailable):
                self.lost = not await self._hold()
        self._on_loss()

    async def _hold(self) -> bool:
        """Whether this worker has the lease, of its own, of one that has expired, or of none."""
        given = (*self._of, LEASE_S)
        return (await RENEW.maybe(self._db, *given) or await TAKE.maybe(self._db, *given)) is not None

    async def release(self) -> None:
        with suppress(PostgresError, Unavailable):  # it expires by itself
            await RELEASE.run(self._db, *self._of)
