"""The merchant's pages: stores, and which apps may do what there."""

from typing import Annotated

import msgspec

from stoa.access.contract import HandleTaken, Installation, InvalidHandle, UnknownCurrency
from stoa.access.grants import list_installations, uninstall
from stoa.accounts import asking, ownership
from stoa.accounts.contract import Listing, NoSuchRequest
from stoa.money import CURRENCIES
from stoa.portal.answering import not_found, sentence
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import ROOT, Pages, Redirect, View
from stoa.portal.samples import sample_store
from stoa.portal.visit import Visit

pages = Pages()
STORES = f"{ROOT}/stores"
_USUAL = ("EUR", "USD", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK", "PLN", "INR", "BRL", "MXN")


class NewStore(msgspec.Struct):
    name: Annotated[str, text("Give a name of 1 to 80 characters.", least=1, most=80)]
    handle: Annotated[str, text("Use 1 to 63 of a-z, 0-9 and inner hyphens.", least=1, most=63)]
    currency: Annotated[str, text("Choose a currency.", least=3, most=3)]


class Grant(msgspec.Struct):
    scopes: list[str]


@pages.page("/stores")
async def list_stores(visit: Visit) -> View:
    return View("stores/list.html", {"stores": await ownership.owned_stores(visit.by, visit.me.account_id)})


@pages.form("/stores/development", on=list_stores)
async def open_sample_store(visit: Visit) -> Redirect:
    store = await sample_store(visit.by, visit.me.account_id, name="Development store")
    return Redirect(f"{STORES}/{store.handle}", "Your development store is open, with sample data.")


@pages.page("/open-store", under="list_stores")
async def new_store(visit: Visit) -> View:
    others = sorted(set(CURRENCIES) - set(_USUAL))
    return View("stores/new.html", {"usual": _USUAL, "others": others, "domain": visit.settings.store_domain})


@pages.form("/open-store", on=new_store)
async def open_store(visit: Visit, form: NewStore) -> Redirect:
    try:
        store = await ownership.open_store(visit.by, visit.me.account_id, form.handle, form.name, form.currency)
    except (HandleTaken, InvalidHandle) as refusal:
        raise Wrong(handle=sentence(refusal)) from refusal
    except UnknownCurrency as refusal:
        raise Wrong(currency=sentence(refusal)) from refusal
    return Redirect(f"{STORES}/{store.handle}", f"{store.name} is open.")


@pages.page("/stores/{handle}", under="list_stores")
async def store_page(visit: Visit) -> View:
    requests = await asking.requests_of_store(visit.by, visit.store)
    context = {
        "installed": await list_installations(visit.by, visit.store.handle),
        "requests": [(each, await ownership.listing_of(visit.db, each.app_id)) for each in requests],
    }
    return View("stores/overview.html", context)


@pages.form("/stores/{handle}/requests/{asking_id:int}/approve", on=store_page)
async def approve_request(visit: Visit, form: Grant) -> Redirect:
    if not form.scopes:
        raise Wrong({"": "Tick at least one thing that the app may do, or refuse the request."})
    try:
        done = await asking.approve(visit.by, visit.store, visit.place("asking_id"), form.scopes)
    except NoSuchRequest as refusal:
        return Redirect(f"{STORES}/{visit.store.handle}", sentence(refusal), "warn")
    visit.changed.add(visit.store.id)
    return Redirect(f"{STORES}/{visit.store.handle}", f"{done.app_name} is installed.")


@pages.form("/stores/{handle}/requests/{asking_id:int}/refuse", on=store_page)
async def refuse_request(visit: Visit) -> Redirect:
    try:
        await asking.refuse(visit.by, visit.store, visit.place("asking_id"))
    except NoSuchRequest as refusal:
        return Redirect(f"{STORES}/{visit.store.handle}", sentence(refusal), "warn")
    return Redirect(f"{STORES}/{visit.store.handle}", "The request is refused.")


async def _installed(visit: Visit) -> tuple[Installation, Listing]:
    found = await list_installations(visit.by, visit.store.handle)
    installation = next((each for each in found if each.app_id == visit.place("installed_id")), None)
    if installation is None:
        raise not_found()
    return installation, await ownership.listing_of(visit.db, installation.app_id)


@pages.page("/stores/{handle}/apps/{installed_id:int}", under="list_stores")
async def installed_app(visit: Visit) -> View:
    installation, listing = await _installed(visit)
    return View("stores/app.html", {"installation": installation, "listing": listing})


@pages.form("/stores/{handle}/apps/{installed_id:int}", on=installed_app)
async def narrow_app(visit: Visit, form: Grant) -> Redirect:
    if not form.scopes:
        raise Wrong({"": "Leave the app at least one thing that it may do, or uninstall it."})
    await asking.narrow(visit.by, visit.store, visit.place("installed_id"), form.scopes)
    visit.changed.add(visit.store.id)
    return Redirect(
        f"{STORES}/{visit.store.handle}/apps/{visit.place('installed_id')}", "Saved. In force within a second."
    )


@pages.form("/stores/{handle}/apps/{installed_id:int}/uninstall", on=installed_app)
async def uninstall_app(visit: Visit) -> Redirect:
    installation, _ = await _installed(visit)
    await uninstall(visit.by, installation.client_id, visit.store.handle)
    visit.changed.add(visit.store.id)
    return Redirect(
        f"{STORES}/{visit.store.handle}", f"{installation.app_name} is off this store. Its tokens are refused."
    )
