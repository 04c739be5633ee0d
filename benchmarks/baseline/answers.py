"""The responses as pydantic models, with the same fields and envelope as the service."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Stock(Answer):
    on_hand: int
    reserved: int
    available: int


class Image(Answer):
    id: int
    url: str
    alt: str | None
    position: int
    width: int | None
    height: int | None
    status: str
    reason: str | None
    source_url: str | None


class Option(Answer):
    name: str
    values: list[str]


class Seo(Answer):
    title: str | None
    description: str | None


class Variant(Answer):
    id: int
    product_id: int
    title: str
    option_values: dict[str, str]
    sku: str | None
    barcode: str | None
    price: Decimal | None
    effective_price: Decimal
    compare_at_price: Decimal | None
    cost_price: Decimal | None
    weight: float | None
    image_id: int | None
    position: int
    is_default: bool
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    external_id: str | None
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    stock: Stock
    created_at: datetime
    updated_at: datetime
    version: int
    gtin: str | None
    requires_shipping: bool | None
    taxable: bool | None


class InCollection(Answer):
    handle: str
    position: int | None
    by_rule: bool


class Product(Answer):
    id: int
    name: str
    price: Decimal
    external_id: str | None
    slug: str
    description: str | None
    status: str
    compare_at_price: Decimal | None
    cost_price: Decimal | None
    currency: str
    sku: str | None
    barcode: str | None
    brand: str | None
    category: str | None
    tags: list[str]
    images: list[Image]
    options: list[Option]
    variants_count: int
    weight: float | None
    weight_unit: str
    requires_shipping: bool
    taxable: bool
    track_inventory: bool
    seo: Seo
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    stock: Stock
    in_stock: bool
    created_at: datetime
    updated_at: datetime
    version: int
    deleted_at: datetime | None
    collections: list[InCollection]


class ProductWithVariants(Product):
    variants: list[Variant]


class PageMeta(Answer):
    total: int
    limit: int
    page: int | None
    next_cursor: str | None
    prev_cursor: str | None


class ProductPage(Answer):
    data: list[Product]
    meta: PageMeta


class OneProduct(Answer):
    data: ProductWithVariants
    meta: dict[str, Any]


class NewToken(Answer):
    access_token: str
    token_type: str
    expires_in: int
    scope: str


class Address(Answer):
    id: int
    customer_id: int
    label: str | None
    first_name: str | None
    last_name: str | None
    company: str | None
    phone: str | None
    address1: str
    address2: str | None
    city: str | None
    district: str | None
    province: str | None
    province_code: str | None
    postal_code: str | None
    country_code: str
    latitude: float | None
    longitude: float | None
    is_default_shipping: bool
    is_default_billing: bool
    created_at: datetime
    updated_at: datetime
    version: int


class Customer(Answer):
    id: int
    external_id: str | None
    email: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None
    company: str | None
    locale: str | None
    status: str
    accepts_marketing: bool
    consents: dict[str, Any]
    tags: list[str]
    note: str | None
    addresses: list[Address]
    default_shipping_address_id: int | None
    default_billing_address_id: int | None
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    orders_count: int
    total_spent: Decimal
    last_order_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int
    deleted_at: datetime | None


class CustomerPage(Answer):
    data: list[Customer]
    meta: PageMeta


class Line(Answer):
    id: int
    product_id: int
    variant_id: int
    sku: str | None
    name: str
    variant_title: str
    option_values: dict[str, str]
    quantity: int
    fulfilled_quantity: int
    returned_quantity: int
    unit_price: Decimal
    discount_total: Decimal
    tax_total: Decimal
    total: Decimal
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    discounts: list[dict[str, Any]]
    tax_lines: list[dict[str, Any]]
    requires_shipping: bool
    taxable: bool
    location: str | None
    allocations: list[dict[str, Any]]
    weight: float | None
    weight_unit: str | None


class Totals(Answer):
    items: Decimal
    items_discount: Decimal
    items_tax: Decimal
    shipping: Decimal
    shipping_tax: Decimal
    order_discount: Decimal
    discount: Decimal
    tax: Decimal
    total: Decimal


class Order(Answer):
    id: int
    number: int
    external_id: str | None
    source: dict[str, Any]
    status: str
    payment_status: str
    fulfillment_status: str
    allowed_transitions: list[str]
    currency: str
    customer_id: int | None
    subtotal: Decimal
    discount_total: Decimal
    shipping_total: Decimal
    tax_total: Decimal
    total: Decimal
    amount_paid: Decimal
    amount_refunded: Decimal
    amount_due: Decimal
    balance: Decimal
    prices_include_tax: bool
    totals: Totals
    discounts: list[dict[str, Any]]
    tax_lines: list[dict[str, Any]]
    fulfillments: list[dict[str, Any]]
    refunds: list[dict[str, Any]]
    payments: list[dict[str, Any]]
    removed_line_items: list[dict[str, Any]]
    shipping_method: str | None
    payment_method: str | None
    tags: list[str]
    duplicate_of: int | None
    cancel_reason: str | None
    placed_at: datetime
    cancelled_at: datetime | None
    completed_at: datetime | None
    expires_at: datetime | None
    line_items: list[Line]
    contact: dict[str, Any]
    shipping_address: dict[str, Any] | None
    billing_address: dict[str, Any] | None
    tracking: list[dict[str, Any]]
    note: str | None
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    suspected_duplicates_count: int
    created_at: datetime
    updated_at: datetime
    version: int


class OrderPage(Answer):
    data: list[Order]
    meta: PageMeta


class OneOrder(Answer):
    data: Order
    meta: dict[str, Any]


class LedgerEntry(Answer):
    id: int
    variant_id: int
    sku: str | None
    kind: str
    location: str
    delta_on_hand: int
    delta_reserved: int
    on_hand_after: int
    reserved_after: int
    reason: str
    reference: str | None
    order_id: int | None
    actor: dict[str, Any]
    request_id: str
    created_at: datetime


class LedgerOutcome(Answer):
    index: int
    status: str
    id: int
    resource: LedgerEntry
    error: None


class LedgerOutcomes(Answer):
    data: list[LedgerOutcome]
    meta: dict[str, int]
