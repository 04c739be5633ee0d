"""What the service answers. Written by `make sdk` from the declarations; do not edit."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from stoa.client.answers import Model, absent


class Actor(Model):
    """Who caused it: an app by its id, or the operator."""

    type: str = absent()
    app_id: "int | None" = absent()


class Address(Model):
    """Where a customer can be reached; its id is stable, and orders keep a copy of their own."""

    id: int = absent()
    customer_id: int = absent()
    label: "str | None" = absent()
    first_name: "str | None" = absent()
    last_name: "str | None" = absent()
    company: "str | None" = absent()
    phone: "str | None" = absent()
    address1: str = absent()
    address2: "str | None" = absent()
    city: "str | None" = absent()
    district: "str | None" = absent()
    province: "str | None" = absent()
    province_code: "str | None" = absent()
    postal_code: "str | None" = absent()
    country_code: str = absent()
    latitude: "float | None" = absent()
    longitude: "float | None" = absent()
    is_default_shipping: bool = absent()
    is_default_billing: bool = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()


class Attempt(Model):
    """One try to deliver, and what the receiver said."""

    at: datetime = absent()
    duration_ms: int = absent()
    response_status: "int | None" = absent()
    response_body: "str | None" = absent()
    error: "str | None" = absent()


class Author(Model):
    type: str = absent()
    id: "int | None" = absent()
    name: str = absent()


class BreakerState(Model):
    """Whether sending rests because the receiver fails; `next_probe_at` is when it is tried again."""

    state: str = absent()
    """One of closed, open; more may come."""
    failures: int = absent()
    next_probe_at: "datetime | None" = absent()


class Comment(Model):
    """An entry of an order's timeline: what somebody wrote, or what happened to it."""

    id: int = absent()
    order_id: int = absent()
    type: str = absent()
    """One of comment, edit, status_change, system; more may come."""
    visibility: str = absent()
    """One of customer, internal; more may come."""
    body: "str | None" = absent()
    author: "Author" = absent()
    changes: dict[str, list[Any]] = absent()
    created_at: datetime = absent()


class Contact(Model):
    """Whom to reach about the order; a snapshot, kept whatever becomes of the customer's profile."""

    email: "str | None" = absent()
    phone: "str | None" = absent()
    first_name: "str | None" = absent()
    last_name: "str | None" = absent()


class Counts(Model):
    total: int = absent()
    processed: int = absent()
    created: int = absent()
    updated: int = absent()
    unchanged: int = absent()
    archived: int = absent()
    failed: int = absent()


class Customer(Model):
    """A person or a company that buys from the store."""

    id: int = absent()
    external_id: "str | None" = absent()
    email: "str | None" = absent()
    phone: "str | None" = absent()
    first_name: "str | None" = absent()
    last_name: "str | None" = absent()
    company: "str | None" = absent()
    locale: "str | None" = absent()
    status: str = absent()
    """One of active, disabled, erased; more may come."""
    accepts_marketing: bool = absent()
    tags: list[str] = absent()
    note: "str | None" = absent()
    addresses: "list[Address]" = absent()
    default_shipping_address_id: "int | None" = absent()
    default_billing_address_id: "int | None" = absent()
    metadata: dict[str, Any] = absent()
    orders_count: int = absent()
    total_spent: Decimal = absent()
    last_order_at: "datetime | None" = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()
    deleted_at: "datetime | None" = absent()


class DeliveredResource(Model):
    """What the event tells of."""

    type: str = absent()
    id: int = absent()
    version: int = absent()


class Delivery(Model):
    """An event on its way to a subscription."""

    id: str = absent()
    webhook_id: int = absent()
    event_id: str = absent()
    event_type: str = absent()
    sequence: int = absent()
    resource: "DeliveredResource" = absent()
    status: str = absent()
    """One of cancelled, failed, held, pending, retrying, skipped, succeeded; more may come."""
    attempts: "list[Attempt]" = absent()
    attempt_count: int = absent()
    next_attempt_at: "datetime | None" = absent()
    redelivery_of: "str | None" = absent()
    created_at: datetime = absent()
    payload: Any = absent()
    headers: dict[str, str] = absent()


class Duplicate(Model):
    """Another order that may be the same purchase again, or was copied from this one on purpose."""

    order_id: int = absent()
    number: int = absent()
    kind: str = absent()
    """One of copy, suspected; more may come."""
    score: float = absent()
    reasons: list[str] = absent()
    seconds_apart: int = absent()
    status: str = absent()
    """One of cancelled, completed, delivered, draft, on_hold, pending, processing, returned, shipped; more may
    come.
    """
    total: Decimal = absent()


class Image(Model):
    id: int = absent()
    url: str = absent()
    alt: "str | None" = absent()
    position: int = absent()


class Import(Model):
    """A file on its way into the store."""

    id: str = absent()
    resource: str = absent()
    status: str = absent()
    """One of failed, partially_succeeded, queued, running, succeeded; more may come."""
    options: "Options" = absent()
    counts: "Counts" = absent()
    progress: float = absent()
    errors: "list[RowError]" = absent()
    created_at: datetime = absent()
    started_at: "datetime | None" = absent()
    finished_at: "datetime | None" = absent()
    report_expires_at: datetime = absent()
    request_id: str = absent()
    version: int = absent()


class LedgerEntry(Model):
    """One change of a variant's stock: what moved, why, who did it, and the levels right after it."""

    id: int = absent()
    variant_id: int = absent()
    sku: "str | None" = absent()
    kind: str = absent()
    """One of adjust, commit, import, release, reserve, restock, set; more may come."""
    delta_on_hand: int = absent()
    delta_reserved: int = absent()
    on_hand_after: int = absent()
    reserved_after: int = absent()
    reason: str = absent()
    """One of correction, damaged, lost, order, other, restock, return, stocktake, sync; more may come."""
    reference: "str | None" = absent()
    order_id: "int | None" = absent()
    actor: "Actor" = absent()
    request_id: str = absent()
    created_at: str = absent()


class Level(Model):
    """A variant's stock, as `include=inventory` puts it into its product."""

    variant_id: int = absent()
    sku: "str | None" = absent()
    stock: "Stock" = absent()


class LineItem(Model):
    """What was bought, as it was then; its id is stable, whatever becomes of the product."""

    id: int = absent()
    product_id: int = absent()
    variant_id: int = absent()
    sku: "str | None" = absent()
    name: str = absent()
    variant_title: str = absent()
    option_values: dict[str, str] = absent()
    quantity: int = absent()
    fulfilled_quantity: int = absent()
    returned_quantity: int = absent()
    unit_price: Decimal = absent()
    discount_total: Decimal = absent()
    tax_total: Decimal = absent()
    total: Decimal = absent()
    metadata: dict[str, Any] = absent()


class MetadataEntry(Model):
    """One key of a customer's metadata, with who wrote it last."""

    key: str = absent()
    value: str | int | float | bool = absent()
    updated_at: datetime = absent()
    updated_by: "WrittenBy" = absent()


class Option(Model):
    """What a product's variants differ in, such as Size, and the values it takes."""

    name: str = absent()
    values: list[str] = absent()


class Options(Model):
    """How a file is to be taken in."""

    mode: str = absent()
    """One of create, update, upsert; more may come."""
    match_by: str = absent()
    on_error: str = absent()
    """One of abort, continue; more may come."""
    dry_run: bool = absent()
    missing: str = absent()
    """One of archive, ignore; more may come."""


class Order(Model):
    """Somebody's purchase: what, for how much, for whom, and how far it has come."""

    id: int = absent()
    number: int = absent()
    external_id: "str | None" = absent()
    source: "Source" = absent()
    status: str = absent()
    """One of cancelled, completed, delivered, draft, on_hold, pending, processing, returned, shipped; more may
    come.
    """
    payment_status: str = absent()
    """One of authorized, failed, paid, partially_refunded, refunded, unpaid, voided; more may come."""
    fulfillment_status: str = absent()
    """One of fulfilled, partially_fulfilled, returned, unfulfilled; more may come."""
    allowed_transitions: list[str] = absent()
    currency: str = absent()
    customer_id: "int | None" = absent()
    subtotal: Decimal = absent()
    discount_total: Decimal = absent()
    shipping_total: Decimal = absent()
    tax_total: Decimal = absent()
    total: Decimal = absent()
    amount_paid: Decimal = absent()
    amount_refunded: Decimal = absent()
    amount_due: Decimal = absent()
    shipping_method: "str | None" = absent()
    payment_method: "str | None" = absent()
    tags: list[str] = absent()
    duplicate_of: "int | None" = absent()
    cancel_reason: "str | None" = absent()
    placed_at: datetime = absent()
    cancelled_at: "datetime | None" = absent()
    completed_at: "datetime | None" = absent()
    line_items: "list[LineItem]" = absent()
    contact: "Contact" = absent()
    shipping_address: "OrderAddress | None" = absent()
    billing_address: "OrderAddress | None" = absent()
    tracking: "list[Tracking]" = absent()
    note: "str | None" = absent()
    metadata: dict[str, Any] = absent()
    suspected_duplicates_count: int = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()


class OrderAddress(Model):
    """Where it goes, or who is billed; a snapshot, so that a customer who moves does not move old orders."""

    first_name: "str | None" = absent()
    last_name: "str | None" = absent()
    company: "str | None" = absent()
    phone: "str | None" = absent()
    address1: "str | None" = absent()
    address2: "str | None" = absent()
    city: "str | None" = absent()
    district: "str | None" = absent()
    province: "str | None" = absent()
    province_code: "str | None" = absent()
    postal_code: "str | None" = absent()
    country_code: "str | None" = absent()
    latitude: "float | None" = absent()
    longitude: "float | None" = absent()


class Product(Model):
    """A thing that a store sells, with at least one variant."""

    id: int = absent()
    name: str = absent()
    price: Decimal = absent()
    external_id: "str | None" = absent()
    slug: str = absent()
    description: "str | None" = absent()
    status: str = absent()
    """One of active, archived, draft; more may come."""
    compare_at_price: "Decimal | None" = absent()
    cost_price: "Decimal | None" = absent()
    currency: str = absent()
    sku: "str | None" = absent()
    barcode: "str | None" = absent()
    brand: "str | None" = absent()
    category: "str | None" = absent()
    tags: list[str] = absent()
    images: "list[Image]" = absent()
    options: "list[Option]" = absent()
    variants_count: int = absent()
    weight: "float | None" = absent()
    weight_unit: str = absent()
    """One of g, kg, lb, oz; more may come."""
    requires_shipping: bool = absent()
    taxable: bool = absent()
    track_inventory: bool = absent()
    seo: "Seo" = absent()
    metadata: dict[str, Any] = absent()
    stock: "Stock" = absent()
    in_stock: bool = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()
    deleted_at: "datetime | None" = absent()
    variants: "list[Variant]" = absent()
    inventory: "list[Level]" = absent()


class Redelivery(Model):
    """What is sent again, in the order in which it first was."""

    id: "int | None" = absent()
    webhook_id: int = absent()
    matched: int = absent()
    dry_run: bool = absent()
    rate_per_s: "int | None" = absent()
    created_at: datetime = absent()


class RowError(Model):
    """A fault of one row; without a row, a fault of the whole job."""

    row: "int | None" = absent()
    key: dict[str, Any] = absent()
    pointer: str = absent()
    code: str = absent()
    detail: str = absent()


class Seo(Model):
    title: "str | None" = absent()
    description: "str | None" = absent()


class Source(Model):
    """The app that placed the order."""

    app_id: "int | None" = absent()
    name: str = absent()


class Stats(Model):
    """What the last 24 hours brought: events that arrived, events given up, and tries in all."""

    succeeded: int = absent()
    failed: int = absent()
    attempts: int = absent()


class Stock(Model):
    """Units on the shelf, units promised to orders, and what is left to sell."""

    on_hand: int = absent()
    reserved: int = absent()
    available: int = absent()


class StockLevel(Model):
    """How much there is of a variant, and how it is sold."""

    variant_id: int = absent()
    product_id: int = absent()
    sku: "str | None" = absent()
    track_inventory: bool = absent()
    allow_backorder: bool = absent()
    low_stock_threshold: "int | None" = absent()
    stock: "Stock" = absent()
    updated_at: str = absent()
    version: int = absent()


class TestResult(Model):
    """What a test send brought: the request as it was signed, and what the receiver said."""

    succeeded: bool = absent()
    event_id: str = absent()
    event_type: str = absent()
    url: str = absent()
    request_headers: dict[str, str] = absent()
    request_body: str = absent()
    signed_content: str = absent()
    response_status: "int | None" = absent()
    response_headers: dict[str, str] = absent()
    response_body: "str | None" = absent()
    error: "str | None" = absent()
    timings: "Timings" = absent()


class Timings(Model):
    """How long each part of a request took, in milliseconds; null for a part that was not reached."""

    dns_ms: "float | None" = absent()
    connect_ms: "float | None" = absent()
    tls_ms: "float | None" = absent()
    first_byte_ms: "float | None" = absent()
    total_ms: float = absent()


class Tracking(Model):
    """One parcel on its way."""

    carrier: "str | None" = absent()
    number: "str | None" = absent()
    url: "str | None" = absent()
    shipped_at: datetime = absent()


class Variant(Model):
    """One sellable form of a product; its id is stable for ever."""

    id: int = absent()
    product_id: int = absent()
    title: str = absent()
    option_values: dict[str, str] = absent()
    sku: "str | None" = absent()
    barcode: "str | None" = absent()
    price: "Decimal | None" = absent()
    effective_price: Decimal = absent()
    compare_at_price: "Decimal | None" = absent()
    cost_price: "Decimal | None" = absent()
    weight: "float | None" = absent()
    image_id: "int | None" = absent()
    position: int = absent()
    is_default: bool = absent()
    track_inventory: bool = absent()
    allow_backorder: bool = absent()
    low_stock_threshold: "int | None" = absent()
    external_id: "str | None" = absent()
    metadata: dict[str, Any] = absent()
    stock: "Stock" = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()


class Webhook(Model):
    """A subscription of this app to what happens in this store."""

    id: int = absent()
    name: "str | None" = absent()
    url: "str | None" = absent()
    events: list[str] = absent()
    filter: dict[str, str] = absent()
    fields: list[str] = absent()
    payload: str = absent()
    """One of full, thin; more may come."""
    ordering: str = absent()
    """One of none, resource; more may come."""
    skip_own: bool = absent()
    headers: dict[str, str] = absent()
    status: str = absent()
    """One of active, disabled, paused; more may come."""
    disabled_reason: "str | None" = absent()
    health: str = absent()
    """One of degraded, failing, healthy; more may come."""
    secret_expires_at: "datetime | None" = absent()
    max_in_flight: int = absent()
    rate_per_s: "int | None" = absent()
    pending: int = absent()
    oldest_pending_age_s: "int | None" = absent()
    breaker: "BreakerState" = absent()
    stats_24h: "Stats" = absent()
    last_sequence: int = absent()
    last_delivery_at: "datetime | None" = absent()
    created_at: datetime = absent()
    updated_at: datetime = absent()
    version: int = absent()
    secret: str = absent()


class WrittenBy(Model):
    """The app that wrote; null when an operator did."""

    app_id: "int | None" = absent()
