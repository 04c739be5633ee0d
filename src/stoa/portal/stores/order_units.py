"""The units of an order's line items: how many are left to ship, to take back and to refund, and the rows of forms about them."""

import msgspec

from stoa.orders.allocation import between
from stoa.orders.contract import Order
from stoa.orders.line_items import LineItem


class RemovedItem(msgspec.Struct):
    """A line item that was removed, as the form of a refund shows it."""

    id: int
    name: str
    sku: str | None
    variant_id: None = None
    variant_title: str = ""
    option_values: dict[str, str] = {}


class UnitRow(msgspec.Struct):
    """A row of a form: units of a line item, those at one location if the form ships by location."""

    line: LineItem | RemovedItem
    most: int
    location: str = ""

    @property
    def key(self) -> str:
        """The name of the row in the form."""
        return f"{self.line.id}@{self.location}" if self.location else str(self.line.id)


def unshipped(line: LineItem) -> int:
    return line.quantity - line.fulfilled_quantity


def with_customer(line: LineItem) -> int:
    return line.fulfilled_quantity - line.returned_quantity


def refunded(order: Order, line_id: int) -> int:
    return sum(each.quantity for made in order.refunds for each in made.line_items if each.line_item_id == line_id)


def rows_to_ship(order: Order, *, by_location: bool) -> list[UnitRow]:
    """The units that are not shipped yet, each where it is reserved if the store has several locations."""
    rows: list[UnitRow] = []
    for line in order.line_items:
        left = unshipped(line)
        places = between(line.allocations, line.fulfilled_quantity, line.quantity) if by_location else []
        if sum(each.quantity for each in places) == left:
            rows += [UnitRow(line, each.quantity, each.location) for each in places]
        elif left:
            rows.append(UnitRow(line, left))
    return rows


def all_rows(order: Order) -> list[UnitRow]:
    return [UnitRow(line, line.quantity) for line in order.line_items]


def rows_to_take_back(order: Order) -> list[UnitRow]:
    return [UnitRow(line, with_customer(line)) for line in order.line_items if with_customer(line)]


def rows_to_move(order: Order) -> list[UnitRow]:
    return [UnitRow(line, unshipped(line)) for line in order.line_items if line.allocations and unshipped(line)]


def rows_to_refund(order: Order) -> list[UnitRow]:
    """The units that are not refunded yet, also those of line items that were removed."""
    removed = {each.line_item_id: each for each in order.removed_line_items}
    rows: list[UnitRow] = []
    for line in order.line_items:
        gone = removed.pop(line.id, None)
        rows.append(UnitRow(line, line.quantity + (gone.quantity if gone else 0) - refunded(order, line.id)))
    for each in removed.values():
        item = RemovedItem(each.line_item_id, each.name, each.sku)
        rows.append(UnitRow(item, each.quantity - refunded(order, each.line_item_id)))
    return [row for row in rows if row.most > 0]
