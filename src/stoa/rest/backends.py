"""What serves the stores of one database: its pool, rate limits, writes and groups; and how a request finds that of its store."""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from stoa.db.errors import StoreElsewhere
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.db.replica import Replica
from stoa.db.shards import DIRECTORY, Shards
from stoa.rest import idempotency
from stoa.rest.call import Store
from stoa.rest.coalescing import Coalescer
from stoa.rest.group_commit import GroupCommit
from stoa.rest.limits import RateLimiter
from stoa.rest.problems import NotFound, ServiceUnavailable
from stoa.rest.request import Access, Request
from stoa.rest.writes import Writes

PAUSES_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # before the directory is asked again where a store is
IS_HERE = Query(bool, "SELECT store_is_here($1)")
_CLOSINGS = "coalesce(pg_sequence_last_value('store_closings'::regclass), 0)"
CLOSINGS = Query(int, f"SELECT {_CLOSINGS}", unbound="the number of moves away from this database")
_MOST_KNOWN = 100_000  # stores whose number of closings a worker remembers

Committed = Callable[[int], None]  # called with the store of each committed write


class Backend:
    """Serves the stores of one database."""

    def __init__(
        self,
        database: Database,
        encryption: idempotency.Encryption | None,
        committed: Committed,
        replica: Replica | None = None,
        shard: str = DIRECTORY,
    ) -> None:
        self.database = database
        self.shard = shard
        self.replica = replica
        self.limiter = RateLimiter(database, fenced=replica is not None)
        self.writes = Writes(database, encryption, committed)
        self.group_commit = GroupCommit(database, committed)
        self._looks = Coalescer[int, None, bool](self._look)
        self._counts = Coalescer[int, None, int](self._count)
        self._read: dict[int, int | None] = {}  # the number of closings by store, for those that were read here

    async def reading(self, store_id: int, db: Executor, *, one_by_one: bool) -> Executor:
        """Reads the store by `db`, which is this database or its replica. `one_by_one` is for handlers that need `db` itself: the
        look is a statement of its own."""
        if not one_by_one:
            return StoreReader(self, store_id, db)
        if not await self.holds(store_id):
            raise StoreElsewhere
        return db

    async def holds(self, store_id: int) -> bool:
        """Whether the database holds the store. Requests that ask at the same time share a statement."""
        return await self._looks.submit(store_id, None)

    async def _look(self, store_id: int, asking: Sequence[None]) -> list[bool]:
        return [await IS_HERE.one(self.database, store_id)] * len(asking)

    async def closings(self, store_id: int) -> int | None:
        """How many stores had been closed in this database when it held this one; None the first time, so that a store that is read
        once costs no further statement."""
        if store_id not in self._read:
            return None
        number = self._read[store_id]
        return await self._counts.submit(store_id, None) if number is None else number

    async def _count(self, store_id: int, asking: Sequence[None]) -> list[int]:
        """A move counts after it has closed the store. So if the store is here after the number was read, its move will raise it."""
        number = await CLOSINGS.one(self.database)
        if not await self.holds(store_id):
            raise StoreElsewhere
        self._read[store_id] = number
        return [number] * len(asking)

    def note_read(self, store_id: int) -> None:
        """Note that the store was read here, so that its next read asks for the number of closings."""
        if len(self._read) >= _MOST_KNOWN:
            self._read.clear()
        self._read[store_id] = None


class StoreReader:
    """Reads a store, and in the same statement whether the database holds it. Raises StoreElsewhere if it has left."""

    __slots__ = ("_backend", "_db", "_store_id")

    def __init__(self, backend: Backend, store_id: int, db: Executor) -> None:
        self._backend = backend
        self._store_id = store_id
        self._db = db

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        backend, store_id = self._backend, self._store_id
        # A replica may show another number than its primary.
        closings = await backend.closings(store_id) if self._db is backend.database else None
        if closings is not None:
            rows = await self._db.fetch(_with_closings(sql), *args)
            if rows and rows[-1][-1] == closings:
                return [row[:-1] for row in rows]
            if not rows and await backend.holds(store_id):
                return rows
        rows = await self._db.fetch(_if_here(sql, len(args)), *args, store_id, backend.shard)
        # No rows: there are none, or the store has left.
        if not rows and not await backend.holds(store_id):
            raise StoreElsewhere
        backend.note_read(store_id)
        return rows

    async def execute(self, sql: str, *args: Any) -> str:
        if not await self._backend.holds(self._store_id):
            raise StoreElsewhere
        return await self._db.execute(sql, *args)


@lru_cache(maxsize=4096)
def _with_closings(sql: str) -> str:
    """The statement with the number of closings as a last column. It is read after the snapshot was taken, so if no store has been
    closed by then, the rows are those of a store that is here."""
    return f"SELECT q.*, {_CLOSINGS} FROM (\n{sql}\n) q"


@lru_cache(maxsize=4096)
def _if_here(sql: str, parameters: int) -> str:
    """The statement without rows if the store has left. PostgreSQL looks before it reads, by the same snapshot. The condition is that of
    `store_is_here`, which would take twice as long as a function. The store's own row is read only if no move has noted anything."""
    store_id, shard = f"${parameters + 1}::bigint", f"${parameters + 2}::text"
    return f"""SELECT * FROM (\n{sql}\n) q WHERE coalesce(
        (SELECT r.here FROM store_residence r WHERE r.store_id = {store_id}),
        (SELECT s.shard = {shard} FROM stores s WHERE s.id = {store_id}))"""


class Backends:
    """The backends of this process by shard. On one database, there is one, and no request asks for another."""

    def __init__(
        self,
        directory: Backend,
        access: Access,
        shards: Shards | None,
        encryption: idempotency.Encryption | None,
        committed: Callable[[Database], Committed],
    ) -> None:
        self.directory = directory
        self._access = access
        self._shards = shards
        self._encryption = encryption
        self._committed = committed
        self._backends: dict[str, Backend] = {}

    async def of(self, store: Store) -> Backend:
        """The backend of the shard that a store names."""
        if store.shard == DIRECTORY or self._shards is None:
            return self.directory
        database = await self._shards.database(store.shard)
        backend = self._backends.get(store.shard)
        if backend is None or backend.database is not database:
            backend = Backend(database, self._encryption, self._committed(database), shard=store.shard)
            self._backends[store.shard] = backend
        return backend

    async def locate(self, request: Request, store: Store) -> tuple[Store, Backend]:
        """The store and its backend. The database is asked whether it holds the store, and if not, the directory where the store
        is now."""
        for pause in PAUSES_S:
            backend = await self.of(store)
            if await backend.holds(store.id):
                return store, backend
            await asyncio.sleep(pause)
            found = await self._access.find_again(handle=request.handle, host=request.host)
            if found is None:
                raise NotFound("There is no store at this address.")
            store = found
        raise ServiceUnavailable("The store is being moved.", headers=[(b"retry-after", b"1")])
