"""Admission: finds the store that a URL names, and the app behind a token with its scopes on that store."""

from stoa.access.addresses import named_by_host, named_by_path
from stoa.access.credentials import is_access_token, keyed_hash
from stoa.access.queries import STORE_BY_HANDLE, STORE_BY_HOST, TOKEN_ACCESS
from stoa.access.rules import in_force
from stoa.access.ttl_cache import TtlCache
from stoa.db.query import Executor
from stoa.rest.endpoint import Caller, Store
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


class Admission:
    """Looks up stores and callers, caching them for less than a second; refusals are never cached."""

    def __init__(self, db: Executor, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._key = secret_key(settings)
        self._by_handle: TtlCache[str, Store | None] = TtlCache(self._find_handle, seconds=TTL_S)
        self._by_host: TtlCache[str, Store | None] = TtlCache(self._find_host, seconds=TTL_S)
        self._callers: TtlCache[tuple[int, str], Caller | type[Refusal]] = TtlCache(self._find_caller, seconds=TTL_S)

    async def store(self, *, handle: str = "", host: str = "") -> Store | None:
        """The store with this handle or host, or None."""
        if handle:
            return self._by_handle.cached(handle) or await self._by_handle.find(handle)
        return self._by_host.cached(host) or await self._by_host.find(host)

    async def caller(self, store: Store, token: str) -> Caller:
        """The app behind the token, or a refusal. Unknown, mistyped, revoked and other stores' tokens look the same."""
        key = (store.id, token)
        found = self._callers.cached(key)
        if found is None:
            if not is_access_token(token):
                raise InvalidToken
            found = await self._callers.find(key)
        if isinstance(found, Caller):
            return found
        raise found

    async def _find_handle(self, handle: str) -> tuple[Store | None, float]:
        address = named_by_path(handle)
        store = await STORE_BY_HANDLE.maybe(self._db, address.handle) if address.handle else None
        return store, TTL_S if store else 0

    async def _find_host(self, host: str) -> tuple[Store | None, float]:
        address = named_by_host(host, self._settings.store_domain)
        if address.handle:
            store = await STORE_BY_HANDLE.maybe(self._db, address.handle)
        else:
            store = await STORE_BY_HOST.maybe(self._db, address.host) if address.host else None
        return store, TTL_S if store else 0

    async def _find_caller(self, key: tuple[int, str]) -> tuple[Caller | type[Refusal], float]:
        store_id, token = key
        found = await TOKEN_ACCESS.maybe(self._db, store_id, keyed_hash(self._key, token))
        if found is None:
            return InvalidToken, 0
        if found.seconds_left <= 0:
            return ExpiredToken, 0
        if found.app_status != "active":
            return AppSuspended, 0
        if found.granted is None:
            return AppNotInstalled, 0
        if found.store_status != "active":
            return StoreSuspended, 0
        caller = Caller(
            found.app_id,
            found.app_name,
            in_force(found.requested, found.granted),
            found.rate_burst or self._settings.rate_burst,
            found.rate_refill or self._settings.rate_refill,
        )
        return caller, found.seconds_left
