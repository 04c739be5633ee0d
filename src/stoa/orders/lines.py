"""The endpoints of an order's line items, which reserve or release the difference in stock."""

from collections.abc import Collection, Sequence

from msgspec import UNSET

from stoa import money
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.allocation import held_units, leave_others, location_faults, unknown_location
from stoa.orders.amounts import AMOUNT_FIELDS, change_amounts
from stoa.orders.contract import Order, OrderNotEditable
from stoa.orders.documents import line_document
from stoa.orders.draft import offers_of, price
from stoa.orders.endpoints import current_document
from stoa.orders.events import differences, events_of
from stoa.orders.examples import ADDED_LINES, LINE_CHANGES
from stoa.orders.line_items import MOST_LINES, MOST_UNITS, AddedLine, AddedLines, LineChanges
from stoa.orders.placement import locations_of
from stoa.orders.removals import note_removals
from stoa.orders.rules import check_editable
from stoa.orders.state import LineState, OrderState, sum_faults
from stoa.orders.update import Consequences, Entry, load, update
from stoa.rest.call import Call
from stoa.rest.checks import MOST_FAULTS
from stoa.rest.endpoint import Created, One, Routes
from stoa.rest.patch import check_echoes, is_same, merge
from stoa.rest.problems import Fault, NotFound, ValidationFailed, VersionConflict, counted

routes = Routes("Orders")


@routes.post(
    "/orders/{order_id}/products",
    scope="orders:write",
    errors=[OrderNotEditable, InsufficientStock, VersionConflict],
    example=ADDED_LINES,
)
async def add_order_products(call: Call, order_id: int, body: AddedLines) -> Created[Order]:
    """Add products or custom line items to an order.

    Adds all line items or none. A new line item is merged into an equal one (same variant, unit price and metadata, nothing
    shipped, no discounts or tax lines) unless `merge` is false. Returns the whole order.
    """
    before, _ = await load(call, order_id)
    check_editable(before, ["line_items"])
    offers = await offers_of(call.db, call.store, body.line_items)
    priced = price(call.store, body.line_items, offers, prices_include_tax=before.prices_include_tax)
    if priced.faults:
        raise ValidationFailed(f"{counted(len(priced.faults), 'fault')} found.", faults=priced.faults[:MOST_FAULTS])
    unknown = location_faults(body.line_items, await locations_of(call.db, call.store, body.line_items))
    if unknown:
        raise ValidationFailed(f"{counted(len(unknown), 'fault')} found.", faults=unknown)
    order = before.copy()
    pointers = _merge(order, body.line_items, priced.lines)
    new = [line for line in order.lines if not line.id]
    if new:
        drawn = await queries.NEW_LINE_IDS.one(call.db, len(new))
        for line, line_id in zip(new, drawn.line_ids, strict=True):
            line.id = line_id
    stored = await _change(call, before, order, pointers)
    return Created(stored.doc, stored.version, f"/orders/{order_id}")


@routes.patch(
    "/orders/{order_id}/products/{line_item_id}",
    scope="orders:write",
    errors=[OrderNotEditable, InsufficientStock],
    example=LINE_CHANGES,
)
async def update_order_product(call: Call, order_id: int, line_item_id: int, body: LineChanges) -> One[Order]:
    """Change or remove a line item of an order.

    Reserves or releases the difference in stock. A `location` moves the reservation of all units that are not shipped there, or
    fails with `insufficient_stock`. A `quantity` of 0 removes the line item; the last one cannot be removed, and
    the quantity cannot fall below what was shipped. `If-Match` refers to the version of the order. Returns the whole order.
    """
    before, _ = await load(call, order_id)
    order = before.copy()
    line = order.line(line_item_id)
    if line is None:
        raise NotFound("The order has no line item with this id.")
    if call.echoed:
        current = await current_document(call, order_id)
        check_echoes(call, current | line_document(line, call.store.digits))
    active = await locations_of(call.db, call.store, [body]) if body.location else ()
    _apply(call, order, line, body, active)
    if order.is_same(before):
        found = await queries.GET.one(call.db, call.store_id, order_id)
        return One(found.doc, found.version)
    check_editable(before, list(call.patch), always=())
    field = "location" if body.location and body.quantity is UNSET else "quantity"
    return await _change(call, before, order, {order.lines.index(line) if line in order.lines else -1: ""}, field)


def _merge(order: OrderState, wanted: Sequence[AddedLine], lines: Sequence[LineState]) -> dict[int, str]:
    """Add lines to an order, or merge them into equal ones; returns the pointers of the order's lines into the body, by index."""
    pointers: dict[int, str] = {}
    for index, (added, line) in enumerate(zip(wanted, lines, strict=True)):
        twin = next((n for n, each in enumerate(order.lines) if added.merge and _equal(each, line)), None)
        if twin is None:
            order.lines.append(line)
        else:
            merged = order.lines[twin]
            merged.quantity += line.quantity
            merged.discount_total += line.discount_total
            merged.tax_total += line.tax_total
        at = f"/line_items/{index}"
        number = len(order.lines) - 1 if twin is None else twin
        pointers[number] = at
        if order.lines[number].quantity > MOST_UNITS:
            fault = Fault(f"{at}/quantity", "out_of_range", f"must be at most {MOST_UNITS} in total")
            raise ValidationFailed("The quantity of the line item would be too large.", faults=[fault])
    if len(order.lines) > MOST_LINES:
        fault = Fault(
            "/line_items", "too_long", f"must have at most {MOST_LINES} entries in total", {"max_items": MOST_LINES}
        )
        raise ValidationFailed("The order would have too many line items.", faults=[fault])
    return pointers


def _equal(line: LineState, other: LineState) -> bool:
    return (
        line.variant_id == other.variant_id
        and (line.variant_id is not None or _custom(line) == _custom(other))
        and line.location == other.location
        and line.unit_price == other.unit_price
        and is_same(line.metadata, other.metadata)
        and not line.fulfilled_quantity
        and not (line.discounts or line.tax_lines or other.discounts or other.tax_lines)
    )


def _custom(line: LineState) -> tuple[str, bool, bool]:
    """What makes a custom line item the same as another."""
    return line.name, line.requires_shipping, line.taxable


def _apply(call: Call, order: OrderState, line: LineState, body: LineChanges, active: Collection[str]) -> None:
    """Apply a merge patch to a line; `active` are the locations of the store if the patch names one."""
    faults: list[Fault] = []
    reserved = held_units(line, order.status) == line.allocated  # units of a line item that was not tracked are nowhere
    for name, value in call.patch.items():
        if name == "quantity":
            if value < line.fulfilled_quantity or (value == 0 and len(order.lines) == 1):
                words = (
                    "must not be 0 for the last line item: cancel the order instead"
                    if not value
                    else "must not be less than the shipped quantity"
                )
                faults.append(Fault("/quantity", "out_of_range", words, {"minimum": line.fulfilled_quantity or 1}))
            line.quantity = value
        elif name == "metadata":
            line.metadata = merge(line.metadata, value) if value is not None else {}
            if len(line.metadata) > 100:
                faults.append(Fault("/metadata", "metadata_limit", "must have at most 100 keys"))
        elif name == "location":
            if value is not None and line.variant_id is None:
                faults.append(Fault("/location", "invalid_format", "must not be sent for a custom line item"))
            elif value is not None and value not in active:
                faults.append(unknown_location("/location"))
            line.location = value
        elif name not in AMOUNT_FIELDS:
            setattr(line, name, money.to_minor(getattr(body, name), call.store.digits))
    faults += change_amounts(line, body, line.cost, call.store.digits)
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)
    if body.location and reserved:
        leave_others(line, body.location)
    if not line.quantity:
        order.lines.remove(line)


async def _change(
    call: Call, before: OrderState, order: OrderState, pointers: dict[int, str], field: str = "quantity"
) -> One[Order]:
    """Store an order whose line items changed; too little stock is a fault of this field."""
    digits = call.store.digits
    faults = sum_faults(order, pointers, digits, call.patch)
    if faults:
        raise ValidationFailed("The amounts of the order are invalid.", faults=faults)
    note_removals(before, order)
    changes = differences(before, order, digits)
    consequences = Consequences(
        events=events_of(changes),
        entries=[Entry("edit", None, changes)],
        pointers={line.id: f"{pointers.get(n, '')}/{field}" for n, line in enumerate(order.lines)},
    )
    return await update(call, before, order, consequences)
