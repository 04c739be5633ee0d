"""The history of an order that was placed elsewhere: its shipments, payments and refunds as records, and what contradicts them."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar, get_args

import msgspec

from stoa import money
from stoa.events.outbox import Actor
from stoa.orders.allocation import unknown_location
from stoa.orders.contract import HOLDING, OrderNotPaid, PaymentAlreadyRecorded
from stoa.orders.documents import time_text
from stoa.orders.historical_bodies import (
    HistoricalOrder,
    PastFulfillment,
    PastPayment,
    PastPortion,
    PastRefund,
    PastRefundLine,
)
from stoa.orders.line_items import Allocation
from stoa.orders.records import (
    FulfilledUnits,
    FulfillmentState,
    PaymentMark,
    PaymentState,
    RefundedUnits,
    RefundState,
)
from stoa.orders.state import LineState, OrderState
from stoa.rest.problems import Fault

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK_SKEW = timedelta(minutes=5)
_ENDED = ("shipped", "delivered", "completed", "returned")  # in which nothing is left to be shipped
_MARKS = frozenset(get_args(PaymentMark))


Portion = TypeVar("Portion", PastPortion, PastRefundLine)


class Origin(msgspec.Struct, frozen=True):
    """What the records of a moved order take from the request: who moves it, when, and in which store."""

    actor: Actor
    now: datetime
    locations: Collection[str]
    digits: int


def add_history(order: OrderState, body: HistoricalOrder, origin: Origin) -> list[Fault]:
    """Give a drafted order its status, dates and records; returns what contradicts one another.

    The units of line items are allocated to no location, so that stock never changes with the order.
    """
    order.placed_at = time_text(body.placed_at)
    order.status, order.cancel_reason = body.status, body.cancel_reason
    order.cancelled_at, order.completed_at = (
        time_text(each) if each is not None else None for each in (body.cancelled_at, body.completed_at)
    )
    faults = list(_date_faults(body, origin.now))
    faults += _add_fulfillments(order, body, origin.locations)
    faults += _return_units(order, body)
    faults += _add_refunds(order, body, origin)
    faults += _add_payments(order, body, origin)
    if not faults:
        faults += _status_faults(order, body)
        faults += _payment_faults(order, body, origin.digits)
    return faults


# --- dates -----------------------------------------------------------------------------------------------------------


def _date_faults(body: HistoricalOrder, now: datetime) -> Iterator[Fault]:
    """The dates that cannot be: in the future, before the order was placed, or a step before the one that it follows."""
    placed, latest = body.placed_at, now + _CLOCK_SKEW
    steps: list[tuple[str, datetime | None, datetime, str]] = [("/placed_at", placed, _EARLIEST, "1970")]
    # A payment may precede the order, such as a deposit.
    steps += [(f"/payments/{n}/created_at", each.created_at, _EARLIEST, "1970") for n, each in enumerate(body.payments)]
    steps += [(f"/refunds/{n}/created_at", each.created_at, placed, "placed_at") for n, each in enumerate(body.refunds)]
    for n, each in enumerate(body.fulfillments):
        steps.append((f"/fulfillments/{n}/shipped_at", each.shipped_at, placed, "placed_at"))
        steps.append((f"/fulfillments/{n}/delivered_at", each.delivered_at, each.shipped_at, "shipped_at"))
    shipped = max((each.delivered_at or each.shipped_at for each in body.fulfillments), default=placed)
    steps.append(("/completed_at", body.completed_at, max(placed, shipped), "the shipments and deliveries"))
    left = max((each.shipped_at for each in body.fulfillments), default=placed)
    steps.append(("/cancelled_at", body.cancelled_at, max(placed, left), "the shipments"))
    for pointer, moment, earliest, name in steps:
        if moment is not None and moment > latest:
            yield Fault(pointer, "out_of_range", "must not be in the future")
        elif moment is not None and moment < earliest:
            yield Fault(pointer, "out_of_range", f"must not be before {name}")


# --- shipments -------------------------------------------------------------------------------------------------------


def _add_fulfillments(order: OrderState, body: HistoricalOrder, locations: Collection[str]) -> list[Fault]:
    faults: list[Fault] = []
    for n, each in enumerate(body.fulfillments):
        at = f"/fulfillments/{n}"
        if each.location is not None and each.location not in locations:
            faults.append(unknown_location(f"{at}/location"))
        units: list[FulfilledUnits] = []
        for line, given in _portions(order, each.line_items, at, faults):
            line.fulfilled_quantity += given.quantity
            allocations = [Allocation(each.location, given.quantity)] if each.location is not None else []
            units.append(FulfilledUnits(line.id, given.quantity, allocations))
        order.fulfillments = [*order.fulfillments, _fulfillment(n + 1, each, units)]
    for index, line in enumerate(order.lines):
        if line.fulfilled_quantity > line.quantity:
            words = f"must be at least {line.fulfilled_quantity}, the shipped units"
            faults.append(Fault(f"/line_items/{index}/quantity", "out_of_range", words))
    if body.status == "completed" and body.completed_at is not None and not faults:
        _hand_over(order, body.completed_at)
    return faults


def _fulfillment(number: int, given: PastFulfillment, units: list[FulfilledUnits]) -> FulfillmentState:
    tracking = given.tracking
    return FulfillmentState(
        id=number,
        line_items=units,
        tracking=msgspec.structs.asdict(tracking) if tracking and any(msgspec.structs.astuple(tracking)) else None,
        status="shipped" if given.delivered_at is None else "delivered",
        shipped_at=time_text(given.shipped_at),
        delivered_at=time_text(given.delivered_at) if given.delivered_at is not None else None,
        location=given.location,
    )


def _hand_over(order: OrderState, completed_at: datetime) -> None:
    """As whenever an order is completed: what was not shipped was handed over, and all is delivered."""
    moment = time_text(completed_at)
    left = [(line, line.open_quantity) for line in order.lines if line.open_quantity]
    for line, quantity in left:
        line.fulfilled_quantity += quantity
    if left:
        units = [FulfilledUnits(line.id, quantity) for line, quantity in left]
        number = len(order.fulfillments) + 1
        order.fulfillments = [*order.fulfillments, FulfillmentState(number, units, None, "shipped", moment, None)]
    order.fulfillments = [
        msgspec.structs.replace(each, status="delivered", delivered_at=moment) if each.status == "shipped" else each
        for each in order.fulfillments
    ]


def _return_units(order: OrderState, body: HistoricalOrder) -> Iterator[Fault]:
    for index, (line, given) in enumerate(zip(order.lines, body.line_items, strict=True)):
        line.returned_quantity = given.returned_quantity
        if line.returned_quantity > line.fulfilled_quantity:
            words = f"must be at most {line.fulfilled_quantity}, the shipped units"
            yield Fault(f"/line_items/{index}/returned_quantity", "out_of_range", words)


def _portions(
    order: OrderState, portions: Sequence[Portion], at: str, faults: list[Fault]
) -> Iterator[tuple[LineState, Portion]]:
    """The portions of a record, each with the line item that it names."""
    seen: set[int] = set()
    for n, each in enumerate(portions):
        pointer = f"{at}/line_items/{n}/line_item"
        if each.line_item >= len(order.lines):
            faults.append(Fault(pointer, "not_found", "must be the position of a line item of this order"))
        elif each.line_item in seen:
            faults.append(Fault(pointer, "invalid_format", "must not be repeated"))
        else:
            seen.add(each.line_item)
            yield order.lines[each.line_item], each


# --- money -----------------------------------------------------------------------------------------------------------


def _minor(amount: Decimal | None, digits: int) -> int:
    return money.to_minor(amount, digits) if amount is not None else 0


def _add_refunds(order: OrderState, body: HistoricalOrder, origin: Origin) -> list[Fault]:
    faults: list[Fault] = []
    refunded: dict[int, int] = {}
    for n, each in enumerate(body.refunds):
        at, digits = f"/refunds/{n}", origin.digits
        amount, shipping = _minor(each.amount, digits), _minor(each.shipping_amount, digits)
        units: list[RefundedUnits] = []
        for line, given in _portions(order, each.line_items, at, faults):
            refunded[line.id] = refunded.get(line.id, 0) + given.quantity
            units.append(RefundedUnits(line.id, given.quantity, _minor(given.amount, digits), given.restock))
            if refunded[line.id] > line.quantity:
                words = f"must be at most {line.quantity}, the units of the line item, in all refunds"
                index = next(n for n, other in enumerate(each.line_items) if other is given)
                faults.append(Fault(f"{at}/line_items/{index}/quantity", "out_of_range", words))
        if shipping > amount or (units and shipping + sum(unit.amount for unit in units) != amount):
            words = "must be the sum of the amounts of line_items and shipping_amount"
            faults.append(Fault(f"{at}/amount", "total_mismatch", words))
        new = RefundState(
            n + 1, amount, shipping, each.reason, each.note, units, origin.actor, time_text(each.created_at)
        )
        order.refunds = [*order.refunds, new]
    return faults


def _add_payments(order: OrderState, body: HistoricalOrder, origin: Origin) -> list[Fault]:
    """Add a record for each payment and refund, by their times; no refund can exceed what was paid until then."""
    faults: list[Fault] = []
    given: list[tuple[datetime, str, PastPayment | PastRefund]] = [
        *((each.created_at, f"/payments/{n}", each) for n, each in enumerate(body.payments)),
        *((each.created_at, f"/refunds/{n}", each) for n, each in enumerate(body.refunds)),
    ]
    given.sort(key=lambda each: each[0])
    left = paid = 0
    known: dict[str, str] = {}
    for number, (moment, at, each) in enumerate(given, 1):
        amount = _minor(each.amount, origin.digits)
        is_payment = isinstance(each, PastPayment)
        left += amount if is_payment else -amount
        paid += amount if is_payment else 0
        if not amount:
            faults.append(Fault(f"{at}/amount", "out_of_range", "must be more than 0"))
        elif left < 0:
            words = "must not exceed what was paid until then"
            faults.append(Fault(f"{at}/amount", "out_of_range", words))
        elif paid >= money.LARGEST:
            words = "makes the paid amount more than the largest amount that Stoa can store"
            faults.append(Fault(f"{at}/amount", "out_of_range", words))
        if each.external_id is not None and known.setdefault(each.external_id, at) != at:
            words = f"is also the external id of {known[each.external_id]}"
            faults.append(Fault(f"{at}/external_id", PaymentAlreadyRecorded.code, words))
        record = PaymentState(
            id=number,
            kind="payment" if is_payment else "refund",
            amount=amount,
            method=each.method or (order.payment_method if is_payment else None),
            external_id=each.external_id,
            note=each.note,
            actor=origin.actor,
            created_at=time_text(moment),
        )
        order.payments = [*order.payments, record]
    return faults


def _payment_faults(order: OrderState, body: HistoricalOrder, digits: int) -> Iterator[Fault]:
    """The sums and the payment status that were sent and differ from what follows from the records."""
    wanted = body.payment_status
    if wanted in _MARKS and not body.payments:
        order.payment_mark = wanted  # pyright: ignore[reportAttributeAccessIssue] - the line above checks it
    figures = order.figures
    status = figures.payment_status(order.payment_mark)
    if wanted is not None and wanted != status:
        words = f"must be {status}, which follows from the payments and refunds"
        yield Fault("/payment_status", "illegal_transition", words, {"expected": status})
    for name, given, sum_ in (
        ("amount_paid", body.amount_paid, figures.paid),
        ("amount_refunded", body.amount_refunded, figures.refunded),
    ):
        if given is not None and _minor(given, digits) != sum_:
            expected = money.to_text(sum_, digits)
            yield Fault(f"/{name}", "total_mismatch", f"must be {expected} or omitted", {"expected": expected})
    if order.status == "completed" and figures.due:
        words = f"must not be completed while {money.to_text(figures.due, digits)} is due"
        yield Fault("/status", OrderNotPaid.code, words)


# --- status ----------------------------------------------------------------------------------------------------------


def _status_faults(order: OrderState, body: HistoricalOrder) -> Iterator[Fault]:
    """Why the final status cannot be, given the shipped and returned units and the dates."""
    status = order.status
    for name, moment, needed, allowed in (
        ("cancelled_at", body.cancelled_at, status == "cancelled", status == "cancelled"),
        ("completed_at", body.completed_at, status == "completed", status in ("completed", "returned")),
        ("cancel_reason", body.cancel_reason, False, status == "cancelled"),
    ):
        if needed and moment is None:
            yield Fault(f"/{name}", "required", f"is required if status is {status}")
        elif moment is not None and not allowed:
            yield Fault(f"/{name}", "invalid_format", f"must not be sent if status is {status}")
    open_units = sum(line.open_quantity for line in order.lines)
    shipped = sum(line.fulfilled_quantity for line in order.lines)
    returned = sum(line.returned_quantity for line in order.lines)
    delivered = bool(order.fulfillments) and all(each.status == "delivered" for each in order.fulfillments)
    words: str | None = None
    if status == "draft":
        words = "must not be draft, because a historical order was placed"
    elif status in HOLDING and shipped and not open_units:
        words = f"must not be {status}, because all units were shipped"
    elif status in _ENDED and open_units:
        words = f"must not be {status}, because {open_units} units are in no fulfillment"
    elif status == "shipped" and delivered:
        words = "must be delivered, because all fulfillments were delivered"
    elif status == "delivered" and not delivered:
        words = "must not be delivered, because a fulfillment has no delivered_at"
    elif status == "returned" and returned < shipped:
        words = f"must not be returned, because {shipped - returned} shipped units were not returned"
    elif status in ("shipped", "delivered", "completed") and returned == shipped:
        words = "must be returned, because all shipped units were returned"
    if words:
        yield Fault("/status", "illegal_transition", words)
