"""What is written of products and variants: the request bodies, whose limits guarantee that they can be stored, and the members
that are stored.
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.media.contract import PictureData, PictureStatus, PictureType
from stoa.products.contract import (
    MOST_VARIANTS,
    CollectionHandle,
    Gtin,
    Option,
    Position,
    Quantity,
    Seo,
    Sku,
    Status,
    Weight,
    WeightUnit,
)
from stoa.rest.batch import Mode
from stoa.rest.checks import Money, worded
from stoa.rest.fields import ExternalId, Metadata, MetadataChanges, Name, Short, Tag, Url
from stoa.rest.scopes import fields_of, requires

Slug = Annotated[
    str,
    Meta(min_length=1, max_length=255, pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    worded("must consist of a-z, 0-9 and single hyphens between them, such as linen-shirt"),
]


class NewStock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on_hand: Quantity = 0


SentStock = Annotated[NewStock, requires("inventory:write")]


IsDefault = Annotated[
    bool,
    Meta(
        description="True makes this variant the default instead of the current one; false on the default is refused."
    ),
]


class NewImage(msgspec.Struct, forbid_unknown_fields=True):
    """An image: the `url` of a picture elsewhere, a `source_url` that Stoa fetches, or the `data` of a file."""

    url: Url | None = None
    source_url: Url | None = None
    content_type: Annotated[
        PictureType | None, Meta(description="The type of `data`. Stoa checks it against the file.")
    ] = None
    data: PictureData | None = None
    alt: Short | None = None


class Membership(msgspec.Struct, forbid_unknown_fields=True):
    """A collection to put a product into by hand."""

    handle: CollectionHandle
    position: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    by_rule: bool = False


Memberships = Annotated[list[Membership], Meta(max_length=250)]


class NewVariant(msgspec.Struct, forbid_unknown_fields=True):
    """A variant to create. Omitted fields are inherited from the product or empty."""

    option_values: dict[str, Name] = {}
    sku: Sku | None = None
    barcode: Sku | None = None
    price: Money | None = None
    compare_at_price: Money | None = None
    cost_price: Money | None = None
    weight: Weight | None = None
    image_id: int | None = None
    position: Position | None = None
    is_default: IsDefault = False
    track_inventory: bool | None = None
    allow_backorder: bool = False
    low_stock_threshold: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    external_id: ExternalId | None = None
    gtin: Gtin | None = None
    requires_shipping: bool | None = None
    taxable: bool | None = None
    metadata: Metadata = {}
    stock: SentStock = NewStock()


class NewProduct(msgspec.Struct, forbid_unknown_fields=True):
    """A product to create, with its options and variants. Without variants it gets a default variant."""

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
    collections: Memberships = []
    images: Annotated[list[NewImage], Meta(max_length=250)] = []
    options: Annotated[list[Option], Meta(max_length=3)] = []
    variants: Annotated[list[NewVariant], Meta(max_length=MOST_VARIANTS)] = []
    weight: Weight | None = None
    weight_unit: WeightUnit = "kg"
    requires_shipping: bool = True
    taxable: bool = True
    track_inventory: bool = True
    seo: Seo = Seo()
    metadata: Metadata = {}
    sku: Sku | None = None
    barcode: Sku | None = None
    stock: SentStock | UnsetType = UNSET


class ChangedImage(NewImage, forbid_unknown_fields=True):
    """An image in a change. An image with a known id, URL or source URL stays the same image. What Stoa finds out about a
    picture is ignored."""

    id: int | None = None
    position: int | None = None
    width: int | None = None
    height: int | None = None
    status: PictureStatus | None = None
    reason: str | None = None


class SeoChanges(msgspec.Struct, forbid_unknown_fields=True):
    title: Short | UnsetType | None = UNSET
    description: Annotated[str, Meta(max_length=1000)] | UnsetType | None = UNSET


class ProductChanges(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of a product. Omitted fields stay unchanged; null clears a field."""

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
    collections: Memberships | UnsetType | None = UNSET
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
    """A merge patch of a variant. Stock changes only by adjustments, so that the ledger has every movement."""

    option_values: dict[str, Name] | UnsetType = UNSET
    sku: Sku | UnsetType | None = UNSET
    barcode: Sku | UnsetType | None = UNSET
    price: Money | UnsetType | None = UNSET
    compare_at_price: Money | UnsetType | None = UNSET
    cost_price: Money | UnsetType | None = UNSET
    weight: Weight | UnsetType | None = UNSET
    image_id: int | UnsetType | None = UNSET
    position: Position | UnsetType = UNSET
    is_default: IsDefault | UnsetType = UNSET
    track_inventory: bool | UnsetType = UNSET
    allow_backorder: bool | UnsetType = UNSET
    low_stock_threshold: Annotated[int, Meta(ge=0, le=1_000_000_000)] | UnsetType | None = UNSET
    external_id: ExternalId | UnsetType | None = UNSET
    gtin: Gtin | UnsetType | None = UNSET
    requires_shipping: bool | UnsetType | None = UNSET
    taxable: bool | UnsetType | None = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET


_STOCK = "POST /products/inventory/adjustments"
# The operations for fields that a merge patch of the resource cannot change.
PRODUCT_ELSEWHERE = {
    "stock": _STOCK,
    "inventory": _STOCK,
    **dict.fromkeys(("variants", "sku", "barcode"), "PATCH /products/{product_id}/variants/{variant_id}"),
}
VARIANT_ELSEWHERE = {"stock": _STOCK}


class BatchItem(msgspec.Struct, forbid_unknown_fields=True):
    """One product to create, update, upsert or delete, named by `id`, `sku` or `external_id`."""

    op: Annotated[
        Literal["create", "update", "upsert", "delete"],
        Meta(
            description="What to do: `create` a product, `update` or `delete` a known one, or `upsert`, which updates it if it exists and creates it otherwise."
        ),
    ]
    id: Annotated[
        int | None,
        Meta(description="The id of the product to change; null if the item names it by `sku` or `external_id`."),
    ] = None
    sku: Annotated[
        Sku | None,
        Meta(description="The SKU of a variant of the product; null if the item names the product otherwise."),
    ] = None
    external_id: Annotated[
        ExternalId | None,
        Meta(description="The external id of the product; null if the item names the product otherwise."),
    ] = None
    match_by: Annotated[
        Literal["id", "sku", "external_id"] | None,
        Meta(
            description="The key that finds the product. By default it is the first of `id`, `sku` and `external_id` that the item has."
        ),
    ] = None
    if_version: Annotated[
        int | None,
        Meta(
            description="Apply the item only if the resource has this version; otherwise the item fails. Null, the default, applies it to any version."
        ),
    ] = None
    data: Annotated[
        Annotated[dict[str, Any], fields_of(NewProduct)],
        Meta(description="The fields of the product: those of a new product, or a merge patch. Empty for `delete`."),
    ] = {}


class ProductBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Up to 100 items. `atomic` applies all items or none; `independent` applies each item by itself."""

    items: Annotated[
        list[BatchItem],
        Meta(description="The items, applied in this order.", extra_json_schema={"minItems": 1, "maxItems": 100}),
    ]
    mode: Annotated[
        Mode,
        Meta(
            description="`atomic`, the default, applies all items or none. `independent` applies each item by itself."
        ),
    ] = "atomic"


class VariantItem(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of one variant, named by `id` or `sku`."""

    data: Annotated[
        dict[str, Any],
        Meta(description="A merge patch of the variant. Omitted fields stay unchanged; null clears a field."),
    ]
    id: Annotated[int | None, Meta(description="The id of the variant; null if the item names it by `sku`.")] = None
    sku: Annotated[Sku | None, Meta(description="The SKU of the variant; null if the item names it by `id`.")] = None
    if_version: Annotated[
        int | None,
        Meta(
            description="Apply the item only if the resource has this version; otherwise the item fails. Null, the default, applies it to any version."
        ),
    ] = None


class VariantBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Up to 250 items. `atomic` applies all items or none; `independent` applies each item by itself."""

    items: Annotated[
        list[VariantItem],
        Meta(description="The items, applied in this order.", extra_json_schema={"minItems": 1, "maxItems": 250}),
    ]
    mode: Annotated[
        Mode,
        Meta(
            description="`atomic`, the default, applies all items or none. `independent` applies each item by itself."
        ),
    ] = "atomic"


class ProductFields(msgspec.Struct, frozen=True):
    """The stored members of a product, in the order of its document; amounts are text. The defaults are those of a new one."""

    name: str = ""
    price: str = "0"
    external_id: str | None = None
    slug: str = ""
    description: str | None = None
    status: Status = "active"
    compare_at_price: str | None = None
    cost_price: str | None = None
    currency: str = ""
    sku: str | None = None
    barcode: str | None = None
    brand: str | None = None
    category: str | None = None
    tags: list[str] = []
    images: list[dict[str, Any]] = []
    options: list[dict[str, Any]] = []
    variants_count: int = 0
    weight: Decimal | int | None = None
    weight_unit: WeightUnit = "kg"
    requires_shipping: bool = True
    taxable: bool = True
    track_inventory: bool = True
    seo: dict[str, Any] = msgspec.field(default_factory=lambda: {"title": None, "description": None})
    metadata: dict[str, Any] = {}
    collections: list[dict[str, Any]] = []


class VariantFields(msgspec.Struct, frozen=True):
    """The stored members of a variant, likewise."""

    title: str = "Default"
    option_values: dict[str, str] = {}
    sku: str | None = None
    barcode: str | None = None
    price: str | None = None
    effective_price: str = "0"
    compare_at_price: str | None = None
    cost_price: str | None = None
    weight: Decimal | int | None = None
    image_id: int | None = None
    position: int = 1
    is_default: bool = False
    track_inventory: bool = True
    allow_backorder: bool = False
    low_stock_threshold: int | None = None
    external_id: str | None = None
    metadata: dict[str, Any] = {}
    gtin: str | None = None
    requires_shipping: bool | None = None
    taxable: bool | None = None
