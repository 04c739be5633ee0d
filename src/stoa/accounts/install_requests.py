"""Install requests: a developer asks a store to install an app, and the store's owner approves or refuses."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from stoa.access.contract import App, Installation, NotInstalled, RemovedInstallation, ScopeNotCovered
from stoa.access.grants import install, list_installations
from stoa.access.operator import Operator, known_scopes, known_store
from stoa.access.operator_queries import GET_INSTALLATION, REMOVED_INSTALLATIONS
from stoa.access.rules import expanded
from stoa.accounts.contract import InstallRequest, OwnedApp, OwnedStore
from stoa.accounts.ownership import listing_of
from stoa.accounts.queries import (
    DELETE_ANSWERED_REQUEST,
    DELETE_REQUEST,
    IS_DEVELOPMENT_STORE,
    LOCK_REQUEST,
    REFUSE_REQUEST,
    REQUESTS_OF_ACCOUNT,
    REQUESTS_OF_APP,
    REQUESTS_OF_STORE,
    SAVE_REQUEST,
)
from stoa.accounts.refusals import AlreadyGranted, NoSuchRequest, ReasonsMissing, RefusedRecently
from stoa.db.directory_outbox import send
from stoa.db.query import Executor
from stoa.notifications.news import install_request
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of

ANSWERED = "answered"  # the kind of a message to the directory


class Answered(msgspec.Struct):
    """An installation, which answers the requests that were made before it."""

    store_id: int
    app_id: int
    answered_at: datetime


async def requests_of_store(by: Operator, store: OwnedStore) -> list[InstallRequest]:
    return await REQUESTS_OF_STORE.all(by.db, store.id)


async def requests_of_app(by: Operator, app: OwnedApp) -> list[InstallRequest]:
    return await REQUESTS_OF_APP.all(by.db, app.id)


async def pending_requests(by: Operator, account_id: int) -> list[InstallRequest]:
    """Return the requests that await this account's decision, across all of its stores."""
    return await REQUESTS_OF_ACCOUNT.all(by.db, account_id)


async def request_install(by: Operator, account_id: int, app: OwnedApp, handle: str, message: str) -> None:
    """Ask a store to install the app with all of its scopes; a new request replaces an earlier one."""
    installed = [each for each in await list_installations(by, handle) if each.app_id == app.id]
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        if installed and expanded(installed[0].scopes) >= expanded(app.scopes):
            raise AlreadyGranted
        await _check_reasons(db, store.id, app.id, app.scopes)
        earlier = await LOCK_REQUEST.maybe(db, store.id, app.id)
        if earlier is not None and earlier.status == "refused" and earlier.decided_recently:
            raise RefusedRecently
        request = ("pending", app.scopes, message)
        if earlier is not None and (earlier.status, earlier.scopes, earlier.message) == request:
            return  # an identical request is already pending
        await SAVE_REQUEST.run(db, store.id, app.id, account_id, app.scopes, message)
        await by.record_global(db, store.id, "app.asked", f"app:{app.id}", name=app.name, scopes=app.scopes)
        asked = install_request(app.id, app.name, store.id, store.handle, store.name)
        await notify(db, await people_of(db, store_id=store.id), asked)


async def withdraw(by: Operator, app: OwnedApp, handle: str) -> None:
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        if not await DELETE_REQUEST.run(db, store.id, app.id):
            raise NoSuchRequest
        await by.record_global(db, store.id, "app.request_withdrawn", f"app:{app.id}")


async def approve(by: Operator, store: OwnedStore, app_id: int, scopes: Sequence[str]) -> Installation:
    """Install the app with some or all of the requested scopes."""
    granted = known_scopes(scopes)
    by = await by.at_store(store.handle)
    async with by.transaction() as joined, joined.db.transaction() as db:
        request = await LOCK_REQUEST.maybe(db, store.id, app_id)
        if request is None or request.status != "pending":
            raise NoSuchRequest
        if not expanded(request.scopes).issuperset(granted):
            raise ScopeNotCovered(", ".join(granted), ", ".join(request.scopes))
        await _end_request(db, store.id, app_id)
        return await install(joined, str(app_id), store.handle, granted)


async def install_from_link(
    by: Operator, store: OwnedStore, app: App, offered: Sequence[str], scopes: Sequence[str]
) -> Installation:
    """Install the app with some or all of the scopes that an install link offered.

    Scopes that the link does not name stay as the store granted them before.
    """
    granted = known_scopes(scopes)
    if not set(offered).issuperset(granted):
        raise ScopeNotCovered(", ".join(granted), ", ".join(offered))
    by = await by.at_store(store.handle)
    async with by.transaction() as joined, joined.db.transaction() as db:
        await _check_reasons(db, store.id, app.id, offered)
        installed = await GET_INSTALLATION.maybe(db, store.id, app.id)
        kept = [scope for scope in installed.scopes if scope not in offered] if installed else []
        await _end_request(db, store.id, app.id)
        return await install(joined, app.client_id, store.handle, [*kept, *granted])


async def _end_request(db: Executor, store_id: int, app_id: int) -> None:
    """Delete the request that an installation answers, in its transaction; from a shard, a message does it."""
    if not await send(db, ANSWERED, Answered(store_id, app_id, datetime.now(UTC))):
        await DELETE_REQUEST.run(db, store_id, app_id)


async def receive_answer(db: Executor, content: bytes) -> None:
    """Delete the request that an installation in a shard has answered, unless it is a newer one."""
    answer = msgspec.json.decode(content, type=Answered)
    await DELETE_ANSWERED_REQUEST.run(db, answer.store_id, answer.app_id, answer.answered_at)


async def _check_reasons(db: Executor, store_id: int, app_id: int, scopes: Sequence[str]) -> None:
    """Merchants read the reasons before they approve; a development store has no merchant."""
    missing = (await listing_of(db, app_id)).without_reason(scopes)
    if missing and not await IS_DEVELOPMENT_STORE.one(db, store_id):
        raise ReasonsMissing(missing)


async def removed_apps(by: Operator, store: OwnedStore) -> list[RemovedInstallation]:
    """Return the apps that the owner can install again without a new request: those uninstalled in the last 30 days."""
    return await REMOVED_INSTALLATIONS.all(by.db, store.id)


async def reinstall(by: Operator, store: OwnedStore, app_id: int, scopes: Sequence[str]) -> Installation:
    """Install an app again with some or all of the scopes that it had."""
    granted = known_scopes(scopes)
    by = await by.at_store(store.handle)
    async with by.transaction() as joined:
        removed = next((each for each in await removed_apps(joined, store) if each.app_id == app_id), None)
        if removed is None:
            raise NotInstalled(str(app_id), store.handle)
        if not expanded(removed.scopes).issuperset(granted):
            raise ScopeNotCovered(", ".join(granted), ", ".join(removed.scopes))
        await _end_request(joined.db, store.id, app_id)
        return await install(joined, str(app_id), store.handle, granted)


async def refuse(by: Operator, store: OwnedStore, app_id: int) -> None:
    async with by.db.transaction() as db:
        if not await REFUSE_REQUEST.run(db, store.id, app_id):
            raise NoSuchRequest
        await by.record_global(db, store.id, "app.refused", f"app:{app_id}")


async def reduce_scopes(by: Operator, store: OwnedStore, app_id: int, scopes: Sequence[str]) -> Installation:
    """Reduce the scopes of an installed app; adding scopes takes a new request from the app."""
    remaining = known_scopes(scopes)
    by = await by.at_store(store.handle)
    async with by.transaction() as joined:
        # Takes a row lock, so that the app cannot be uninstalled concurrently.
        installed = await GET_INSTALLATION.maybe(joined.db, store.id, app_id)
        if installed is None:
            raise NotInstalled(str(app_id), store.handle)
        if not expanded(installed.scopes).issuperset(remaining):
            raise ScopeNotCovered(", ".join(remaining), ", ".join(installed.scopes))
        return await install(joined, str(app_id), store.handle, remaining)
