"""What people bought, to look at: orders with their lines, their totals and everything that happened to them."""

import msgspec

from stoa.orders import queries
from stoa.orders.contract import COMMENTS, DUPLICATES, ORDERS, Comment, Duplicate, Order
from stoa.portal.answering import not_found
from stoa.portal.listed import NEWEST, Kind, Shown, part, shown
from stoa.portal.pages import Pages, View
from stoa.portal.queries import ORDER_NUMBER
from stoa.portal.visit import Visit

pages = Pages()
ORDERS_SHOWN = Kind(ORDERS, queries.LISTING, Order)
_TIMELINE = Kind(COMMENTS, queries.COMMENTS, Comment)
_DOUBLES = Kind(DUPLICATES, queries.DUPLICATES, Duplicate)
_SORTS = (("-placed_at", "Newest first"), ("placed_at", "Oldest first"), ("-total", "Largest first"))
_FILTERS = ("status", "payment_status", "fulfillment_status", "customer_id", "has_suspected_duplicates")
_MOST_LINES, _MOST_ENTRIES, _MOST_DOUBLES = 50, 15, 25
# What a viewer may read of the timeline: where the order went, and nothing of what anybody wrote.
_IMPERSONAL = frozenset({"status", "payment_status", "fulfillment_status", "total"})


@pages.page("/stores/{handle}/orders", under="list_stores")
async def store_orders(visit: Visit) -> View:
    # To search by name or address is to be told them, so that is for owners.
    offered = ("q", *_FILTERS) if visit.may_change() else ("number", *_FILTERS)
    listed = await shown(visit, ORDERS_SHOWN, sorts=_SORTS, offered=offered)
    return View("stores/orders.html", {"listed": listed, "sorts": _SORTS})


@pages.page("/stores/{handle}/orders/{order_id:int}", under="list_stores")
async def store_order(visit: Visit) -> View:
    found = await queries.GET.maybe(visit.db, visit.store.id, visit.place("order_id"))
    if found is None:
        raise not_found()
    order = msgspec.json.decode(found.doc, type=Order)
    timeline = await shown(
        visit, _TIMELINE, sorts=NEWEST, at={"order_id": order.id}, cursor="timeline", rows=_MOST_ENTRIES
    )
    if not visit.may_change():
        _leave_out_people(timeline)
    suspected, copies = [await _doubles(visit, order.id, kind) for kind in ("suspected", "copy")]
    # A pair of which one is cancelled is settled, and no longer counts.
    settled = [each for each in suspected.rows if "cancelled" in (order.status, each.status)]
    context = {
        "order": order,
        "suspects": [each for each in suspected.rows if each not in settled],
        "settled": settled,
        "copies": copies,
        "original": await ORDER_NUMBER.maybe(visit.db, visit.store.id, order.duplicate_of or 0),
        "lines": part(visit, order.line_items, "lines", _MOST_LINES),
        "units": sum(line.quantity for line in order.line_items),
        "timeline": timeline,
    }
    return View("stores/order.html", context)


async def _doubles(visit: Visit, order_id: int, kind: str) -> Shown[Duplicate]:
    of = {"order_id": order_id}
    return await shown(visit, _DOUBLES, sorts=NEWEST, always={"kind": kind}, at=of, cursor=kind, rows=_MOST_DOUBLES)


def _leave_out_people(timeline: Shown[Comment]) -> None:
    """Take out of a timeline what may tell who the customer is."""
    for entry in timeline.rows:
        entry.body = entry.body if entry.type == "system" else None
        entry.changes = {name: pair for name, pair in entry.changes.items() if name in _IMPERSONAL}
    timeline.rows = [entry for entry in timeline.rows if entry.changes or entry.type == "system"]
