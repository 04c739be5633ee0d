"""Units that were removed from an order after something was paid, so that they can be refunded by line."""

import msgspec

from stoa import money
from stoa.orders.line_items import MOST_LINES
from stoa.orders.records import RemovedUnits
from stoa.orders.state import LineState, OrderState, share_of
from stoa.rest.problems import Fault, ValidationFailed


def note_removals(before: OrderState, order: OrderState) -> None:
    """Record the units that an edit removed, with what it took from the line's total. Units that are added again leave the record.

    Refuses a record of more than the largest amount, which no later change of the order could read.
    """
    removed = {each.line_item_id: each for each in order.removed_line_items}
    for line in before.lines:
        now, known = order.line(line.id), removed.get(line.id)
        fell = line.quantity - (now.quantity if now else 0)
        if fell > 0 and order.amount_paid:
            removed[line.id] = _more(known or RemovedUnits(line.id, line.sku, line.name, 0, 0), line, now, fell)
        elif fell < 0 and known is not None:
            kept = max(known.quantity + fell, min(known.quantity, refunded_units(order, line.id)))
            removed[line.id] = msgspec.structs.replace(
                known, quantity=kept, amount=share_of(known.amount, kept, known.quantity)
            )
    # An app that adds and removes line items all day does not make the order grow without end.
    order.removed_line_items = [each for each in removed.values() if each.quantity][-MOST_LINES:]


def _more(known: RemovedUnits, line: LineState, now: LineState | None, units: int) -> RemovedUnits:
    amount = known.amount + max(0, line.total - (now.total if now else 0))
    if amount >= money.LARGEST:
        words = "makes the removed units cost more than the largest amount that Stoa can store"
        fault = Fault("/quantity", "out_of_range", words)
        raise ValidationFailed("The amounts of the order are invalid.", faults=[fault])
    return msgspec.structs.replace(known, quantity=known.quantity + units, amount=amount)


def refunded_units(order: OrderState, line_id: int) -> int:
    return sum(each.quantity for made in order.refunds for each in made.line_items if each.line_item_id == line_id)


class Refundable(msgspec.Struct):
    """A line item whose units can be refunded: first the removed ones, then those that the order still has."""

    id: int
    line: LineState | None
    removed: RemovedUnits | None

    @property
    def units(self) -> int:
        return (self.removed.quantity if self.removed else 0) + (self.line.quantity if self.line else 0)

    def worth(self, units: int) -> int:
        """What the first units get together."""
        gone, amount = (self.removed.quantity, self.removed.amount) if self.removed else (0, 0)
        if units <= gone:
            return share_of(amount, units, gone) if units else 0
        return amount + (share_of(self.line.total, units - gone, self.line.quantity) if self.line else 0)


def refundable(order: OrderState, line_id: int) -> Refundable | None:
    removed = next((each for each in order.removed_line_items if each.line_item_id == line_id), None)
    line = order.line(line_id)
    return Refundable(line_id, line, removed) if line or removed else None
