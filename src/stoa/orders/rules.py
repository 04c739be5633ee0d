"""The rules of orders: transitions, their effects on stock, amounts, and suspected duplicates."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from stoa import money, terms
from stoa.customers.contract import email_key
from stoa.orders.allocation import by_location, held_units, reserved_units, restocked
from stoa.orders.bodies import Portion
from stoa.orders.contract import (
    HOLDING,
    TRANSITIONS,
    DuplicateReason,
    IllegalTransition,
    OrderNotEditable,
    OrderNotPaid,
    Status,
)
from stoa.orders.documents import LineState, OrderState
from stoa.orders.fulfillments import Units, arrive, deliver, ship, take_back
from stoa.orders.line_items import Allocation
from stoa.rest.problems import Fault, ValidationFailed, counted, first_sent

OPEN: frozenset[Status] = frozenset({"draft", *HOLDING})
# These can always be changed; the others only while the order is open.
ALWAYS_EDITABLE = frozenset({"note", "tags", "metadata", "external_id"})


# --- status --------------------------------------------------------------------------------------------------------


def change_status(
    order: OrderState,
    wanted: Status,
    portions: Sequence[Portion],
    now: str,
    reason: str | None,
    shipped_at: str | None = None,
) -> None:
    """Move an order to a status, or a part of its lines; does nothing if it has the status already."""
    if wanted == order.status:
        return
    allowed = wanted in TRANSITIONS[order.status]
    shipped = any(line.fulfilled_quantity for line in order.lines)
    # Shipped units can always come back. The order changes its status only if the state machine allows it.
    if not allowed and not (wanted == "returned" and portions and shipped):
        hint = " Send line_items to return shipped units." if wanted == "returned" and shipped else ""
        raise IllegalTransition(
            f"An order cannot move from {order.status} to {wanted}.{hint}",
            allowed_transitions=TRANSITIONS[order.status],
        )
    if wanted == "returned":
        take_back(order, _portions(order, portions, "shipped"))
        return
    if wanted == "shipped":
        ship(order, _portions(order, portions, "open"), shipped_at or now)
        if any(line.open_quantity for line in order.lines):
            return  # the status changes when the last part is shipped
    elif wanted == "delivered":
        deliver(order, now)
    elif wanted == "completed":
        due = order.figures.due
        if due:
            shown = money.to_text(due, money.digits(order.currency))
            raise OrderNotPaid(f"{shown} is due.", payment_status=order.payment_status, amount_due=shown)
        # What was not shipped is handed over now.
        ship(order, _portions(order, [], "open"), now)
        deliver(order, now)
        order.completed_at = now
    elif wanted == "cancelled":
        order.cancelled_at, order.cancel_reason = now, reason
    order.status = wanted
    arrive(order)


def _portions(order: OrderState, portions: Sequence[Portion], which: Literal["open", "shipped"]) -> list[Units]:
    """The units of each line to ship or return: the requested ones, or all."""

    def left(line: LineState) -> int:
        return line.open_quantity if which == "open" else line.fulfilled_quantity - line.returned_quantity

    if not portions:
        return [Units(line, left(line)) for line in order.lines]
    faults: list[Fault] = []
    found: dict[tuple[int, str | None], Units] = {}
    taken: Counter[int] = Counter()
    for index, portion in enumerate(portions):
        line, location = order.line(portion.id), portion.location
        if line is None:
            faults.append(Fault(f"/line_items/{index}/id", "not_found", "must be the id of a line item of this order"))
            continue
        most = left(line) - taken[line.id]
        words = f"the units that can be {'shipped' if which == 'open' else 'returned'}"
        if which == "open" and location is not None and reserved_units(line) and reserved_units(line, location) < most:
            most, words = reserved_units(line, location), "the units of the line item that are reserved at the location"
        if (portion.id, location) in found:
            faults.append(Fault(f"/line_items/{index}/id", "invalid_format", "must not be repeated"))
        elif portion.quantity > most:
            words = f"must be at most {most}, {words}"
            faults.append(Fault(f"/line_items/{index}/quantity", "out_of_range", words, {"maximum": most}))
        else:
            found[portion.id, location] = Units(line, portion.quantity, location)
            taken[line.id] += portion.quantity
    if faults:
        raise ValidationFailed(
            f"{counted(len(faults), 'line item')} cannot be {'shipped' if which == 'open' else 'returned'}.",
            faults=faults,
        )
    return list(found.values())


def check_editable(order: OrderState, fields: Sequence[str], always: Collection[str] = ALWAYS_EDITABLE) -> None:
    """Refuse changes of these fields of the body if the order's status permits only those that are `always` editable."""
    frozen = [name for name in fields if name not in always]
    if frozen and order.status not in OPEN:
        faults = [
            Fault(f"/{name}", "order_not_editable", f"cannot be changed while the order is {order.status}")
            for name in frozen
        ]
        raise OrderNotEditable(f"The order is {order.status}.", faults=faults, order_status=order.status)


# --- payment -------------------------------------------------------------------------------------------------------


def contribution(order: OrderState | None) -> tuple[int, int]:
    """What an order adds to its customer's count of orders and total spent."""
    if order is None or order.status in ("draft", "cancelled"):
        return 0, 0
    return 1, order.amount_paid - order.amount_refunded


# --- stock ---------------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True):
    """A change of stock that one line causes at one location."""

    line_id: int
    variant_id: int
    location: str
    kind: Literal["reserve", "release", "commit", "restock"]
    on_hand: int
    reserved: int
    returned: bool = False  # whether the units came back from the customer


def stock_effects(
    before: OrderState | None,
    after: OrderState,
    *,
    restock: bool = True,
    restock_at: Mapping[int, Sequence[Allocation]] = MappingProxyType({}),
) -> list[Effect]:
    """The changes of stock between two states of an order, line by line.

    Returned units go back to where they were shipped from, except those that `restock_at` sends elsewhere, by line.
    """
    old = {line.id: line for line in before.lines} if before else {}
    new = {line.id: line for line in after.lines}
    effects: list[Effect] = []
    for line_id in old | new:
        previous, line = old.get(line_id), new.get(line_id)
        variant_id = (line or old[line_id]).variant_id
        if variant_id is None:
            continue  # a custom line item has no stock
        shipped, shipped_after = by_location(previous, 0, _shipped(previous)), by_location(line, 0, _shipped(line))
        reserved = by_location(
            previous, _shipped(previous), held_units(previous, before.status) if previous and before else 0
        )
        reserved_after = by_location(line, _shipped(line), held_units(line, after.status) if line else 0)
        for location in shipped | shipped_after:
            units = shipped_after[location] - shipped[location]
            if units > 0:
                taken = min(units, reserved[location])
                effects.append(Effect(line_id, variant_id, location, "commit", -units, -taken))
            else:  # a voided shipment: what is not reserved there again is free
                taken = -min(-units, max(0, reserved_after[location] - reserved[location]))
                effects.append(Effect(line_id, variant_id, location, "commit", -taken, -taken))
                effects.append(Effect(line_id, variant_id, location, "restock", taken - units, 0))
            reserved[location] -= taken
        for location in reserved | reserved_after:
            units = reserved_after[location] - reserved[location]
            if units:
                effects.append(Effect(line_id, variant_id, location, "reserve" if units > 0 else "release", 0, units))
        if restock:
            returned = by_location(
                line, previous.returned_quantity if previous else 0, line.returned_quantity if line else 0
            )
            returned = restocked(returned, restock_at.get(line_id, ()))
            effects += [
                Effect(line_id, variant_id, each, "restock", units, 0, returned=True)
                for each, units in returned.items()
            ]
    return [each for each in effects if each.on_hand or each.reserved]


def _shipped(line: LineState | None) -> int:
    return line.fulfilled_quantity if line else 0


# --- sums ----------------------------------------------------------------------------------------------------------


def sum_faults(
    order: OrderState, pointers: Mapping[int, str], digits: int, sent: Mapping[str, Any], total: int | None = None
) -> list[Fault]:
    """The faults of an order's amounts; `pointers` locates lines by index in the body that was sent."""
    faults = line_faults(order.lines, pointers, sent)
    if faults:
        return faults
    computed = order.total
    gross = sum([line.cost + line.tax_total for line in order.lines])
    if gross + order.shipping_total + order.tax_total >= money.LARGEST:
        at = first_sent(sent, "/line_items", "/quantity", "/unit_price", "/shipping_total", "/tax_lines", "/tax_total")
        return [Fault(at, "out_of_range", "makes the order cost more than the largest amount that Stoa can store")]
    if computed < 0:
        names = ("discounts", "discount_total", "shipping_total", "tax_lines", "tax_total", "prices_include_tax")
        at = first_sent(sent, *(f"/{name}" for name in (*names, "quantity", "unit_price")))
        return [Fault(at, "out_of_range", "makes the discount of the order exceed its cost")]
    if total is not None and total != computed:
        expected = money.to_text(computed, digits)
        return [Fault("/total", "total_mismatch", f"must be {expected} or omitted", {"expected": expected})]
    return []


def line_faults(lines: Sequence[LineState], pointers: Mapping[int, str], sent: Mapping[str, Any]) -> list[Fault]:
    """The faults of each line's own amounts."""
    faults: list[Fault] = []
    for index, line in enumerate(lines):
        at = pointers.get(index, "")
        total = line.total
        if total < 0:
            words, names = "makes the discount of the line item exceed its cost", ("discounts", "discount_total")
        elif line.cost >= money.LARGEST or total >= money.LARGEST:
            words = "makes the line item cost more than the largest amount that Stoa can store"
            faults.append(_line_fault(at, sent, words, "quantity", "unit_price", "tax_lines", "tax_total"))
            continue
        elif line.prices_include_tax and line.tax_total > total:
            words, names = (
                "makes the tax of the line item exceed the total that includes it",
                ("tax_lines", "tax_total"),
            )
        else:
            continue
        faults.append(_line_fault(at, sent, words, *names, "quantity", "unit_price"))
    return faults


def _line_fault(at: str, sent: Mapping[str, Any], words: str, *names: str) -> Fault:
    """The fault of a line, at the first of these fields that the body contains. Only `prices_include_tax` changes lines that the body does not contain."""
    pointers = [f"{at}/{name}" for name in names]
    pointers.insert(len(pointers) if at else 0, "/prices_include_tax")
    return Fault(first_sent(sent, *pointers), "out_of_range", words)


# --- duplicates ----------------------------------------------------------------------------------------------------

_ADDRESS = ("address1", "address2", "city", "postal_code", "country_code")


class Traits(msgspec.Struct, frozen=True):
    """The features by which suspected duplicates are found."""

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
    """A digest of the units of each variant and custom line item, independent of the order and the division of lines."""
    units: Counter[tuple[int, str]] = Counter()
    for line in lines:
        units[(0, line.name) if line.variant_id is None else (line.variant_id, "")] += line.quantity
    return _digest(repr(sorted(units.items())))


def address_digest(address: Mapping[str, Any] | None) -> bytes | None:
    """A digest of an address that ignores case, accents and punctuation, and spaces in a postal code; None without a street."""
    if not address or not address.get("address1"):
        return None
    words = {name: terms.words(str(address.get(name) or "")) for name in _ADDRESS}
    words["postal_code"] = ["".join(words["postal_code"])]
    return _digest(" ".join(word for found in words.values() for word in found))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def likeness(one: Traits, other: Traits) -> tuple[int, list[DuplicateReason]] | None:
    """The score of two orders as suspected duplicates, in hundredths, and its reasons.

    None unless they have the same contact, and the same basket or address.
    """
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
    for reason, applies, weight in further:
        if applies:
            reasons.append(reason)
            score += weight
    return score, reasons
