"""What people own: stores they opened, apps they registered, and those that an operator gave them."""

import secrets
from collections.abc import Mapping

import msgspec

from stoa.access.apps import change_app, create_app, delete_app
from stoa.access.audit import SERVICE
from stoa.access.contract import App, NewSecret, StoreRow
from stoa.access.grants import install
from stoa.access.operator import Operator, find_app, find_store
from stoa.access.stores import create_store
from stoa.accounts.contract import Listing, NotOwned, OwnedApp, OwnedStore, Role, TooManyApps, TooManyStores
from stoa.accounts.queries import (
    COUNT_APPS,
    COUNT_STORES,
    DISOWN_APP,
    DISOWN_STORE,
    GET_LISTING,
    LOCK_ACCOUNT,
    OWN_APP,
    OWN_STORE,
    OWNED_APP,
    OWNED_APPS,
    OWNED_STORE,
    OWNED_STORES,
    REGISTERED,
    SAVE_LISTING,
    TRYING_STORES,
)
from stoa.accounts.registration import find_account
from stoa.db.query import Executor

MOST_APPS = 100
MOST_STORES, MOST_DEVELOPMENT_STORES = 100, 10
_REAL, _FOR_TRYING = False, True
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


async def owned_apps(by: Operator, account_id: int) -> list[OwnedApp]:
    return await OWNED_APPS.all(by.db, account_id)


async def owned_app(db: Executor, account_id: int, app_id: int) -> OwnedApp | None:
    """The app, if this account may see it; another's is as unknown as one that never was."""
    return await OWNED_APP.maybe(db, account_id, app_id)


async def owned_stores(by: Operator, account_id: int) -> list[OwnedStore]:
    return await OWNED_STORES.all(by.db, account_id)


async def owned_store(db: Executor, account_id: int, handle: str) -> OwnedStore | None:
    """The store, if this account may see it; another's is as unknown as one that never was."""
    return await OWNED_STORE.maybe(db, account_id, handle)


async def listing_of(db: Executor, app_id: int) -> Listing:
    row = await GET_LISTING.maybe(db, app_id)
    return Listing() if row is None else Listing(row.homepage, msgspec.json.decode(row.reasons, type=dict[str, str]))


async def registered(by: Operator, registration: str) -> int | None:
    """The app that this very form made before, if it was sent twice."""
    return await REGISTERED.maybe(by.db, registration)


async def register_app(
    by: Operator, account_id: int, name: str, homepage: str, reasons: Mapping[str, str], registration: str
) -> NewSecret:
    """Register an app that asks for the scopes that have a reason, owned by the account."""
    async with by.together() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_APPS.one(db, account_id) >= MOST_APPS:
            raise TooManyApps(MOST_APPS)
        made = await create_app(joined, name, list(reasons))
        await OWN_APP.run(db, account_id, made.app_id, "owner")
        await SAVE_LISTING.run(db, made.app_id, homepage, _text(reasons), registration)
    return made


async def change_listing(
    by: Operator, account_id: int, app: OwnedApp, name: str, homepage: str, reasons: Mapping[str, str]
) -> App:
    """Change what an app says of itself and asks for; the account's own development stores grant what is new at once."""
    async with by.together() as joined, joined.db.transaction() as db:
        await SAVE_LISTING.run(db, app.id, homepage, _text(reasons), None)
        changed = await change_app(joined, app.client_id, name, list(reasons))
        new = [scope for scope in changed.scopes if scope not in app.scopes]
        for store in await TRYING_STORES.all(db, account_id, app.id) if new else []:
            await install(joined, app.client_id, store.handle, [*store.scopes, *new])
        return changed


async def remove_app(by: Operator, app: OwnedApp) -> None:
    """Delete an app for everybody; the logs keep its name."""
    await delete_app(by, app.client_id)


def _text(reasons: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(reasons)).decode()


async def open_store(by: Operator, account_id: int, handle: str, name: str, currency: str) -> StoreRow:
    """A new store, owned by the account."""
    async with by.together() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_STORES.one(db, account_id, _REAL) >= MOST_STORES:
            raise TooManyStores(MOST_STORES)
        store = await create_store(joined, handle, name, currency)
        await OWN_STORE.run(db, account_id, store.id, "owner", _REAL)
    return store


async def open_development_store(by: Operator, account_id: int, name: str, currency: str) -> StoreRow:
    """A store to try things on, under a handle that nobody has to think of; the caller fills it."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
    async with by.together() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_STORES.one(db, account_id, _FOR_TRYING) >= MOST_DEVELOPMENT_STORES:
            raise TooManyStores(MOST_DEVELOPMENT_STORES, "development stores")
        store = await create_store(joined, f"dev-{letters}", name, currency)
        await OWN_STORE.run(db, account_id, store.id, "owner", _FOR_TRYING)
    return store


async def give(by: Operator, email: str, *, store: str = "", app: str = "", role: Role = "owner") -> None:
    """Let an account own or see a store or an app."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if store:
            row = await find_store(db, store)
            await OWN_STORE.run(db, account.id, row.id, role, _REAL)
            await by.record(db, row.id, "store.shared", f"account:{account.id}", role=role)
        if app:
            found = await find_app(db, app)
            await OWN_APP.run(db, account.id, found.id, role)
            await by.record(db, SERVICE, "app.shared", f"app:{found.id}", account=account.id, role=role)


async def take(by: Operator, email: str, *, store: str = "", app: str = "") -> None:
    """Let an account own or see it no more."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if store:
            row = await find_store(db, store)
            if not await DISOWN_STORE.run(db, account.id, row.id):
                raise NotOwned
            await by.record(db, row.id, "store.unshared", f"account:{account.id}")
        if app:
            found = await find_app(db, app)
            if not await DISOWN_APP.run(db, account.id, found.id):
                raise NotOwned
            await by.record(db, SERVICE, "app.unshared", f"app:{found.id}", account=account.id)
