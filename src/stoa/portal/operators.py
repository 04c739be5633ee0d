"""What somebody who runs the service looks after: every store, app and account, each with the verbs that stop and start it."""

from typing import Any

from stoa.access import apps, stores
from stoa.access.addresses import is_handle
from stoa.access.contract import App, NoSuchApp, NoSuchStore, StoreRow
from stoa.access.grants import list_installations
from stoa.access.operator import find_app, find_store
from stoa.accounts import registration
from stoa.accounts.contract import Account
from stoa.accounts.ownership import owned_apps, owned_stores
from stoa.accounts.queries import GET_ACCOUNT
from stoa.db.query import Query
from stoa.portal.answering import not_found
from stoa.portal.forms import Wrong
from stoa.portal.imports import before
from stoa.portal.listed import ROWS
from stoa.portal.pages import ROOT, Pages, Redirect, View, Who
from stoa.portal.queries import ACCOUNTS, APPS, PEOPLE_OF_STORE, STORES
from stoa.portal.visit import Visit

pages = Pages()
_HERE = f"{ROOT}/operators"


async def _found(visit: Visit, query: Query[Any], statuses: tuple[str, ...]) -> dict[str, Any]:
    """One page of what was searched for, newest first, and where it goes on."""
    words, status = visit.query("q").strip(), visit.query("status")
    chosen = status if status in statuses else ""
    rows = await query.all(visit.db, before(visit), words.lower(), chosen, ROWS + 1)
    more = rows[ROWS - 1].id if rows[ROWS:] else 0
    return {"rows": rows[:ROWS], "next": more, "q": words, "status": chosen, "statuses": statuses}


# --- stores ------------------------------------------------------------------------------------------------


@pages.page("/operators/stores", who=Who.OPERATOR)
async def operator_stores(visit: Visit) -> View:
    return View("operators/stores.html", await _found(visit, STORES, ("active", "suspended")))


@pages.page("/operators/stores/{store}", who=Who.OPERATOR, under="operator_stores")
async def operator_store(visit: Visit) -> View:
    store = await _store(visit)
    context = {
        "store": store,
        "people": await PEOPLE_OF_STORE.all(visit.db, store.id),
        "installed": await list_installations(visit.by, store.handle),
    }
    return View("operators/store.html", context)


@pages.form("/operators/stores/{store}/suspend", on=operator_store)
async def suspend_store(visit: Visit) -> Redirect:
    store = await stores.suspend_store(visit.by, (await _store(visit)).handle)
    return Redirect(f"{_HERE}/stores/{store.handle}", f"{store.name} is suspended. Every app is refused there.")


@pages.form("/operators/stores/{store}/resume", on=operator_store)
async def resume_store(visit: Visit) -> Redirect:
    store = await stores.resume_store(visit.by, (await _store(visit)).handle)
    return Redirect(f"{_HERE}/stores/{store.handle}", f"{store.name} is open again.")


async def _store(visit: Visit) -> StoreRow:
    handle: str = visit.place("store")
    try:
        return await find_store(visit.db, handle if is_handle(handle) else "")
    except NoSuchStore:
        raise not_found() from None


# --- apps --------------------------------------------------------------------------------------------------


@pages.page("/operators/apps", who=Who.OPERATOR)
async def operator_apps(visit: Visit) -> View:
    return View("operators/apps.html", await _found(visit, APPS, ("active", "suspended", "deleted")))


@pages.page("/operators/apps/{app:int}", who=Who.OPERATOR, under="operator_apps")
async def operator_app(visit: Visit) -> View:
    return View("operators/app.html", {"app": await _app(visit)})


@pages.form("/operators/apps/{app:int}/suspend", on=operator_app)
async def suspend_app(visit: Visit) -> Redirect:
    app = await apps.suspend_app(visit.by, (await _app(visit)).client_id)
    return Redirect(f"{_HERE}/apps/{app.id}", f"{app.name} is suspended. Every store refuses it.")


@pages.form("/operators/apps/{app:int}/resume", on=operator_app)
async def resume_app(visit: Visit) -> Redirect:
    app = await apps.resume_app(visit.by, (await _app(visit)).client_id)
    return Redirect(f"{_HERE}/apps/{app.id}", f"{app.name} works again.")


async def _app(visit: Visit) -> App:
    try:
        return await find_app(visit.db, str(visit.place("app")))
    except NoSuchApp:
        raise not_found() from None


# --- accounts ----------------------------------------------------------------------------------------------


@pages.page("/operators/accounts", who=Who.OPERATOR)
async def operator_accounts(visit: Visit) -> View:
    return View("operators/accounts.html", await _found(visit, ACCOUNTS, ("active", "disabled")))


@pages.page("/operators/accounts/{account:int}", who=Who.OPERATOR, under="operator_accounts")
async def operator_account(visit: Visit) -> View:
    account = await _account(visit)
    context = {
        "account": account,
        "stores": await owned_stores(visit.by, account.id),
        "apps": await owned_apps(visit.by, account.id),
    }
    return View("operators/account.html", context)


@pages.form("/operators/accounts/{account:int}/disable", on=operator_account)
async def disable_account(visit: Visit) -> Redirect:
    account = await _account(visit)
    if account.id == visit.me.account_id:
        raise Wrong({"": "This is your own account. Somebody else who runs the service can disable it."})
    await registration.disable_account(visit.by, account.email)
    return Redirect(f"{_HERE}/accounts/{account.id}", f"{account.name} is signed out and cannot come in.")


@pages.form("/operators/accounts/{account:int}/enable", on=operator_account)
async def enable_account(visit: Visit) -> Redirect:
    account = await _account(visit)
    await registration.enable_account(visit.by, account.email)
    return Redirect(f"{_HERE}/accounts/{account.id}", f"{account.name} may sign in again.")


async def _account(visit: Visit) -> Account:
    found = await GET_ACCOUNT.maybe(visit.db, visit.place("account"))
    if found is None:
        raise not_found()
    return found
