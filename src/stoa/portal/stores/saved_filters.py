"""Filters of the list of orders that a person saves under a name; they become tabs of her own."""

from typing import Annotated

import msgspec

from stoa.accounts.contract import Right
from stoa.portal.kit.forms import FormError, text
from stoa.portal.kit.list_view import list_view
from stoa.portal.kit.pages import ROOT, Redirect
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.order_actions import pages
from stoa.portal.stores.orders import ORDER_LIST, ORDER_SORTS, SAVED, Tab, store_orders
from stoa.portal.stores.queries import FORGET_FILTER, MOST_SAVED, SAVE_FILTER

_NAME = "Enter a name with 1 to 30 characters."


class SavedFilterForm(msgspec.Struct):
    name: Annotated[str, text(_NAME, min_length=1, max_length=30, name=True)]


# A viewer saves filters too: they belong to the person, and change nothing in the store.
@pages.form("/stores/{handle}/orders/filters", on=store_orders, right=Right.VIEW, in_shard=True)
async def save_filter(visit: Visit, form: SavedFilterForm) -> Redirect:
    orders = await list_view(visit, ORDER_LIST, sorts=ORDER_SORTS, offered=SAVED, rows=1)
    if orders.fault:
        raise FormError({"": orders.fault})
    if not orders.filters:
        raise FormError(name="Select a status, a payment or a period first. Search words are not saved.")
    tab = Tab(form.name, orders.filters)
    saved = msgspec.json.encode(tab.filters).decode()
    if await SAVE_FILTER.maybe(visit.db, visit.store.id, visit.me.account_id, tab.label, saved) is None:
        raise FormError(name=f"You have {MOST_SAVED} saved filters. Remove one of them first.")
    return Redirect(f"{_url(visit)}{tab.query}", f"Saved as “{tab.label}”.")


@pages.form("/stores/{handle}/orders/filters/remove", on=store_orders, right=Right.VIEW, in_shard=True)
async def remove_filter(visit: Visit, form: SavedFilterForm) -> Redirect:
    await FORGET_FILTER.maybe(visit.db, visit.store.id, visit.me.account_id, form.name)
    return Redirect(_url(visit), f"“{form.name}” is removed.")


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/orders"
