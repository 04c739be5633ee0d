"""Products and variants as callers see them: the resources, what may be sent, and how lists are filtered."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.batch import Mode
from stoa.rest.checks import Money, Time, decimal_within
from stoa.rest.filters import (
    Choices,
    Entries,
    Flag,
    Ids,
    Moment,
    MomentRange,
    MoneyRange,
    Term,
    Text,
    Words,
)
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

Status = Literal["active", "draft", "archived"]
WeightUnit = Literal["g", "kg", "oz", "lb"]
_SOMETHING = Meta(pattern=r"\S", extra={"words": "must hold more than space"})
Name = Annotated[str, Meta(min_length=1, max_length=255), _SOMETHING]
Short = Annotated[str, Meta(max_length=255)]
ExternalId = Annotated[str, Meta(min_length=1, max_length=255)]
_TRIMMED = Meta(pattern=r"^\S(.*\S)?$", extra={"words": "must be one line, with no space at either end"})
Sku = Annotated[str, Meta(min_length=1, max_length=100), _TRIMMED]
Tag = Annotated[str, Meta(min_length=1, max_length=64), _SOMETHING]
Url = Annotated[
    str,
    Meta(min_length=1, max_length=2048, pattern=r"^https?://[^\s\u0000-\u001f\u007f-\u009f\ufeff]+$"),
    Meta(extra={"words": "must be an address that begins with http:// or https://"}),
]
Slug = Annotated[
    str,
    Meta(min_length=1, max_length=255, pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    Meta(extra={"words": "must be of a-z, 0-9 and hyphens between them, such as linen-shirt"}),
]
Weight = Annotated[Decimal, decimal_within(0, 1_000_000)]
Quantity = Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)]
MetadataKey = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$"),
    Meta(extra={"words": "must be a key of 1 to 64 letters, digits, dots, hyphens and underscores"}),
]
MetadataValue = Annotated[str, Meta(max_length=1000)] | int | float | bool
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=100)]
MetadataChanges = Annotated[dict[MetadataKey, MetadataValue | None], Meta(max_length=100)]


class Stock(msgspec.Struct):
    """Units on the shelf, units promised to orders, and what is left to sell."""

    on_hand: int
    reserved: int
    available: int


class Image(msgspec.Struct):
    id: int
    url: Url
    alt: Short | None
    position: int


class Option(msgspec.Struct, forbid_unknown_fields=True):
    """What a product's variants differ in, such as Size, and the values it takes."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    values: Annotated[list[Name], Meta(min_length=1, max_length=200, extra_json_schema={"uniqueItems": True})]


class Seo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Short | None = None
    description: Annotated[str, Meta(max_length=1000)] | None = None


class SeoChanges(msgspec.Struct, forbid_unknown_fields=True):
    title: Short | UnsetType | None = UNSET
    description: Annotated[str, Meta(max_length=1000)] | UnsetType | None = UNSET


class Variant(msgspec.Struct):
    """One sellable form of a product; its id is stable for ever."""

    id: int
    product_id: int
    title: str
    option_values: dict[str, str]
    sku: str | None
    barcode: str | None
    price: Money | None
    effective_price: Money
    compare_at_price: Money | None
    cost_price: Money | None
    weight: float | None
    image_id: int | None
    position: int
    is_default: bool
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    external_id: str | None
    metadata: dict[str, Any]
    stock: Stock
    created_at: Time
    updated_at: Time
    version: int


class Level(msgspec.Struct):
    """A variant's stock, as `include=inventory` puts it into its product."""

    variant_id: int
    sku: str | None
    stock: Stock


class Product(msgspec.Struct):
    """A thing that a store sells, with at least one variant."""

    id: int
    name: str
    price: Money
    external_id: str | None
    slug: str
    description: str | None
    status: Status
    compare_at_price: Money | None
    cost_price: Money | None
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
    weight_unit: WeightUnit
    requires_shipping: bool
    taxable: bool
    track_inventory: bool
    seo: Seo
    metadata: dict[str, Any]
    stock: Stock
    in_stock: bool
    created_at: Time
    updated_at: Time
    version: int
    deleted_at: Time | None
    variants: list[Variant] | UnsetType = UNSET
    inventory: list[Level] | UnsetType = UNSET


class NewStock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on_hand: Quantity = 0


class NewImage(msgspec.Struct, forbid_unknown_fields=True):
    url: Url
    alt: Short | None = None


class NewVariant(msgspec.Struct, forbid_unknown_fields=True):
    """A variant as it is sent; what is left out is inherited or empty."""

    option_values: dict[str, Name] = {}
    sku: Sku | None = None
    barcode: Sku | None = None
    price: Money | None = None
    compare_at_price: Money | None = None
    cost_price: Money | None = None
    weight: Weight | None = None
    image_id: int | None = None
    track_inventory: bool | None = None
    allow_backorder: bool = False
    low_stock_threshold: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    external_id: ExternalId | None = None
    metadata: Metadata = {}
    stock: NewStock = NewStock()


class NewProduct(msgspec.Struct, forbid_unknown_fields=True):
    """A product as it is sent, its options and variants inline; without variants it gets one."""

    name: Name
    price: Money
    external_id: ExternalId | None = None
    slug: Slug | None = None
    description: Annotated[str, Meta(max_length=65_535)] | None = None
    status: Status = "active"
    compare_at_price: Money | None = None
    cost_price: Money | None = None
    brand: Short | None = None
    category: Short | None = None
    tags: Annotated[list[Tag], Meta(max_length=250)] = []
    images: Annotated[list[NewImage], Meta(max_length=250)] = []
    options: Annotated[list[Option], Meta(max_length=3)] = []
    variants: Annotated[list[NewVariant], Meta(max_length=200)] = []
    weight: Weight | None = None
    weight_unit: WeightUnit = "kg"
    requires_shipping: bool = True
    taxable: bool = True
    track_inventory: bool = True
    seo: Seo = Seo()
    metadata: Metadata = {}
    sku: Sku | None = None
    barcode: Sku | None = None
    stock: NewStock | UnsetType = UNSET


class ChangedImage(NewImage, forbid_unknown_fields=True):
    """An image as it is sent in a change; one that keeps its id or address keeps its identity."""

    id: int | None = None
    position: int | None = None


class ProductChanges(msgspec.Struct, forbid_unknown_fields=True):
    """What may be changed of a product; what is left out stays, null clears."""

    name: Name | UnsetType = UNSET
    price: Money | UnsetType = UNSET
    external_id: ExternalId | UnsetType | None = UNSET
    slug: Slug | UnsetType | None = UNSET
    description: Annotated[str, Meta(max_length=65_535)] | UnsetType | None = UNSET
    status: Status | UnsetType = UNSET
    compare_at_price: Money | UnsetType | None = UNSET
    cost_price: Money | UnsetType | None = UNSET
    brand: Short | UnsetType | None = UNSET
    category: Short | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=250)] | UnsetType | None = UNSET
    images: Annotated[list[ChangedImage], Meta(max_length=250)] | UnsetType | None = UNSET
    options: Annotated[list[Option], Meta(max_length=3)] | UnsetType | None = UNSET
    weight: Weight | UnsetType | None = UNSET
    weight_unit: WeightUnit | UnsetType = UNSET
    requires_shipping: bool | UnsetType = UNSET
    taxable: bool | UnsetType = UNSET
    track_inventory: bool | UnsetType = UNSET
    seo: SeoChanges | UnsetType | None = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET


class VariantChanges(msgspec.Struct, forbid_unknown_fields=True):
    """What may be changed of a variant; stock moves by adjustments, so that every movement is in the ledger."""

    option_values: dict[str, Name] | UnsetType = UNSET
    sku: Sku | UnsetType | None = UNSET
    barcode: Sku | UnsetType | None = UNSET
    price: Money | UnsetType | None = UNSET
    compare_at_price: Money | UnsetType | None = UNSET
    cost_price: Money | UnsetType | None = UNSET
    weight: Weight | UnsetType | None = UNSET
    image_id: int | UnsetType | None = UNSET
    track_inventory: bool | UnsetType = UNSET
    allow_backorder: bool | UnsetType = UNSET
    low_stock_threshold: Annotated[int, Meta(ge=0, le=1_000_000_000)] | UnsetType | None = UNSET
    external_id: ExternalId | UnsetType | None = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET


class BatchItem(msgspec.Struct, forbid_unknown_fields=True):
    """One product to create, update, upsert or delete, named by `id`, `sku` or `external_id`."""

    op: Literal["create", "update", "upsert", "delete"]
    id: int | None = None
    sku: Sku | None = None
    external_id: ExternalId | None = None
    match_by: Literal["id", "sku", "external_id"] | None = None
    if_version: int | None = None
    data: dict[str, Any] = {}


class ProductBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Up to 100 items; `atomic` writes all or nothing, `independent` each for itself."""

    items: Annotated[list[BatchItem], Meta(min_length=1, extra_json_schema={"maxItems": 100})]
    mode: Mode = "atomic"


class VariantItem(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of one variant, named by `id` or `sku`."""

    data: dict[str, Any]
    id: int | None = None
    sku: Sku | None = None
    if_version: int | None = None


class VariantBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Up to 250 items; `atomic` writes all or nothing, `independent` each for itself."""

    items: Annotated[list[VariantItem], Meta(min_length=1, extra_json_schema={"maxItems": 250})]
    mode: Mode = "atomic"


class SkuTaken(Refusal):
    """Another variant of the store has this SKU; `existing_id` is its product."""

    status, code, title = 409, "sku_taken", "The SKU is taken"


class ExternalIdTaken(Refusal):
    """Another resource of the store has this external id; `existing_id` names it."""

    status, code, title = 409, "external_id_taken", "The external id is taken"


PRODUCTS = ListOf(
    filters={
        "status": Choices(values=("active", "draft", "archived"), description="One or more of these statuses."),
        "ids": Ids(description="Products with these ids."),
        "sku": Text(description="The product of the variant with this SKU.", longest=100),
        "barcode": Text(description="Products of variants with this barcode.", longest=100),
        "brand": Term(kind="brand", description="Exactly this brand."),
        "category": Term(kind="category", description="Exactly this category, or below it, as in `Home/Kitchen`."),
        "tag": Term(kind="tag", description="Products that carry this tag."),
        "price": MoneyRange(description="The price, or a range of it."),
        "in_stock": Flag(description="Whether any variant can be bought now."),
        "q": Words(description="Each word must begin a word of name, brand, category, tags, SKU or barcode."),
        "external_id": Text(description="The product with your own id."),
        "metadata": Entries(description="Metadata that must be equal, as in `metadata[material]=linen`."),
        "created_at": MomentRange(description="When it was created, or a range of that."),
        "updated_since": Moment(description="Changed at or after this time, stock and metadata included."),
    },
    sorts={"id": int, "name": str, "price": int, "created_at": datetime, "updated_at": datetime},
    includes=("variants", "inventory"),
    deletable=True,
)

VARIANTS = ListOf(
    filters={
        "ids": Ids(description="Variants with these ids."),
        "product_id": Ids(description="Variants of these products."),
        "sku": Text(description="The variant with this SKU.", longest=100),
        "barcode": Text(description="Variants with this barcode.", longest=100),
        "external_id": Text(description="The variant with your own id."),
        "updated_since": Moment(description="Changed at or after this time, stock included."),
    },
    sorts={"id": int, "created_at": datetime, "updated_at": datetime},
    deletable=True,
)
PRODUCT_VARIANTS = msgspec.structs.replace(
    VARIANTS, filters={name: kind for name, kind in VARIANTS.filters.items() if name != "product_id"}
)
