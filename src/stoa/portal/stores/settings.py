"""The settings of a store: name and region, closing, export and deletion, and the reset of a development store."""

from typing import Annotated

import msgspec
from starlette.responses import StreamingResponse

from stoa.access.closures import ERASURE_DAYS, cancel_store_deletion, close_store, delete_store, reopen_store
from stoa.access.contract import ErasureBegun, InvalidLocale, InvalidTimezone
from stoa.access.operator import find_store
from stoa.access.stores import update_store
from stoa.accounts.contract import Right
from stoa.demo.development_stores import delete_development_store, reset_development_store
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, FormError, sentence, text
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.stores import LOCALE_MESSAGE, STORES, TIMEZONE_MESSAGE
from stoa.store_data.export import MEDIA, export_store, record_export

pages = Pages()


class SettingsForm(msgspec.Struct):
    """The settings of a store; an empty text keeps its value."""

    prices_include_tax: bool
    name: Annotated[str, text("Enter a name with 1 to 80 characters.", max_length=80, name=True)] = ""
    timezone: Annotated[str, text(TIMEZONE_MESSAGE, max_length=64)] = ""
    locale: Annotated[str, text(LOCALE_MESSAGE, max_length=20)] = ""


class DeletionForm(msgspec.Struct):
    handle: Annotated[str, text("Enter the handle of the store.", min_length=1, max_length=63)]


@pages.page("/stores/{handle}/settings", nav="list_stores")
async def store_settings(visit: Visit) -> View:
    context = {
        "details": await find_store(visit.db, visit.store.handle),
        "days": ERASURE_DAYS,
    }
    return View("stores/settings.html", context)


@pages.form("/stores/{handle}/settings", on=store_settings)
async def change_store_settings(visit: Visit, form: SettingsForm) -> Redirect:
    try:
        await update_store(
            visit.by,
            visit.store.handle,
            name=form.name or None,
            timezone=form.timezone or None,
            locale=form.locale or None,
            prices_include_tax=form.prices_include_tax,
        )
    except InvalidTimezone as refusal:
        raise FormError(timezone=TIMEZONE_MESSAGE) from refusal
    except InvalidLocale as refusal:
        raise FormError(locale=LOCALE_MESSAGE) from refusal
    return _back(visit, "Saved. The change takes effect within a second.")


@pages.form("/stores/{handle}/close", on=store_settings, right=Right.OWN, name="close_store")
async def close(visit: Visit, form: ConfirmedForm) -> Redirect:
    await close_store(visit.by, visit.store.handle)
    return _back(visit, f"{visit.store.name} is closed. All apps are blocked there.")


@pages.form("/stores/{handle}/reopen", on=store_settings, right=Right.OWN, name="reopen_store")
async def reopen(visit: Visit) -> Redirect:
    try:
        store = await reopen_store(visit.by, visit.store.handle)
    except ErasureBegun as refusal:
        return _back(visit, sentence(refusal), "warn")
    if store.status != "active":
        return _back(visit, "The store is no longer closed, but an operator has suspended it.", "warn")
    return _back(visit, f"{store.name} is open again.")


@pages.form("/stores/{handle}/export", on=store_settings, right=Right.OWN, name="export_store", in_shard=True)
async def export(visit: Visit) -> StreamingResponse:
    store = await find_store(visit.db, visit.store.handle)
    await record_export(visit.by, store)
    headers = {"Content-Disposition": f'attachment; filename="{store.handle}.ndjson"'}
    return StreamingResponse(export_store(visit.db, store, visit.settings), media_type=MEDIA, headers=headers)


@pages.form("/stores/{handle}/delete", on=store_settings, right=Right.OWN, name="delete_store")
async def delete(visit: Visit, form: DeletionForm) -> Redirect:
    _check_handle(visit, form)
    await delete_store(visit.by, visit.store.handle)
    return _back(visit, f"{visit.store.name} is closed, and will be erased in {ERASURE_DAYS} days.")


@pages.form("/stores/{handle}/keep", on=store_settings, right=Right.OWN, name="cancel_store_deletion")
async def keep(visit: Visit) -> Redirect:
    try:
        await cancel_store_deletion(visit.by, visit.store.handle)
    except ErasureBegun as refusal:
        return _back(visit, sentence(refusal), "warn")
    return _back(visit, "The deletion is cancelled. The store is still closed.")


@pages.form(
    "/stores/{handle}/development/reset",
    on=store_settings,
    right=Right.OWN,
    name="reset_development_store",
)
async def reset(visit: Visit, form: ConfirmedForm) -> Redirect:
    if not visit.store.development:
        raise not_found()
    await reset_development_store(visit.by, visit.store)
    await visit.open(visit.store.handle)
    visit.changed_stores.add(visit.store.id)
    return _back(visit, "The store has only the sample data now.")


@pages.form("/stores/{handle}/development/delete", on=store_settings, right=Right.OWN, name="delete_development_store")
async def delete_now(visit: Visit, form: DeletionForm) -> Redirect:
    if not visit.store.development:
        raise not_found()
    _check_handle(visit, form)
    await delete_development_store(visit.by, visit.store)
    return Redirect(STORES, f"{visit.store.name} was deleted.")


def _check_handle(visit: Visit, form: DeletionForm) -> None:
    if form.handle != visit.store.handle:
        raise FormError(handle="This is not the handle of the store. Enter it exactly as shown.")


def _back(visit: Visit, notice: str, tone: str = "good") -> Redirect:
    return Redirect(f"{ROOT}/stores/{visit.store.handle}/settings", notice, tone)
