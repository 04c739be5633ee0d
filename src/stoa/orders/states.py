"""The state of an order that the rules work on: plain values, money in minor units, times as RFC 3339 text."""

from typing import Any

import msgspec

from stoa.orders.contract import FulfillmentStatus, PaymentStatus, Status


class LineState(msgspec.Struct):
    """A line item, with a snapshot of the variant at the time of the order."""

    id: int
    product_id: int
    variant_id: int
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

    @property
    def total(self) -> int:
        return self.unit_price * self.quantity - self.discount_total + self.tax_total

    @property
    def open_quantity(self) -> int:
        """Units that are not shipped yet."""
        return self.quantity - self.fulfilled_quantity


class OrderState(msgspec.Struct, kw_only=True):
    """An order. Derived values are properties, so that they cannot disagree with the fields."""

    id: int = 0
    number: int = 0
    version: int = 0
    external_id: str | None = None
    source: dict[str, Any] = {}
    status: Status
    payment_status: PaymentStatus = "unpaid"
    currency: str
    customer_id: int | None = None
    lines: list[LineState]
    discount_total: int = 0
    shipping_total: int = 0
    tax_total: int = 0
    amount_paid: int = 0
    amount_refunded: int = 0
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
    tracking: list[dict[str, Any]] = []
    note: str | None = None
    metadata: dict[str, Any] = {}
    suspected_duplicates: int = 0

    @property
    def subtotal(self) -> int:
        return sum(line.total for line in self.lines)

    @property
    def total(self) -> int:
        return self.subtotal - self.discount_total + self.shipping_total + self.tax_total

    @property
    def amount_due(self) -> int:
        """The amount to be paid; zero once no payment is expected any more."""
        if self.status in ("cancelled", "returned") or self.payment_status == "voided":
            return 0
        return max(0, self.total - self.amount_paid)

    @property
    def fulfillment_status(self) -> FulfillmentStatus:
        fulfilled = sum(line.fulfilled_quantity for line in self.lines)
        if not fulfilled:
            return "unfulfilled"
        if fulfilled == sum(line.returned_quantity for line in self.lines):
            return "returned"
        return "partially_fulfilled" if any(line.open_quantity for line in self.lines) else "fulfilled"

    def copy(self) -> "OrderState":
        """A copy with its own lines. Other nested values are replaced on change, never mutated."""
        lines = [msgspec.structs.replace(line) for line in self.lines]
        return msgspec.structs.replace(self, lines=lines)

    def line(self, line_id: int) -> LineState | None:
        return next((line for line in self.lines if line.id == line_id), None)
