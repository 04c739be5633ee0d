"""Roles of accounts on stores and apps: created in the portal, or granted by an operator."""

import hashlib
import secrets
from collections.abc import Mapping

import msgspec

from stoa.access.apps import change_app, create_app, delete_app
from stoa.access.audit import SERVICE
from stoa.access.contract import App, NewSecret, StoreRow
from stoa.access.grants import install
from stoa.access.operator import Joined, Operator, find_app, known_store
from stoa.access.stores import ENGLISH, UTC, choose_shard, create_store, receive_in_shard
from stoa.accounts.contract import ROLES, Developer, Kind, Listing, OwnedApp, OwnedStore, Role
from stoa.accounts.queries import (
    APP_BY_REGISTRATION,
    COUNT_APPS,
    COUNT_STORES,
    DEVELOPERS,
    DEVELOPMENT_INSTALLATIONS,
    GET_LISTING,
    LOCK_ACCOUNT,
    OWNED_APP,
    OWNED_APPS,
    OWNED_STORE,
    OWNED_STORES,
    REMOVE_APP_ROLE,
    REMOVE_STORE_ROLE,
    SAVE_LISTING,
    SET_APP_ROLE,
    SET_STORE_ROLE,
)
from stoa.accounts.refusals import InvalidRole, NotOwned, TooManyApps, TooManyStores
from stoa.accounts.registration import find_account
from stoa.accounts.rules import check_listing
from stoa.accounts.team_queries import DELETE_OFFERS_OF, LOCK_MEMBERS, REVOKE_INVITATIONS_OF
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.db.shard_outbox import send_to_shards
from stoa.db.shards import ABSENT, DIRECTORY
from stoa.mail.outbox import discard
from stoa.settings import Settings

MAX_APPS = 100
MAX_STORES, MAX_DEVELOPMENT_STORES = 100, 10
LIVE, DEVELOPMENT = False, True
NEW_SCOPES = "new_scopes"  # the kind of a message to a shard
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


class NewScopes(msgspec.Struct):
    """Scopes that an app requests from now on, and the account whose development stores grant them at once."""

    app_id: int
    account_id: int | None
    scopes: list[str]
    actor: str = ""
    request_id: str = ""


async def owned_apps(by: Operator, account_id: int, term: str = "") -> list[OwnedApp]:
    """Return the apps of an account whose name or client ID contains a term in lower case."""
    return await OWNED_APPS.all(by.everywhere, account_id, term)


async def owned_app(db: Executor, account_id: int, app_id: int) -> OwnedApp | None:
    """Return the app if the account has a role on it; callers must not distinguish "not yours" from "does not exist"."""
    return await OWNED_APP.maybe(db, account_id, app_id)


async def owned_stores(by: Operator, account_id: int, term: str = "") -> list[OwnedStore]:
    """Return the stores of an account whose name or handle contains a term in lower case."""
    return await OWNED_STORES.all(by.everywhere, account_id, term)


async def owned_store(db: Executor, account_id: int, handle: str) -> OwnedStore | None:
    """Return the store if the account has a role on it; callers must not distinguish "not yours" from "does not exist"."""
    return await OWNED_STORE.maybe(db, account_id, handle)


async def listing_of(db: Executor, app_id: int) -> Listing:
    row = await GET_LISTING.maybe(db, app_id)
    return Listing() if row is None else Listing(row.homepage, msgspec.json.decode(row.reasons, type=dict[str, str]))


async def developers_of(db: Executor, app_id: int) -> list[Developer]:
    """Return the people who own the app; none if an operator created it."""
    return await DEVELOPERS.all(db, app_id)


async def registered_app(by: Operator, registration: str) -> int | None:
    """Return the app that an earlier submission of the same form created."""
    return await APP_BY_REGISTRATION.maybe(by.db, registration)


async def register_app(
    by: Operator, account_id: int, name: str, homepage: str, reasons: Mapping[str, str], registration: str
) -> NewSecret:
    """Register an app that requests the scopes in `reasons`; the account becomes its owner."""
    check_listing(homepage, reasons)
    async with by.transaction() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_APPS.one(db, account_id) >= MAX_APPS:
            raise TooManyApps(MAX_APPS)
        created = await create_app(joined, name, list(reasons))
        await SET_APP_ROLE.run(db, account_id, created.app_id, "owner")
        await SAVE_LISTING.run(db, created.app_id, homepage, _text(reasons), registration)
    return created


async def change_listing(
    by: Operator, account_id: int | None, app: App | OwnedApp, name: str, homepage: str, reasons: Mapping[str, str]
) -> App:
    """Change an app's listing and scopes; the account's development stores grant new scopes immediately."""
    check_listing(homepage, reasons)
    async with by.transaction() as joined, joined.db.transaction() as db:
        await SAVE_LISTING.run(db, app.id, homepage, _text(reasons), None)
        changed = await change_app(joined, app.client_id, name, list(reasons))
        new = NewScopes(app.id, account_id, [scope for scope in changed.scopes if scope not in app.scopes])
        if new.scopes:
            await _grant(joined, db, new)
            await send_to_shards(db, NEW_SCOPES, msgspec.structs.replace(new, actor=by.actor, request_id=by.request_id))
        return changed


async def _grant(by: Operator, db: Executor, new: NewScopes) -> None:
    """Grant new scopes of an app on the account's development stores in this database."""
    for store in await DEVELOPMENT_INSTALLATIONS.all(db, new.account_id, new.app_id, await ABSENT.all(db)):
        await install(by, str(new.app_id), store.handle, [*store.scopes, *new.scopes])


async def grant_in_shard(settings: Settings, here: Database, _: int, content: bytes) -> None:
    """Grant the new scopes of an app on the account's development stores in a shard."""
    new = msgspec.json.decode(content, type=NewScopes)
    async with here.transaction() as db:
        await _grant(Operator(Joined(db), settings, actor=new.actor, request_id=new.request_id), db, new)


async def remove_app(by: Operator, app: OwnedApp) -> None:
    """Delete an app everywhere; audit logs keep its name."""
    await delete_app(by, app.client_id)


def _text(reasons: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(reasons)).decode()


async def open_store(
    by: Operator,
    account_id: int,
    handle: str,
    name: str,
    currency: str,
    *,
    timezone: str = UTC,
    locale: str = ENGLISH,
) -> StoreRow:
    """Create a store, in the shard with the fewest; the account becomes its owner."""
    shard = (await choose_shard(by)).shard
    async with by.transaction() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_STORES.one(db, account_id, LIVE) >= MAX_STORES:
            raise TooManyStores(MAX_STORES)
        store = await create_store(joined, handle, name, currency, timezone=timezone, locale=locale, shard=shard)
        await SET_STORE_ROLE.run(db, account_id, store.id, "owner", LIVE)
    await receive_in_shard(by, store)
    return store


def development_handle(account_id: int, key: str) -> str:
    """The handle of the development store that a form with this key creates; random without a key."""
    digest = hashlib.sha256(f"{account_id}/{key or secrets.token_urlsafe(16)}".encode()).digest()
    return "dev-" + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:8])


async def open_development_store(
    by: Operator, account_id: int, name: str, currency: str, *, handle: str = "", shard: str = DIRECTORY
) -> StoreRow:
    """Create an empty development store; the account becomes its owner."""
    handle = handle or development_handle(account_id, "")
    async with by.transaction() as joined, joined.db.transaction() as db:
        await LOCK_ACCOUNT.one(db, account_id)
        if await COUNT_STORES.one(db, account_id, DEVELOPMENT) >= MAX_DEVELOPMENT_STORES:
            raise TooManyStores(MAX_DEVELOPMENT_STORES, "development stores")
        store = await create_store(joined, handle, name, currency, shard=shard)
        await SET_STORE_ROLE.run(db, account_id, store.id, "owner", DEVELOPMENT)
    return store


async def give(by: Operator, email: str, *, store: str = "", app: str = "", role: str = "owner") -> None:
    """Give an account a role on a store or an app; a role of only the other kind is refused."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if store:
            row = await known_store(db, store)
            check_role("store", role)
            before = await lock_role(db, "store", row.id, account.id)
            if before == "owner" and role != "owner":
                await end_promises(db, None, row.id, account.id)
            await SET_STORE_ROLE.run(db, account.id, row.id, role, LIVE)
            await by.record_global(db, row.id, "store.shared", f"account:{account.id}", role=role)
        if app:
            found = await find_app(db, app)
            check_role("app", role)
            before = await lock_role(db, "app", found.id, account.id)
            if before == "owner" and role != "owner":
                await end_promises(db, found.id, None, account.id)
            await SET_APP_ROLE.run(db, account.id, found.id, role)
            await by.record(db, SERVICE, "app.shared", f"app:{found.id}", account=account.id, role=role)


def check_role(kind: Kind, role: str) -> Role:
    """Return the role, if it is one of this kind of team."""
    for known in ROLES[kind]:
        if known == role:
            return known
    raise InvalidRole(role, ROLES[kind])


async def take(by: Operator, email: str, *, store: str = "", app: str = "") -> None:
    """Remove an account's role on a store or an app, and end the invitations that the account made."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if store:
            row = await known_store(db, store)
            if not await lock_role(db, "store", row.id, account.id):
                raise NotOwned
            await end_promises(db, None, row.id, account.id)
            await REMOVE_STORE_ROLE.run(db, account.id, row.id)
            await by.record_global(db, row.id, "store.unshared", f"account:{account.id}")
        if app:
            found = await find_app(db, app)
            if not await lock_role(db, "app", found.id, account.id):
                raise NotOwned
            await end_promises(db, found.id, None, account.id)
            await REMOVE_APP_ROLE.run(db, account.id, found.id)
            await by.record(db, SERVICE, "app.unshared", f"app:{found.id}", account=account.id)


async def lock_role(db: Executor, kind: Kind, team_id: int, account_id: int) -> str:
    """Lock the team of an app or a store, and return the role of an account; empty if it is not a member."""
    locked = await LOCK_MEMBERS[kind].all(db, team_id)
    return next((member.role for member in locked if member.account_id == account_id), "")


async def end_promises(db: Executor, app_id: int | None, store_id: int | None, account_id: int) -> None:
    """End what a member who is no longer an owner has promised to others: invitations with their unsent emails, and offers."""
    await discard(db, await REVOKE_INVITATIONS_OF.all(db, app_id, store_id, account_id))
    await DELETE_OFFERS_OF.run(db, app_id, store_id, account_id)
