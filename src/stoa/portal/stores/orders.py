"""Order pages: the list, and one order with its line items, totals, payments, fulfillments, refunds, duplicates and timeline."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import StreamingResponse

from stoa.inventory.contract import Location
from stoa.inventory.queries import LOCATIONS
from stoa.orders import queries
from stoa.orders.contract import Order
from stoa.orders.lists import COMMENTS, DUPLICATES, ORDERS, Comment, Duplicate
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.list_view import NEWEST, ListSource, ListView, list_view, paginate
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.exports import ORDER_COLUMNS, Export, export_list
from stoa.portal.stores.metadata_forms import definitions_for
from stoa.portal.stores.order_forms import possible_actions
from stoa.portal.stores.order_units import refunded
from stoa.portal.stores.products import pictures_of
from stoa.portal.stores.queries import ORDER_NUMBER, SAVED_FILTERS
from stoa.portal.stores.timeline import Storyteller

pages = Pages()
# The orders of a person's newest changes in the audit log, which names the account.
_CHANGED_BY = """id = ANY(ARRAY(
    SELECT CASE WHEN subject LIKE 'order:%' THEN substr(subject, 7)::bigint END FROM audit_entries
     WHERE store_id = $1 AND actor = 'account:' || {}::bigint AND subject LIKE 'order:%'
     ORDER BY position DESC LIMIT 1000))"""
LISTING = msgspec.structs.replace(queries.LISTING, where={**queries.LISTING.where, "changed_by": _CHANGED_BY})
ORDER_LIST = ListSource(ORDERS, LISTING, Order, period="placed_at", mine="changed_by")
_TIMELINE = ListSource(COMMENTS, queries.COMMENTS, Comment)
_DUPLICATES = ListSource(DUPLICATES, queries.DUPLICATES, Duplicate)
ORDER_SORTS = (("-placed_at", "Newest first"), ("placed_at", "Oldest first"), ("-total", "Largest first"))
_FILTERS = (
    *("status", "payment_status", "fulfillment_status", "customer_id", "has_suspected_duplicates"),
    *("expires_at[lt]", "since", "until", "mine"),
)
SAVED = ("status", "payment_status", "fulfillment_status", "since", "until")  # what can be saved: no personal data
TO_SHIP, DUE = "pending,processing", "unpaid,partially_paid,failed"
OPEN = "pending,processing,on_hold,shipped,delivered"
SOLD = f"{OPEN},completed,returned"  # neither drafts nor cancelled orders


class Tab(msgspec.Struct, frozen=True):
    """A name for some filters of the list."""

    label: str
    filters: Mapping[str, str]

    @property
    def query(self) -> str:
        return f"?{urlencode(self.filters)}" if self.filters else ""

    def shows(self, filters: Mapping[str, str]) -> bool:
        """Whether the list with these filters is that of the tab; a search or a period may narrow it."""
        names = ("status", "payment_status", "mine", *self.filters)
        return all(filters.get(name) == self.filters.get(name) for name in names)


_TABS = (
    Tab("All", {}),
    Tab("To ship", {"status": TO_SHIP}),
    Tab("Unpaid", {"status": OPEN, "payment_status": DUE}),
    Tab("On hold", {"status": "on_hold"}),
    Tab("Mine", {"mine": "1"}),
)
_LINES_PER_PAGE, _RECORDS_PER_PAGE, _ENTRIES_PER_PAGE, _MAX_DUPLICATES = 50, 10, 15, 25
# The timeline fields that a viewer can see: none of them contains personal data.
_IMPERSONAL_FIELDS = frozenset(
    {"status", "payment_status", "fulfillment_status", "total", "fulfillments", "refunds", "payments"}
    | {"returned_quantity"}
)


@pages.page("/stores/{handle}/orders", nav="list_stores")
async def store_orders(visit: Visit) -> View:
    # A search by name or address would reveal personal data, so viewers cannot do it.
    offered = ("q", *_FILTERS) if visit.may_change() else ("number", *_FILTERS)
    orders = await list_view(visit, ORDER_LIST, sorts=ORDER_SORTS, offered=offered)
    stored = await SAVED_FILTERS.all(visit.db, visit.store.id, visit.me.account_id)
    saved = [Tab(each.name, msgspec.json.decode(each.filters, type=dict[str, str])) for each in stored]
    context = {
        "orders": orders,
        "sorts": ORDER_SORTS,
        "query": visit.query_string,
        # A viewer changes no orders.
        "order_tabs": _TABS if visit.may_change() else _TABS[:-1],
        "saved_tabs": saved,
        "current_tab": next((each for each in (*saved, *_TABS) if each.shows(orders.filters)), None),
        "can_save": any(name in orders.filters for name in SAVED) and not orders.fault,
        "open": OPEN,
        "sold": SOLD,
        "due": DUE,
    }
    return View("stores/orders.html", context)


@pages.form("/stores/{handle}/orders/export", on=store_orders, in_shard=True, while_closed=True)
async def export_orders(visit: Visit) -> StreamingResponse:
    return await export_list(visit, Export("orders", ORDER_LIST, ORDER_SORTS, ("q", *_FILTERS), ORDER_COLUMNS))


@pages.page("/stores/{handle}/orders/{order_id:int}", nav="list_stores")
async def store_order(visit: Visit) -> View:
    order = await find_order(visit)
    of_order = {"order_id": order.id}
    timeline = await list_view(
        visit, _TIMELINE, sorts=NEWEST, path_filters=of_order, cursor_name="timeline", rows=_ENTRIES_PER_PAGE
    )
    if not visit.may_change():
        _remove_personal_data(timeline)
    suspected, copies = [await _duplicates(visit, order.id, kind) for kind in ("suspected", "copy")]
    # A pair is resolved once one of its orders is cancelled.
    resolved = [each for each in suspected.rows if "cancelled" in (order.status, each.status)]
    locations = await locations_to_choose(visit)
    story = Storyteller(order, {each.code: each.name for each in locations}, personal=visit.may_change())
    lines = paginate(visit, order.line_items, "lines", _LINES_PER_PAGE)
    context: dict[str, Any] = {
        "order": order,
        "actions": possible_actions(order, locations) if visit.may_change() else {},
        "suspected": [each for each in suspected.rows if each not in resolved],
        "resolved": resolved,
        "copies": copies,
        "original": await ORDER_NUMBER.maybe(visit.db, visit.store.id, order.duplicate_of or 0),
        "lines": lines,
        "names": story.names,
        "pictures": await pictures_of(visit, [line.variant_id for line in lines.items]),
        "refunded": {line.id: refunded(order, line.id) for line in lines.items},
        "fulfillments": paginate(visit, order.fulfillments[::-1], "fulfillments", _RECORDS_PER_PAGE),
        "payments": paginate(visit, order.payments[::-1], "payments", _RECORDS_PER_PAGE),
        "refunds": paginate(visit, order.refunds[::-1], "refunds", _RECORDS_PER_PAGE),
        "units": sum(line.quantity for line in order.line_items),
        "timeline": timeline,
        "told": [story.tell(entry) for entry in timeline.rows],
        "definitions": (await definitions_for(visit)).of("order"),
    }
    return View("stores/order.html", context)


async def find_order(visit: Visit) -> Order:
    """The order in the path."""
    found = await queries.GET.maybe(visit.db, visit.store.id, visit.path_param("order_id"))
    if found is None:
        raise not_found()
    return msgspec.json.decode(found.doc, type=Order)


async def locations_to_choose(visit: Visit) -> list[Location]:
    """The active locations; empty if there is no choice."""
    active = [each for each in await LOCATIONS.all(visit.db, visit.store.id) if each.active]
    return active if len(active) > 1 else []


async def _duplicates(visit: Visit, order_id: int, kind: str) -> ListView[Duplicate]:
    return await list_view(
        visit,
        _DUPLICATES,
        sorts=NEWEST,
        fixed={"kind": kind},
        path_filters={"order_id": order_id},
        cursor_name=kind,
        rows=_MAX_DUPLICATES,
    )


def _remove_personal_data(timeline: ListView[Comment]) -> None:
    """Remove comments and changes that may identify the customer."""
    for entry in timeline.rows:
        entry.body = entry.body if entry.type == "system" else None
        entry.changes = {name: pair for name, pair in entry.changes.items() if name in _IMPERSONAL_FIELDS}
    timeline.rows = [entry for entry in timeline.rows if entry.changes or entry.type == "system"]
