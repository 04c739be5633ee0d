"""The rules of refunds: their amounts, their limits, and the payment status that follows from them."""

from collections.abc import Sequence

import msgspec

from stoa import money
from stoa.events.outbox import Actor
from stoa.orders.bodies import NewRefund
from stoa.orders.contract import RefundExceedsPayment
from stoa.orders.documents import LineState, OrderState
from stoa.orders.fulfillments import Units, take_back
from stoa.orders.records import MOST_REFUNDS, RefundedUnits, RefundState
from stoa.rest.problems import Fault, ValidationFailed, counted


class Occasion(msgspec.Struct, frozen=True):
    """When a refund is made, by whom, and why."""

    now: str
    actor: Actor
    reason: str | None = None
    note: str | None = None


def refund(order: OrderState, given: NewRefund, occasion: Occasion, digits: int) -> None:
    """Refund what a request names; the payment status follows, and restocked units count as returned."""
    lines = _lines(order, given)
    shipping = money.to_minor(given.shipping_amount, digits) if given.shipping_amount is not None else 0
    shares = [_share(order, line, quantity) for line, quantity in lines]
    amount = money.to_minor(given.amount, digits) if given.amount is not None else sum(shares) + shipping
    _check_amount(order, given, amount, shipping, digits)
    if given.amount is not None:
        shares = _divided(amount - shipping, shares if any(shares) else [quantity for _, quantity in lines])
    units = [
        RefundedUnits(line.id, quantity, share, each.restock, each.location)
        for (line, quantity), share, each in zip(lines, shares, given.line_items, strict=True)
    ]
    add_refund(order, amount, occasion, pointer="/refund", shipping=shipping, units=units)
    restocked = [
        Units(*pair, each.location) for pair, each in zip(lines, given.line_items, strict=True) if each.restock
    ]
    if restocked:
        take_back(order, restocked)


def add_refund(
    order: OrderState,
    amount: int,
    occasion: Occasion,
    *,
    pointer: str,
    shipping: int = 0,
    units: Sequence[RefundedUnits] = (),
) -> None:
    """Add a refund of an amount that was checked."""
    number = len(order.refunds) + 1
    if number >= MOST_REFUNDS and order.amount_refunded + amount < order.amount_paid:
        words = f"must return all that is left, because an order has at most {MOST_REFUNDS} refunds"
        fault = Fault(pointer, "too_long", words, {"max_items": MOST_REFUNDS})
        raise ValidationFailed("The order has too many refunds.", faults=[fault])
    new = RefundState(
        id=number,
        amount=amount,
        shipping_amount=shipping,
        reason=occasion.reason,
        note=occasion.note,
        line_items=list(units),
        actor=occasion.actor,
        created_at=occasion.now,
    )
    order.refunds = [*order.refunds, new]
    order.payment_status = "refunded" if order.amount_refunded == order.amount_paid else "partially_refunded"


def _lines(order: OrderState, given: NewRefund) -> list[tuple[LineState, int]]:
    """The lines to refund with their units; refuses lines of other orders and more units than are left."""
    faults: list[Fault] = []
    found: dict[int, tuple[LineState, int]] = {}
    for index, each in enumerate(given.line_items):
        at, line = f"/refund/line_items/{index}", order.line(each.line_item_id)
        if line is None:
            words = "must be the id of a line item of this order"
            faults.append(Fault(f"{at}/line_item_id", "not_found", words))
            continue
        if each.line_item_id in found:
            faults.append(Fault(f"{at}/line_item_id", "invalid_format", "must not be repeated"))
            continue
        found[each.line_item_id] = line, each.quantity
        left = max(0, line.quantity - _refunded_units(order, line.id))
        if each.quantity > left:
            words = f"must be at most {left}, the units that are not refunded yet"
            faults.append(Fault(f"{at}/quantity", "out_of_range", words, {"maximum": left}))
        shipped = line.fulfilled_quantity - line.returned_quantity
        if each.restock and each.quantity > shipped:
            words = f"must be false unless the units are shipped and not returned yet, which is true of {shipped}"
            faults.append(Fault(f"{at}/restock", "out_of_range", words, {"maximum": shipped}))
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)
    return list(found.values())


def _refunded_units(order: OrderState, line_id: int) -> int:
    return sum(each.quantity for made in order.refunds for each in made.line_items if each.line_item_id == line_id)


def _share(order: OrderState, line: LineState, quantity: int) -> int:
    """The part of a line's total for its next units: what all refunded units get then, minus what they got before."""
    before = _refunded_units(order, line.id)
    return share_of(line, before + quantity) - share_of(line, before)


def share_of(line: LineState, units: int) -> int:
    """What the first units of a line get together: their part of its total, rounded down once."""
    return line.total * units // line.quantity


def _divided(amount: int, weights: Sequence[int]) -> list[int]:
    """An amount divided by weights. The first parts together are rounded down once, so that all parts are the amount."""
    total, upto, parts = sum(weights), 0, list[int]()
    for weight in weights:
        parts.append(amount * (upto + weight) // total - amount * upto // total)
        upto += weight
    return parts


def _check_amount(order: OrderState, given: NewRefund, amount: int, shipping: int, digits: int) -> None:
    pointer = "/refund/line_items" if given.line_items else "/refund/shipping_amount"
    pointer = "/refund/amount" if given.amount is not None else pointer
    if not amount:
        fault = Fault(pointer, "out_of_range", "must make the refund more than 0")
        raise ValidationFailed("The refund is empty.", faults=[fault])
    if shipping > amount:
        fault = Fault("/refund/shipping_amount", "out_of_range", "must not be more than the amount of the refund")
        raise ValidationFailed("The refund is less than its part for shipping.", faults=[fault])
    left = order.amount_paid - order.amount_refunded
    if amount > left:
        most = money.to_text(left, digits)
        words = f"makes the refund {money.to_text(amount, digits)}, but only {most} is paid and not refunded yet"
        fault = Fault(pointer, "refund_exceeds_payment", words, {"maximum": most})
        raise RefundExceedsPayment(f"At most {most} can be refunded.", faults=[fault], refundable=most)
