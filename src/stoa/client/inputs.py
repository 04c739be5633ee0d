"""What is sent to the service: bodies and queries. Written by `make sdk` from the declarations; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

from stoa.client import models

Amount: TypeAlias = str | Decimal | int
"""An exact number; never a float, which is none."""
T = TypeVar("T")
OneOrMore: TypeAlias = T | Sequence[T]
AddressField: TypeAlias = Literal[
    "id",
    "customer_id",
    "label",
    "first_name",
    "last_name",
    "company",
    "phone",
    "address1",
    "address2",
    "city",
    "district",
    "province",
    "province_code",
    "postal_code",
    "country_code",
    "latitude",
    "longitude",
    "is_default_shipping",
    "is_default_billing",
    "created_at",
    "updated_at",
    "version",
]
CommentField: TypeAlias = Literal["id", "order_id", "type", "visibility", "body", "author", "changes", "created_at"]
CustomerField: TypeAlias = Literal[
    "id",
    "external_id",
    "email",
    "phone",
    "first_name",
    "last_name",
    "company",
    "locale",
    "status",
    "accepts_marketing",
    "tags",
    "note",
    "addresses",
    "default_shipping_address_id",
    "default_billing_address_id",
    "metadata",
    "orders_count",
    "total_spent",
    "last_order_at",
    "created_at",
    "updated_at",
    "version",
    "deleted_at",
]
DeliveryField: TypeAlias = Literal[
    "id",
    "webhook_id",
    "event_id",
    "event_type",
    "sequence",
    "resource",
    "status",
    "attempts",
    "attempt_count",
    "next_attempt_at",
    "redelivery_of",
    "created_at",
    "payload",
    "headers",
]
DuplicateField: TypeAlias = Literal[
    "order_id", "number", "kind", "score", "reasons", "seconds_apart", "status", "total"
]
ImportField: TypeAlias = Literal[
    "id",
    "resource",
    "status",
    "options",
    "counts",
    "progress",
    "errors",
    "created_at",
    "started_at",
    "finished_at",
    "report_expires_at",
    "request_id",
    "version",
]
LedgerEntryField: TypeAlias = Literal[
    "id",
    "variant_id",
    "sku",
    "kind",
    "delta_on_hand",
    "delta_reserved",
    "on_hand_after",
    "reserved_after",
    "reason",
    "reference",
    "order_id",
    "actor",
    "request_id",
    "created_at",
]
ListCustomersSort: TypeAlias = Literal[
    "id",
    "-id",
    "last_name",
    "-last_name",
    "orders_count",
    "-orders_count",
    "total_spent",
    "-total_spent",
    "last_order_at",
    "-last_order_at",
    "created_at",
    "-created_at",
    "updated_at",
    "-updated_at",
]
ListInventoryAdjustmentsSort: TypeAlias = Literal["id", "-id", "created_at", "-created_at"]
ListInventorySort: TypeAlias = Literal["id", "-id", "updated_at", "-updated_at"]
ListOrderCommentsSort: TypeAlias = Literal["id", "-id"]
ListOrderDuplicatesSort: TypeAlias = Literal["id", "-id"]
ListOrdersSort: TypeAlias = Literal[
    "id", "-id", "number", "-number", "total", "-total", "placed_at", "-placed_at", "updated_at", "-updated_at"
]
ListProductVariantsSort: TypeAlias = Literal["id", "-id", "created_at", "-created_at", "updated_at", "-updated_at"]
ListProductsSort: TypeAlias = Literal[
    "id", "-id", "name", "-name", "price", "-price", "created_at", "-created_at", "updated_at", "-updated_at"
]
ListVariantsSort: TypeAlias = Literal["id", "-id", "created_at", "-created_at", "updated_at", "-updated_at"]
ListWebhookDeliveriesSort: TypeAlias = Literal["id", "-id"]
ListWebhooksSort: TypeAlias = Literal["id", "-id"]
OrderField: TypeAlias = Literal[
    "id",
    "number",
    "external_id",
    "source",
    "status",
    "payment_status",
    "fulfillment_status",
    "allowed_transitions",
    "currency",
    "customer_id",
    "subtotal",
    "discount_total",
    "shipping_total",
    "tax_total",
    "total",
    "amount_paid",
    "amount_refunded",
    "amount_due",
    "shipping_method",
    "payment_method",
    "tags",
    "duplicate_of",
    "cancel_reason",
    "placed_at",
    "cancelled_at",
    "completed_at",
    "line_items",
    "contact",
    "shipping_address",
    "billing_address",
    "tracking",
    "note",
    "metadata",
    "suspected_duplicates_count",
    "created_at",
    "updated_at",
    "version",
]
ProductField: TypeAlias = Literal[
    "id",
    "name",
    "price",
    "external_id",
    "slug",
    "description",
    "status",
    "compare_at_price",
    "cost_price",
    "currency",
    "sku",
    "barcode",
    "brand",
    "category",
    "tags",
    "images",
    "options",
    "variants_count",
    "weight",
    "weight_unit",
    "requires_shipping",
    "taxable",
    "track_inventory",
    "seo",
    "metadata",
    "stock",
    "in_stock",
    "created_at",
    "updated_at",
    "version",
    "deleted_at",
    "variants",
    "inventory",
]
RedeliveryField: TypeAlias = Literal["id", "webhook_id", "matched", "dry_run", "rate_per_s", "created_at"]
StockLevelField: TypeAlias = Literal[
    "variant_id",
    "product_id",
    "sku",
    "track_inventory",
    "allow_backorder",
    "low_stock_threshold",
    "stock",
    "updated_at",
    "version",
]
TestResultField: TypeAlias = Literal[
    "succeeded",
    "event_id",
    "event_type",
    "url",
    "request_headers",
    "request_body",
    "signed_content",
    "response_status",
    "response_headers",
    "response_body",
    "error",
    "timings",
]
VariantField: TypeAlias = Literal[
    "id",
    "product_id",
    "title",
    "option_values",
    "sku",
    "barcode",
    "price",
    "effective_price",
    "compare_at_price",
    "cost_price",
    "weight",
    "image_id",
    "position",
    "is_default",
    "track_inventory",
    "allow_backorder",
    "low_stock_threshold",
    "external_id",
    "metadata",
    "stock",
    "created_at",
    "updated_at",
    "version",
]
WebhookField: TypeAlias = Literal[
    "id",
    "name",
    "url",
    "events",
    "filter",
    "fields",
    "payload",
    "ordering",
    "skip_own",
    "headers",
    "status",
    "disabled_reason",
    "health",
    "secret_expires_at",
    "max_in_flight",
    "rate_per_s",
    "pending",
    "oldest_pending_age_s",
    "breaker",
    "stats_24h",
    "last_sequence",
    "last_delivery_at",
    "created_at",
    "updated_at",
    "version",
    "secret",
]


class AddedLine(TypedDict):
    """A line to add; it joins an equal one (same variant, price and metadata) unless `merge` is false."""

    quantity: int
    variant_id: NotRequired[int | None]
    sku: NotRequired[str | None]
    unit_price: NotRequired[Amount | None]
    discount_total: NotRequired[Amount | None]
    tax_total: NotRequired[Amount | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]
    merge: NotRequired[bool]


class AddedLines(TypedDict):
    line_items: Sequence[AddedLine]


class AddressChanges(TypedDict):
    """What may be changed of an address; what is left out stays, null clears."""

    address1: NotRequired[str]
    country_code: NotRequired[str]
    """ISO 3166-1, two letters."""
    label: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    phone: NotRequired[str | None]
    address2: NotRequired[str | None]
    city: NotRequired[str | None]
    district: NotRequired[str | None]
    province: NotRequired[str | None]
    province_code: NotRequired[str | None]
    postal_code: NotRequired[str | None]
    latitude: NotRequired[float | None]
    longitude: NotRequired[float | None]
    is_default_shipping: NotRequired[bool]
    is_default_billing: NotRequired[bool]


class Adjustment(TypedDict):
    """A new level (`set`) or a difference (`adjust`) for one variant, named by its id or by its SKU."""

    quantity: int
    variant_id: NotRequired[int | None]
    sku: NotRequired[str | None]
    op: NotRequired[Literal["adjust", "set"]]
    compare_quantity: NotRequired[int | None]
    reason: NotRequired[
        Literal["correction", "damaged", "lost", "order", "other", "restock", "return", "stocktake", "sync"] | None
    ]
    reference: NotRequired[str | None]


class Adjustments(TypedDict):
    """Adjustments in the order in which they apply; an item's own reason and reference go before these."""

    items: Sequence[Adjustment]
    mode: NotRequired[Literal["atomic", "independent"]]
    reason: NotRequired[
        Literal["correction", "damaged", "lost", "order", "other", "restock", "return", "stocktake", "sync"]
    ]
    reference: NotRequired[str | None]


class BatchItem(TypedDict):
    """One product to create, update, upsert or delete, named by `id`, `sku` or `external_id`."""

    op: Literal["create", "delete", "update", "upsert"]
    id: NotRequired[int | None]
    sku: NotRequired[str | None]
    external_id: NotRequired[str | None]
    match_by: NotRequired[Literal["external_id", "id", "sku"] | None]
    if_version: NotRequired[int | None]
    data: NotRequired[Mapping[str, Any]]


class ChangedImage(TypedDict):
    """An image as it is sent in a change; one that keeps its id or address keeps its identity."""

    url: str
    alt: NotRequired[str | None]
    id: NotRequired[int | None]
    position: NotRequired[int | None]


class Contact(TypedDict):
    """Whom to reach about the order; a snapshot, kept whatever becomes of the customer's profile."""

    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]


class CustomerChanges(TypedDict):
    """What may be changed of a customer; what is left out stays, null clears. Addresses have their own addresses."""

    external_id: NotRequired[str | None]
    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    locale: NotRequired[str | None]
    status: NotRequired[Literal["active", "disabled"]]
    accepts_marketing: NotRequired[bool]
    tags: NotRequired[Sequence[str] | None]
    note: NotRequired[str | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool | None] | None]


class InlineCustomer(TypedDict):
    """Who places an order, found by e-mail address, else by phone number, else made; one of the two is needed."""

    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    locale: NotRequired[str | None]
    accepts_marketing: NotRequired[bool]


class LineChanges(TypedDict):
    """What may be changed of a line; a quantity of 0 removes it."""

    quantity: NotRequired[int]
    unit_price: NotRequired[Amount]
    discount_total: NotRequired[Amount]
    tax_total: NotRequired[Amount]
    metadata: NotRequired[Mapping[str, str | int | float | bool | None] | None]


class NewAddress(TypedDict):
    """An address as it is sent."""

    address1: str
    country_code: str
    """ISO 3166-1, two letters."""
    label: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    phone: NotRequired[str | None]
    address2: NotRequired[str | None]
    city: NotRequired[str | None]
    district: NotRequired[str | None]
    province: NotRequired[str | None]
    province_code: NotRequired[str | None]
    postal_code: NotRequired[str | None]
    latitude: NotRequired[float | None]
    longitude: NotRequired[float | None]
    is_default_shipping: NotRequired[bool]
    is_default_billing: NotRequired[bool]


class NewComment(TypedDict):
    body: str
    visibility: NotRequired[Literal["customer", "internal"]]


class NewCopy(TypedDict):
    """How to copy: into which status, and whether at today's prices."""

    status: NotRequired[Literal["draft", "pending"]]
    reprice: NotRequired[bool]


class NewCustomer(TypedDict):
    """A customer as it is sent, addresses and metadata inline; `email` or `phone` is needed."""

    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    locale: NotRequired[str | None]
    accepts_marketing: NotRequired[bool]
    external_id: NotRequired[str | None]
    status: NotRequired[Literal["active", "disabled"]]
    tags: NotRequired[Sequence[str]]
    note: NotRequired[str | None]
    addresses: NotRequired[Sequence[NewAddress]]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]


class NewImage(TypedDict):
    url: str
    alt: NotRequired[str | None]


class NewLine(TypedDict):
    """A variant by its id or SKU, and how many; without `unit_price` it costs what it costs now."""

    quantity: int
    variant_id: NotRequired[int | None]
    sku: NotRequired[str | None]
    unit_price: NotRequired[Amount | None]
    discount_total: NotRequired[Amount | None]
    tax_total: NotRequired[Amount | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]


class NewOrder(TypedDict):
    """An order as it is sent. What it costs is computed; a `total` that is sent is compared with that."""

    line_items: Sequence[NewLine]
    status: NotRequired[Literal["draft", "pending", "processing"]]
    payment_status: NotRequired[Literal["authorized", "failed", "paid", "unpaid", "voided"]]
    currency: NotRequired[str | None]
    customer_id: NotRequired[int | None]
    customer: NotRequired[InlineCustomer | None]
    contact: NotRequired[Contact | models.Contact | None]
    shipping_total: NotRequired[Amount | None]
    discount_total: NotRequired[Amount | None]
    tax_total: NotRequired[Amount | None]
    total: NotRequired[Amount | None]
    shipping_address: NotRequired[OrderAddress | models.OrderAddress | None]
    billing_address: NotRequired[OrderAddress | models.OrderAddress | None]
    shipping_method: NotRequired[str | None]
    payment_method: NotRequired[str | None]
    note: NotRequired[str | None]
    tags: NotRequired[Sequence[str]]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]
    external_id: NotRequired[str | None]
    placed_at: NotRequired[datetime | str | None]
    reject_suspected_duplicates: NotRequired[bool]
    window_hours: NotRequired[int]


class NewProduct(TypedDict):
    """A product as it is sent, its options and variants inline; without variants it gets one."""

    name: str
    price: Amount
    external_id: NotRequired[str | None]
    slug: NotRequired[str | None]
    description: NotRequired[str | None]
    status: NotRequired[Literal["active", "archived", "draft"]]
    compare_at_price: NotRequired[Amount | None]
    cost_price: NotRequired[Amount | None]
    brand: NotRequired[str | None]
    category: NotRequired[str | None]
    tags: NotRequired[Sequence[str]]
    images: NotRequired[Sequence[NewImage]]
    options: NotRequired[Sequence[Option | models.Option]]
    variants: NotRequired[Sequence[NewVariant]]
    weight: NotRequired[float | None]
    weight_unit: NotRequired[Literal["g", "kg", "lb", "oz"]]
    requires_shipping: NotRequired[bool]
    taxable: NotRequired[bool]
    track_inventory: NotRequired[bool]
    seo: NotRequired[Seo | models.Seo]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]
    sku: NotRequired[str | None]
    barcode: NotRequired[str | None]
    stock: NotRequired[NewStock]


class NewRedelivery(TypedDict):
    """Which deliveries to send again: by their ids, or all of a time and status."""

    delivery_ids: NotRequired[Sequence[str] | None]
    since: NotRequired[datetime | str | None]
    until: NotRequired[datetime | str | None]
    status: NotRequired[Literal["cancelled", "failed", "skipped", "succeeded"] | None]
    dry_run: NotRequired[bool]
    rate_per_s: NotRequired[int | None]


class NewSecret(TypedDict):
    """How long the secret before goes on signing beside the new one; 0 when it has leaked."""

    grace_hours: NotRequired[int]
    force: NotRequired[bool]


class NewStock(TypedDict):
    on_hand: NotRequired[int]


class NewTest(TypedDict):
    """Which event to send a sample of; `webhook.test` unless given."""

    event: NotRequired[str]


class NewTracking(TypedDict):
    carrier: NotRequired[str | None]
    number: NotRequired[str | None]
    url: NotRequired[str | None]


class NewVariant(TypedDict):
    """A variant as it is sent; what is left out is inherited or empty."""

    option_values: NotRequired[Mapping[str, str]]
    sku: NotRequired[str | None]
    barcode: NotRequired[str | None]
    price: NotRequired[Amount | None]
    compare_at_price: NotRequired[Amount | None]
    cost_price: NotRequired[Amount | None]
    weight: NotRequired[float | None]
    image_id: NotRequired[int | None]
    track_inventory: NotRequired[bool | None]
    allow_backorder: NotRequired[bool]
    low_stock_threshold: NotRequired[int | None]
    external_id: NotRequired[str | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool]]
    stock: NotRequired[NewStock]


class NewWebhook(TypedDict):
    """A subscription as it is asked for; without `url` its events are only kept, to be pulled."""

    events: Sequence[str]
    url: NotRequired[str | None]
    name: NotRequired[str | None]
    filter: NotRequired[Mapping[str, str | int | float | bool]]
    fields: NotRequired[Sequence[str]]
    payload: NotRequired[Literal["full", "thin"]]
    ordering: NotRequired[Literal["none", "resource"]]
    skip_own: NotRequired[bool]
    headers: NotRequired[Mapping[str, str]]
    status: NotRequired[Literal["active", "paused"]]
    max_in_flight: NotRequired[int]
    rate_per_s: NotRequired[int | None]


class Option(TypedDict):
    """What a product's variants differ in, such as Size, and the values it takes."""

    name: str
    values: Sequence[str]


class OrderAddress(TypedDict):
    """Where it goes, or who is billed; a snapshot, so that a customer who moves does not move old orders."""

    first_name: NotRequired[str | None]
    last_name: NotRequired[str | None]
    company: NotRequired[str | None]
    phone: NotRequired[str | None]
    address1: NotRequired[str | None]
    address2: NotRequired[str | None]
    city: NotRequired[str | None]
    district: NotRequired[str | None]
    province: NotRequired[str | None]
    province_code: NotRequired[str | None]
    postal_code: NotRequired[str | None]
    country_code: NotRequired[str | None]
    latitude: NotRequired[float | None]
    longitude: NotRequired[float | None]


class OrderChanges(TypedDict):
    """What may be changed of an order itself; what is left out stays, null clears."""

    contact: NotRequired[Contact | models.Contact | None]
    shipping_address: NotRequired[OrderAddress | models.OrderAddress | None]
    billing_address: NotRequired[OrderAddress | models.OrderAddress | None]
    shipping_total: NotRequired[Amount]
    discount_total: NotRequired[Amount]
    tax_total: NotRequired[Amount]
    shipping_method: NotRequired[str | None]
    payment_method: NotRequired[str | None]
    note: NotRequired[str | None]
    tags: NotRequired[Sequence[str] | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool | None] | None]
    external_id: NotRequired[str | None]


class Portion(TypedDict):
    """So many units of one line."""

    id: int
    quantity: int


class ProductBatch(TypedDict):
    """Up to 100 items; `atomic` writes all or nothing, `independent` each for itself."""

    items: Sequence[BatchItem]
    mode: NotRequired[Literal["atomic", "independent"]]


class ProductChanges(TypedDict):
    """What may be changed of a product; what is left out stays, null clears."""

    name: NotRequired[str]
    price: NotRequired[Amount]
    external_id: NotRequired[str | None]
    slug: NotRequired[str | None]
    description: NotRequired[str | None]
    status: NotRequired[Literal["active", "archived", "draft"]]
    compare_at_price: NotRequired[Amount | None]
    cost_price: NotRequired[Amount | None]
    brand: NotRequired[str | None]
    category: NotRequired[str | None]
    tags: NotRequired[Sequence[str] | None]
    images: NotRequired[Sequence[ChangedImage] | None]
    options: NotRequired[Sequence[Option | models.Option] | None]
    weight: NotRequired[float | None]
    weight_unit: NotRequired[Literal["g", "kg", "lb", "oz"]]
    requires_shipping: NotRequired[bool]
    taxable: NotRequired[bool]
    track_inventory: NotRequired[bool]
    seo: NotRequired[SeoChanges | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool | None] | None]


class ResumeSince(TypedDict):
    """Send what has waited since this time; what is older is cancelled."""

    since: datetime | str


class Seo(TypedDict):
    title: NotRequired[str | None]
    description: NotRequired[str | None]


class SeoChanges(TypedDict):
    title: NotRequired[str | None]
    description: NotRequired[str | None]


class StatusChange(TypedDict):
    """Where the order, its payment, or both are to go; `line_items` ships or takes back only a part."""

    status: NotRequired[
        Literal[
            "cancelled", "completed", "delivered", "draft", "on_hold", "pending", "processing", "returned", "shipped"
        ]
        | None
    ]
    payment_status: NotRequired[
        Literal["authorized", "failed", "paid", "partially_refunded", "refunded", "unpaid", "voided"] | None
    ]
    amount_refunded: NotRequired[Amount | None]
    tracking: NotRequired[NewTracking | None]
    comment: NotRequired[str | None]
    reason: NotRequired[str | None]
    restock: NotRequired[bool]
    line_items: NotRequired[Sequence[Portion]]


UpdateCustomerMetadataBody: TypeAlias = "Mapping[str, str | int | float | bool | None]"


class VariantBatch(TypedDict):
    """Up to 250 items; `atomic` writes all or nothing, `independent` each for itself."""

    items: Sequence[VariantItem]
    mode: NotRequired[Literal["atomic", "independent"]]


class VariantChanges(TypedDict):
    """What may be changed of a variant; stock moves by adjustments, so that every movement is in the ledger."""

    option_values: NotRequired[Mapping[str, str]]
    sku: NotRequired[str | None]
    barcode: NotRequired[str | None]
    price: NotRequired[Amount | None]
    compare_at_price: NotRequired[Amount | None]
    cost_price: NotRequired[Amount | None]
    weight: NotRequired[float | None]
    image_id: NotRequired[int | None]
    track_inventory: NotRequired[bool]
    allow_backorder: NotRequired[bool]
    low_stock_threshold: NotRequired[int | None]
    external_id: NotRequired[str | None]
    metadata: NotRequired[Mapping[str, str | int | float | bool | None] | None]


class VariantItem(TypedDict):
    """A merge patch of one variant, named by `id` or `sku`."""

    data: Mapping[str, Any]
    id: NotRequired[int | None]
    sku: NotRequired[str | None]
    if_version: NotRequired[int | None]


class WebhookChanges(TypedDict):
    """What may be changed of a subscription; what is left out stays, null clears."""

    events: NotRequired[Sequence[str]]
    url: NotRequired[str | None]
    name: NotRequired[str | None]
    filter: NotRequired[Mapping[str, str | int | float | bool | None] | None]
    fields: NotRequired[Sequence[str] | None]
    payload: NotRequired[Literal["full", "thin"]]
    ordering: NotRequired[Literal["none", "resource"]]
    skip_own: NotRequired[bool]
    headers: NotRequired[Mapping[str, str | None] | None]
    status: NotRequired[Literal["active", "paused"]]
    resume: NotRequired[Literal["all", "now"] | ResumeSince]
    max_in_flight: NotRequired[int]
    rate_per_s: NotRequired[int | None]


class ListProductsQuery(TypedDict, total=False):
    """What `products.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListProductsSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[ProductField]
    """Only these fields of each resource, with commas between."""
    include: OneOrMore[Literal["variants", "inventory"]]
    """What else to put into each resource, with commas between."""
    status: OneOrMore[Literal["active", "draft", "archived"]]
    """One or more of these statuses."""
    ids: OneOrMore[int]
    """Products with these ids."""
    sku: str
    """The product of the variant with this SKU."""
    barcode: str
    """Products of variants with this barcode."""
    brand: str
    """Exactly this brand."""
    category: str
    """Exactly this category, or below it, as in `Home/Kitchen`."""
    tag: str
    """Products that carry this tag."""
    price: Amount
    """The price, or a range of it."""
    price_gte: Amount
    """At least this."""
    price_gt: Amount
    """More than this."""
    price_lte: Amount
    """At most this."""
    price_lt: Amount
    """Less than this."""
    in_stock: bool
    """Whether any variant can be bought now."""
    q: str
    """Each word must begin a word of name, brand, category, tags, SKU or barcode."""
    external_id: str
    """The product with your own id."""
    metadata: Mapping[str, str]
    """Metadata that must be equal, as in `metadata[material]=linen`."""
    created_at: datetime | str
    """When it was created, or a range of that."""
    created_at_gte: datetime | str
    """At least this."""
    created_at_gt: datetime | str
    """More than this."""
    created_at_lte: datetime | str
    """At most this."""
    created_at_lt: datetime | str
    """Less than this."""
    updated_since: datetime | str
    """Changed at or after this time, stock and metadata included."""


class ListVariantsQuery(TypedDict, total=False):
    """What `products.variants.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListVariantsSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[VariantField]
    """Only these fields of each resource, with commas between."""
    ids: OneOrMore[int]
    """Variants with these ids."""
    product_id: OneOrMore[int]
    """Variants of these products."""
    sku: str
    """The variant with this SKU."""
    barcode: str
    """Variants with this barcode."""
    external_id: str
    """The variant with your own id."""
    updated_since: datetime | str
    """Changed at or after this time, stock included."""


class ListProductVariantsQuery(TypedDict, total=False):
    """What `products.variants.list_of_product` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListProductVariantsSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[VariantField]
    """Only these fields of each resource, with commas between."""
    ids: OneOrMore[int]
    """Variants with these ids."""
    sku: str
    """The variant with this SKU."""
    barcode: str
    """Variants with this barcode."""
    external_id: str
    """The variant with your own id."""
    updated_since: datetime | str
    """Changed at or after this time, stock included."""


class ListInventoryQuery(TypedDict, total=False):
    """What `products.inventory.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListInventorySort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[StockLevelField]
    """Only these fields of each resource, with commas between."""
    product_id: OneOrMore[int]
    """Variants of these products."""
    variant_id: OneOrMore[int]
    """These variants."""
    sku: str
    """The variant with this SKU."""
    low_stock: bool
    """Whether it is tracked and available is at its `low_stock_threshold` or below."""
    in_stock: bool
    """Whether it can be bought now: untracked, on backorder, or available."""
    updated_since: datetime | str
    """Changed at or after this time, in stock or in anything else."""


class ListInventoryAdjustmentsQuery(TypedDict, total=False):
    """What `products.inventory.adjustments.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListInventoryAdjustmentsSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[LedgerEntryField]
    """Only these fields of each resource, with commas between."""
    variant_id: OneOrMore[int]
    """Entries of these variants."""
    product_id: OneOrMore[int]
    """Entries of the variants of these products."""
    sku: str
    """Entries of the variant that had this SKU at that time."""
    kind: OneOrMore[Literal["set", "adjust", "reserve", "release", "commit", "restock", "import"]]
    """One or more of these kinds."""
    reason: OneOrMore[
        Literal["restock", "correction", "stocktake", "damaged", "lost", "return", "sync", "order", "other"]
    ]
    """One or more of these reasons."""
    reference: str
    """Exactly this reference."""
    order_id: OneOrMore[int]
    """Entries that these orders caused."""
    created_at: datetime | str
    """When it happened, or a range of that."""
    created_at_gte: datetime | str
    """At least this."""
    created_at_gt: datetime | str
    """More than this."""
    created_at_lte: datetime | str
    """At most this."""
    created_at_lt: datetime | str
    """Less than this."""
    updated_since: datetime | str
    """Happened at or after this time; an entry never changes."""


class ListOrdersQuery(TypedDict, total=False):
    """What `orders.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListOrdersSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[OrderField]
    """Only these fields of each resource, with commas between."""
    ids: OneOrMore[int]
    """Orders with these ids."""
    status: OneOrMore[
        Literal[
            "draft", "pending", "processing", "on_hold", "shipped", "delivered", "completed", "cancelled", "returned"
        ]
    ]
    """One or more of these statuses."""
    payment_status: OneOrMore[
        Literal["unpaid", "authorized", "paid", "failed", "voided", "partially_refunded", "refunded"]
    ]
    """One or more of these."""
    fulfillment_status: OneOrMore[Literal["unfulfilled", "partially_fulfilled", "fulfilled", "returned"]]
    """One or more of these."""
    customer_id: OneOrMore[int]
    """Orders of these customers."""
    email: str
    """Orders with this e-mail address as contact, in any case."""
    phone: str
    """Orders with this phone number as contact, in any spelling."""
    sku: str
    """Orders with a line of this SKU."""
    number: int
    """The order with this number."""
    external_id: str
    """The order with your own id."""
    total: Amount
    """The total, or a range of it."""
    total_gte: Amount
    """At least this."""
    total_gt: Amount
    """More than this."""
    total_lte: Amount
    """At most this."""
    total_lt: Amount
    """Less than this."""
    placed_at: datetime | str
    """When it was placed, or a range of that."""
    placed_at_gte: datetime | str
    """At least this."""
    placed_at_gt: datetime | str
    """More than this."""
    placed_at_lte: datetime | str
    """At most this."""
    placed_at_lt: datetime | str
    """Less than this."""
    tag: str
    """Orders that carry this tag."""
    q: str
    """Each word must begin a word of the contact's name, e-mail address, or the number."""
    metadata: Mapping[str, str]
    """Metadata that must be equal, as in `metadata[channel]=pos`."""
    has_suspected_duplicates: bool
    """Whether another order may be the same purchase again."""
    updated_since: datetime | str
    """Changed at or after this time, in whatever way."""


class ListOrderCommentsQuery(TypedDict, total=False):
    """What `orders.comments.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListOrderCommentsSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[CommentField]
    """Only these fields of each resource, with commas between."""
    type: OneOrMore[Literal["comment", "status_change", "edit", "system"]]
    """One or more of these types."""
    visibility: OneOrMore[Literal["internal", "customer"]]
    """Entries that these may see."""
    updated_since: datetime | str
    """Written at or after this time; an entry never changes."""


class ListOrderDuplicatesQuery(TypedDict, total=False):
    """What `orders.duplicates.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListOrderDuplicatesSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[DuplicateField]
    """Only these fields of each resource, with commas between."""
    kind: OneOrMore[Literal["suspected", "copy"]]
    """One or both of these kinds."""
    updated_since: datetime | str
    """Where the other order changed at or after this time."""


class ListCustomersQuery(TypedDict, total=False):
    """What `customers.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListCustomersSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[CustomerField]
    """Only these fields of each resource, with commas between."""
    ids: OneOrMore[int]
    """Customers with these ids."""
    email: str
    """The customer with this e-mail address, whatever its case."""
    phone: str
    """The customer with this phone number."""
    external_id: str
    """The customer with your own id."""
    name: str
    """Each word must begin a word of first name, last name or company."""
    tag: str
    """Customers that carry this tag."""
    status: OneOrMore[Literal["active", "disabled", "erased"]]
    """One or more of these statuses."""
    orders_count: int
    """How many orders, or a range of that."""
    orders_count_gte: int
    """At least this."""
    orders_count_gt: int
    """More than this."""
    orders_count_lte: int
    """At most this."""
    orders_count_lt: int
    """Less than this."""
    total_spent: Amount
    """How much was spent, or a range of that."""
    total_spent_gte: Amount
    """At least this."""
    total_spent_gt: Amount
    """More than this."""
    total_spent_lte: Amount
    """At most this."""
    total_spent_lt: Amount
    """Less than this."""
    q: str
    """Each word must begin a word of name, company, e-mail address, phone or tags."""
    metadata: Mapping[str, str]
    """Metadata that must be equal, as in `metadata[tier]=gold`."""
    created_at: datetime | str
    """When it was created, or a range of that."""
    created_at_gte: datetime | str
    """At least this."""
    created_at_gt: datetime | str
    """More than this."""
    created_at_lte: datetime | str
    """At most this."""
    created_at_lt: datetime | str
    """Less than this."""
    updated_since: datetime | str
    """Changed at or after this time, metadata and orders included."""


class ListWebhooksQuery(TypedDict, total=False):
    """What `webhooks.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListWebhooksSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[WebhookField]
    """Only these fields of each resource, with commas between."""
    status: OneOrMore[Literal["active", "paused", "disabled"]]
    """One or more of these statuses."""
    updated_since: datetime | str
    """Changed at or after this time."""


class ListWebhookDeliveriesQuery(TypedDict, total=False):
    """What `webhooks.deliveries.list` may be asked."""

    limit: int
    """Rows on a page, 1 to 250; 50 unless given."""
    page: int
    """A page by its number, from 1, for the first 10,000 rows."""
    cursor: str
    """Where to go on: `next_cursor` or `prev_cursor` of a page before."""
    sort: OneOrMore[ListWebhookDeliveriesSort]
    """Sort keys with commas between; a leading minus sorts downwards."""
    fields: OneOrMore[DeliveryField]
    """Only these fields of each resource, with commas between."""
    include: OneOrMore[Literal["payload"]]
    """What else to put into each resource, with commas between."""
    status: OneOrMore[Literal["pending", "retrying", "succeeded", "failed", "skipped", "cancelled", "held"]]
    """One or more of these statuses."""
    event: str
    """Deliveries of this type of event."""
    resource_id: int
    """Deliveries that tell of the resource with this id."""
    since: datetime | str
    """Deliveries of events that were routed at or after this time."""
    event_id: str
    """Deliveries of this event; `meta.not_sent` says why there are none."""
    after: int
    """Makes the list a feed: what came after this sequence, oldest first."""
    wait: int
    """With `after`: wait so many seconds, at most 20, for something new."""
