"""An order in memory and as a stored document: its state, the parts of its document, and its search terms."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money, terms
from stoa.db.query import json_of
from stoa.events.outbox import Actor
from stoa.orders.balances import Figures, PaymentMark, PaymentStatus, share_of
from stoa.orders.contract import HOLDING, TRANSITIONS, FulfillmentStatus, Status
from stoa.orders.line_items import Allocation
from stoa.orders.records import FulfillmentState, PaymentState, RefundState, RemovedUnits, records_of, tracking_of
from stoa.products.contract import WeightUnit
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.call import Call
from stoa.rest.problems import Fault, ValidationFailed

_NO_RECORDS = ',"fulfillments":[],"refunds":[],"payments":[],"removed_line_items":[]'
NO_CONTACT: dict[str, Any] = {"email": None, "phone": None, "first_name": None, "last_name": None}
MOST_LINES_TEXT = 2_000_000  # metadata that grows line by line must not make an order too large to read


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

    def line(self, line_id: int) -> LineState | None:
        return next((line for line in self.lines if line.id == line_id), None)


class Parts(msgspec.Struct):
    """The parts that the database stores of a document, and joins when it is read."""

    head: str
    lines: str
    person: str


def parts_of(order: OrderState, digits: int) -> Parts:
    records = _NO_RECORDS
    if order.fulfillments or order.payments:
        records = (
            ","
            + json_of(records_of(order.fulfillments, order.refunds, order.payments, order.removed_line_items, digits))[
                1:-1
            ]
        )
    return Parts(
        head="," + json_of(purchase(order, digits))[1:-1] + records + _members(order.unknown),
        lines=json_of([line_document(line, digits) for line in order.lines]),
        person="," + json_of(person(order))[1:-1] + _members(order.unknown_of_person),
    )


def _members(unknown: Mapping[str, Any]) -> str:
    return "," + json_of(unknown)[1:-1] if unknown else ""


def check_size(parts: Parts) -> None:
    if len(parts.lines) > MOST_LINES_TEXT:
        fault = Fault("/line_items", "too_long", f"must have at most {MOST_LINES_TEXT} characters in total")
        raise ValidationFailed("The line items of the order are too large.", faults=[fault])


def document_of(order: OrderState, digits: int) -> dict[str, Any]:
    """An order as callers see it, without counts, times and version."""
    lines = [line_document(line, digits) for line in order.lines]
    records = records_of(order.fulfillments, order.refunds, order.payments, order.removed_line_items, digits)
    return {**purchase(order, digits), **records, "line_items": lines, **person(order)}


def document(order: OrderState, parts: Parts, tail: str) -> bytes:
    """The order as callers see it; `order_document` in the database renders the same."""
    return f'{{"id":{order.id}{parts.head},"line_items":{parts.lines}{parts.person}{tail}'.encode()


def tail_of(suspected_duplicates: int, now: str, version: int) -> str:
    """The last part of a new order's document; the database renders the same."""
    return f',"suspected_duplicates_count":{suspected_duplicates},"created_at":"{now}","updated_at":"{now}","version":{version}}}'


def purchase(order: OrderState, digits: int) -> dict[str, Any]:
    """The members about the purchase, in the order of the contract."""

    def text(minor: int) -> str:
        return money.to_text(minor, digits)

    items = items_discount = items_tax = 0
    for line in order.lines:
        items += line.unit_price * line.quantity
        items_discount += line.discount_total
        items_tax += line.tax_total
    discount, shipping, tax = text(order.discount_total), text(order.shipping_total), text(order.tax_total)
    subtotal = order.subtotal
    figures = order.figures_of(order.total_of(subtotal))
    total = text(figures.total)
    return {
        "number": order.number,
        "external_id": order.external_id,
        "source": order.source,
        "status": order.status,
        "payment_status": figures.payment_status(order.payment_mark),
        "fulfillment_status": order.fulfillment_status,
        "allowed_transitions": TRANSITIONS[order.status],
        "currency": order.currency,
        "customer_id": order.customer_id,
        "subtotal": text(subtotal),
        "discount_total": discount,
        "shipping_total": shipping,
        "tax_total": tax,
        "total": total,
        "amount_paid": text(figures.paid),
        "amount_refunded": text(figures.refunded),
        "amount_due": text(figures.due),
        "balance": text(figures.balance),
        "prices_include_tax": order.prices_include_tax,
        "totals": {
            "items": text(items),
            "items_discount": text(items_discount),
            "items_tax": text(items_tax),
            "shipping": shipping,
            "shipping_tax": tax,
            "order_discount": discount,
            "discount": text(items_discount + order.discount_total),
            "tax": text(items_tax + order.tax_total),
            "total": total,
        },
        "discounts": order.discounts,
        "tax_lines": order.tax_lines,
        "shipping_method": order.shipping_method,
        "payment_method": order.payment_method,
        "tags": order.tags,
        "duplicate_of": order.duplicate_of,
        "cancel_reason": order.cancel_reason,
        "placed_at": order.placed_at,
        "cancelled_at": order.cancelled_at,
        "completed_at": order.completed_at,
    }


def person(order: OrderState) -> dict[str, Any]:
    """The members about the buyer: the part that an erasure empties."""
    return {
        "contact": order.contact,
        "shipping_address": order.shipping_address,
        "billing_address": order.billing_address,
        "tracking": order.tracking,
        "note": order.note,
        "metadata": order.metadata,
    }


def line_document(line: LineState, digits: int) -> dict[str, Any]:
    return {
        "id": line.id,
        "product_id": line.product_id,
        "variant_id": line.variant_id,
        "sku": line.sku,
        "name": line.name,
        "variant_title": line.variant_title,
        "option_values": line.option_values,
        "quantity": line.quantity,
        "fulfilled_quantity": line.fulfilled_quantity,
        "returned_quantity": line.returned_quantity,
        "unit_price": money.to_text(line.unit_price, digits),
        "discount_total": money.to_text(line.discount_total, digits),
        "tax_total": money.to_text(line.tax_total, digits),
        "total": money.to_text(line.total, digits),
        "metadata": line.metadata,
        "discounts": line.discounts,
        "tax_lines": line.tax_lines,
        "requires_shipping": line.requires_shipping,
        "taxable": line.taxable,
        "location": line.location,
        "allocations": [{"location": each.location, "quantity": each.quantity} for each in line.allocations],
        "weight": line.weight,
        "weight_unit": line.weight_unit,
        **line.unknown,
    }


def terms_of(order: OrderState, store_id: int) -> str:
    """The search terms of an order, as a tsvector."""
    contact = order.contact
    text = f"{contact['first_name'] or ''} {contact['last_name'] or ''} {contact['email'] or ''} {order.number}"
    found = {terms.lexeme(store_id, "word", word) for word in terms.words(text)}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in order.tags}
    found |= {terms.lexeme(store_id, "meta", terms.entry(key, value)) for key, value in order.metadata.items()}
    return terms.vector(found)


def actor_of(call: Call) -> Actor:
    """Who changes an order, as events and the stock ledger name them."""
    return Actor(call.kind, call.app_id)


def author_of(call: Call) -> str:
    """Who changes an order, as its timeline names them."""
    return json_of({"type": call.kind, "id": call.app_id, "name": call.author})


def time_text(moment: datetime) -> str:
    """A time as RFC 3339 in UTC with microseconds, as the database renders it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
