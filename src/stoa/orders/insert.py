"""Numbers new orders and stores them with everything that follows from them, all orders of a list in one call."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa.customers.lookup import InlineCustomer
from stoa.db.errors import StaleTransaction
from stoa.db.query import Executor, hex_bytes, json_of, json_rows
from stoa.events.outbox import Event
from stoa.ids import new_id
from stoa.inventory.contract import InsufficientStock
from stoa.orders import input_rows, queries
from stoa.orders.allocation import Levels, settle
from stoa.orders.contract import HOLDING, DuplicateReason, Order
from stoa.orders.documents import (
    Parts,
    Traits,
    actor_of,
    author_of,
    check_size,
    document,
    parts_of,
    tail_of,
    terms_of,
    time_text,
)
from stoa.orders.events import Changes
from stoa.orders.state import LineState, OrderState, contribution
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.call import Call, Store
from stoa.rest.endpoint import Created
from stoa.rest.group_commit import RefusedCalls
from stoa.rest.problems import Fault, Refusal, counted

FIRST_VERSION = 1


class Suspect(msgspec.Struct):
    """An order that the new one may duplicate: a stored one, or an earlier one of the same list."""

    other: queries.RelatedOrder | OrderState
    score: int  # in hundredths
    reasons: list[DuplicateReason]
    seconds_apart: int


class Placement(msgspec.Struct, kw_only=True, eq=False):
    """An order on its way into the database."""

    call: Call
    order: OrderState
    traits: Traits
    entry: str  # of the timeline
    events: list[tuple[type[Event], Changes]]
    placed_at: datetime | None = None  # the time of numbering by default
    lines_sent: bool = True  # whether the request body holds the lines, so that faults can point at them
    expires_at: datetime | None = None  # the end of the hold, or
    hold_for: int | None = None  # its seconds
    new_customer: InlineCustomer | None = None  # to be created
    dry_run: bool = False
    window_hours: int | None = None  # in which to look for suspected duplicates; None: nowhere
    reject_suspected_duplicates: bool = False
    suspects: list[Suspect] = []

    @property
    def held(self) -> bool:
        return self.expires_at is not None or self.hold_for is not None


async def number(autocommit: Executor, store_id: int, placements: Sequence[Placement]) -> datetime:
    """Number orders and draw their ids and those of their lines; returns the time of placement.

    This runs in a separate transaction, so that no order waits until another is stored.
    """
    lines = [line for each in placements for line in each.order.lines]
    drawn = await queries.TAKE_NUMBERS.one(autocommit, store_id, len(placements), len(lines))
    for line, line_id in zip(lines, drawn.line_ids, strict=True):
        line.id = line_id
    first = drawn.last - len(placements) + 1
    for index, (each, order_id) in enumerate(zip(placements, drawn.order_ids, strict=True)):
        each.order.id, each.order.number = order_id, first + index
        each.order.place(time_text(each.placed_at or drawn.moment))
    return drawn.moment


async def allocate(
    db: Executor, placements: Sequence[Placement], *, elsewhere: bool, lock: bool
) -> Mapping[Call, Refusal]:
    """Decide at which locations orders reserve their units; returns the refusals of those with too little stock there.

    If all stock is at the default location and no order names another, there is nothing to read. Otherwise the products are
    locked if `lock`, in the order in which `place_orders` locks, so that the levels stay as they are read. Without `lock`, the
    orders are dry runs, and none takes units from another.
    """
    holding = [each.order for each in placements if each.order.status in HOLDING]
    lines = [line for order in holding for line in order.lines if line.variant_id is not None and line.tracked]
    levels: Levels | None = None
    if lines and (elsewhere or any(line.location not in (None, DEFAULT_LOCATION) for line in lines)):
        customers = {each.order.customer_id for each in placements if each.order.customer_id is not None}
        levels = await lock_levels(db, placements[0].call.store_id, customers if lock else (), lines, lock=lock)
    refusals: dict[Call, Refusal] = {}
    for each in placements:
        if levels is None:
            each.order.allocate_to_default()
            continue
        free = levels if lock else levels.copy()
        short = settle(each.order, free, [line.location for line in each.order.lines if line.location is not None])
        if short:
            refusals[each.call] = insufficient([_short_fault(each, line, free) for line in short])
    return refusals


def reserve(lines: Sequence[LineState], available: dict[int, int], *, sent: bool = True) -> InsufficientStock | None:
    """Take the units of all lines from `available`, or none: then return the refusal, with a fault for each short line.

    A custom line item never runs out, nor does a variant that `available` does not name. Lines that the caller did not send
    are named by their ids.
    """
    faults: list[Fault] = []
    left: dict[int, int] = {}
    for index, line in enumerate(lines):
        if line.variant_id is None or line.variant_id not in available:
            continue
        units = left.get(line.variant_id, available[line.variant_id])
        if line.quantity > units:
            faults.append(short_fault(line, f"/line_items/{index}/quantity" if sent else None, units))
        else:
            left[line.variant_id] = units - line.quantity
    if faults:
        return insufficient(faults)
    available.update(left)
    return None


def insufficient(faults: Sequence[Fault]) -> InsufficientStock:
    return InsufficientStock(f"Not enough stock for {counted(len(faults), 'line item')}.", faults=faults)


def short_fault(line: LineState, pointer: str | None, available: int, location: str | None = None) -> Fault:
    """The fault of a line with too little stock; it names the line by id if the body does not hold it.

    `location` is where the line must be reserved, if it may be reserved in one place only.
    """
    units = max(0, available)
    meta: dict[str, Any] = {"available": units, "variant_id": line.variant_id, "sku": line.sku}
    if location is not None:
        meta["location"] = location
    if pointer is None:
        meta["line_item_id"] = line.id
    return Fault(pointer or "/status", InsufficientStock.code, f"available is {units}", meta)


def _short_fault(placement: Placement, line: LineState, levels: Levels) -> Fault:
    index = next(n for n, each in enumerate(placement.order.lines) if each is line)
    pointer = f"/line_items/{index}/quantity" if placement.lines_sent else None
    return short_fault(line, pointer, levels.available(line.variant_id, line.location), line.location)


async def lock_levels(
    db: Executor, store_id: int, customers: Collection[int], lines: Sequence[LineState], *, lock: bool = True
) -> Levels:
    """The levels of the variants of line items at each location; locks customers, and then the products if `lock`."""
    products = {line.product_id for line in lines if line.product_id is not None} if lock else ()
    variants = {line.variant_id for line in lines if line.variant_id is not None}
    return Levels(await queries.LOCK_LEVELS.all(db, store_id, list(customers), list(products), list(variants)))


async def insert(db: Executor, store: Store, moment: datetime, placements: Sequence[Placement]) -> list[Parts]:
    """Store numbered orders and reserve their stock, all or none; raises RefusedCalls for orders that cannot be stored."""
    parts = [parts_of(each.order, store.digits) for each in placements]
    _check_sizes(placements, parts)
    result = await queries.PLACE.one(
        db,
        store.id,
        moment,
        json_rows([_order_row(each, part, store) for each, part in zip(placements, parts, strict=True)]),
        json_rows([_placement_row(each) for each in placements]),
        json_rows([row for each in placements for row in _line_rows(each.order)]),
        json_rows(_event_rows(placements)),
        json_rows([row for each in placements for row in _suspect_rows(each)]),
        json_rows([row for each in placements for row in _allocation_rows(each.order)]),
    )
    if result.short:
        refusals = _refusals(placements, dict(zip(result.short, result.available or [], strict=True)))
        if not refusals:
            raise StaleTransaction("units were moved to another location")
        raise RefusedCalls(refusals)
    return parts


def created(order: OrderState, parts: Parts, moment: datetime) -> Created[Order]:
    """The response to the request that placed an order."""
    tail = tail_of(order.suspected_duplicates, time_text(moment), FIRST_VERSION)
    return Created(document(order, parts, tail), FIRST_VERSION, f"/orders/{order.id}")


def _check_sizes(placements: Sequence[Placement], parts: Sequence[Parts]) -> None:
    refusals: dict[Call, Refusal] = {}
    for each, part in zip(placements, parts, strict=True):
        try:
            check_size(part)
        except Refusal as refusal:
            refusals[each.call] = refusal
    if refusals:
        raise RefusedCalls(refusals)


def _refusals(placements: Sequence[Placement], available: dict[int, int]) -> dict[Call, Refusal]:
    """The orders that get too little stock if each takes its units in turn."""
    refusals: dict[Call, Refusal] = {}
    for each in placements:
        if each.order.status in HOLDING:
            shortage = reserve(each.order.lines, available, sent=each.lines_sent)
            if shortage is not None:
                refusals[each.call] = shortage
    return refusals


def _order_row(placement: Placement, parts: Parts, store: Store) -> input_rows.OrderRow:
    order = placement.order
    return input_rows.OrderRow(
        **order_columns(order, placement.traits, parts),
        terms=terms_of(order, store.id),
        number=order.number,
        placed_at=datetime.fromisoformat(order.placed_at),
        duplicate_of=order.duplicate_of,
        fulfillment_status=order.fulfillment_status,
    )


def order_columns(order: OrderState, traits: Traits, parts: Parts) -> dict[str, Any]:
    """The columns of an order that every write stores, as `OrderColumns` declares them."""
    return {
        "id": order.id,
        "external_id": order.external_id,
        "status": order.status,
        "payment_status": order.payment_status,
        "customer_id": order.customer_id,
        "email": traits.email,
        "phone": traits.phone,
        "total": traits.total,
        "suspected_duplicates": order.suspected_duplicates,
        "basket": hex_bytes(traits.basket),
        "address": hex_bytes(traits.address) if traits.address is not None else None,
        "head": parts.head,
        "lines": parts.lines,
        "person": parts.person,
        "edition": input_rows.EDITION,
    }


def _placement_row(placement: Placement) -> input_rows.PlacementRow:
    order, call = placement.order, placement.call
    orders, spent = contribution(order)
    return input_rows.PlacementRow(
        order_id=order.id,
        number=order.number,
        customer_id=order.customer_id,
        customer_orders=orders,
        customer_spent=spent,
        placed_at=datetime.fromisoformat(order.placed_at),
        entry=placement.entry,
        author=author_of(call),
        actor=json_of(actor_of(call)),
        request_id=call.request_id,
    )


def _line_rows(order: OrderState) -> list[input_rows.NewLineRow]:
    return [
        input_rows.NewLineRow(
            order_id=order.id,
            id=line.id,
            product_id=line.product_id,
            variant_id=line.variant_id,
            sku=line.sku,
            quantity=line.quantity,
            fulfilled_quantity=line.fulfilled_quantity,
            returned_quantity=line.returned_quantity,
            reserved=line.allocated,
            elsewhere=sum(each.quantity for each in line.allocations if each.location != DEFAULT_LOCATION),
        )
        for line in order.lines
    ]


def _allocation_rows(order: OrderState) -> list[input_rows.AllocationRow]:
    return [
        input_rows.AllocationRow(line_id=line.id, location=each.location, units=each.quantity)
        for line in order.lines
        for each in line.allocations
        if each.location != DEFAULT_LOCATION
    ]


def _event_rows(placements: Sequence[Placement]) -> list[input_rows.NewEventRow]:
    events = [(each.order, event, changes) for each in placements for event, changes in each.events]
    return [
        input_rows.NewEventRow(
            order_id=order.id,
            n=n,
            id=new_id("evt"),
            type=event.name,
            changes=json_of(changes),
            suspected_duplicates=order.suspected_duplicates,
        )
        for n, (order, event, changes) in enumerate(events)
    ]


def _suspect_rows(placement: Placement) -> list[input_rows.SuspectRow]:
    return [
        input_rows.SuspectRow(
            order_id=placement.order.id,
            other_id=suspect.other.id,
            score=suspect.score,
            reasons=json_of(suspect.reasons),
            seconds_apart=suspect.seconds_apart,
        )
        for suspect in placement.suspects
    ]
