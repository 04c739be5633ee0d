"""The rules of refunds: their amounts, their limits, and the payment status that follows from them."""

from collections.abc import Sequence

from stoa import money
from stoa.orders.bodies import NewRefund
from stoa.orders.contract import RefundExceedsPayment
from stoa.orders.fulfillments import Units, take_back
from stoa.orders.payments import Occasion, check_external_id, record
from stoa.orders.records import MOST_REFUNDS, RefundedUnits, RefundState
from stoa.orders.removals import Refundable, refundable, refunded_units
from stoa.orders.state import OrderState
from stoa.rest.problems import Fault, ValidationFailed, counted


def refund(order: OrderState, given: NewRefund, occasion: Occasion, digits: int) -> None:
    """Refund what a request names; the payment status follows, and restocked units count as returned."""
    lines = _lines(order, given)
    shipping = money.to_minor(given.shipping_amount, digits) if given.shipping_amount is not None else 0
    shares = [_share(order, line, quantity) for line, quantity in lines]
    amount = money.to_minor(given.amount, digits) if given.amount is not None else sum(shares) + shipping
    _check_amount(order, given, amount, shipping, digits)
    check_external_id(order, occasion.external_id, "/refund/external_id", digits)
    if given.amount is not None:
        shares = _divided(amount - shipping, shares if any(shares) else [quantity for _, quantity in lines])
    units = [
        RefundedUnits(line.id, quantity, share, each.restock, each.location)
        for (line, quantity), share, each in zip(lines, shares, given.line_items, strict=True)
    ]
    add_refund(order, amount, occasion, pointer="/refund", shipping=shipping, units=units)
    restocked = [
        Units(line.line, quantity, each.location)
        for (line, quantity), each in zip(lines, given.line_items, strict=True)
        if each.restock and line.line is not None
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
    record(order, "refund", amount, occasion, pointer=pointer)


def _lines(order: OrderState, given: NewRefund) -> list[tuple[Refundable, int]]:
    """The lines to refund with their units; refuses lines of other orders and more units than are left."""
    faults: list[Fault] = []
    found: dict[int, tuple[Refundable, int]] = {}
    for index, each in enumerate(given.line_items):
        at, line = f"/refund/line_items/{index}", refundable(order, each.line_item_id)
        if line is None:
            words = "must be the id of a line item of this order"
            faults.append(Fault(f"{at}/line_item_id", "not_found", words))
            continue
        if each.line_item_id in found:
            faults.append(Fault(f"{at}/line_item_id", "invalid_format", "must not be repeated"))
            continue
        found[each.line_item_id] = line, each.quantity
        left = max(0, line.units - refunded_units(order, line.id))
        if each.quantity > left:
            words = f"must be at most {left}, the units that are not refunded yet"
            faults.append(Fault(f"{at}/quantity", "out_of_range", words, {"maximum": left}))
        shipped = line.line.fulfilled_quantity - line.line.returned_quantity if line.line else 0
        if each.restock and each.quantity > shipped:
            words = f"must be false unless the units are shipped and not returned yet, which is true of {shipped}"
            faults.append(Fault(f"{at}/restock", "out_of_range", words, {"maximum": shipped}))
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)
    return list(found.values())


def _share(order: OrderState, line: Refundable, quantity: int) -> int:
    """What the next units of a line get: what all refunded units get then, minus what they got before."""
    before = refunded_units(order, line.id)
    return line.worth(before + quantity) - line.worth(before)


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
