"""The rules of fulfillments: a shipment adds one, tracking, delivery and a void change it, and returned units come back."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from stoa.orders.allocation import between, bring_forward, put_in, reserved_units, take_out
from stoa.orders.contract import TRANSITIONS, IllegalTransition
from stoa.orders.line_items import Allocation
from stoa.orders.records import MOST_FULFILLMENTS, MOST_PARCELS, FulfilledUnits, FulfillmentState
from stoa.orders.state import LineState, OrderState
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.problems import Fault, ValidationFailed


class Units(msgspec.Struct, frozen=True):
    """Units of a line item to ship or to take back, at a location if one is named."""

    line: LineState
    quantity: int
    location: str | None = None


def ship(order: OrderState, units: Sequence[Units], shipped_at: str) -> None:
    """Ship units of lines as one new fulfillment; without units, there is none."""
    # Units that name a location go first: the others are shipped from what is left.
    shipped = [each for each in sorted(units, key=lambda each: each.location is None) if each.quantity]
    if not shipped:
        return
    lines: dict[int, FulfilledUnits] = {}
    for each in shipped:
        made = _ship(each)
        known = lines.get(each.line.id)
        if known is not None:
            made = FulfilledUnits(each.line.id, known.quantity + made.quantity, [*known.allocations, *made.allocations])
        lines[each.line.id] = made
    number = len(order.fulfillments) + 1
    if number >= MOST_FULFILLMENTS and any(line.open_quantity for line in order.lines):
        words = f"must include all units that are left, because an order has at most {MOST_FULFILLMENTS} fulfillments"
        fault = Fault("/line_items", "too_long", words, {"max_items": MOST_FULFILLMENTS})
        raise ValidationFailed("The order has too many fulfillments.", faults=[fault])
    new = FulfillmentState(
        id=number,
        line_items=[lines[line.id] for line in order.lines if line.id in lines],
        tracking=None,
        status="shipped",
        shipped_at=shipped_at,
        delivered_at=None,
        location=location_of(lines.values()),
    )
    order.fulfillments = [*order.fulfillments, new]


def _ship(units: Units) -> FulfilledUnits:
    """Ship units of one line from where they are allocated, those at a named location first."""
    line, location = units.line, units.location
    if location is not None and reserved_units(line):
        bring_forward(line, units.quantity, location)
    start = line.fulfilled_quantity
    line.fulfilled_quantity += units.quantity
    taken = between(line.allocations, start, line.fulfilled_quantity)
    if location is not None and not taken:  # the line item has no stock; the location is only shown
        taken = [Allocation(location, units.quantity)]
    return FulfilledUnits(line.id, units.quantity, taken)


def location_of(units: Collection[FulfilledUnits]) -> str | None:
    """The only location from which units were shipped; None if there are several."""
    codes = {each.location for line in units for each in line.allocations}
    return codes.pop() if len(codes) == 1 else None


def void(order: OrderState, fulfillment_id: int, now: str, active: Collection[str], untracked: Collection[int]) -> None:
    """Undo a shipment: its units are to be shipped again, and are reserved if the order reserves units.

    Units of a location that is no longer `active` are reserved at the default location, and those of variants that are now
    `untracked` at none. A fulfillment that is voided already stays as it is.
    """
    _check_exists(order, fulfillment_id)
    voided = order.fulfillments[fulfillment_id - 1]
    if voided.voided_at is not None:
        return
    _check_voidable(order, voided)
    for units in voided.line_items:
        line = order.line(units.line_item_id)
        if line is None:
            continue
        earlier = order.fulfillments[: fulfillment_id - 1]
        start = sum(each.quantity for made in earlier for each in made.line_items if each.line_item_id == line.id)
        taken = take_out(line, start, start + units.quantity)
        line.fulfilled_quantity -= units.quantity
        if line.variant_id not in untracked:
            put_in(
                line,
                [
                    Allocation(each.location if each.location in active else DEFAULT_LOCATION, each.quantity)
                    for each in taken
                ],
            )
    changed = msgspec.structs.replace(voided, line_items=[], tracking=None, voided_at=now)
    order.fulfillments = [changed if each is voided else each for each in order.fulfillments]
    if order.status == "shipped":
        order.status = "processing"


def _check_voidable(order: OrderState, voided: FulfillmentState) -> None:
    lines = {line.id: line for line in order.lines}
    back = [
        lines[each.line_item_id]
        for each in voided.line_items
        if each.line_item_id in lines
        and lines[each.line_item_id].fulfilled_quantity - each.quantity < lines[each.line_item_id].returned_quantity
    ]
    if voided.status == "delivered":
        words = "must not be true for a fulfillment that is delivered: return its units instead"
    elif back:
        words = "must not be true for a fulfillment whose units were returned"
    elif len(order.fulfillments) >= MOST_FULFILLMENTS:
        words = f"must not be true for an order with {MOST_FULFILLMENTS} fulfillments, which could not be shipped again"
    else:
        return
    raise IllegalTransition(
        f"Fulfillment {voided.id} cannot be voided.",
        faults=[Fault("/void", IllegalTransition.code, words)],
        allowed_transitions=TRANSITIONS[order.status],
    )


def deliver(order: OrderState, now: str, fulfillment_id: int | None = None) -> None:
    """Mark one fulfillment delivered, or all. A shipped order is delivered when all its fulfillments are."""
    if fulfillment_id is not None:
        _check_exists(order, fulfillment_id, live=True)
    order.fulfillments = [
        msgspec.structs.replace(each, status="delivered", delivered_at=now)
        if each.status == "shipped" and each.voided_at is None and fulfillment_id in (None, each.id)
        else each
        for each in order.fulfillments
    ]
    arrive(order)


def arrive(order: OrderState) -> None:
    """Move a shipped order to delivered if all its fulfillments are delivered."""
    live = [each for each in order.fulfillments if each.voided_at is None]
    if order.status == "shipped" and live and all(each.status == "delivered" for each in live):
        order.status = "delivered"


def track(
    order: OrderState, tracking: dict[str, Any], now: str, *, fulfillment_id: int | None, shipped_now: bool
) -> None:
    """Set the tracking of a fulfillment.

    Without an id it belongs to the fulfillment that the same request made, or else to the newest one without tracking, unless
    the order already has this parcel. If all have tracking, it is a further parcel of the order.
    """
    if fulfillment_id is not None:
        _check_exists(order, fulfillment_id, live=True)
    elif shipped_now:
        fulfillment_id = order.fulfillments[-1].id
    elif tracking in [{name: each[name] for name in tracking} for each in order.tracking]:
        return
    elif all(each.voided_at for each in order.fulfillments):
        fault = Fault("/tracking", "invalid_format", "must not be sent before something is shipped")
        raise ValidationFailed("Nothing is shipped yet.", faults=[fault])
    else:
        without = (each.id for each in reversed(order.fulfillments) if each.tracking is None and not each.voided_at)
        fulfillment_id = next(without, None)
    if fulfillment_id is not None:
        _set_tracking(order, fulfillment_id, tracking)
    elif len(order.tracking) < MOST_PARCELS:
        order.parcels = [*order.parcels, {**tracking, "shipped_at": now}]
    else:
        fault = Fault("/tracking", "too_long", f"must have at most {MOST_PARCELS} entries")
        raise ValidationFailed("The order has too many parcels.", faults=[fault])


def untrack(order: OrderState, fulfillment_id: int) -> None:
    """Remove the tracking of a fulfillment."""
    _check_exists(order, fulfillment_id)
    _set_tracking(order, fulfillment_id, None)


def _set_tracking(order: OrderState, fulfillment_id: int, tracking: Mapping[str, Any] | None) -> None:
    order.fulfillments = [
        msgspec.structs.replace(each, tracking=tracking) if each.id == fulfillment_id else each
        for each in order.fulfillments
    ]


def take_back(order: OrderState, units: Sequence[Units]) -> None:
    """Count units as returned. If the status allows it, the order is returned once all that was shipped has come back."""
    for each in units:
        each.line.returned_quantity += each.quantity
    all_back = all(line.returned_quantity == line.fulfilled_quantity for line in order.lines)
    if all_back and "returned" in TRANSITIONS[order.status]:
        order.status = "returned"


def _check_exists(order: OrderState, fulfillment_id: int, *, live: bool = False) -> None:
    """Refuse an id that no fulfillment of the order has, or only a voided one if it must be `live`."""
    if fulfillment_id > len(order.fulfillments):
        words = "must be the id of a fulfillment of this order"
    elif live and order.fulfillments[fulfillment_id - 1].voided_at:
        words = "must be the id of a fulfillment that is not voided"
    else:
        return
    fault = Fault("/fulfillment_id", "not_found", words)
    raise ValidationFailed("The order has no such fulfillment.", faults=[fault])
