"""The actor of an access change: its database connection, and its name in the audit log."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from stoa.access import audit
from stoa.access.contract import (
    SCOPES,
    App,
    AppDeleted,
    InvalidName,
    MisleadingName,
    NoSuchApp,
    NoSuchStore,
    StoreInShard,
    StoreRow,
    UnknownScope,
)
from stoa.access.operator_queries import GET_APP, GET_STORE, LOCK_APP, TRY_ENTER
from stoa.access.rules import ordered
from stoa.db.connection import Connection
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.db.service_facts import note_key, own_shard
from stoa.db.shard_outbox import send_to_store
from stoa.db.shards import DIRECTORY, Shards
from stoa.names import fault_in
from stoa.settings import Settings, secret_key

T = TypeVar("T")
_LARGEST_ID = 2**63


class Joined:
    """An open transaction, which operations join instead of opening their own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.fetch = connection.fetch
        self.execute = connection.execute

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        yield self._connection


class Operator:
    """An actor that changes access within one request, such as `operator:maria` or `account:7`.

    `everywhere` reads what many stores have, and leads to the stores in shards; without shards, and in a transaction, it is `db`.
    """

    def __init__(
        self,
        db: Database | Joined,
        settings: Settings,
        *,
        actor: str,
        request_id: str,
        everywhere: Everywhere | None = None,
    ) -> None:
        self.db = db
        self._everywhere = everywhere
        self.settings = settings
        self.key = secret_key(settings)
        self.actor = actor
        self.request_id = request_id

    @property
    def shards(self) -> Shards | None:
        """All shards; None in a transaction."""
        return None if self._everywhere is None else self._everywhere.shards

    @property
    def everywhere(self) -> Executor:
        return self._everywhere or self.db

    async def database_of(self, store_id: int) -> Database | Joined:
        """The database of a store."""
        return self.db if self._everywhere is None else await self._everywhere.of_store(store_id)

    @property
    def away(self) -> list[str]:
        """The shards that have not answered."""
        return sorted(self._everywhere.away) if self._everywhere is not None else []

    async def each(self, ask: Callable[[Executor], Awaitable[T]]) -> dict[str, T]:
        """What each database answers, by the name of its shard."""
        return {DIRECTORY: await ask(self.db)} if self._everywhere is None else await self._everywhere.each(ask)

    async def shard_urls(self) -> dict[str, str]:
        """The URLs of all shards, by name."""
        return {} if self._everywhere is None else await self._everywhere.urls()

    @property
    def account_id(self) -> int | None:
        """The account of the person who acts in the portal; None for an operator."""
        kind, _, number = self.actor.partition(":")
        return int(number) if kind == "account" else None

    @property
    def moment(self) -> datetime | None:
        """The time of its entries in the audit log; None: now."""
        return None

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator["Operator"]:
        """The same operator in one transaction, so that several operations are atomic."""
        async with self.db.transaction() as connection:
            yield Operator(Joined(connection), self.settings, actor=self.actor, request_id=self.request_id)

    async def at_store(self, handle: str) -> "Operator":
        """The same actor in the database of a store, for what is written or read there.

        The copies of global rows there are as new as this call. In a transaction, the actor stays in its database.
        """
        if self.shards is None or isinstance(self.db, Joined):
            return self
        shard = (await known_store(self.db, handle)).shard
        there = await self.shards.database(shard)
        if there is self.db:
            return self
        await self.shards.catch_up(shard)
        return Operator(there, self.settings, actor=self.actor, request_id=self.request_id, everywhere=self._everywhere)

    async def record(self, db: Executor, store_id: int | None, action: str, subject: str, **detail: Any) -> int:
        """Write an audit entry in the transaction of the action, and with the first one the fingerprint of the key.

        An action that writes rows of a store is refused if the store is not in this database.
        """
        await note_key(db, self.key)
        return await audit.record(
            db,
            store_id,
            action,
            actor=self.actor,
            subject=subject,
            detail=detail,
            request_id=self.request_id,
            moment=self.moment,
        )

    async def record_global(self, db: Executor, store_id: int, action: str, subject: str, **detail: Any) -> None:
        """Write the audit entry of an action that changes only global rows, in the log of a store. If the store is in a shard, the
        entry follows in a message."""
        if await TRY_ENTER.one(db, store_id):
            await self.record(db, store_id, action, subject, **detail)
            return
        await self.send_entry(db, store_id, audit.ENTRY, action, subject, detail)

    async def send_entry(
        self, db: Executor, store_id: int, kind: str, action: str, subject: str, detail: dict[str, Any]
    ) -> None:
        """Send the audit entry of an action to a store in a shard, in a message of this kind."""
        await note_key(db, self.key)
        entry = audit.LateEntry(action, self.actor, subject, detail, self.request_id, datetime.now(UTC))
        await send_to_store(db, store_id, kind, entry)


async def known_store(db: Executor, handle: str) -> StoreRow:
    """The global row of a store, for what concerns no rows of the store itself."""
    store = await GET_STORE.maybe(db, handle)
    if store is None:
        raise NoSuchStore(handle)
    return store


async def find_store(db: Executor, handle: str) -> StoreRow:
    """A store whose rows are in this database."""
    store = await known_store(db, handle)
    if store.shard and store.shard != await own_shard(db):
        raise StoreInShard(handle, store.shard)
    return store


async def find_app(db: Executor, app: str) -> App:
    """An app by its client id or its number."""
    number = int(app) if app.isascii() and app.isdigit() and len(app) < 20 else 0
    found = await GET_APP.maybe(db, app, number if number < _LARGEST_ID else 0)
    if found is None:
        raise NoSuchApp(app)
    return found


async def lock_app(db: Executor, app: str) -> App:
    """An app, locked until the transaction ends, as it is once it is locked."""
    await LOCK_APP.one(db, (await find_app(db, app)).id)
    return await find_app(db, app)


async def lock_live_app(db: Executor, app: str) -> App:
    """The same; refuses an app that is deleted."""
    found = await lock_app(db, app)
    if found.status == "deleted":
        raise AppDeleted
    return found


def check_name(name: str) -> None:
    if not 1 <= len(name) <= 255 or not name.isprintable():
        raise InvalidName
    if fault := fault_in(name):
        raise MisleadingName(fault)


def known_scopes(scopes: Sequence[str]) -> list[str]:
    """The scopes in documentation order without repeats; there must be at least one, and all must exist."""
    unknown = next((scope for scope in scopes if scope not in SCOPES), None)
    if unknown is not None or not scopes:
        raise UnknownScope(unknown or "")
    return ordered(scopes)
