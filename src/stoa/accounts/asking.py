"""How an app gets into somebody else's store: its developer asks, the store's owner decides."""

from collections.abc import Sequence

from stoa.access.authentication import Try, count_failure, refuse_guessing
from stoa.access.contract import Installation, NotInstalled, ScopeNotCovered
from stoa.access.grants import install, list_installations
from stoa.access.operator import Operator, find_store, known_scopes
from stoa.access.queries import GET_INSTALLATION, TRIES
from stoa.access.rules import expanded
from stoa.accounts.contract import (
    AskedAlready,
    InstallationRequest,
    NoSuchRequest,
    NothingToAsk,
    OwnedApp,
    OwnedStore,
)
from stoa.accounts.queries import (
    ASK,
    DROP_REQUEST,
    FIND_REQUEST,
    REFUSE,
    REQUESTS_OF_ACCOUNT,
    REQUESTS_OF_APP,
    REQUESTS_OF_STORE,
)
from stoa.db.pool import Database


async def requests_of_store(by: Operator, store: OwnedStore) -> list[InstallationRequest]:
    return await REQUESTS_OF_STORE.all(by.db, store.id)


async def requests_of_app(by: Operator, app: OwnedApp) -> list[InstallationRequest]:
    return await REQUESTS_OF_APP.all(by.db, app.id)


async def requests_to(by: Operator, account_id: int) -> list[InstallationRequest]:
    """What waits for this person's decision, over all of their stores."""
    return await REQUESTS_OF_ACCOUNT.all(by.db, account_id)


async def refuse_pestering(by: Operator, db: Database, account_id: int) -> None:
    """Let a person ask only so often in a minute: each time, a stranger's log gets an entry."""
    attempt = Try(f"asking/{account_id}", f"account:{account_id}", "account")  # everybody counts for themselves
    refuse_guessing(await TRIES.one(db, attempt.subjects))
    await count_failure(db, attempt, by.request_id)


async def ask(by: Operator, account_id: int, app: OwnedApp, handle: str, message: str) -> None:
    """Ask a store for all that the app is registered for; asking again replaces what was asked before."""
    async with by.together() as joined, joined.db.transaction() as db:
        store = await find_store(db, handle)
        installed = [each for each in await list_installations(joined, handle) if each.app_id == app.id]
        if installed and expanded(installed[0].scopes) >= expanded(app.scopes):
            raise NothingToAsk
        before = await FIND_REQUEST.maybe(db, store.id, app.id)
        if before is not None and before.status == "refused" and before.fresh:
            raise AskedAlready
        if before is not None and (before.status, before.scopes, before.message) == ("pending", app.scopes, message):
            return  # the same words again are no news
        await ASK.run(db, store.id, app.id, account_id, app.scopes, message)
        await by.record(db, store.id, "app.asked", f"app:{app.id}", name=app.name, scopes=app.scopes)


async def withdraw(by: Operator, app: OwnedApp, handle: str) -> None:
    async with by.db.transaction() as db:
        store = await find_store(db, handle)
        if not await DROP_REQUEST.run(db, store.id, app.id):
            raise NoSuchRequest
        await by.record(db, store.id, "app.request_withdrawn", f"app:{app.id}")


async def approve(by: Operator, store: OwnedStore, app_id: int, scopes: Sequence[str]) -> Installation:
    """Let the app in with these of the scopes that it asked for."""
    granted = known_scopes(scopes)
    async with by.together() as joined, joined.db.transaction() as db:
        asked = await FIND_REQUEST.maybe(db, store.id, app_id)
        if asked is None or asked.status != "pending":
            raise NoSuchRequest
        if not expanded(asked.scopes).issuperset(granted):
            raise ScopeNotCovered(", ".join(granted), ", ".join(asked.scopes))
        await DROP_REQUEST.run(db, store.id, app_id)
        return await install(joined, str(app_id), store.handle, granted)


async def refuse(by: Operator, store: OwnedStore, app_id: int) -> None:
    async with by.db.transaction() as db:
        if not await REFUSE.run(db, store.id, app_id):
            raise NoSuchRequest
        await by.record(db, store.id, "app.refused", f"app:{app_id}")


async def narrow(by: Operator, store: OwnedStore, app_id: int, scopes: Sequence[str]) -> Installation:
    """Leave an installed app some of what it was granted; more than that takes a request of the app's own."""
    left = known_scopes(scopes)
    async with by.together() as joined:
        installed = await GET_INSTALLATION.maybe(
            joined.db, store.id, app_id
        )  # locked: it cannot be uninstalled meanwhile
        if installed is None:
            raise NotInstalled(str(app_id), store.handle)
        if not expanded(installed.scopes).issuperset(left):
            raise ScopeNotCovered(", ".join(left), ", ".join(installed.scopes))
        return await install(joined, str(app_id), store.handle, left)
