"""Admission: finds the store that a URL names, and the app behind a token with its scopes on that store."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec

from stoa.access.addresses import NO_STORE, named_by_host, named_by_path
from stoa.access.credentials import is_access_token, keyed_hashes
from stoa.access.queries import (
    ARRIVAL,
    STORE_BY_HANDLE,
    STORE_BY_HOST,
    STORE_GRANT,
    TOKEN_ACCESS,
    ServedStore,
    StoreGrant,
    TokenAccess,
)
from stoa.access.rules import in_force
from stoa.db.errors import Unavailable
from stoa.db.query import Executor, Query
from stoa.db.shards import DIRECTORY, Shards
from stoa.rest.call import Caller, Store
from stoa.rest.headers import bearer_token
from stoa.rest.limits import Grant, RateLimiter
from stoa.rest.metadata import definitions_in_force
from stoa.rest.problems import (
    AppNotInstalled,
    AppSuspended,
    ExpiredToken,
    InvalidToken,
    Refusal,
    StoreSuspended,
)
from stoa.settings import Settings, secret_key

# Every worker asks the database again after this TTL, so a revocation takes effect everywhere within a second.
TTL_S = 0.8
_MOST_KNOWN = 100_000  # stores whose shard a worker remembers

NO_HEADERS: Mapping[bytes, bytes] = {}
Arriving = tuple[
    str, str, str, RateLimiter | None
]  # handle, host, access token, and who takes a token of the rate limit

Key = TypeVar("Key")
Value = TypeVar("Value")


class RefusedToken(msgspec.Struct, frozen=True):
    """Why a token is refused, and the app that it was issued to, if it is known."""

    refusal: type[Refusal]
    app_id: int | None = None


class Admission:
    """Looks up stores and callers, caching them for less than a second; refusals are never cached."""

    def __init__(self, db: Executor, settings: Settings, shards: Shards | None = None) -> None:
        self._db = db
        self._shards = shards
        self._shard_of: dict[str, str] = {}  # by handle or host: where a store was last, once there are shards
        self._settings = settings
        self._key = secret_key(settings)
        self._by_handle: TtlCache[str, Store | None] = TtlCache(self._find_handle, seconds=TTL_S)
        self._by_host: TtlCache[str, Store | None] = TtlCache(self._find_host, seconds=TTL_S)
        self._callers: TtlCache[tuple[int, str, str], Caller | RefusedToken] = TtlCache(
            self._find_caller, seconds=TTL_S
        )
        self._arrivals: TtlCache[Arriving, Store | None] = TtlCache(self._find_arrival, seconds=TTL_S)

    async def store(
        self,
        *,
        handle: str = "",
        host: str = "",
        headers: Mapping[bytes, bytes] = NO_HEADERS,
        limiter: RateLimiter | None = None,
    ) -> Store | None:
        """The store with this handle or host, or None. A store that is looked up for a request is looked up with its caller, and with
        a token of its rate limit for the limiter."""
        cache, key = (self._by_handle, handle) if handle else (self._by_host, host)
        found = cache.cached(key)
        if found is not None:
            return found
        token = ""
        if headers and (self._shards is None or not self._shards.copies):
            with suppress(Refusal):
                token = bearer_token(headers)
        if is_access_token(token):
            return await self._arrivals.find((handle, host, token, limiter))
        return await cache.find(key)

    async def find_again(self, *, handle: str = "", host: str = "") -> Store | None:
        """The same, as the directory has it now, because a database does not hold the store."""
        cache, key = (self._by_handle, handle) if handle else (self._by_host, host)
        self._shard_of[key] = DIRECTORY
        return await cache.find(key)

    async def caller(self, store: Store, token: str) -> Caller:
        """The app behind the token, or a refusal. Unknown, mistyped, revoked and other stores' tokens look the same."""
        key = (store.id, store.shard, token)
        found = self._callers.cached(key)
        if found is None:
            if not is_access_token(token):
                raise InvalidToken
            found = await self._callers.find(key)
        if isinstance(found, Caller):
            return found
        refusal = found.refusal()
        refusal.app_id = found.app_id
        raise refusal

    async def _find_handle(self, handle: str) -> tuple[Store | None, float]:
        address = named_by_path(handle)
        store, age = await self._find(handle, STORE_BY_HANDLE, address.handle) if address.handle else (None, 0.0)
        return store, TTL_S - age if store else 0

    async def _find_host(self, host: str) -> tuple[Store | None, float]:
        address = named_by_host(host, self._settings.store_domain)
        if address.handle:
            store, age = await self._find(host, STORE_BY_HANDLE, address.handle)
        else:
            store, age = await self._find(host, STORE_BY_HOST, address.host) if address.host else (None, 0.0)
        return store, TTL_S - age if store else 0

    async def _find(self, key: str, query: Query[ServedStore], name: str) -> tuple[Store | None, float]:
        """The store and the age of its row: from the database that held it last. All shards have a copy of every row, so the first
        time any of them is asked, and the directory only about a store that has no copy there."""
        if self._shards is None or not self._shards.copies:
            return await query.maybe(self._db, name), 0.0
        last = self._shard_of.get(key)
        if last is None:
            store, age = await self._anywhere(key, query, name)
        else:
            store, age = await self._at_shard(last, query, name)
            if store is not None and last not in (DIRECTORY, store.shard):  # it has moved
                store, age = await query.maybe(self._db, name), 0.0
        if store is None:
            self._shard_of.pop(key, None)
        else:
            if len(self._shard_of) >= _MOST_KNOWN:
                self._shard_of.clear()
            self._shard_of[key] = store.shard
        return store, age

    async def _anywhere(self, key: str, query: Query[Value], *args: Any) -> tuple[Value | None, float]:
        """The row from one of the shards, or else from the directory. No request waits for a shard that it does not need."""
        if self._shards is not None and (names := self._shards.up_to_date(TTL_S)):
            shard = names[hash(key) % len(names)]
            age = self._shards.age(shard)
            with suppress(Unavailable):
                found = await query.maybe(self._shards.copies[shard], *args)
                if found is not None:
                    return found, age
        return await query.maybe(self._db, *args), 0.0

    async def _at_shard(self, shard: str, query: Query[Value], *args: Any) -> tuple[Value | None, float]:
        """The row of a global table, with its age. A copy that may be too old counts only while the directory is away, because
        nobody can revoke a token there meanwhile."""
        if self._shards is None or shard == DIRECTORY:
            return await query.maybe(self._db, *args), 0.0
        age = self._shards.age(shard)
        if age >= TTL_S:
            try:
                return await query.maybe(self._db, *args), 0.0
            except Unavailable:
                return await query.maybe(await self._shards.database(shard), *args), 0.0
        found = await query.maybe(await self._shards.database(shard), *args)
        # A row that is too new to have arrived: the directory is asked once.
        return (found, age) if found is not None else (await query.maybe(self._db, *args), 0.0)

    async def _find_arrival(self, key: Arriving) -> tuple[Store | None, float]:
        handle, host, token, limiter = key
        address = named_by_path(handle) if handle else named_by_host(host, self._settings.store_domain)
        if address == NO_STORE:
            return None, 0
        started_at = monotonic()
        burst, refill = self._settings.rate_burst, self._settings.rate_refill
        limits = (float(burst), float(refill)) if limiter is not None else (None, None)
        found = await ARRIVAL.one(self._db, address.handle, address.host, keyed_hashes(self._key, token), *limits)
        store, access = found.store, found.token
        if store is None:
            return None, 0
        if handle:
            self._by_handle.put(handle, store, started_at, TTL_S)
        else:
            self._by_host.put(host, store, started_at, TTL_S)
        if access is not None and store.shard == DIRECTORY:  # a shard may have been added since the worker looked
            caller, seconds = self._judge(access, found.grant)
            if isinstance(caller, Caller):
                self._callers.put((store.id, store.shard, token), caller, started_at, seconds)
                if limiter is not None and found.granted and found.remaining is not None:
                    grant = Grant(found.granted, found.remaining)
                    limiter.deposit((store.id, caller.app_id), grant, caller.burst, caller.refill)
        return store, 0

    async def _find_caller(self, key: tuple[int, str, str]) -> tuple[Caller | RefusedToken, float]:
        store_id, shard, token = key
        found, age = await self._at_shard(shard, TOKEN_ACCESS, store_id, keyed_hashes(self._key, token))
        if found is None:
            return RefusedToken(InvalidToken), 0
        db = self._db if self._shards is None or shard == DIRECTORY else await self._shards.database(shard)
        caller, seconds = self._judge(
            found, None if found.invalid else await STORE_GRANT.maybe(db, store_id, found.app_id)
        )
        return caller, min(seconds, TTL_S - age)

    def _judge(self, found: TokenAccess, grant: StoreGrant | None) -> tuple[Caller | RefusedToken, float]:
        """The caller with a token, and how many seconds the token is still valid."""
        if found.invalid:
            return RefusedToken(InvalidToken, found.app_id), 0
        if grant is not None and not grant.covers(found.created_at):
            return RefusedToken(InvalidToken, found.app_id), 0
        if found.seconds_left <= 0:
            return RefusedToken(ExpiredToken, found.app_id), 0
        if found.app_status != "active":
            return RefusedToken(AppSuspended, found.app_id), 0
        if grant is None:
            return RefusedToken(AppNotInstalled, found.app_id), 0
        if found.store_status != "active":
            return RefusedToken(StoreSuspended, found.app_id), 0
        caller = Caller(
            found.app_id,
            found.app_name,
            in_force(found.requested, grant.scopes),
            grant.rate_burst or self._settings.rate_burst,
            grant.rate_refill or self._settings.rate_refill,
            grant.reinstalled_at.isoformat() if grant.reinstalled_at else "",
            narrowed=found.requested is not None,
            definitions=definitions_in_force(grant.definitions, found.app_id),
        )
        return caller, found.seconds_left


class TtlCache(Generic[Key, Value]):
    """A bounded TTL cache with single-flight lookups: concurrent callers of one key share one lookup.

    `look_up` returns a value and how many seconds it may be cached.
    """

    def __init__(
        self,
        look_up: Callable[[Key], Coroutine[Any, Any, tuple[Value, float]]],
        *,
        seconds: float,
        most: int = 10_000,
    ) -> None:
        self._look_up = look_up
        self._seconds = seconds
        self._most = most
        self._entries: dict[Key, tuple[float, Value]] = {}  # with their expiry, oldest first
        self._running: dict[Key, tuple[float, asyncio.Task[tuple[Value, float]]]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def cached(self, key: Key) -> Value | None:
        """The cached value, unless it has expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and monotonic() < entry[0] else None

    async def find(self, key: Key) -> Value:
        """Look the value up, or join a recent lookup that is still running."""
        now = monotonic()
        running = self._running.get(key)
        # A value is as old as its lookup: a lookup that began a TTL ago is too old to join.
        if running is None or now >= running[0]:
            task = asyncio.create_task(self._look_up(key))
            running = self._running[key] = (now + self._seconds, task)
            task.add_done_callback(lambda done: self._store(key, now, done))
        # A caller that is cancelled must not cancel the lookup for the others.
        value, _ = await asyncio.shield(running[1])
        return value

    def _store(self, key: Key, started_at: float, task: asyncio.Task[tuple[Value, float]]) -> None:
        running = self._running.get(key)
        if running is not None and running[1] is task:
            del self._running[key]
        if task.cancelled() or task.exception() is not None:
            return
        value, seconds = task.result()
        self.put(key, value, started_at, seconds)

    def put(self, key: Key, value: Value, started_at: float, seconds: float) -> None:
        """Cache a value, which was looked up at a time, for some seconds from then on."""
        self._entries.pop(key, None)
        if seconds > 0:
            self._entries[key] = (started_at + min(seconds, self._seconds), value)
        self._evict()

    def _evict(self) -> None:
        now = monotonic()
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) <= self._most and self._entries[oldest][0] > now:
                return
            del self._entries[oldest]
