"""Several orders at once: what a person selects in the list is shipped, printed or exported."""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from starlette.responses import StreamingResponse

from stoa.accounts.contract import Right
from stoa.orders.allocation import between
from stoa.orders.bodies import StatusChange
from stoa.orders.contract import Order
from stoa.orders.line_items import LineItem
from stoa.orders.queries import LOCK_LIVE
from stoa.orders.status import update_order_status
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.list_view import PAGE_SIZE, list_view
from stoa.portal.kit.pages import ROOT, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.exports import ORDER_COLUMNS, Export, export_list
from stoa.portal.stores.order_actions import process_pending
from stoa.portal.stores.order_units import unshipped
from stoa.portal.stores.orders import ORDER_LIST, ORDER_SORTS, TO_SHIP, store_orders
from stoa.portal.stores.queries import ORDER_NUMBER
from stoa.portal.stores.saved_filters import pages
from stoa.portal.stores.writes import REPEATED, Change, carry_out, ids_in, whole
from stoa.rest.call import Call
from stoa.rest.problems import Refusal, VersionConflict

MOST_SELECTED = 2 * PAGE_SIZE
_LONGEST_IDS = 20 * MOST_SELECTED
_PAGES = {"ship": "ship", "slips": "packing-slips", "pick": "pick-list"}


class SelectionForm(msgspec.Struct):
    """The selected orders, and the button that was pressed."""

    ids: list[str]
    then: Literal["ship", "slips", "pick", "export"] = "ship"


class ShipForm(OnceForm):
    versions: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # by the id of the order


class PickedLine(msgspec.Struct):
    """The units of an item to take from one location, for all selected orders."""

    location: str
    sku: str
    name: str
    units: int
    orders: list[tuple[int, int]]  # number and units


@pages.form("/stores/{handle}/orders/selected", on=store_orders, in_shard=True, while_closed=True)
async def select_orders(visit: Visit, form: SelectionForm) -> Redirect | StreamingResponse:
    ids = _ids(form.ids)
    if not ids:
        raise FormError({"": "Select at least one order."})
    joined = ",".join(map(str, ids))
    if form.then == "export":
        fixed = {"ids": joined}
        return await export_list(visit, Export("orders", ORDER_LIST, ORDER_SORTS, (), ORDER_COLUMNS, fixed))
    return Redirect(f"{_orders_url(visit)}/{_PAGES[form.then]}?{urlencode({'ids': joined})}")


@pages.page("/stores/{handle}/orders/ship", nav="list_stores", right=Right.CHANGE)
async def ship_page(visit: Visit) -> View:
    """What would be shipped, before it is; orders that cannot be shipped now are shown apart."""
    orders = await _selected(visit)
    ready = [order for order in orders if _is_to_ship(order) and any(map(unshipped, order.line_items))]
    others = [order for order in orders if order not in ready]
    units = {order.id: sum(map(unshipped, order.line_items)) for order in ready}
    unpaid = sum(order.amount_due > 0 for order in ready)
    context = {"ready": ready, "others": others, "units": units, "unpaid": unpaid, "query": visit.query_string}
    return View("stores/ship_orders.html", context)


@pages.form("/stores/{handle}/orders/ship", on=ship_page, in_shard=True)
async def ship_orders(visit: Visit, form: ShipForm) -> Redirect:
    """Ship all of the orders, or none if one of them has changed since the page showed it."""
    sent = {order_id: whole(version) for name, version in form.versions.items() for order_id in _ids([name])}
    versions = {order_id: sent[order_id] for order_id in sorted(sent)[:MOST_SELECTED]}
    if not versions:
        raise FormError({"": "Select at least one order."})

    async def work(call: Call) -> None:
        await LOCK_LIVE.all(call.db, call.store_id, list(versions))  # in the order in which all transactions lock
        for order_id, version in versions.items():
            call.expected = frozenset({(version if isinstance(version, int) else 0, None)})
            try:
                await process_pending(call, order_id)
                await update_order_status(call, order_id, StatusChange(status="shipped"))
            except Refusal as refusal:
                raise await _refused(call, order_id, refusal) from refusal
            await visit.by.record(call.db, call.store_id, "order.shipped", f"order:{order_id}")

    done = await carry_out(visit, form, Change("", ""), work)
    shipped = "1 order is shipped." if len(versions) == 1 else f"{len(versions)} orders are shipped."
    to_ship = f"{_orders_url(visit)}?{urlencode({'status': TO_SHIP})}"
    return Redirect(to_ship, shipped if done else REPEATED, "good" if done else "warn")


async def _refused(call: Call, order_id: int, refusal: Refusal) -> FormError:
    """Why none of the orders is shipped; the order is named by its number."""
    number = await ORDER_NUMBER.maybe(call.db, call.store_id, order_id)
    stale = isinstance(refusal, VersionConflict)
    why = "It has changed since the page showed it." if stale else refusal.detail
    named = f"Order #{number}" if number else "An order"
    return FormError({"": f"{named} cannot be shipped, so nothing was. {why}"}, status=409)


@pages.page("/stores/{handle}/orders/packing-slips", nav="list_stores", right=Right.CHANGE)
async def packing_slips(visit: Visit) -> View:
    """One page to print for each order, with the items to pack; of an order that is shipped, all of its items."""
    slips = [(order, _to_pack(order)) for order in await _selected(visit)]
    return View("stores/packing_slips.html", {"slips": slips})


@pages.page("/stores/{handle}/orders/pick-list", nav="list_stores", right=Right.CHANGE)
async def pick_list(visit: Visit) -> View:
    """The items to take from the shelves, for all selected orders together, by location."""
    orders = await _selected(visit)
    context = {"orders": orders, "picked": _picked(orders)}
    return View("stores/pick_list.html", context)


def _is_to_ship(order: Order) -> bool:
    return order.status in TO_SHIP.split(",")


def _to_pack(order: Order) -> list[tuple[LineItem, int]]:
    physical = [line for line in order.line_items if line.requires_shipping]
    left = [(line, units) for line in physical if (units := unshipped(line))]
    return left or [(line, line.quantity) for line in physical]


def _picked(orders: Sequence[Order]) -> list[PickedLine]:
    found: dict[tuple[str, str, str], PickedLine] = {}
    for order in orders:
        for line in order.line_items if _is_to_ship(order) else ():
            name = f"{line.name}, {line.variant_title}" if line.option_values else line.name
            for location, units in _places(line):
                picked = found.setdefault(
                    (location, line.sku or "", name), PickedLine(location, line.sku or "", name, 0, [])
                )
                picked.units += units
                picked.orders.append((order.number, units))
    return [found[key] for key in sorted(found)]


def _places(line: LineItem) -> list[tuple[str, int]]:
    """Where the units to ship of a line item are; those without a reservation are at the default location."""
    if not line.requires_shipping:
        return []
    places = [
        (each.location, each.quantity) for each in between(line.allocations, line.fulfilled_quantity, line.quantity)
    ]
    left = unshipped(line) - sum(units for _, units in places)
    return [*places, ("default", left)] if left > 0 else places


async def _selected(visit: Visit) -> list[Order]:
    """The orders that the URL names, the oldest first: the order in which they are shipped."""
    ids = _ids(visit.query("ids", most=_LONGEST_IDS).split(","))
    if not ids:
        return []
    named: dict[str, Any] = {"ids": ",".join(map(str, ids))}
    found = await list_view(
        visit, ORDER_LIST, sorts=(("placed_at", ""),), fixed=named, cursor_name="", rows=MOST_SELECTED
    )
    return found.rows


def _ids(sent: Sequence[str]) -> list[int]:
    """The ids among what was sent, not more than a page can show."""
    return ids_in(sent)[:MOST_SELECTED]


def _orders_url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/orders"
