"""The endpoints that list an order's duplicates and copy an order."""

from typing import Any

import msgspec

from stoa.customers.lookup import get_contact
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.bodies import NewCopy
from stoa.orders.contract import Order
from stoa.orders.documents import author_of, traits_of
from stoa.orders.draft import Offers, offers_for
from stoa.orders.events import OrderCreated, OrderDuplicated
from stoa.orders.examples import NEW_COPY
from stoa.orders.insert import Placement
from stoa.orders.lists import DUPLICATES, Duplicate
from stoa.orders.placement import place
from stoa.orders.state import NO_CONTACT, LineState, OrderState, sum_faults
from stoa.orders.update import stored_order
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, Page, Routes
from stoa.rest.group_commit import only_outcome
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import Fault, NotFound, ValidationFailed, VersionConflict

routes = Routes("Orders")
_DEFAULT = NewCopy()


@routes.get("/orders/{order_id}/duplicates", scope="orders:read", lists=DUPLICATES)
async def list_order_duplicates(call: Call, order_id: int, query: ListQuery) -> Page[Duplicate]:
    """List suspected duplicates and copies of an order.

    A `suspected` duplicate was placed by the same contact within the time window and has the same basket or address; `score`
    is the confidence, and `reasons` explains it. A `copy` was made from this order on request. Newest first.
    """
    if await queries.EXISTS.maybe(call.db, call.store_id, order_id) is None:
        raise NotFound("There is no order with this id.")
    return await list_page(call.db, call.store_id, queries.DUPLICATES, query.with_filter("order_id", order_id))


@routes.post(
    "/orders/{order_id}/duplicates",
    scope="orders:write",
    errors=[InsufficientStock, VersionConflict],
    example=NEW_COPY,
)
async def duplicate_order(call: Call, order_id: int, body: NewCopy = _DEFAULT) -> Created[Order]:
    """Copy an order into a new one.

    Copies line items, customer, contact, addresses, methods, amounts, note, tags and metadata, but not payments, refunds,
    fulfillments, tracking, comments and external id. With `reprice`, line items take the current prices, and discounts and
    taxes, which belong to the old prices, are not copied; a custom line item keeps its price. Line items whose variant was
    deleted are listed in `meta.skipped_line_items`.
    """
    original = await _original(call, order_id)
    variants = [line.variant_id for line in original.lines if line.variant_id is not None]
    offers = await offers_for(call.db, call.store, variants, [])
    order, skipped = copy_of(original, body, offers)
    order.source = {"app_id": call.app_id, "name": call.author}
    faults = sum_faults(order, {}, call.store.digits, call.patch)
    if not order.lines:
        faults = [Fault("", "unknown_variant", "the variants of all line items were deleted")]
    if faults:
        raise ValidationFailed("The order cannot be copied.", faults=faults)
    placement = Placement(
        call=call,
        order=order,
        traits=traits_of(order),
        entry=f"Copied from order {original.number}.",
        events=[(OrderCreated, {}), (OrderDuplicated, {"duplicate_of": (None, order_id)})],
        lines_sent=False,
    )
    stored = await only_outcome(call, place(call.db, [placement], offers))
    entry = f"Copied to order {order.number}."
    await queries.ADD_COMMENT.one(call.db, call.store_id, order_id, "system", "internal", entry, author_of(call))
    meta = msgspec.json.encode({"skipped_line_items": skipped})
    return msgspec.structs.replace(stored, meta=meta)


async def _original(call: Call, order_id: int) -> OrderState:
    """Lock and read the order to copy, so that an erasure cannot miss the copy; an erased customer is not copied."""
    row = await queries.READ.maybe(call.db, call.store_id, order_id)
    if row is None:
        raise NotFound("There is no order with this id.")
    call.check_version(row.version)
    original = stored_order(row, call.store)
    if original.customer_id is not None and await get_contact(call.db, call.store_id, original.customer_id) is None:
        original.customer_id = None
    return original


def copy_of(original: OrderState, body: NewCopy, offers: Offers) -> tuple[OrderState, list[dict[str, Any]]]:
    """A copy of an order, whose lines keep their ids until it is numbered, and the lines that are skipped."""
    lines: list[LineState] = []
    skipped: list[dict[str, Any]] = []
    for line in original.lines:
        offer = offers.by_id.get(line.variant_id) if line.variant_id is not None else None
        if offer is None and line.variant_id is not None:
            members = {"id": line.id, "variant_id": line.variant_id, "sku": line.sku, "name": line.name}
            skipped.append({**members, "quantity": line.quantity, "reason": "variant_deleted"})
            continue
        copy = msgspec.structs.replace(line, fulfilled_quantity=0, returned_quantity=0, location=None, allocations=[])
        if offer is not None:
            copy.sku, copy.tracked = offer.sku, offers.snapshot(offer).variant.track_inventory
        if body.reprice:
            copy.unit_price = offer.price if offer is not None else line.unit_price
            copy.discount_total, copy.discounts, copy.tax_total, copy.tax_lines = 0, [], 0, []
        lines.append(copy)
    order = OrderState(
        status=body.status,
        currency=original.currency,
        customer_id=original.customer_id,
        lines=lines,
        shipping_total=original.shipping_total,
        shipping_method=original.shipping_method,
        payment_method=original.payment_method,
        tags=original.tags,
        duplicate_of=original.id,
        contact=original.contact or NO_CONTACT,
        shipping_address=original.shipping_address,
        billing_address=original.billing_address,
        note=original.note,
        metadata=original.metadata,
        prices_include_tax=original.prices_include_tax,
    )
    if not body.reprice:
        order.tax_total, order.tax_lines = original.tax_total, original.tax_lines
        # A discount that was meant for skipped lines must not make the total negative.
        order.discount_total = min(original.discount_total, order.total)
        order.discounts = original.discounts if order.discount_total == original.discount_total else []
    return order, skipped
