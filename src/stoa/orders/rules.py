"""What may become of an order: its transitions, what they do to stock and payment, its sums, and its doubles."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from stoa import money, terms
from stoa.customers.contract import email_key
from stoa.orders.bodies import Portion
from stoa.orders.contract import (
    DuplicateReason,
    IllegalTransition,
    OrderNotEditable,
    OrderNotPaid,
    PaymentStatus,
    Status,
)
from stoa.orders.states import LineState, OrderState
from stoa.rest.problems import Fault, ValidationFailed, counted

TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    "draft": ("pending", "processing", "cancelled"),
    "pending": ("processing", "on_hold", "cancelled"),
    "processing": ("on_hold", "shipped", "completed", "cancelled"),
    "on_hold": ("pending", "processing", "cancelled"),
    "shipped": ("delivered", "returned"),
    "delivered": ("completed", "returned"),
    "completed": ("returned",),
    "cancelled": (),
    "returned": (),
}
PAYMENTS: Mapping[PaymentStatus, tuple[PaymentStatus, ...]] = {
    "unpaid": ("authorized", "paid", "failed", "voided"),
    "authorized": ("paid", "voided", "failed"),
    "failed": ("unpaid", "authorized", "paid"),
    "paid": ("partially_refunded", "refunded"),
    "partially_refunded": ("refunded",),
    "voided": (),
    "refunded": (),
}
# Units that were not shipped are reserved in these statuses, and only in these.
HOLDING: frozenset[Status] = frozenset({"pending", "processing", "on_hold"})
OPEN: frozenset[Status] = frozenset({"draft", *HOLDING})
SETTLED: frozenset[PaymentStatus] = frozenset({"paid", "partially_refunded", "refunded"})
# These may be changed for ever; the rest only while the order is open.
ALWAYS_EDITABLE = frozenset({"note", "tags", "metadata", "external_id"})


# --- status --------------------------------------------------------------------------------------------------------


def change_status(order: OrderState, wanted: Status, portions: Sequence[Portion], now: str, reason: str | None) -> None:
    """Move an order, wholly or a part of its lines; where it is already is nothing to do."""
    if wanted == order.status:
        return
    if wanted not in TRANSITIONS[order.status]:
        raise IllegalTransition(
            f"From {order.status} an order cannot go to {wanted}.",
            allowed_transitions=TRANSITIONS[order.status],
        )
    if wanted == "shipped":
        for line, units in _portions(order, portions, "open"):
            line.fulfilled_quantity += units
        if any(line.open_quantity for line in order.lines):
            return  # a part is on its way; the order goes on when the rest is
    elif wanted == "returned":
        for line, units in _portions(order, portions, "shipped"):
            line.returned_quantity += units
        if any(line.returned_quantity < line.fulfilled_quantity for line in order.lines):
            return
    elif wanted == "completed":
        if order.payment_status not in SETTLED:
            raise OrderNotPaid(f"payment_status is {order.payment_status}.", payment_status=order.payment_status)
        for line in order.lines:
            line.fulfilled_quantity = line.quantity
        order.completed_at = now
    elif wanted == "cancelled":
        order.cancelled_at, order.cancel_reason = now, reason
    order.status = wanted


def _portions(
    order: OrderState, portions: Sequence[Portion], which: Literal["open", "shipped"]
) -> list[tuple[LineState, int]]:
    """How many units of each line to move: those asked for, or all there are."""

    def left(line: LineState) -> int:
        return line.open_quantity if which == "open" else line.fulfilled_quantity - line.returned_quantity

    if not portions:
        return [(line, left(line)) for line in order.lines]
    faults: list[Fault] = []
    found: dict[int, tuple[LineState, int]] = {}
    for place, portion in enumerate(portions):
        line = order.line(portion.id)
        if line is None:
            faults.append(Fault(f"/line_items/{place}/id", "not_found", "names no line of this order"))
        elif portion.id in found:
            faults.append(Fault(f"/line_items/{place}/id", "invalid_format", "stands twice"))
        elif portion.quantity > left(line):
            words = f"of this line {left(line)} can be {'shipped' if which == 'open' else 'returned'}"
            faults.append(Fault(f"/line_items/{place}/quantity", "out_of_range", words, {"maximum": left(line)}))
        else:
            found[portion.id] = line, portion.quantity
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'line')} cannot be moved like this.", faults=faults)
    return list(found.values())


def check_editable(order: OrderState, fields: Sequence[str]) -> None:
    """Refuse changes for which the order has come too far."""
    frozen = [name for name in fields if name not in ALWAYS_EDITABLE]
    if frozen and order.status not in OPEN:
        faults = [Fault(f"/{name}", "order_not_editable", f"cannot change once {order.status}") for name in frozen]
        raise OrderNotEditable(f"The order is {order.status}.", faults=faults, order_status=order.status)


# --- payment -------------------------------------------------------------------------------------------------------


def change_payment(order: OrderState, wanted: PaymentStatus, refunded: int | None) -> None:
    """Move the payment; what was paid and given back follows from where it goes."""
    if refunded is not None and wanted != "partially_refunded":
        raise _refund_fault("goes with partially_refunded only")
    if wanted != order.payment_status and wanted not in PAYMENTS[order.payment_status]:
        allowed = PAYMENTS[order.payment_status]
        fault = Fault("/payment_status", "illegal_transition", f"can go to {', '.join(allowed) or 'nothing else'}")
        raise IllegalTransition(
            f"A payment cannot go from {order.payment_status} to {wanted}.",
            faults=[fault],
            allowed_transitions=TRANSITIONS[order.status],
            allowed_payment_transitions=allowed,
        )
    if wanted == "paid":
        # Said again after the order grew, it tells that the difference was paid too.
        order.amount_paid = max(order.amount_paid, order.total)
    elif wanted == "refunded":
        order.amount_refunded = order.amount_paid
    elif refunded is not None:
        if refunded < order.amount_refunded or not 0 < refunded < order.amount_paid:
            raise _refund_fault("must lie between what was given back before and what was paid")
        order.amount_refunded = refunded
    order.payment_status = wanted


def _refund_fault(words: str) -> ValidationFailed:
    return ValidationFailed("The refund is not right.", faults=[Fault("/amount_refunded", "out_of_range", words)])


def contribution(order: OrderState | None) -> tuple[int, int]:
    """What an order adds to its customer: one order, and what was paid less what was given back."""
    if order is None or order.status in ("draft", "cancelled"):
        return 0, 0
    return 1, order.amount_paid - order.amount_refunded


# --- stock ---------------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True):
    """What happens to the stock of one line's variant."""

    line_id: int
    variant_id: int
    kind: Literal["reserve", "release", "commit", "restock"]
    on_hand: int
    reserved: int


def stock_effects(before: OrderState | None, after: OrderState, *, restock: bool = True) -> list[Effect]:
    """All that must happen to stock between two states of an order, line by line."""
    old = {line.id: line for line in before.lines} if before else {}
    new = {line.id: line for line in after.lines}
    found: list[Effect] = []
    for line_id in old | new:
        was, line = old.get(line_id), new.get(line_id)
        variant_id = (line or old[line_id]).variant_id
        held_before = was.open_quantity if was and before and before.status in HOLDING else 0
        held_after = line.open_quantity if line and after.status in HOLDING else 0
        shipped = (line.fulfilled_quantity if line else 0) - (was.fulfilled_quantity if was else 0)
        returned = (line.returned_quantity if line else 0) - (was.returned_quantity if was else 0)
        if shipped > 0:
            taken = min(shipped, held_before)
            held_before -= taken
            found.append(Effect(line_id, variant_id, "commit", -shipped, -taken))
        if held_after > held_before:
            found.append(Effect(line_id, variant_id, "reserve", 0, held_after - held_before))
        elif held_after < held_before:
            found.append(Effect(line_id, variant_id, "release", 0, held_after - held_before))
        if returned > 0 and restock:
            found.append(Effect(line_id, variant_id, "restock", returned, 0))
    return found


# --- sums ----------------------------------------------------------------------------------------------------------


def sum_faults(order: OrderState, pointers: Mapping[int, str], digits: int, total: int | None = None) -> list[Fault]:
    """What is unsound about an order's amounts; `pointers` say where in the body a line stands, by its place."""
    faults = line_faults(order.lines, pointers)
    if faults:
        return faults
    subtotal, own = order.subtotal, order.total
    if max(subtotal, subtotal + order.shipping_total + order.tax_total) >= money.LARGEST:
        return [Fault("/line_items", "out_of_range", "cost more than can be counted")]
    if own < 0:
        return [Fault("/discount_total", "out_of_range", "is more than the order costs")]
    if total is not None and total != own:
        expected = money.to_text(own, digits)
        return [Fault("/total", "total_mismatch", f"must be {expected}, or be left out", {"expected": expected})]
    return []


def line_faults(lines: Sequence[LineState], pointers: Mapping[int, str]) -> list[Fault]:
    """What is unsound about the amounts of lines, each by itself."""
    faults: list[Fault] = []
    for place, line in enumerate(lines):
        at = pointers.get(place, "")
        if line.total < 0:
            faults.append(Fault(f"{at}/discount_total", "out_of_range", "is more than the line costs"))
        elif line.unit_price * line.quantity >= money.LARGEST or line.total >= money.LARGEST:
            faults.append(Fault(f"{at}/quantity", "out_of_range", "makes the line cost more than can be counted"))
    return faults


# --- duplicates ----------------------------------------------------------------------------------------------------

_ADDRESS = ("address1", "address2", "city", "postal_code", "country_code")


class Traits(msgspec.Struct, frozen=True):
    """What tells one purchase from another."""

    customer_id: int | None
    email: str | None
    phone: str | None
    basket: bytes
    address: bytes | None
    total: int


def traits_of(order: OrderState) -> Traits:
    email, phone = order.contact["email"], order.contact["phone"]
    return Traits(
        customer_id=order.customer_id,
        email=email_key(email) if email else None,
        phone=phone,
        basket=basket_digest(order.lines),
        address=address_digest(order.shipping_address or order.billing_address),
        total=order.total,
    )


def basket_digest(lines: Sequence[LineState]) -> bytes:
    """What is bought and how many, whatever the order of lines and however they are split."""
    units: Counter[int] = Counter()
    for line in lines:
        units[line.variant_id] += line.quantity
    return _digest(repr(sorted(units.items())))


def address_digest(address: Mapping[str, Any] | None) -> bytes | None:
    """Where it goes, whatever the case, accents and punctuation; without a street it is nowhere."""
    if not address or not address.get("address1"):
        return None
    return _digest(" ".join(word for name in _ADDRESS for word in terms.words(str(address.get(name) or ""))))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def likeness(one: Traits, other: Traits) -> tuple[int, list[DuplicateReason]] | None:
    """How alike two orders are, in hundredths, and why; none unless the contact and the basket or address agree."""
    contacts: list[DuplicateReason] = []
    if one.phone is not None and one.phone == other.phone:
        contacts.append("same_phone")
    if one.email is not None and one.email == other.email:
        contacts.append("same_email")
    if one.customer_id is not None and one.customer_id == other.customer_id:
        contacts.append("same_customer")
    same_address = one.address is not None and one.address == other.address
    same_basket = one.basket == other.basket
    if not contacts or not (same_address or same_basket):
        return None
    reasons = contacts
    score = 30 + 10 * (len(contacts) - 1)
    further: list[tuple[DuplicateReason, bool, int]] = [
        ("same_address", same_address, 15),
        ("same_basket", same_basket, 30),
        ("same_total", one.total == other.total, 5),
    ]
    for reason, holds, weight in further:
        if holds:
            reasons.append(reason)
            score += weight
    return score, reasons
