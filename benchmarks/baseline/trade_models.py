"""Customers and orders as SQLAlchemy models."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from benchmarks.baseline.models import Base

TRANSITIONS: dict[str, list[str]] = {
    "draft": ["pending", "processing", "cancelled"],
    "pending": ["processing", "on_hold", "cancelled"],
    "processing": ["on_hold", "shipped", "completed", "cancelled"],
    "on_hold": ["pending", "processing", "cancelled"],
    "shipped": ["delivered", "returned"],
    "delivered": ["completed", "returned"],
    "completed": ["returned"],
    "cancelled": [],
    "returned": [],
}


class Address(Base):
    __tablename__ = "addresses"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    customer_id: Mapped[int] = mapped_column(ForeignKey("baseline.customers.id"), primary_key=True)
    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str | None]
    first_name: Mapped[str | None]
    last_name: Mapped[str | None]
    company: Mapped[str | None]
    phone: Mapped[str | None]
    address1: Mapped[str]
    address2: Mapped[str | None]
    city: Mapped[str | None]
    district: Mapped[str | None]
    province: Mapped[str | None]
    province_code: Mapped[str | None]
    postal_code: Mapped[str | None]
    country_code: Mapped[str]
    latitude: Mapped[float | None]
    longitude: Mapped[float | None]
    is_default_shipping: Mapped[bool]
    is_default_billing: Mapped[bool]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    version: Mapped[int]


class Customer(Base):
    __tablename__ = "customers"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    store_id: Mapped[int] = mapped_column(ForeignKey("stores.id"))
    external_id: Mapped[str | None]
    email: Mapped[str | None]
    phone: Mapped[str | None]
    first_name: Mapped[str | None]
    last_name: Mapped[str | None]
    company: Mapped[str | None]
    locale: Mapped[str | None]
    status: Mapped[str]
    accepts_marketing: Mapped[bool]
    tags: Mapped[list[str]]
    note: Mapped[str | None]
    default_shipping_address_id: Mapped[int | None]
    default_billing_address_id: Mapped[int | None]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata")
    orders_count: Mapped[int]
    total_spent: Mapped[Decimal]
    last_order_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    version: Mapped[int]
    deleted_at: Mapped[datetime | None]
    consents: Mapped[dict[str, Any]]
    addresses: Mapped[list[Address]] = relationship(order_by=Address.id)


class OrderLine(Base):
    __tablename__ = "order_lines"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    order_id: Mapped[int] = mapped_column(ForeignKey("baseline.orders.id"), primary_key=True)
    id: Mapped[int] = mapped_column(primary_key=True, server_default=text("nextval('baseline.order_line_ids')"))
    product_id: Mapped[int]
    variant_id: Mapped[int]
    sku: Mapped[str | None]
    name: Mapped[str]
    variant_title: Mapped[str]
    option_values: Mapped[dict[str, Any]]
    quantity: Mapped[int]
    fulfilled_quantity: Mapped[int]
    returned_quantity: Mapped[int]
    unit_price: Mapped[Decimal]
    discount_total: Mapped[Decimal]
    tax_total: Mapped[Decimal]
    total: Mapped[Decimal]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata")
    discounts: Mapped[list[dict[str, Any]]]
    tax_lines: Mapped[list[dict[str, Any]]]
    requires_shipping: Mapped[bool]
    taxable: Mapped[bool]
    location: Mapped[str | None]
    allocations: Mapped[list[dict[str, Any]]]
    weight: Mapped[float | None]
    weight_unit: Mapped[str | None]


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    store_id: Mapped[int] = mapped_column(ForeignKey("stores.id"))
    number: Mapped[int]
    external_id: Mapped[str | None]
    source: Mapped[dict[str, Any]]
    status: Mapped[str]
    payment_status: Mapped[str]
    fulfillment_status: Mapped[str]
    currency: Mapped[str]
    customer_id: Mapped[int | None] = mapped_column(ForeignKey("baseline.customers.id"))
    email: Mapped[str | None]
    subtotal: Mapped[Decimal]
    discount_total: Mapped[Decimal]
    shipping_total: Mapped[Decimal]
    tax_total: Mapped[Decimal]
    total: Mapped[Decimal]
    amount_paid: Mapped[Decimal]
    amount_refunded: Mapped[Decimal]
    shipping_method: Mapped[str | None]
    payment_method: Mapped[str | None]
    tags: Mapped[list[str]]
    duplicate_of: Mapped[int | None]
    cancel_reason: Mapped[str | None]
    placed_at: Mapped[datetime]
    cancelled_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    contact: Mapped[dict[str, Any]]
    shipping_address: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    billing_address: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    tracking: Mapped[list[dict[str, Any]]]
    note: Mapped[str | None]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata")
    suspected_duplicates_count: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    version: Mapped[int]
    prices_include_tax: Mapped[bool]
    discounts: Mapped[list[dict[str, Any]]]
    tax_lines: Mapped[list[dict[str, Any]]]
    fulfillments: Mapped[list[dict[str, Any]]]
    refunds: Mapped[list[dict[str, Any]]]
    payments: Mapped[list[dict[str, Any]]]
    removed_line_items: Mapped[list[dict[str, Any]]]
    expires_at: Mapped[datetime | None]
    line_items: Mapped[list[OrderLine]] = relationship(order_by=OrderLine.id)

    @property
    def amount_due(self) -> Decimal:
        return self.total - self.amount_paid

    @property
    def balance(self) -> Decimal:
        return self.total - self.amount_paid + self.amount_refunded

    @property
    def totals(self) -> dict[str, Decimal]:
        items_discount = sum((line.discount_total for line in self.line_items), Decimal("0.00"))
        items_tax = sum((line.tax_total for line in self.line_items), Decimal("0.00"))
        return {
            "items": sum((line.unit_price * line.quantity for line in self.line_items), Decimal("0.00")),
            "items_discount": items_discount,
            "items_tax": items_tax,
            "shipping": self.shipping_total,
            "shipping_tax": self.tax_total,
            "order_discount": self.discount_total,
            "discount": items_discount + self.discount_total,
            "tax": items_tax + self.tax_total,
            "total": self.total,
        }

    @property
    def allowed_transitions(self) -> list[str]:
        return TRANSITIONS[self.status]


class OrderComment(Base):
    __tablename__ = "order_comments"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("baseline.orders.id"))
    type: Mapped[str]
    body: Mapped[str]
    created_at: Mapped[datetime]


class OrderNumber(Base):
    __tablename__ = "order_numbers"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    store_id: Mapped[int] = mapped_column(primary_key=True)
    last: Mapped[int]
