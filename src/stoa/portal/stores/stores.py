"""Pages for merchants: stores, install requests and installed apps."""

from typing import Annotated

import msgspec

from stoa.access.contract import (
    HandleTaken,
    Installation,
    InvalidHandle,
    InvalidLocale,
    InvalidTimezone,
    NotInstalled,
    UnknownCurrency,
)
from stoa.access.grants import list_installations, uninstall
from stoa.access.operator import find_store
from stoa.access.stores import ENGLISH, UTC
from stoa.accounts import install_requests, ownership
from stoa.accounts.contract import Listing
from stoa.accounts.refusals import NoSuchRequest
from stoa.demo.development_stores import create_development_store
from stoa.money import CURRENCIES
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, FormError, OnceForm, sentence, text
from stoa.portal.kit.list_view import PAGE_SIZE, paginate
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.usage import reports
from stoa.usage.queries import REQUESTS_OF_STORES
from stoa.webhooks import app_subscriptions
from stoa.webhooks.delivery.failing_receivers import FIRST_FAILING_OF_STORES

pages = Pages()
STORES = f"{ROOT}/stores"
_COMMON_CURRENCIES = ("EUR", "USD", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK", "PLN", "INR", "BRL", "MXN")
TIMEZONE_MESSAGE = "Enter an IANA time zone, such as Europe/Berlin."
LOCALE_MESSAGE = "Enter a language with an optional region, such as de-DE."


class StoreForm(msgspec.Struct):
    name: Annotated[str, text("Enter a name with 1 to 80 characters.", min_length=1, max_length=80, name=True)]
    handle: Annotated[str, text("Use 1 to 63 of a-z, 0-9 and inner hyphens.", min_length=1, max_length=63)]
    currency: Annotated[str, text("Select a currency.", min_length=3, max_length=3)]
    timezone: Annotated[str, text(TIMEZONE_MESSAGE, max_length=64)] = UTC
    locale: Annotated[str, text(LOCALE_MESSAGE, max_length=20)] = ENGLISH


class ScopesForm(msgspec.Struct):
    scopes: list[str]


@pages.page("/stores")
async def list_stores(visit: Visit) -> View:
    term = visit.query("q").strip()
    stores = await ownership.owned_stores(visit.by, visit.me.account_id, term.lower())
    failing = {
        each.store: each for each in await FIRST_FAILING_OF_STORES.all(visit.everywhere, [each.id for each in stores])
    }
    # What needs attention is on the first page.
    stores.sort(key=lambda each: (each.handle not in failing, not each.requests))
    shown = paginate(visit, stores, "page", PAGE_SIZE, {"q": term} if term else {})
    activity = await reports.activity(visit.everywhere, REQUESTS_OF_STORES, [each.id for each in shown.items])
    return View("stores/list.html", {"stores": shown, "failing": failing, "activity": activity, "q": term})


@pages.form("/stores/development", on=list_stores)
async def open_development_store(visit: Visit, form: OnceForm) -> Redirect:
    store = await create_development_store(visit.by, visit.me.account_id, name="Development store", key=form.key)
    return Redirect(f"{STORES}/{store.handle}", "Development store created, with sample data.")


@pages.page("/open-store", nav="list_stores")
async def new_store(visit: Visit) -> View:
    others = sorted(set(CURRENCIES) - set(_COMMON_CURRENCIES))
    return View(
        "stores/new.html", {"common": _COMMON_CURRENCIES, "others": others, "domain": visit.settings.store_domain}
    )


@pages.form("/open-store", on=new_store)
async def open_store(visit: Visit, form: StoreForm) -> Redirect:
    try:
        store = await ownership.open_store(
            visit.by,
            visit.me.account_id,
            form.handle,
            form.name,
            form.currency,
            timezone=form.timezone,
            locale=form.locale,
        )
    except (HandleTaken, InvalidHandle) as refusal:
        raise FormError(handle=sentence(refusal)) from refusal
    except UnknownCurrency as refusal:
        raise FormError(currency=sentence(refusal)) from refusal
    except InvalidTimezone as refusal:
        raise FormError(timezone=TIMEZONE_MESSAGE) from refusal
    except InvalidLocale as refusal:
        raise FormError(locale=LOCALE_MESSAGE) from refusal
    return Redirect(f"{STORES}/{store.handle}", f"{store.name} was created.")


@pages.page("/stores/{handle}", nav="list_stores")
async def store_page(visit: Visit) -> View:
    requests = await install_requests.requests_of_store(visit.by, visit.store)
    context = {
        "details": await find_store(visit.db, visit.store.handle),
        "installed": await list_installations(visit.by, visit.store.handle),
        "removed": await install_requests.removed_apps(visit.by, visit.store),
        "requests": [
            (
                each,
                await ownership.listing_of(visit.db, each.app_id),
                await ownership.developers_of(visit.db, each.app_id),
            )
            for each in requests
        ],
    }
    return View("stores/overview.html", context)


@pages.form("/stores/{handle}/requests/{requesting_id:int}/approve", on=store_page, in_shard=True)
async def approve_request(visit: Visit, form: ScopesForm) -> Redirect:
    if not form.scopes:
        raise FormError({"": "Select at least one scope, or refuse the request."})
    try:
        installation = await install_requests.approve(
            visit.by, visit.store, visit.path_param("requesting_id"), form.scopes
        )
    except NoSuchRequest as refusal:
        return Redirect(f"{STORES}/{visit.store.handle}", sentence(refusal), "warn")
    visit.changed_stores.add(visit.store.id)
    return Redirect(f"{STORES}/{visit.store.handle}", f"{installation.app_name} is installed.")


@pages.form("/stores/{handle}/requests/{requesting_id:int}/refuse", on=store_page, while_closed=True)
async def refuse_request(visit: Visit) -> Redirect:
    try:
        await install_requests.refuse(visit.by, visit.store, visit.path_param("requesting_id"))
    except NoSuchRequest as refusal:
        return Redirect(f"{STORES}/{visit.store.handle}", sentence(refusal), "warn")
    return Redirect(f"{STORES}/{visit.store.handle}", "Request refused.")


@pages.form("/stores/{handle}/removed/{removed_id:int}", on=store_page, in_shard=True)
async def reinstall_app(visit: Visit, form: ScopesForm) -> Redirect:
    if not form.scopes:
        raise FormError({"": "Select at least one scope."})
    try:
        installation = await install_requests.reinstall(
            visit.by, visit.store, visit.path_param("removed_id"), form.scopes
        )
    except NotInstalled:
        message = "This app cannot be installed again from here. Ask its developer for a new request."
        return Redirect(f"{STORES}/{visit.store.handle}", message, "warn")
    visit.changed_stores.add(visit.store.id)
    return Redirect(f"{STORES}/{visit.store.handle}", f"{installation.app_name} is installed again.")


async def _installed(visit: Visit) -> tuple[Installation, Listing]:
    found = await list_installations(visit.by, visit.store.handle)
    installation = next((each for each in found if each.app_id == visit.path_param("installed_id")), None)
    if installation is None:
        raise not_found()
    return installation, await ownership.listing_of(visit.db, installation.app_id)


@pages.page("/stores/{handle}/apps/{installed_id:int}", nav="list_stores")
async def installed_app(visit: Visit) -> View:
    installation, listing = await _installed(visit)
    developers = await ownership.developers_of(visit.db, installation.app_id)
    managed = await app_subscriptions.ON_STORE.all(visit.db, visit.store.id, installation.app_id)
    context = {"installation": installation, "listing": listing, "developers": developers, "managed": managed}
    return View("stores/app.html", context)


@pages.form(
    "/stores/{handle}/apps/{installed_id:int}/events/{managed_id:int}/pause",
    on=installed_app,
    in_shard=True,
    while_closed=True,
)
async def pause_managed_subscription(visit: Visit) -> Redirect:
    return await _set_managed(
        visit, "The app receives no more of these events. They are kept until you resume.", paused=True
    )


@pages.form(
    "/stores/{handle}/apps/{installed_id:int}/events/{managed_id:int}/resume",
    on=installed_app,
    in_shard=True,
    while_closed=True,
)
async def resume_managed_subscription(visit: Visit) -> Redirect:
    return await _set_managed(
        visit, "The app receives these events again, beginning with those that were kept.", paused=False
    )


async def _set_managed(visit: Visit, notice: str, *, paused: bool) -> Redirect:
    installation, _ = await _installed(visit)
    webhook_id = visit.path_param("managed_id")
    await app_subscriptions.set_on_store(visit.by, visit.store.id, installation.app_id, webhook_id, paused=paused)
    return Redirect(f"{STORES}/{visit.store.handle}/apps/{installation.app_id}", notice)


@pages.form("/stores/{handle}/apps/{installed_id:int}", on=installed_app, in_shard=True, while_closed=True)
async def reduce_app_scopes(visit: Visit, form: ScopesForm) -> Redirect:
    if not form.scopes:
        raise FormError({"": "Select at least one scope, or uninstall the app."})
    await install_requests.reduce_scopes(visit.by, visit.store, visit.path_param("installed_id"), form.scopes)
    visit.changed_stores.add(visit.store.id)
    return Redirect(
        f"{STORES}/{visit.store.handle}/apps/{visit.path_param('installed_id')}",
        "Saved. The change takes effect within a second.",
    )


@pages.form("/stores/{handle}/apps/{installed_id:int}/uninstall", on=installed_app, in_shard=True, while_closed=True)
async def uninstall_app(visit: Visit, form: ConfirmedForm) -> Redirect:
    installation, _ = await _installed(visit)
    await uninstall(visit.by, installation.client_id, visit.store.handle)
    visit.changed_stores.add(visit.store.id)
    return Redirect(
        f"{STORES}/{visit.store.handle}", f"{installation.app_name} was uninstalled. Its tokens no longer work here."
    )
