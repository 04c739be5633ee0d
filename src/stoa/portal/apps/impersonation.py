"""Impersonation: a developer calls endpoints as an app, on a store that has it installed, with the app's scopes there."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec

from stoa.access.addresses import is_handle
from stoa.access.contract import AppInstalled
from stoa.access.rules import in_force
from stoa.customers.events import CustomerErased
from stoa.db.fan_out import FanOut, in_order
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.rest.call import Call, Caller, Store

READ, WRITE = "webhooks:read", "webhooks:write"
_ALL_STORES = "an app's developer sees all stores that have it installed"
_MAX_STORES = 500


class InstalledStore(msgspec.Struct):
    """A store that has the app installed, and the scopes that it grants."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    timezone: str
    locale: str
    granted: list[str]
    installed_at: datetime
    shard: str


_STORES = """SELECT s.id, s.handle, s.name, s.currency, s.status, s.timezone, s.locale, i.scopes AS granted,
                     i.created_at AS installed_at, s.shard
              FROM installations i JOIN stores s ON s.id = i.store_id WHERE i.app_id = $1"""
STORES_OF_APP = FanOut(
    InstalledStore,
    f"{_STORES} AND i.store_id <> ALL ($3::bigint[]) ORDER BY s.handle LIMIT $2",
    in_order("handle", limit=2, unique=["handle"]),
    unbound=_ALL_STORES,
)
# The app's endpoint belongs to the app, also on a store that has uninstalled it.
STORE_OF_ENDPOINT = Query(
    InstalledStore,
    """SELECT s.id, s.handle, s.name, s.currency, s.status, s.timezone, s.locale, '{}'::text[] AS granted,
              w.created_at AS installed_at, s.shard
         FROM stores s JOIN webhooks w ON w.store_id = s.id
        WHERE s.handle = $2 AND w.app_id = $1 AND w.id = $3 AND w.of_app AND w.ended_at IS NULL""",
    unbound=_ALL_STORES,
    over="shard",
)
_OF_ENDPOINT = frozenset({READ, WRITE, *(event.scope for event in (AppInstalled, CustomerErased))})
STORE_OF_APP = Query(InstalledStore, f"{_STORES} AND s.handle = $2", unbound=_ALL_STORES, over="shard")


class ImpersonatedCall(Call):
    """A call that a person makes as an app; the audit log names the person."""

    __slots__ = ("account_id",)

    def __init__(
        self, visit: Visit, db: Database, installed: InstalledStore, scopes: frozenset[str] | None = None
    ) -> None:
        store = Store(
            installed.id,
            installed.handle,
            installed.name,
            installed.currency,
            installed.status,
            timezone=installed.timezone,
            locale=installed.locale,
        )
        granted = effective_scopes(visit, installed) if scopes is None else scopes
        caller = Caller(visit.app.id, visit.app.name, granted, 0, 0)
        super().__init__(db, store, caller, visit.request_id, "")
        self.settings = visit.settings
        self.account_id = visit.me.account_id

    @property
    def actor(self) -> str:
        return f"account:{self.account_id}"

    def require(self, scope: str) -> None:
        """Raise a form error if the store does not grant the scope."""
        if self.may(scope):
            return
        if self.store.status != "active":
            raise FormError({"": "This store is suspended. Nothing was changed."})
        message = f"{self.store.name} does not grant this app {scope}. Add the scope in the app's settings, then ask the store again."
        raise FormError({"": message})


def effective_scopes(visit: Visit, installed: InstalledStore) -> frozenset[str]:
    """Return what the app can do on a store now; nothing while the app or the store is suspended."""
    if visit.app.status != "active" or installed.status != "active":
        return frozenset()
    return in_force(visit.app.scopes, installed.granted)


async def installed_stores(visit: Visit) -> list[InstalledStore]:
    return await STORES_OF_APP.all(visit.everywhere, visit.app.id, _MAX_STORES)


async def call_as_app(visit: Visit, handle: str) -> ImpersonatedCall:
    """Return a call as the app on this store, in its database; a store without the app is not found."""
    installed = await installed_store(visit, handle)
    if installed is None:
        raise not_found()
    return ImpersonatedCall(visit, visit.db, installed)


async def installed_store(visit: Visit, handle: str) -> InstalledStore | None:
    """Return this store if it has the app installed; the rest of the visit reads from its database."""
    if not is_handle(handle):
        return None
    await visit.open(handle)
    return await STORE_OF_APP.maybe(visit.db, visit.app.id, handle)


async def webhook_call(visit: Visit) -> ImpersonatedCall:
    """Return a call as the app on the store in the path, if the app can read its webhooks there."""
    at = visit.path_param("at")
    names = (visit.app.id, at, visit.path_param("webhook_id"))
    if not is_handle(at):
        raise not_found()
    await visit.open(at)
    endpoint = await STORE_OF_ENDPOINT.maybe(visit.db, *names)
    if endpoint is not None:
        return ImpersonatedCall(visit, visit.db, endpoint, _OF_ENDPOINT)
    call = await call_as_app(visit, at)
    if not call.may(READ):
        raise not_found()
    return call


@asynccontextmanager
async def write_transaction(
    visit: Visit, call: ImpersonatedCall, fields: Collection[str] = ()
) -> AsyncGenerator[ImpersonatedCall]:
    """Run an endpoint in one transaction; its refusals become faults of the form's fields."""
    call.require(WRITE)
    async with refusals_as_faults(fields), visit.db.transaction(call.store_id) as db:
        call.db = db
        yield call
    visit.changed_stores.add(call.store_id)
