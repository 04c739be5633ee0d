"""Who may come in: the store that an address names, and the app behind a token with what it may do there."""

from stoa.access.addresses import named_by_host, named_by_path
from stoa.access.credentials import is_access_token, keyed_hash
from stoa.access.queries import STANDING, STORE_BY_HANDLE, STORE_BY_HOST
from stoa.access.ttl_cache import TtlCache
from stoa.access.rules import in_force
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

# Every worker asks again after this long, so what is taken away ends everywhere within a second, unannounced.
FRESH_S = 0.8


class Admission:
    """Answers from the database, or from what it said less than a second ago; refusals are never kept."""

    def __init__(self, db: Executor, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._key = secret_key(settings)
        self._by_handle: TtlCache[str, Store | None] = TtlCache(self._find_handle, seconds=FRESH_S)
        self._by_host: TtlCache[str, Store | None] = TtlCache(self._find_host, seconds=FRESH_S)
        self._callers: TtlCache[tuple[int, str], Caller | type[Refusal]] = TtlCache(self._find_caller, seconds=FRESH_S)

    async def store(self, *, handle: str = "", host: str = "") -> Store | None:
        """The store at this address, or None."""
        if handle:
            return self._by_handle.recall(handle) or await self._by_handle.find(handle)
        return self._by_host.recall(host) or await self._by_host.find(host)

    async def caller(self, store: Store, token: str) -> Caller:
        """The app behind the token, or a refusal; unknown, mistyped, revoked and elsewhere's are all one."""
        key = (store.id, token)
        found = self._callers.recall(key)
        if found is None:
            if not is_access_token(token):
                raise InvalidToken
            found = await self._callers.find(key)
        if isinstance(found, Caller):
            return found
        raise found

    async def _find_handle(self, handle: str) -> tuple[Store | None, float]:
        place = named_by_path(handle)
        store = await STORE_BY_HANDLE.maybe(self._db, place.handle) if place.handle else None
        return store, FRESH_S if store else 0

    async def _find_host(self, host: str) -> tuple[Store | None, float]:
        place = named_by_host(host, self._settings.store_domain)
        if place.handle:
            store = await STORE_BY_HANDLE.maybe(self._db, place.handle)
        else:
            store = await STORE_BY_HOST.maybe(self._db, place.host) if place.host else None
        return store, FRESH_S if store else 0

    async def _find_caller(self, key: tuple[int, str]) -> tuple[Caller | type[Refusal], float]:
        store_id, token = key
        found = await STANDING.maybe(self._db, store_id, keyed_hash(self._key, token))
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
            in_force(found.asked, found.granted),
            found.rate_burst or self._settings.rate_burst,
            found.rate_refill or self._settings.rate_refill,
        )
        return caller, found.seconds_left
