"""A directory and shards for tests: databases of a server with logical replication, and writers that enter their store."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from stoa.access.operator import Operator
from stoa.app import Application
from stoa.db.connection import Connection, connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import StoreElsewhere, Unavailable, is_busy
from stoa.db.pool import Database
from stoa.events.outbox import Cause
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert
from stoa.rest.call import Store
from stoa.settings import Settings
from stoa.shards import membership, moving
from stoa.shards.moving import Ask
from stoa.shards.registry import Shard
from stoa.shards.tables import moved_tables
from tests.support.data_folders import copy_migrated
from tests.support.databases import sibling
from tests.support.sharded import let_replicate
from tests.support.shops import Shop, open_shop, operator_of

_numbers = itertools.count(1)
FENCING = "stoa tests fencing"  # a move waits for sessions whose name does not end like this


def replicating_server(folder: Path, *, durable: bool = False) -> EmbeddedPostgres:
    """An embedded server, with the migrated database `stoa`, that can replicate."""
    copy_migrated(folder)
    let_replicate(folder)
    with (folder / "data/postgresql.auto.conf").open("a") as settings:
        settings.write("max_sync_workers_per_subscription = 6\n")
    return EmbeddedPostgres(folder, durable=durable)


def unused(name: str) -> str:
    """The name of a database that no fixture has made yet, also if pytest makes the same fixture of a module again."""
    return f"{name}_{os.getpid()}_{next(_numbers)}"


async def copied_database(server: str, name: str, template: str = "stoa") -> str:
    """A copy of the migrated database, for the superuser, because only that one may subscribe in PostgreSQL 15."""
    admin = await connect(sibling(server, "postgres"), statement_timeout_ms=0)
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    finally:
        await admin.close()
    return sibling(server, name)


class Fleet:
    """A directory with its shards, in which nothing runs but what a test starts."""

    def __init__(self, settings: Settings, directory: str, shards: dict[str, str]) -> None:
        self.settings = msgspec.structs.replace(settings, database_url=directory)
        self.directory = Shard("", directory)
        self.shards = {"": self.directory, **{name: Shard(name, url) for name, url in shards.items()}}

    @asynccontextmanager
    async def operator(self) -> AsyncGenerator[Operator]:
        db = Database(self.directory.url, size=3, statement_timeout_ms=60_000, lock_timeout_ms=60_000, name=FENCING)
        try:
            yield operator_of(db, self.settings)
        finally:
            await db.close()

    async def add_shards(self) -> None:
        async with self.operator() as by:
            for shard in self.shards.values():
                if shard.name:
                    await membership.add(by, shard.url, shard.name)

    async def open_shop(self, *, filled: bool = True) -> Shop:
        """A store in the directory with a row in most tables. Its application is closed, because it does not fence."""
        application, db = Application(self.settings), Database(self.directory.url, size=2)
        shop = await open_shop(application, db)
        if filled:
            await shop.fill()
        await application.close()
        await db.close()
        return shop

    def ask(self, shop: Shop, target: str, source: str = "", *, grace_s: float = 0.0) -> Ask:
        return self.ask_for(shop.store.handle, target, source, grace_s=grace_s)

    def ask_for(self, handle: str, target: str, source: str = "", *, grace_s: float = 0.0) -> Ask:
        actor, request_id = "operator:tests", "req_tests"
        return Ask(handle, self.shards[source], self.shards[target], self.directory, actor, request_id, grace_s)

    async def move(self, shop: Shop, target: str, source: str = "") -> None:
        assert await moving.move(self.ask(shop, target, source)) is not None

    async def holders(self, shop: Shop) -> list[str]:
        """The databases in which a transaction may write the store."""
        return [name for name in self.shards if await self.one(name, "SELECT store_is_here($1)", shop.store_id)]

    async def one(self, shard: str, sql: str, *args: object) -> object:
        async with self.connection(shard) as db:
            return (await db.fetch(sql, *args))[0][0]

    @asynccontextmanager
    async def connection(self, shard: str) -> AsyncGenerator[Connection]:
        db = await connect(self.shards[shard].url, name=FENCING)
        try:
            yield db
        finally:
            await db.close()

    async def contents(self, shard: str, shop: Shop) -> dict[str, tuple[int, int]]:
        """The number of rows of the store in each table, and a digest of them."""
        async with self.connection(shard) as db:
            return await contents_of(db, shop.store_id)


async def contents_of(db: Connection, store_id: int) -> dict[str, tuple[int, int]]:
    """The number of rows of a store in each table that moves with it, and a digest of them."""
    found: dict[str, tuple[int, int]] = {}
    for table in await moved_tables(db):
        [row] = await db.fetch(
            f"""SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text FROM {table.name} t
                 WHERE store_id = $1""",
            store_id,
        )
        found[table.name] = row[0], int(row[1])
    return found


class Acknowledged(msgspec.Struct):
    """A write whose caller got its response."""

    sku: str
    id: int
    shard: str
    seconds: float


class Writer:
    """Creates one product after another in the shard that the directory names, as a request does."""

    def __init__(self, fleet: Fleet, shop: Shop, name: str, *, fenced: bool = True) -> None:
        self._fleet = fleet
        self._store = Store(shop.store.id, shop.store.handle, shop.store.name, shop.store.currency, shop.store.status)
        self._app_id = shop.app_id
        self._name = name
        self._fenced = fenced
        self._databases = {key: Database(shard.url, size=1, name=FENCING) for key, shard in fleet.shards.items()}
        for database in self._databases.values() if fenced else ():
            database.fence()
        self.acknowledged: list[Acknowledged] = []
        self.refused = 0
        self.stopped = False

    async def run(self) -> None:
        shard = await self._place()
        try:
            while not self.stopped:
                sku, started = f"{self._name}-{len(self.acknowledged)}", time.monotonic()
                while (new := await self._write(shard, sku)) is None:
                    self.refused += 1
                    await asyncio.sleep(0.005)
                    shard = await self._place()
                self.acknowledged.append(Acknowledged(sku, new, shard, time.monotonic() - started))
                if not self._fenced and len(self.acknowledged) % 20 == 0:
                    shard = await self._place()  # as a worker does whose cache has expired
        finally:
            for database in self._databases.values():
                await database.close()

    async def _place(self) -> str:
        rows = await self._databases[""].fetch("SELECT shard FROM stores WHERE id = $1", self._store.id)
        return rows[0][0]

    async def _write(self, shard: str, sku: str) -> int | None:
        """The id of a new product; None if the store is not in this shard."""
        body = convert({"name": sku, "price": "1.00", "sku": sku}, NewProduct, digits=self._store.digits)
        product = new_product(body, self._store)
        try:
            async with self._databases[shard].transaction(self._store.id) as db:
                await save(db, self._store.id, [product], Cause(self._app_id, "req_tests"))
        except StoreElsewhere:
            return None
        except Unavailable as error:
            if error.__cause__ is None or not is_busy(error.__cause__):
                raise
            return None  # it waited too long for the fence, and has written nothing
        return product.id


@asynccontextmanager
async def writing(writers: Sequence[Writer]) -> AsyncGenerator[None]:
    """Let writers write while the block runs, and until each has written after it."""
    tasks = [asyncio.create_task(writer.run()) for writer in writers]
    try:
        yield
        before = [len(writer.acknowledged) for writer in writers]
        while any(len(writer.acknowledged) < count + 5 for writer, count in zip(writers, before, strict=True)):
            done = [task for task in tasks if task.done()]
            if done:
                break  # it failed, and the gathering below says why
            await asyncio.sleep(0.01)
    finally:
        for writer in writers:
            writer.stopped = True
        await asyncio.gather(*tasks)
