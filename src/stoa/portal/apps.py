"""The developer's pages: apps, their credentials, and the stores they are on."""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec

from stoa.access import apps as access_apps
from stoa.access.contract import SCOPES, Installation, InvalidHandle, NewSecret, NoSuchStore, TooManyTries
from stoa.access.grants import revoke_all_tokens
from stoa.access.queries import INSTALLATIONS_OF_APP
from stoa.accounts import asking, ownership
from stoa.accounts.contract import AskedAlready, NoSuchRequest, NothingToAsk, TooManyStores
from stoa.db.errors import PostgresError, violates
from stoa.portal.answering import sentence
from stoa.portal.calling import Calling
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import ROOT, Pages, Redirect, View
from stoa.portal.samples import sample_store
from stoa.portal.visit import Visit

pages = Pages()
APPS = f"{ROOT}/apps"
_HANDLE_IN_URL = re.compile(r"/stores/([a-z0-9-]+)")

AppName = Annotated[str, text("Give a name of 1 to 80 characters.", least=1, most=80)]
Homepage = Annotated[str, text("Give a web address that begins with https://.", most=500)]
Reason = Annotated[str, text("Say why in at most 200 characters.", most=200)]
Registration = Annotated[str, text("Reload the page.", least=8, most=64)]


class Listing(msgspec.Struct):
    name: AppName
    scopes: list[str]
    reasons: Annotated[dict[str, Reason], text("Say why in at most 200 characters.", most=20)]
    homepage: Homepage = ""

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """An app asks for something, each time with a reason, and its homepage is one."""
        faults: dict[str, str] = {}
        chosen = [scope for scope in SCOPES if scope in values.get("scopes", ())]
        if not chosen:
            faults["scopes"] = "Choose at least one: an app that may do nothing cannot be installed."
        for scope in chosen:
            if not values.get("reasons", {}).get(scope):
                faults[f"reasons[{scope}]"] = "Say why in a few words. Merchants read it before they agree."
        if values.get("homepage") and not _is_web_address(values["homepage"]):
            faults["homepage"] = "Give a web address that begins with https://."
        return faults


class NewApp(Listing):
    registration: Registration = ""
    development_store: bool = False


class Rotation(msgspec.Struct):
    grace_hours: Annotated[int, msgspec.Meta(ge=0, le=168, extra={"say": "Choose one of these."})]


class Question(msgspec.Struct):
    handle: Annotated[str, text("Give the store's handle, such as demo.", least=1, most=200)]
    message: Annotated[str, text("Say it in at most 500 characters.", most=500)] = ""


class Confirmed(msgspec.Struct):
    name: Annotated[str, text("Type the app's name.", least=1, most=255)]


@pages.page("/apps")
async def list_apps(visit: Visit) -> View:
    return View("apps/list.html", {"apps": await ownership.owned_apps(visit.by, visit.me.account_id)})


@pages.page("/register-app", under="list_apps")
async def new_app(visit: Visit) -> View:
    return View("apps/new.html", {"registration": secrets.token_urlsafe(12)})


@pages.form("/register-app", on=new_app)
async def register_app(visit: Visit, form: NewApp) -> View | Redirect:
    reasons = _chosen(form)
    # The same form sent twice, as by reloading, makes one app; its secret is not shown again.
    registration = f"{visit.me.account_id}:{form.registration or secrets.token_urlsafe(12)}"
    before = await ownership.registered(visit.by, registration)
    if before is None:
        try:
            made = await ownership.register_app(
                visit.by, visit.me.account_id, form.name, form.homepage, reasons, registration
            )
        except PostgresError as error:
            if not violates(error, "app_listings_registration_key"):
                raise
            before = await ownership.registered(visit.by, registration)
        else:
            return await _welcome(visit, form, made)
    return Redirect(
        f"{APPS}/{before}", "This app is registered already. Make a new secret if you have lost the first.", ""
    )


async def _welcome(visit: Visit, form: NewApp, made: NewSecret) -> View:
    """The one page that ever shows this secret."""
    handle, warning = "", ""
    if form.development_store:
        try:
            name = f"Development store of {form.name}"
            store = await sample_store(visit.by, visit.me.account_id, name=name, app=made.client_id)
            handle = store.handle
        except TooManyStores as refusal:
            warning = f"No development store was made: {refusal}."
    return _secret_page(visit, made, form.name, handle=handle, warning=warning, fresh=True)


def _secret_page(
    visit: Visit, made: NewSecret, name: str, *, handle: str = "", warning: str = "", fresh: bool = False
) -> View:
    calling = Calling(visit.origin, made.client_id, made.client_secret, handle)
    context = {
        "made": made,
        "name": name,
        "calling": calling,
        "download": f"data:text/plain;charset=utf-8,{quote(calling.environment)}",
        "warning": warning,
        "fresh": fresh,
    }
    return View("apps/secret.html", context, secret=True)


def _chosen(form: Listing) -> Mapping[str, str]:
    """The reasons by scope, in the documentation's order."""
    return {scope: form.reasons[scope] for scope in SCOPES if scope in form.scopes}


def _is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return (
            parts.scheme in ("https", "http")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and " " not in address
        )
    except ValueError:
        return False


@pages.page("/apps/{app_id:int}", under="list_apps")
async def app_page(visit: Visit) -> View:
    installed = await INSTALLATIONS_OF_APP.all(visit.db, visit.app.id)
    owned = {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)}
    handle = _to_call(installed, owned)
    context = {
        "listing": await ownership.listing_of(visit.db, visit.app.id),
        "installed": installed,
        "owned": owned,
        "calling": Calling(visit.origin, visit.app.client_id, handle=handle),
    }
    return View("apps/overview.html", context)


def _to_call(installed: Sequence[Installation], owned: Collection[str]) -> str:
    """The person's own store that the lines to paste are for: the one that has had the app for longest."""
    theirs = [each for each in installed if each.store in owned]
    return min(theirs, key=lambda each: each.installed_at).store if theirs else ""


@pages.page("/apps/{app_id:int}/credentials", under="list_apps")
async def app_credentials(visit: Visit) -> View:
    app = await access_apps.find_app(visit.db, visit.app.client_id)
    return View("apps/credentials.html", {"secrets": await access_apps.list_secrets(visit.by, app)})


@pages.form("/apps/{app_id:int}/secret", on=app_credentials)
async def rotate_secret(visit: Visit, form: Rotation) -> View:
    made = await access_apps.rotate_secret(visit.by, visit.app.client_id, grace_hours=form.grace_hours)
    installed = await INSTALLATIONS_OF_APP.all(visit.db, visit.app.id)
    owned = {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)}
    handle = _to_call(installed, owned)
    return _secret_page(visit, made, visit.app.name, handle=handle)


@pages.form("/apps/{app_id:int}/secret/end", on=app_credentials)
async def end_old_secret(visit: Visit) -> Redirect:
    await access_apps.end_old_secrets(visit.by, visit.app.client_id)
    return Redirect(f"{APPS}/{visit.app.id}/credentials", "The old secret no longer works.")


@pages.form("/apps/{app_id:int}/tokens/revoke", on=app_credentials)
async def revoke_tokens(visit: Visit) -> Redirect:
    count = await revoke_all_tokens(visit.by, visit.app.client_id)
    here = f"{APPS}/{visit.app.id}/credentials"
    if not count:
        return Redirect(here, "There was no live token.", "")
    return Redirect(here, f"{count} access token{'' if count == 1 else 's'} ended.")


@pages.page("/apps/{app_id:int}/stores", under="list_apps")
async def app_stores(visit: Visit) -> View:
    context = {
        "installed": await INSTALLATIONS_OF_APP.all(visit.db, visit.app.id),
        "requests": await asking.requests_of_app(visit.by, visit.app),
        "owned": {store.handle for store in await ownership.owned_stores(visit.by, visit.me.account_id)},
    }
    return View("apps/stores.html", context)


@pages.form("/apps/{app_id:int}/development-store", on=app_stores)
async def open_development_store(visit: Visit) -> Redirect:
    name = f"Development store of {visit.app.name}"
    store = await sample_store(visit.by, visit.me.account_id, name=name, app=visit.app.client_id)
    return Redirect(f"{APPS}/{visit.app.id}", f"The store {store.handle} is open, with sample data and this app.")


@pages.form("/apps/{app_id:int}/requests", on=app_stores)
async def ask_store(visit: Visit, form: Question) -> Redirect:
    found = _HANDLE_IN_URL.search(form.handle)
    handle = found[1] if found else form.handle.lower()
    try:
        await asking.refuse_pestering(visit.by, visit.db, visit.me.account_id)
        await asking.ask(visit.by, visit.me.account_id, visit.app, handle, form.message)
    except TooManyTries as refusal:
        raise Wrong({"": "You have asked ten times in a minute. Wait for the next."}, status=429) from refusal
    except (NoSuchStore, InvalidHandle) as refusal:
        raise Wrong(handle="There is no store with this handle. Ask its owner what it is called.") from refusal
    except (AskedAlready, NothingToAsk) as refusal:
        raise Wrong(handle=sentence(refusal)) from refusal
    return Redirect(f"{APPS}/{visit.app.id}/stores", f"The owner of {handle} now sees your request.")


@pages.form("/apps/{app_id:int}/requests/{asked}/withdraw", on=app_stores)
async def withdraw_request(visit: Visit) -> Redirect:
    try:
        await asking.withdraw(visit.by, visit.app, visit.place("asked"))
    except (NoSuchRequest, NoSuchStore) as refusal:
        return Redirect(f"{APPS}/{visit.app.id}/stores", sentence(refusal), "warn")
    return Redirect(f"{APPS}/{visit.app.id}/stores", "The request is withdrawn.")


@pages.page("/apps/{app_id:int}/settings", under="list_apps")
async def app_settings(visit: Visit) -> View:
    return View("apps/settings.html", {"listing": await ownership.listing_of(visit.db, visit.app.id)})


@pages.form("/apps/{app_id:int}/settings", on=app_settings)
async def change_app(visit: Visit, form: Listing) -> Redirect:
    me = visit.me.account_id
    await ownership.change_listing(visit.by, me, visit.app, form.name, form.homepage, _chosen(form))
    return Redirect(f"{APPS}/{visit.app.id}/settings", "Saved.")


@pages.form("/apps/{app_id:int}/delete", on=app_settings)
async def delete_app(visit: Visit, form: Confirmed) -> Redirect:
    if form.name != visit.app.name:
        raise Wrong(name="This is not the app's name. Type it as it stands above.")
    await ownership.remove_app(visit.by, visit.app)
    return Redirect(APPS, f"{visit.app.name} is deleted.")
