"""The rules of orders: transitions, and their effects on stock."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from stoa import money
from stoa.orders.allocation import by_location, held_units, reserved_units, restocked
from stoa.orders.bodies import Portion
from stoa.orders.contract import (
    HOLDING,
    TRANSITIONS,
    IllegalTransition,
    OrderNotEditable,
    OrderNotPaid,
    Status,
)
from stoa.orders.fulfillments import Units, arrive, deliver, ship, take_back
from stoa.orders.line_items import Allocation
from stoa.orders.state import LineState, OrderState
from stoa.rest.problems import Fault, ValidationFailed, counted

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
    if before and before.lines == after.lines and (before.status in HOLDING) == (after.status in HOLDING):
        return []
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
