"""The rules of fulfillments: a shipment adds one, tracking and delivery change it, and returned units come back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from stoa.orders.contract import TRANSITIONS
from stoa.orders.documents import LineState, OrderState
from stoa.orders.records import MOST_FULFILLMENTS, MOST_PARCELS, FulfilledUnits, FulfillmentState
from stoa.rest.problems import Fault, ValidationFailed

Units = Sequence[tuple[LineState, int]]


def ship(order: OrderState, units: Units, now: str) -> None:
    """Ship units of lines as one new fulfillment; without units, there is none."""
    shipped = [(line, quantity) for line, quantity in units if quantity]
    if not shipped:
        return
    for line, quantity in shipped:
        line.fulfilled_quantity += quantity
    number = len(order.fulfillments) + 1
    if number >= MOST_FULFILLMENTS and any(line.open_quantity for line in order.lines):
        words = f"must include all units that are left, because an order has at most {MOST_FULFILLMENTS} fulfillments"
        fault = Fault("/line_items", "too_long", words, {"max_items": MOST_FULFILLMENTS})
        raise ValidationFailed("The order has too many fulfillments.", faults=[fault])
    new = FulfillmentState(
        id=number,
        line_items=[FulfilledUnits(line.id, quantity) for line, quantity in shipped],
        tracking=None,
        status="shipped",
        shipped_at=now,
        delivered_at=None,
    )
    order.fulfillments = [*order.fulfillments, new]


def deliver(order: OrderState, now: str, fulfillment_id: int | None = None) -> None:
    """Mark one fulfillment delivered, or all. A shipped order is delivered when all its fulfillments are."""
    if fulfillment_id is not None:
        _check_exists(order, fulfillment_id)
    order.fulfillments = [
        msgspec.structs.replace(each, status="delivered", delivered_at=now)
        if each.status == "shipped" and fulfillment_id in (None, each.id)
        else each
        for each in order.fulfillments
    ]
    arrive(order)


def arrive(order: OrderState) -> None:
    """Move a shipped order to delivered if all its fulfillments are delivered."""
    delivered = all(each.status == "delivered" for each in order.fulfillments)
    if order.status == "shipped" and order.fulfillments and delivered:
        order.status = "delivered"


def track(
    order: OrderState, tracking: dict[str, Any], now: str, *, fulfillment_id: int | None, shipped_now: bool
) -> None:
    """Set the tracking of a fulfillment.

    Without an id it belongs to the fulfillment that the same request made, or else to the newest one without tracking, unless
    the order already has this parcel. If all have tracking, it is a further parcel of the order.
    """
    if fulfillment_id is not None:
        _check_exists(order, fulfillment_id)
    elif shipped_now:
        fulfillment_id = order.fulfillments[-1].id
    elif tracking in [{name: each[name] for name in tracking} for each in order.tracking]:
        return
    elif not order.fulfillments:
        fault = Fault("/tracking", "invalid_format", "must not be sent before something is shipped")
        raise ValidationFailed("Nothing is shipped yet.", faults=[fault])
    else:
        fulfillment_id = next((each.id for each in reversed(order.fulfillments) if each.tracking is None), None)
    if fulfillment_id is not None:
        order.fulfillments = [
            msgspec.structs.replace(each, tracking=tracking) if each.id == fulfillment_id else each
            for each in order.fulfillments
        ]
    elif len(order.tracking) < MOST_PARCELS:
        order.parcels = [*order.parcels, {**tracking, "shipped_at": now}]
    else:
        fault = Fault("/tracking", "too_long", f"must have at most {MOST_PARCELS} entries")
        raise ValidationFailed("The order has too many parcels.", faults=[fault])


def take_back(order: OrderState, units: Units) -> None:
    """Count units as returned. If the status allows it, the order is returned once all that was shipped has come back."""
    for line, quantity in units:
        line.returned_quantity += quantity
    all_back = all(line.returned_quantity == line.fulfilled_quantity for line in order.lines)
    if all_back and "returned" in TRANSITIONS[order.status]:
        order.status = "returned"


def _check_exists(order: OrderState, fulfillment_id: int) -> None:
    if fulfillment_id > len(order.fulfillments):
        fault = Fault("/fulfillment_id", "not_found", "must be the id of a fulfillment of this order")
        raise ValidationFailed("The order has no fulfillment with this id.", faults=[fault])
