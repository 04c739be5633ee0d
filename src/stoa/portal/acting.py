"""A developer in an app's place: in a store that has it installed now, with exactly what the app may do there."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec

from stoa.access.addresses import is_handle
from stoa.access.rules import in_force
from stoa.db.query import Query
from stoa.portal.answering import not_found
from stoa.portal.forms import Wrong
from stoa.portal.visit import Visit
from stoa.rest.endpoint import Call, Caller, Store
from stoa.rest.problems import NotFound, Refusal

READ, WRITE = "webhooks:read", "webhooks:write"
_OVERALL = "the developer of an app sees it in all stores"
MOST_STORES = 500


class There(msgspec.Struct):
    """A store that has the app installed, and what it grants."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    granted: list[str]
    installed_at: datetime


_THERE = """SELECT s.id, s.handle, s.name, s.currency, s.status, i.scopes AS granted, i.created_at AS installed_at
              FROM installations i JOIN stores s ON s.id = i.store_id WHERE i.app_id = $1"""
STORES_OF_APP = Query(There, f"{_THERE} ORDER BY s.handle LIMIT $2", unbound=_OVERALL)
STORE_OF_APP = Query(There, f"{_THERE} AND s.handle = $2", unbound=_OVERALL)


class Acting(Call):
    """A call that a person makes from a page in the name of an app; the audit log names the person."""

    __slots__ = ("person",)

    def __init__(self, visit: Visit, there: There) -> None:
        store = Store(there.id, there.handle, there.name, there.currency, there.status)
        caller = Caller(visit.app.id, visit.app.name, in_force_there(visit, there), 0, 0)
        super().__init__(visit.db, store, caller, visit.request_id, "")
        self.settings = visit.settings
        self.person = visit.me.account_id

    @property
    def actor(self) -> str:
        return f"account:{self.person}"

    def require(self, scope: str) -> None:
        """Refuse, in words for people, what the store does not let the app do."""
        if self.caller.may(scope):
            return
        words = f"{self.store.name} does not grant this app {scope}. Add it in the app's settings, then ask the store."
        raise Wrong({"": words if self.store.status == "active" else "This store is suspended, so nothing was done."})


def in_force_there(visit: Visit, there: There) -> frozenset[str]:
    """What the app may do in a store now: nothing while either of them is suspended."""
    if visit.app.status != "active" or there.status != "active":
        return frozenset()
    return in_force(visit.app.scopes, there.granted)


async def stores_of(visit: Visit) -> list[There]:
    return await STORES_OF_APP.all(visit.db, visit.app.id, MOST_STORES)


async def acting_at(visit: Visit, handle: str) -> Acting:
    """The app at this store; a store that does not have it is as unknown as one that never was."""
    there = await STORE_OF_APP.maybe(visit.db, visit.app.id, handle) if is_handle(handle) else None
    if there is None:
        raise not_found()
    return Acting(visit, there)


async def looking(visit: Visit) -> Acting:
    """The app at the store that the path names, where it may look at its webhooks."""
    call = await acting_at(visit, visit.place("at"))
    if not call.caller.may(READ):
        raise not_found()
    return call


@asynccontextmanager
async def writing(visit: Visit, call: Acting, fields: Collection[str] = ()) -> AsyncGenerator[Acting]:
    """One transaction for what an endpoint does; its refusals are told beside the fields of the form."""
    call.require(WRITE)
    with_words = telling(fields)
    async with with_words, visit.db.transaction() as db:
        call.db = db
        yield call
    visit.changed.add(call.store_id)


@asynccontextmanager
async def telling(fields: Collection[str] = ()) -> AsyncGenerator[None]:
    """Turn an endpoint's refusals into faults of a form; what concerns none of its fields stands above them."""
    try:
        yield
    except NotFound as refusal:
        raise not_found() from refusal
    except Refusal as refusal:
        faults: dict[str, str] = {}
        for fault in refusal.faults:
            name = fault.pointer.removeprefix("/").partition("/")[0]
            words = f"{fault.detail[:1].upper()}{fault.detail[1:]}."
            faults.setdefault(name if name in fields else "", words)
        raise Wrong(faults or {"": refusal.detail}) from refusal
