"""The public contract of products and variants: resources, list filters and errors."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.checks import Money, Time, decimal_within, worded
from stoa.rest.fields import Name, Short, Url
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
    Texts,
    Words,
)
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

Status = Literal["active", "draft", "archived"]
WeightUnit = Literal["g", "kg", "oz", "lb"]
_TRIMMED = worded("must be one line without spaces at either end", pattern=r"^\S(.*\S)?$")
Sku = Annotated[str, Meta(min_length=1, max_length=100), _TRIMMED]
Slug = Annotated[
    str,
    Meta(min_length=1, max_length=255, pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    worded("must consist of a-z, 0-9 and single hyphens between them, such as linen-shirt"),
]
Weight = Annotated[Decimal, decimal_within(0, 1_000_000)]
MOST_VARIANTS = 200
Position = Annotated[
    int,
    Meta(
        ge=1,
        le=MOST_VARIANTS,
        description="The place among the variants of the product, from 1. Other variants shift; a larger number means the last place.",
    ),
]
Quantity = Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)]


class Stock(msgspec.Struct):
    """Units in stock, units reserved for orders, and the difference: units available for sale."""

    on_hand: int
    reserved: int
    available: int


class Image(msgspec.Struct):
    id: int
    url: Url
    alt: Short | None
    position: int


class Option(msgspec.Struct, forbid_unknown_fields=True):
    """An option by which a product's variants differ, such as Size, and its values."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    values: Annotated[list[Name], Meta(min_length=1, max_length=200, extra_json_schema={"uniqueItems": True})]


class Seo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Short | None = None
    description: Annotated[str, Meta(max_length=1000)] | None = None


class Variant(msgspec.Struct):
    """One sellable form of a product. Its id never changes."""

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
    position: Annotated[
        int,
        Meta(
            description="The place among the variants of the product, from 1 without gaps. Moving one shifts the others."
        ),
    ]
    is_default: Annotated[
        bool, Meta(description="Whether shops preselect this variant. Exactly one variant of a product is the default.")
    ]
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
    """A variant's stock level, as `include=inventory` adds it to the product."""

    variant_id: int
    sku: str | None
    stock: Stock


class Product(msgspec.Struct):
    """A product of the store, with at least one variant."""

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


class SkuTaken(Refusal):
    """Another variant of the store has this SKU. `existing_id` is the id of its product."""

    status, code, title = 409, "sku_taken", "The SKU is taken"


PRODUCTS = ListOf(
    filters={
        "status": Choices(values=("active", "draft", "archived"), description="One or more of these statuses."),
        "ids": Ids(description="Products with these ids."),
        "sku": Texts(description="Products of the variants with these SKUs.", longest=100),
        "barcode": Texts(description="Products of variants with these barcodes.", longest=100),
        "brand": Term(kind="brand", description="Products of this brand, ignoring case."),
        "category": Term(
            kind="category", description="This category or any below it, such as `Home/Kitchen`, ignoring case."
        ),
        "tag": Term(kind="tag", description="Products with this tag, ignoring case."),
        "price": MoneyRange(description="The price, or a price range."),
        "in_stock": Flag(description="Whether any variant can be bought now."),
        "q": Words(
            description="Text search. Each word must be the start of a word in the name, brand, category, tags, SKU or barcode."
        ),
        "external_id": Text(description="The product with this external id."),
        "metadata": Entries(description="Products with this metadata value, as in `metadata[material]=linen`."),
        "created_at": MomentRange(description="The time of creation, or a time range."),
        "updated_since": Moment(description="Products changed at or after this time, including stock and metadata."),
    },
    sorts={"id": int, "name": str, "price": int, "created_at": datetime, "updated_at": datetime},
    includes=("variants", "inventory"),
    deletable=True,
)

VARIANTS = ListOf(
    filters={
        "ids": Ids(description="Variants with these ids."),
        "product_id": Ids(description="Variants of these products."),
        "sku": Texts(description="The variants with these SKUs.", longest=100),
        "barcode": Texts(description="Variants with these barcodes.", longest=100),
        "external_id": Text(description="The variant with this external id."),
        "updated_since": Moment(description="Variants changed at or after this time, including stock."),
    },
    sorts={"id": int, "created_at": datetime, "updated_at": datetime},
    deletable=True,
)
PRODUCT_VARIANTS = msgspec.structs.replace(
    VARIANTS, filters={name: kind for name, kind in VARIANTS.filters.items() if name != "product_id"}
)
