"""Pages for developers: apps, their settings and stores."""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from stoa.access.contract import SCOPES, Installation, InvalidHandle, NewSecret, NoSuchStore, TooManyAttempts
from stoa.access.operator_queries import INSTALLATIONS_OF_APP
from stoa.accounts import install_requests, ownership
from stoa.accounts.contract import Right
from stoa.accounts.rate_limit import limit_rate
from stoa.accounts.refusals import AlreadyGranted, NoSuchRequest, ReasonsMissing, RefusedRecently, TooManyStores
from stoa.accounts.rules import is_web_url
from stoa.db.errors import PostgresError, violates
from stoa.demo.development_stores import create_development_store
from stoa.portal.apps.snippets import Snippets
from stoa.portal.kit.forms import FormError, OnceForm, sentence, text
from stoa.portal.kit.list_view import PAGE_SIZE, paginate
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.usage import reports
from stoa.usage.queries import REQUESTS_OF_APPS
from stoa.webhooks.delivery.failing_receivers import FIRST_FAILING_OF_APPS

pages = Pages()
APPS = f"{ROOT}/apps"
_HANDLE_IN_URL = re.compile(r"/stores/([a-z0-9-]+)")

_HOMEPAGE_MESSAGE = "Enter a URL that starts with https://."
_REASON_MESSAGE = "Each reason is one line with at most 200 characters."
AppName = Annotated[str, text("Enter a name with 1 to 80 characters.", min_length=1, max_length=80, name=True)]
Homepage = Annotated[str, text(_HOMEPAGE_MESSAGE, max_length=500)]
Reason = Annotated[str, text(_REASON_MESSAGE, max_length=200)]
Registration = Annotated[str, text("Reload the page.", min_length=8, max_length=64)]


class ListingForm(msgspec.Struct):
    name: AppName
    scopes: list[str]
    reasons: Annotated[dict[str, Reason], text(_REASON_MESSAGE, max_length=20)]
    homepage: Homepage = ""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Require at least one scope, and a valid homepage. Reasons are required when a merchant is asked."""
        faults: dict[str, str] = {}
        if not any(scope in SCOPES for scope in values.get("scopes", ())):
            faults["scopes"] = "Select at least one scope. An app without scopes cannot be installed."
        if values.get("homepage") and not is_web_url(values["homepage"]):
            faults["homepage"] = _HOMEPAGE_MESSAGE
        return faults


class RegistrationForm(ListingForm):
    registration: Registration = ""
    development_store: bool = False


class InstallRequestForm(msgspec.Struct):
    handle: Annotated[str, text("Enter the store's handle, such as demo.", min_length=1, max_length=200)]
    message: Annotated[str, text("Use at most 500 characters.", max_length=500, multiline=True)] = ""


class DeletionForm(msgspec.Struct):
    name: Annotated[str, text("Enter the app's name.", min_length=1, max_length=255)]


@pages.page("/apps")
async def list_apps(visit: Visit) -> View:
    term = visit.query("q").strip()
    apps = await ownership.owned_apps(visit.by, visit.me.account_id, term.lower())
    failing = {
        each.app_id: each for each in await FIRST_FAILING_OF_APPS.all(visit.everywhere, [app.id for app in apps])
    }
    apps.sort(key=lambda app: app.id not in failing)  # what needs attention is on the first page
    shown = paginate(visit, apps, "page", PAGE_SIZE, {"q": term} if term else {})
    activity = await reports.activity(visit.everywhere, REQUESTS_OF_APPS, [app.id for app in shown.items])
    return View("apps/list.html", {"apps": shown, "failing": failing, "activity": activity, "q": term})


@pages.page("/register-app", nav="list_apps")
async def new_app(visit: Visit) -> View:
    return View("apps/new.html", {"registration": secrets.token_urlsafe(12)})


@pages.form("/register-app", on=new_app)
async def register_app(visit: Visit, form: RegistrationForm) -> View | Redirect:
    reasons = _reasons(form)
    # A form that is submitted twice, for example by a reload, registers one app; its secret is not shown again.
    registration = f"{visit.me.account_id}:{form.registration or secrets.token_urlsafe(12)}"
    existing = await ownership.registered_app(visit.by, registration)
    if existing is None:
        try:
            created = await ownership.register_app(
                visit.by, visit.me.account_id, form.name, form.homepage, reasons, registration
            )
        except PostgresError as error:
            if not violates(error, "app_listings_registration_key"):
                raise
            existing = await ownership.registered_app(visit.by, registration)
        else:
            return await _registered(visit, form, created)
    return Redirect(
        f"{APPS}/{existing}", "This app is already registered. If you lost its secret, create a new one.", ""
    )


async def _registered(visit: Visit, form: RegistrationForm, created: NewSecret) -> View:
    """Return the only page that shows the new app's secret."""
    handle, warning = "", ""
    if form.development_store:
        try:
            name = f"Development store of {form.name}"
            store = await create_development_store(visit.by, visit.me.account_id, name=name, app=created.client_id)
            handle = store.handle
        except TooManyStores as refusal:
            warning = f"The development store was not created: {refusal}."
    return secret_page(visit, created, form.name, handle=handle, warning=warning, new_app=True)


def secret_page(
    visit: Visit, secret: NewSecret, name: str, *, handle: str = "", warning: str = "", new_app: bool = False
) -> View:
    snippets = Snippets(visit.origin, secret.client_id, secret.client_secret, handle)
    context = {
        "secret": secret,
        "name": name,
        "snippets": snippets,
        "download": f"data:text/plain;charset=utf-8,{quote(snippets.env_file)}",
        "warning": warning,
        "new_app": new_app,
    }
    return View("apps/secret.html", context, secret=True)


def _reasons(form: ListingForm) -> Mapping[str, str]:
    """Return the reasons of the selected scopes, which may be empty, in the order of the documentation."""
    return {scope: form.reasons.get(scope, "") for scope in SCOPES if scope in form.scopes}


@pages.page("/apps/{app_id:int}", nav="list_apps")
async def app_page(visit: Visit) -> View:
    installed = await INSTALLATIONS_OF_APP.all(visit.everywhere, visit.app.id)
    owned = {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)}
    handle = example_store(installed, owned)
    context = {
        "listing": await ownership.listing_of(visit.db, visit.app.id),
        "installed": installed,
        "owned": owned,
        "snippets": Snippets(visit.origin, visit.app.client_id, handle=handle),
    }
    return View("apps/overview.html", context)


def example_store(installed: Sequence[Installation], owned: Collection[str]) -> str:
    """Return the store for the snippets: of the account's own stores, the first that installed the app."""
    candidates = [each for each in installed if each.store in owned]
    return min(candidates, key=lambda each: each.installed_at).store if candidates else ""


@pages.page("/apps/{app_id:int}/stores", nav="list_apps")
async def app_stores(visit: Visit) -> View:
    context = {
        "installed": await INSTALLATIONS_OF_APP.all(visit.everywhere, visit.app.id),
        "requests": await install_requests.requests_of_app(visit.by, visit.app),
        "owned": {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)},
    }
    return View("apps/stores.html", context)


@pages.form("/apps/{app_id:int}/development-store", on=app_stores)
async def open_development_store_for_app(visit: Visit, form: OnceForm) -> Redirect:
    names = {"name": f"Development store of {visit.app.name}", "app": visit.app.client_id, "key": form.key}
    store = await create_development_store(visit.by, visit.me.account_id, **names)
    return Redirect(
        f"{APPS}/{visit.app.id}", f"Development store {store.handle} created, with sample data and this app."
    )


@pages.form("/apps/{app_id:int}/install-requests", on=app_stores)
async def request_install(visit: Visit, form: InstallRequestForm) -> Redirect:
    in_url = _HANDLE_IN_URL.search(form.handle)
    handle = in_url[1] if in_url else form.handle.lower()
    try:
        await limit_rate(visit.by, visit.db, visit.me.account_id, "install-request")
        await install_requests.request_install(visit.by, visit.me.account_id, visit.app, handle, form.message)
    except TooManyAttempts as refusal:
        raise FormError(
            {"": "You have sent ten requests in the last minute. Wait a minute, then try again."}, status=429
        ) from refusal
    except (NoSuchStore, InvalidHandle) as refusal:
        raise FormError(handle="There is no store with this handle. Ask its owner for the handle.") from refusal
    except (RefusedRecently, AlreadyGranted, ReasonsMissing) as refusal:
        raise FormError(handle=sentence(refusal)) from refusal
    return Redirect(f"{APPS}/{visit.app.id}/stores", f"Request sent to the owner of {handle}.")


@pages.form("/apps/{app_id:int}/install-requests/{requested_store}/withdraw", on=app_stores)
async def withdraw_request(visit: Visit) -> Redirect:
    try:
        await install_requests.withdraw(visit.by, visit.app, visit.path_param("requested_store"))
    except (NoSuchRequest, NoSuchStore) as refusal:
        return Redirect(f"{APPS}/{visit.app.id}/stores", sentence(refusal), "warn")
    return Redirect(f"{APPS}/{visit.app.id}/stores", "Request withdrawn.")


@pages.page("/apps/{app_id:int}/settings", nav="list_apps")
async def app_settings(visit: Visit) -> View:
    return View("apps/settings.html", {"listing": await ownership.listing_of(visit.db, visit.app.id)})


@pages.form("/apps/{app_id:int}/settings", on=app_settings)
async def change_app(visit: Visit, form: ListingForm) -> Redirect:
    me = visit.me.account_id
    await ownership.change_listing(visit.by, me, visit.app, form.name, form.homepage, _reasons(form))
    return Redirect(f"{APPS}/{visit.app.id}/settings", "Saved.")


@pages.form("/apps/{app_id:int}/delete", on=app_settings, right=Right.OWN)
async def delete_app(visit: Visit, form: DeletionForm) -> Redirect:
    if form.name != visit.app.name:
        raise FormError(name="This is not the app's name. Enter it exactly as shown.")
    await ownership.remove_app(visit.by, visit.app)
    return Redirect(APPS, f"{visit.app.name} was deleted.")
