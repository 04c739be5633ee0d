"""An order in memory: its line items, its sums and their faults, and what is due. All amounts are in minor units."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.orders.contract import HOLDING, UNPAID, FulfillmentStatus, Status
from stoa.orders.line_items import Allocation
from stoa.orders.records import (
    FulfillmentState,
    PaymentMark,
    PaymentState,
    PaymentStatus,
    RefundState,
    RemovedUnits,
    tracking_of,
)
from stoa.products.contract import WeightUnit
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.patch import is_same
from stoa.rest.problems import Fault, first_sent

NO_CONTACT: dict[str, Any] = {"email": None, "phone": None, "first_name": None, "last_name": None}


def share_of(total: int, units: int, quantity: int) -> int:
    """What the first units of a line item are worth together: their part of its total, rounded down once."""
    return total * units // quantity


class Figures(msgspec.Struct, frozen=True):
    """The sums of an order's records, and what follows from them: what is due, and the payment status.

    `head_with_payments` in the database computes the same for an order that the previous release wrote.
    """

    total: int
    kept: int  # the value of what was neither cancelled, removed nor returned
    paid: int
    refunded: int

    @property
    def balance(self) -> int:
        """What the customer owes; negative if the shop does. A refund counts only as far as more was paid than is kept."""
        return self.kept - self.paid + min(self.refunded, max(0, self.paid - self.kept))

    @property
    def due(self) -> int:
        return max(0, self.balance)

    def payment_status(self, mark: PaymentMark) -> PaymentStatus:
        """The status that follows from the records; without a payment, it is the one that an app set."""
        if not self.paid:
            return "unpaid" if self.due and mark in ("paid", "refunded") else mark
        if self.refunded:
            return "refunded" if self.refunded == self.paid else "partially_refunded"
        if self.due:
            return "partially_paid"
        return "overpaid" if self.paid > self.total else "paid"


class LineState(msgspec.Struct):
    """A line item, with a snapshot of the variant at the time of the order. A custom line item has no variant."""

    id: int
    product_id: int | None
    variant_id: int | None
    sku: str | None
    name: str
    variant_title: str
    option_values: dict[str, str]
    quantity: int
    fulfilled_quantity: int = 0
    returned_quantity: int = 0
    unit_price: int = 0
    discount_total: int = 0
    tax_total: int = 0
    metadata: dict[str, Any] = {}
    discounts: list[dict[str, Any]] = []  # as callers see them; they add up to discount_total unless there are none
    tax_lines: list[dict[str, Any]] = []
    requires_shipping: bool = True
    taxable: bool = True
    prices_include_tax: bool = False  # as on the order
    location: str | None = None  # where to reserve; None: by priority
    allocations: list[Allocation] = []
    weight: Decimal | int | None = None  # of one unit
    weight_unit: WeightUnit | None = None
    unknown: dict[str, Any] = {}  # members that a later release added; they are kept
    tracked: bool = True  # whether further units are reserved; not stored

    @property
    def cost(self) -> int:
        """The price of all units, before discounts, and before taxes that are added."""
        return self.unit_price * self.quantity

    @property
    def total(self) -> int:
        total = self.unit_price * self.quantity - self.discount_total
        return total if self.prices_include_tax else total + self.tax_total

    @property
    def allocated(self) -> int:
        """Units that are reserved or were shipped from stock. The others were ordered while the variant was not tracked."""
        return sum(each.quantity for each in self.allocations)

    @property
    def open_quantity(self) -> int:
        """Units that are not shipped yet."""
        return self.quantity - self.fulfilled_quantity

    def is_same(self, other: "LineState | None") -> bool:
        """Whether nothing differs, also as JSON: unlike in Python, true in metadata is not 1."""
        return other is not None and self == other and is_same(self.metadata, other.metadata)


class OrderState(msgspec.Struct, kw_only=True):
    """An order. Derived values are properties, so that they cannot disagree with the fields."""

    id: int = 0
    number: int = 0
    version: int = 0
    external_id: str | None = None
    source: dict[str, Any] = {}
    status: Status
    payment_mark: PaymentMark = "unpaid"  # what an app set; it counts until something is paid
    currency: str
    customer_id: int | None = None
    lines: list[LineState]
    discount_total: int = 0
    shipping_total: int = 0
    tax_total: int = 0
    shipping_method: str | None = None
    payment_method: str | None = None
    tags: list[str] = []
    duplicate_of: int | None = None
    cancel_reason: str | None = None
    placed_at: str = ""
    cancelled_at: str | None = None
    completed_at: str | None = None
    contact: dict[str, Any] = {}
    shipping_address: dict[str, Any] | None = None
    billing_address: dict[str, Any] | None = None
    fulfillments: list[FulfillmentState] = []
    refunds: list[RefundState] = []
    payments: list[PaymentState] = []  # each refund has its record too
    removed_line_items: list[RemovedUnits] = []
    parcels: list[dict[str, Any]] = []  # tracking that was added without a fulfillment
    note: str | None = None
    metadata: dict[str, Any] = {}
    suspected_duplicates: int = 0
    prices_include_tax: bool = False
    discounts: list[dict[str, Any]] = []
    tax_lines: list[dict[str, Any]] = []
    expires_at: str | None = None  # the end of the hold that was asked for
    unknown: dict[str, Any] = {}  # members that a later release added; they are kept
    unknown_of_person: dict[str, Any] = {}  # the same about the buyer

    @property
    def discounted_cost(self) -> int:
        """The cost of all line items after their discounts: the base of an order's percentage."""
        return sum(line.cost - line.discount_total for line in self.lines)

    @property
    def subtotal(self) -> int:
        return sum([line.total for line in self.lines])

    @property
    def total(self) -> int:
        return self.total_of(self.subtotal)

    def total_of(self, subtotal: int) -> int:
        total = subtotal - self.discount_total + self.shipping_total
        return total if self.prices_include_tax else total + self.tax_total

    @property
    def figures(self) -> Figures:
        return self.figures_of(self.total)

    def figures_of(self, total: int) -> Figures:
        paid = refunded = 0
        for each in self.payments:
            if each.kind == "payment":
                paid += each.amount
            else:
                refunded += each.amount
        return Figures(total, self._kept(total), paid, refunded)

    def _kept(self, total: int) -> int:
        """The part of the total for units that were neither cancelled nor returned.

        The amounts of the order as a whole count in full as long as one unit is kept.
        """
        cancelled = self.status == "cancelled"
        lost, kept = 0, False
        for line in self.lines:
            gone = line.returned_quantity + (line.open_quantity if cancelled else 0)
            if gone:
                lost += share_of(line.total, gone, line.quantity)
            kept = kept or gone < line.quantity
        return max(0, total - lost) if kept else 0

    @property
    def amount_paid(self) -> int:
        return sum(each.amount for each in self.payments if each.kind == "payment")

    @property
    def amount_refunded(self) -> int:
        return sum(each.amount for each in self.payments if each.kind == "refund")

    @property
    def payment_status(self) -> PaymentStatus:
        return self.figures.payment_status(self.payment_mark)

    @property
    def tracking(self) -> list[dict[str, Any]]:
        """All parcels: those of the fulfillments, each once, then the others."""
        if not self.fulfillments:
            return self.parcels
        return [*tracking_of(self.fulfillments), *self.parcels]

    @property
    def held_until(self) -> str | None:
        """The end of the hold; None once the order has moved on or a payment has begun."""
        if self.expires_at is None or self.status != "pending" or self.payment_status not in UNPAID:
            return None
        return self.expires_at

    @property
    def fulfillment_status(self) -> FulfillmentStatus:
        fulfilled = sum(line.fulfilled_quantity for line in self.lines)
        if not fulfilled:
            return "unfulfilled"
        unshipped = any(line.open_quantity for line in self.lines)
        # Units that are still to be shipped keep the order from being returned; a cancelled order ships nothing more.
        if fulfilled == sum(line.returned_quantity for line in self.lines) and (
            not unshipped or self.status == "cancelled"
        ):
            return "returned"
        return "partially_fulfilled" if unshipped else "fulfilled"

    def copy(self) -> "OrderState":
        """A copy with its own lines. Other nested values are replaced on change, never mutated."""
        lines = [msgspec.structs.replace(line) for line in self.lines]
        return msgspec.structs.replace(self, lines=lines)

    def set_prices_include_tax(self, value: bool) -> None:
        self.prices_include_tax = value
        for line in self.lines:
            line.prices_include_tax = value

    def allocate_to_default(self) -> None:
        """Allocate the units of a new order to the default location, if its status reserves them."""
        if self.status in HOLDING:
            for line in self.lines:
                if line.variant_id is not None and line.tracked:
                    line.allocations = [Allocation(DEFAULT_LOCATION, line.quantity)]

    def place(self, now: str) -> None:
        """Set the time of a new order, and of the payments that came with it."""
        self.placed_at = now
        self.payments = [
            each if each.created_at else msgspec.structs.replace(each, created_at=now) for each in self.payments
        ]

    def is_same(self, other: "OrderState") -> bool:
        """Whether nothing differs, also as JSON."""
        return (
            self == other
            and is_same(self.metadata, other.metadata)
            and all(line.is_same(twin) for line, twin in zip(self.lines, other.lines, strict=True))
        )

    def line(self, line_id: int) -> LineState | None:
        return next((line for line in self.lines if line.id == line_id), None)


def contribution(order: OrderState | None) -> tuple[int, int]:
    """What an order adds to its customer's count of orders and total spent."""
    if order is None or order.status in ("draft", "cancelled"):
        return 0, 0
    return 1, order.amount_paid - order.amount_refunded


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
