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


class StoreReader:
    """Reads a store, and in the same statement whether the database holds it. Raises StoreElsewhere if it has left."""

    __slots__ = ("_backend", "_db", "_store_id")

    def __init__(self, backend: Backend, store_id: int, db: Executor) -> None:
        self._backend = backend
        self._store_id = store_id
        self._db = db

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        rows = await self._db.fetch(_if_here(sql, len(args)), *args, self._store_id, self._backend.shard)
        # No rows: there are none, or the store has left.
        if not rows and not await self._backend.holds(self._store_id):
            raise StoreElsewhere
        return rows

    async def execute(self, sql: str, *args: Any) -> str:
        if not await self._backend.holds(self._store_id):
            raise StoreElsewhere
        return await self._db.execute(sql, *args)


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
