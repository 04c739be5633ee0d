"""The endpoints that list, place, change and move orders."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.amounts import AMOUNT_FIELDS, change_amounts
from stoa.orders.bodies import ORDER_ELSEWHERE, NewOrder, NewTracking, OrderChanges, StatusChange
from stoa.orders.contract import (
    ORDERS,
    Contact,
    DuplicateOrderSuspected,
    IllegalTransition,
    Order,
    OrderAddress,
    OrderNotEditable,
    OrderNotPaid,
)
from stoa.orders.documents import NO_CONTACT, OrderState, document_of, time_text
from stoa.orders.draft import country_faults, external_id_taken, merged_contact, phone_faults, snapshot
from stoa.orders.events import Changes, differences, events_of
from stoa.orders.examples import NEW_ORDER, ORDER_CHANGES, STATUS_CHANGE
from stoa.orders.placement import place_orders
from stoa.orders.rules import change_payment, change_status, check_editable, sum_faults
from stoa.orders.update import Consequences, Entry, load, update
from stoa.rest.body import convert
from stoa.rest.endpoint import Created, One, Page, Routes
from stoa.rest.filters import Flag
from stoa.rest.group_commit import alone
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes, merge
from stoa.rest.problems import ExternalIdTaken, Fault, NotFound, ValidationFailed, counted
from stoa.rest.request import Call

MOST_PARCELS = 100
routes = Routes("Orders")
DRY_RUN = Flag(description="Price and check the order without storing it. Returns 200 with the order as it would be.")


@routes.get("/orders", scope="orders:read", lists=ORDERS)
async def list_orders(call: Call, query: ListQuery) -> Page[Order]:
    """List orders.

    Sorted by id by default; filters combine with *and*. To keep a copy up to date, filter by `updated_since`: every change of
    an order updates `updated_at`. Orders are never deleted.
    """
    return await list_page(call.db, call.store_id, queries.LISTING, query)


@routes.post(
    "/orders",
    scope="orders:write",
    errors=[InsufficientStock, ExternalIdTaken, DuplicateOrderSuspected],
    parameters={"dry_run": DRY_RUN},
    example=NEW_ORDER,
    grouped=place_orders,
)
async def create_order(call: Call, body: NewOrder) -> Created[Order]:
    """Place an order and reserve its stock.

    A line item names a variant by `variant_id` or `sku` and takes its current price unless it has a `unit_price`; a custom
    line item has a `name` and a `unit_price` instead, and no stock. Stoa reserves all line items or none; a draft reserves
    nothing. Discounts and taxes are sent as sums or itemized, and Stoa checks that they add up. Name the customer by `customer_id`, which requires
    `customers:read`, or send `customer`: Stoa finds it by email address or phone number, or creates it. Without
    `customers:read`, the order contains only what you send, and nothing of the stored customer. With `dry_run=true`, Stoa
    prices and checks the order and stores nothing: its ids, number and version are 0, and `meta.suspected_duplicates` lists
    the orders that it may duplicate.
    """
    return await alone(call, place_orders(call.db, [(call, body)]))


@routes.get("/orders/{order_id}", scope="orders:read")
async def get_order(call: Call, order_id: int) -> One[Order]:
    """Get an order, with its line items and allowed transitions."""
    found = await queries.GET.maybe(call.db, call.store_id, order_id)
    if found is None:
        raise NotFound("There is no order with this id.")
    return One(found.doc, found.version)


@routes.patch(
    "/orders/{order_id}", scope="orders:write", errors=[OrderNotEditable, ExternalIdTaken], example=ORDER_CHANGES
)
async def update_order(call: Call, order_id: int, body: OrderChanges) -> One[Order]:
    """Change fields of an order by merge patch.

    Note, tags, metadata and external id can always be changed; the other fields until the order is shipped or cancelled.
    Status, payment and line items have their own endpoints.
    """
    before, _ = await load(call, order_id)
    check_echoes(call, await current_document(call, order_id), ORDER_ELSEWHERE)
    order = before.copy()
    _apply(call, order, body)
    if order == before:
        return await get_order(call, order_id)
    changes = differences(document_of(before, call.store.digits), document_of(order, call.store.digits))
    check_editable(before, [name for name in call.patch if name in changes])
    await _check_external_id(call, before, order)
    faults = sum_faults(order, {}, call.store.digits, call.patch)
    if faults:
        raise ValidationFailed("The amounts of the order are invalid.", faults=faults)
    consequences = Consequences(events=events_of(changes), entries=[Entry("edit", None, changes)])
    try:
        return await update(call, before, order, consequences)
    except ExternalIdTaken as refusal:
        raise await _with_existing_id(call, refusal, order.external_id) from None


@routes.put(
    "/orders/{order_id}/status",
    scope="orders:write",
    errors=[IllegalTransition, OrderNotPaid, InsufficientStock],
    example=STATUS_CHANGE,
)
async def update_order_status(call: Call, order_id: int, body: StatusChange) -> One[Order]:
    """Change the status of an order, its payment, or both.

    Stock follows the status: it is reserved from `pending` on, leaves `on_hand` when shipped or completed, is released when
    cancelled, and returns to `on_hand` when returned unless `restock` is false. With `line_items`, only a part is shipped or
    returned, and the status changes when the rest follows. Shipped units can be returned with `line_items` in any status; an
    order that is processing or cancelled keeps its status. `partially_refunded` requires `amount_refunded`, the sum of all
    refunds. If the order already has the status, nothing changes: 200, no new version, no event.
    """
    _check_body(body)
    no_longer_suspected = await _lock_suspects(call, order_id) if body.status == "cancelled" else []
    before, moment = await load(call, order_id)
    order = before.copy()
    refunded = money.to_minor(body.amount_refunded, call.store.digits) if body.amount_refunded is not None else None
    if body.payment_status is not None:
        change_payment(order, body.payment_status, refunded)
    if body.status is not None:
        change_status(order, body.status, body.line_items or [], time_text(moment), body.reason)
    if body.tracking is not None:
        _track(order, body.tracking, moment)
    if order == before:
        return await get_order(call, order_id)
    changes = differences(document_of(before, call.store.digits), document_of(order, call.store.digits))
    if before.status != "cancelled" and order.status == "cancelled":
        order.suspected_duplicates = 0
        if before.suspected_duplicates:
            changes["suspected_duplicates_count"] = (before.suspected_duplicates, 0)
    else:
        no_longer_suspected = []
    consequences = Consequences(
        events=events_of(changes),
        entries=[Entry("status_change", _entry_text(body), _entry_changes(changes))],
        no_longer_suspected=no_longer_suspected,
        restock=body.restock,
    )
    return await update(call, before, order, consequences)


# --- changes -------------------------------------------------------------------------------------------------------

_NESTED: dict[str, type[msgspec.Struct]] = {
    "contact": Contact,
    "shipping_address": OrderAddress,
    "billing_address": OrderAddress,
}
_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def _apply(call: Call, order: OrderState, body: OrderChanges) -> None:
    """Apply a merge patch, whose values are valid one by one, to an order."""
    faults: list[Fault] = []
    for name, value in call.patch.items():
        if name in AMOUNT_FIELDS:
            continue
        if name == "shipping_total":
            order.shipping_total = money.to_minor(getattr(body, name), call.store.digits)
        elif name == "prices_include_tax":
            order.set_prices_include_tax(value)
        elif name in _NESTED:
            merged: Any = merge(getattr(order, name), value or {})
            merged = merged if value is not None else {}
            nested: Any = convert(merged, _NESTED[name], digits=call.store.digits)
            if name == "contact":
                faults += (phone := phone_faults(nested.phone, "/contact/phone"))
                order.contact = merged_contact(NO_CONTACT, nested) if not phone else order.contact
            else:
                faults += country_faults(nested, f"/{name}")
                setattr(order, name, snapshot(nested))
        elif name == "metadata":
            order.metadata = merge(order.metadata, value) if value is not None else {}
            if len(order.metadata) > 100:
                faults.append(Fault("/metadata", "metadata_limit", "must have at most 100 keys"))
        elif name == "tags":
            order.tags = list(dict.fromkeys(value or []))
        else:
            setattr(order, name, value)
    faults += change_amounts(order, body, order.discounted_cost, call.store.digits)
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)


async def _check_external_id(call: Call, before: OrderState, order: OrderState) -> None:
    if order.external_id is None or order.external_id == before.external_id:
        return
    existing = await queries.BY_EXTERNAL_ID.maybe(call.db, call.store_id, order.external_id)
    if existing is not None:
        raise external_id_taken(existing)


async def _with_existing_id(call: Call, refusal: ExternalIdTaken, external_id: str | None) -> ExternalIdTaken:
    """The refusal with `existing_id`, read outside the transaction, which has failed."""
    if "existing_id" in refusal.members:
        return refusal
    existing = await queries.BY_EXTERNAL_ID.maybe(call.autocommit, call.store_id, external_id)
    return refusal if existing is None else external_id_taken(existing)


async def current_document(call: Call, order_id: int) -> dict[str, Any]:
    """The order as its caller sees it, if the merge patch contains read-only fields."""
    return _decoder.decode((await get_order(call, order_id)).doc) if call.echoed else {}


# --- status changes ---------------------------------------------------------------------------------------------------------


def _check_body(body: StatusChange) -> None:
    """Refuse a status change whose fields contradict each other."""
    faults: list[Fault] = []
    if body.status is None and body.payment_status is None and body.tracking is None:
        faults.append(Fault("/status", "required", "is required unless payment_status is given"))
    if body.line_items and body.status not in ("shipped", "returned"):
        faults.append(Fault("/line_items", "invalid_format", "must not be sent unless status is shipped or returned"))
    if body.line_items == []:
        faults.append(Fault("/line_items", "out_of_range", "must not be empty: omit it to include all line items"))
    if body.amount_refunded is not None and body.payment_status is None:
        faults.append(Fault("/amount_refunded", "invalid_format", "must not be sent without payment_status"))
    if body.tracking is not None and not any(msgspec.structs.astuple(body.tracking)):
        faults.append(Fault("/tracking/number", "required", "is required unless carrier or url is given"))
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)


def _track(order: OrderState, given: NewTracking, moment: datetime) -> None:
    """Add a parcel unless the order already has it."""
    parcel = msgspec.structs.asdict(given)
    if parcel in [{name: each[name] for name in parcel} for each in order.tracking]:
        return
    if not any(line.fulfilled_quantity for line in order.lines):
        fault = Fault("/tracking", "invalid_format", "must not be sent before something is shipped")
        raise ValidationFailed("Nothing is shipped yet.", faults=[fault])
    if len(order.tracking) >= MOST_PARCELS:
        fault = Fault("/tracking", "too_long", f"must have at most {MOST_PARCELS} entries")
        raise ValidationFailed("The order has too many parcels.", faults=[fault])
    order.tracking = [*order.tracking, {**parcel, "shipped_at": time_text(moment)}]


def _entry_text(body: StatusChange) -> str | None:
    """The text of the timeline entry: the reason, then the comment."""
    return "\n".join(text for text in (body.reason, body.comment) if text) or None


def _entry_changes(changes: Changes) -> Changes:
    """The changes that the timeline entry shows."""
    return {name: pair for name, pair in changes.items() if name not in ("allowed_transitions", "cancelled_at")}


async def _lock_suspects(call: Call, order_id: int) -> list[int]:
    """Lock an order that is to be cancelled and its suspected duplicates, in the order of ids; returns the duplicates."""
    suspects = await queries.SUSPECTED.all(call.db, call.store_id, order_id)
    live = await queries.LOCK_LIVE.all(call.db, call.store_id, [*suspects, order_id])
    # No further suspect can be added now: that requires a lock on this order.
    added = set(await queries.SUSPECTED.all(call.db, call.store_id, order_id)) - set(suspects)
    if added:
        live += await queries.LOCK_LIVE.all(call.db, call.store_id, list(added))
    return [each for each in live if each != order_id]
