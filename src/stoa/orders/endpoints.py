"""The endpoints that list, place and change orders."""

from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.amounts import AMOUNT_FIELDS, change_amounts
from stoa.orders.bodies import ORDER_ELSEWHERE, NewOrder, OrderChanges
from stoa.orders.contract import Contact, DuplicateOrderSuspected, Order, OrderAddress, OrderNotEditable
from stoa.orders.draft import country_faults, external_id_taken, merged_contact, phone_faults, snapshot
from stoa.orders.events import differences, events_of
from stoa.orders.examples import NEW_ORDER, ORDER_CHANGES
from stoa.orders.historical_bodies import HistoricalOrder, HistoricalOrders
from stoa.orders.holds import change_hold
from stoa.orders.lists import ORDERS
from stoa.orders.moving import NumberTaken, place_all
from stoa.orders.rules import check_editable
from stoa.orders.state import NO_CONTACT, OrderState, sum_faults
from stoa.orders.update import Consequences, Entry, load, update
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.batch import TooManyItems
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, One, Page, Routes
from stoa.rest.filters import Flag
from stoa.rest.group_commit import only_outcome
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes, merge
from stoa.rest.problems import ExternalIdTaken, Fault, NotFound, ValidationFailed, counted

routes = Routes("Orders")
DRY_RUN = Flag(description="Price and check the order without storing it. Returns 200 with the order as it would be.")


@routes.get("/orders", scope="orders:read", lists=ORDERS)
async def list_orders(call: Call, query: ListQuery) -> Page[Order]:
    """List orders.

    Sorted by id by default. Filters combine with *and*. To keep a copy in sync, poll with `updated_since`: every change of an
    order updates `updated_at`. Orders are never deleted.
    """
    locations = query.filters.get("location", ())
    if DEFAULT_LOCATION in locations:
        others = {name: value for name, value in query.filters.items() if name != "location"}
        query = query.with_filters({**others, "default_location": locations})
    return await list_page(call.db, call.store_id, queries.LISTING, query)


@routes.post(
    "/orders",
    scope="orders:write",
    errors=[InsufficientStock, ExternalIdTaken, DuplicateOrderSuspected, NumberTaken, TooManyItems],
    parameters={"dry_run": DRY_RUN},
    example=NEW_ORDER,
    bodies={"items": HistoricalOrders, "historical": HistoricalOrder},
    grouped=place_all,
)
async def create_order(call: Call, body: NewOrder) -> Created[Order]:
    """Place an order and reserve its stock.

    Stoa prices the order from the catalog and reserves all line items or none, by the priority of the locations or at
    the given `location`; a draft reserves nothing.

    - **Line items** name a variant by `variant_id` or `sku` and take its current price unless they have a
      `unit_price`. A custom line item has a `name` and a `unit_price` instead, and no stock.
    - **Amounts.** Discounts and taxes are sent as sums or itemized, and must add up.
    - **Customer.** Send `customer_id`, which requires `customers:read`, or `customer`: Stoa finds it by email address
      or phone number, or creates it. Without `customers:read`, the order contains only what you send.
    - **Trial.** With `dry_run=true`, Stoa prices and checks the order and stores nothing: its ids, number and version
      are 0, and `meta.suspected_duplicates` lists the orders that it may duplicate.
    - **Orders of another shop.** With `historical: true` and the scope `orders:import`, Stoa stores an order as it
      was, with its number, dates, status, payments, refunds and fulfillments, without any effect on stock, and without
      webhooks unless `send_events` is true. `items` has up to 100 of them, with at most 2,000 line items together, which are
      stored or refused one by one. The guide on moving a shop describes the fields.
    """
    return await only_outcome(call, place_all(call.db, [(call, body)]))


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
    `expires_at` or `hold_for` begins or changes the hold of a pending order that is not paid, and a null `expires_at` ends it.
    Status, payment and line items have their own endpoints.
    """
    before, moment = await load(call, order_id)
    check_echoes(call, await current_document(call, order_id), ORDER_ELSEWHERE)
    order = before.copy()
    _apply(call, order, body)
    change_hold(order, body, moment)
    if order.is_same(before):
        return await get_order(call, order_id)
    changes = differences(before, order, call.store.digits)
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
        if name in AMOUNT_FIELDS or name in ("expires_at", "hold_for"):
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
            faults += call.store.definitions.faults_of_changes("order", value)
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
