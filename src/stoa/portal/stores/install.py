"""The install link of an app: a merchant chooses a store and scopes, approves or refuses, and returns to the app."""

import time
from typing import Annotated
from urllib.parse import urlencode, urlsplit

import msgspec

from stoa.access.addresses import is_handle
from stoa.access.contract import SCOPES, App, NoSuchApp
from stoa.access.credentials import is_client_id
from stoa.access.operator import find_app
from stoa.access.rules import ordered
from stoa.accounts import install_requests, ownership
from stoa.accounts.contract import RIGHTS, OwnedStore, Right
from stoa.portal.kit.error_pages import PageError
from stoa.portal.kit.forms import FormError, text
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.webhooks import app_callbacks

pages = Pages()
MAX_STATE_LENGTH = 500
_STORE_MESSAGE = "Select one of your stores."


class InstallForm(msgspec.Struct):
    scopes: list[str]
    store: Annotated[str, text(_STORE_MESSAGE, max_length=63)] = ""


class InstallLink(msgspec.Struct):
    """A valid link: the app, the scopes that it asks for, and where the merchant returns to."""

    app: App
    scopes: list[str]
    return_to: str
    state: str

    def back(self, **more: str) -> Redirect:
        """Return to the app, with its own `state`."""
        query = urlencode({**({"state": self.state} if self.state else {}), **more})
        return Redirect(f"{self.return_to}{'&' if '?' in self.return_to else '?'}{query}")


@pages.page("/install/{client_id}", nav="list_stores")
async def install_page(visit: Visit) -> View:
    link = await _link(visit)
    parts = urlsplit(link.return_to)
    context = {
        "app": link.app,
        "scopes": link.scopes,
        "listing": await ownership.listing_of(visit.db, link.app.id),
        "developers": await ownership.developers_of(visit.db, link.app.id),
        "stores": await _stores(visit),
        "return_host": parts.netloc,
        "query": visit.query_string,
    }
    return View("install.html", context, returns_to=f"{parts.scheme}://{parts.netloc}")


@pages.form("/install/{client_id}", on=install_page)
async def approve_install(visit: Visit, form: InstallForm) -> Redirect:
    link = await _link(visit)
    store = await ownership.owned_store(visit.db, visit.me.account_id, form.store) if is_handle(form.store) else None
    if store is None or not _may_install(store):
        raise FormError(store=_STORE_MESSAGE)
    if not form.scopes:
        raise FormError({"": "Select at least one scope, or refuse."})
    await install_requests.install_from_link(visit.by, store, link.app, link.scopes, form.scopes)
    visit.changed_stores.add(store.id)
    timestamp = int(time.time())
    content = app_callbacks.install_content(link.app.client_id, store.handle, timestamp, link.state)
    signature = await app_callbacks.install_signature(visit.by, link.app.id, content)
    return link.back(store=store.handle, timestamp=str(timestamp), signature=signature)


@pages.form("/install/{client_id}/refuse", on=install_page)
async def refuse_install(visit: Visit) -> Redirect:
    return (await _link(visit)).back(error="access_denied")


async def _stores(visit: Visit) -> list[OwnedStore]:
    return [each for each in await ownership.owned_stores(visit.by, visit.me.account_id) if _may_install(each)]


def _may_install(store: OwnedStore) -> bool:
    return RIGHTS[store.role] >= Right.CHANGE and store.status == "active"


async def _link(visit: Visit) -> InstallLink:
    """Return what the link asks for, or an error page: an invalid link never leads away from here."""
    client_id: str = visit.path_param("client_id")
    try:
        app = await find_app(visit.db, client_id) if is_client_id(client_id) else None
    except NoSuchApp:
        app = None
    if app is None or app.client_id != client_id or app.status == "deleted":
        raise PageError(404, "Unknown app", "There is no app with the client ID in this link. Ask for a new link.")
    if app.status != "active":
        raise PageError(403, "App suspended", f"{app.name} is suspended and cannot be installed at the moment.")
    return InstallLink(app, _scopes(visit, app), await _return_to(visit, app), _state(visit))


def _scopes(visit: Visit, app: App) -> list[str]:
    asked = visit.request.query_params.get("scope", "").split()
    if any(scope not in SCOPES for scope in asked):
        raise _invalid("It asks for a scope that does not exist.")
    if any(scope not in app.scopes for scope in asked):
        raise _invalid(f"It asks for a scope that {app.name} has not registered.")
    return ordered(asked) if asked else app.scopes


async def _return_to(visit: Visit, app: App) -> str:
    """Return the registered address that the link names; a link that names none means the only one."""
    registered = (await app_callbacks.callbacks_of(visit.db, app.id)).return_urls
    wanted = visit.request.query_params.get("return_to", "")
    if wanted and wanted not in registered:
        raise _invalid(f"It names a return address that {app.name} has not registered.")
    if not wanted and not registered:
        raise _invalid(f"It names no return address, and {app.name} has not registered one.")
    if not wanted and len(registered) > 1:
        raise _invalid(f"It names no return address, and {app.name} has registered {len(registered)}.")
    return wanted or registered[0]


def _state(visit: Visit) -> str:
    """Return the state, which the visitor chooses and the app's secret signs: it must not contain the body of an event."""
    state = visit.request.query_params.get("state", "")
    if len(state) > MAX_STATE_LENGTH or not state.isprintable() or "{" in state:
        raise _invalid(f"Its state must have at most {MAX_STATE_LENGTH} printable characters, and no {{.")
    return state


def _invalid(why: str) -> PageError:
    message = f"{why} Nothing was installed. Tell the developer of the app, and ask for a new link."
    return PageError(400, "Invalid install link", message)
