"""The public contract of products and variants: resources and errors."""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.db.editions import added
from stoa.media.contract import PictureStatus
from stoa.rest.checks import Money, Time, accepted_by, decimal_within, worded
from stoa.rest.fields import CreatedAt, Name, Short, ShownMetadata, UpdatedAt, Url, Version
from stoa.rest.problems import Refusal

Status = Literal["active", "draft", "archived"]
WeightUnit = Literal["g", "kg", "oz", "lb"]
# Written so that Python and JavaScript mean the same characters.
_TRIMMED = worded(
    "must be one line without spaces at either end",
    pattern=r"^[^\s\x00\x1c-\x1f\x85]([^\x00\n\r\u2028\u2029]*[^\s\x00\x1c-\x1f\x85])?$",
)
Sku = Annotated[str, Meta(min_length=1, max_length=100), _TRIMMED]


def has_check_digit(gtin: str) -> bool:
    """Whether the last digit is the check digit of GS1: all digits, weighted 1 and 3 from the right, add up to tens."""
    return sum(int(digit) * (3 if n % 2 else 1) for n, digit in enumerate(reversed(gtin))) % 10 == 0


Gtin = Annotated[
    str,
    Meta(min_length=8, max_length=14, pattern=r"^[0-9]{8}([0-9]{4,6})?$"),
    worded("must be a GTIN: 8, 12, 13 or 14 digits, the last of which is the check digit"),
    accepted_by(has_check_digit),
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
CollectionHandle = Annotated[
    str,
    Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    worded("must consist of a-z, 0-9 and single hyphens between them, such as summer-sale"),
]


class Stock(msgspec.Struct):
    """Units in stock, units reserved for orders, and the difference: units available for sale."""

    on_hand: Annotated[
        int,
        Meta(
            description="Units in the warehouse, including the reserved ones. Shipments, returns and adjustments change it. Negative only for variants that allow backorders or are not tracked."
        ),
    ]
    reserved: Annotated[
        int,
        Meta(
            description="Units that open orders hold. Placing an order raises it; shipping or cancelling the order lowers it."
        ),
    ]
    available: Annotated[
        int,
        Meta(
            description="`on_hand` minus `reserved`: the units that can be sold now. Negative only for variants that allow backorders or are not tracked."
        ),
    ]


class Image(msgspec.Struct):
    id: Annotated[int, Meta(description="The id of the image. A change that sends the same id or URL keeps it.")]
    url: Annotated[
        Url,
        Meta(
            description="The address of the picture. That of an uploaded or fetched picture never changes, and `?w=` with 64, 160, 320, 640 or 1280 makes it that many pixels wide. It is `source_url` until that is fetched, and your own address if you sent `url`, which Stoa does not fetch."
        ),
    ]
    alt: Annotated[
        Short | None,
        Meta(description="The text that replaces the picture for people who do not see it; null if none is set."),
    ]
    position: Annotated[
        int,
        Meta(
            description="The position among the images of the product, from 1. The order of `images` in a request sets it."
        ),
    ]
    width: Annotated[
        int | None, added(2), Meta(description="The width of the stored picture in pixels; null unless Stoa stores it.")
    ] = None
    height: Annotated[
        int | None,
        added(2),
        Meta(description="The height of the stored picture in pixels; null unless Stoa stores it."),
    ] = None
    status: Annotated[
        PictureStatus,
        added(2),
        Meta(
            description="`pending` until Stoa has fetched `source_url`, then `ready`, or `failed` if that is impossible. Uploaded pictures and your own addresses are `ready`."
        ),
    ] = "ready"
    reason: Annotated[
        str | None, added(2), Meta(description="Why fetching failed; null unless `status` is `failed`.")
    ] = None
    source_url: Annotated[
        Url | None,
        added(2),
        Meta(
            description="The address from which Stoa fetches the picture, once; null for other images. To try again after a failure, send it again."
        ),
    ] = None


class Option(msgspec.Struct, forbid_unknown_fields=True):
    """An option by which a product's variants differ, such as Size, and its values."""

    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)],
        Meta(description="The name of the option, such as Size. It is unique in the product."),
    ]
    values: Annotated[
        Annotated[list[Name], Meta(min_length=1, max_length=200, extra_json_schema={"uniqueItems": True})],
        Meta(description="The values that variants can have for this option, in the order in which a shop shows them."),
    ]


class Seo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[
        Short | None,
        Meta(description="The title for search engines; null means that a shop uses the name of the product."),
    ] = None
    description: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(
            description="The description for search engines; null means that a shop uses the description of the product."
        ),
    ] = None


class Variant(msgspec.Struct):
    """One sellable form of a product. Its id never changes."""

    id: Annotated[int, Meta(description="The id of the variant, assigned by Stoa. It never changes.")]
    product_id: Annotated[int, Meta(description="The id of the product that the variant belongs to.")]
    title: Annotated[
        str,
        Meta(
            description="The option values joined by slashes, such as `M / Blue`; `Default` for a product without options."
        ),
    ]
    option_values: Annotated[
        dict[str, str],
        Meta(
            description="One value for each option of the product, by the name of the option. Empty for a product without options."
        ),
    ]
    sku: Annotated[
        str | None,
        Meta(
            description="The stock keeping unit: your own key, unique among the variants of the store, with upper and lower case distinct. Null if none is set."
        ),
    ]
    barcode: Annotated[
        str | None,
        Meta(
            description="The barcode, such as an EAN or UPC; null if none is set. Several variants can have the same."
        ),
    ]
    price: Annotated[
        Money | None, Meta(description="The price of this variant; null means that the price of the product applies.")
    ]
    effective_price: Annotated[
        Money, Meta(description="The price that an order uses: `price`, or the price of the product if that is null.")
    ]
    compare_at_price: Annotated[
        Money | None, Meta(description="The earlier price, which a shop shows struck through; null if there is none.")
    ]
    cost_price: Annotated[
        Money | None, Meta(description="What the shop pays for one unit; null if unknown. Not meant for customers.")
    ]
    weight: Annotated[
        float | None,
        Meta(
            description="The weight of one unit in the `weight_unit` of the product; null if the variant has none of its own."
        ),
    ]
    image_id: Annotated[
        int | None,
        Meta(description="The id of the image of the product that shows this variant; null if none is chosen."),
    ]
    position: Annotated[
        int,
        Meta(
            description="The place among the variants of the product, from 1 without gaps. Moving one shifts the others."
        ),
    ]
    is_default: Annotated[
        bool,
        Meta(
            description="Whether shops preselect this variant. Exactly one variant of a product is the default, the first unless another is chosen."
        ),
    ]
    track_inventory: Annotated[
        bool,
        Meta(
            description="Whether orders reserve stock. If false, the variant can always be sold, and orders never change its stock."
        ),
    ]
    allow_backorder: Annotated[
        bool, Meta(description="Whether orders can reserve more units than are available. The default is false.")
    ]
    low_stock_threshold: Annotated[
        int | None,
        Meta(
            description="The number of available units at or below which Stoa sends `product.low_stock`; null means that it is never sent."
        ),
    ]
    external_id: Annotated[
        str | None,
        Meta(description="The id of the variant in your own system, unique in the store; null if none is set."),
    ]
    metadata: ShownMetadata
    stock: Annotated[
        Stock,
        Meta(
            description="The stock of the variant. It changes by orders and by adjustments, not by updates of the variant."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    version: Version
    gtin: Annotated[
        str | None,
        added(2),
        Meta(
            description="The Global Trade Item Number, such as an EAN or UPC, with its check digit; null if none is set. Several variants can have the same. Unlike `barcode`, it is always a valid GTIN."
        ),
    ] = None
    requires_shipping: Annotated[
        bool | None,
        added(3),
        Meta(
            description="Whether the variant is shipped; null, the default, if `requires_shipping` of the product says so. Line items copy it."
        ),
    ] = None
    taxable: Annotated[
        bool | None,
        added(3),
        Meta(
            description="Whether tax applies to the variant; null, the default, if `taxable` of the product says so. Line items copy it."
        ),
    ] = None


class InCollection(msgspec.Struct):
    """A collection that a product is in."""

    handle: Annotated[CollectionHandle, Meta(description="The handle of the collection. It never changes.")]
    position: Annotated[
        int | None,
        Meta(
            description="The place in the collection: lower numbers come first with `sort=position`. Null means after all products that have one, in the order of their ids. Several products can have the same."
        ),
    ]
    by_rule: Annotated[
        bool,
        Meta(
            description="Whether only a rule of the collection put the product there. A write ignores entries where it is true, so a list that you read can be sent back."
        ),
    ]


class Level(msgspec.Struct):
    """A variant's stock level, as `include=inventory` adds it to the product."""

    variant_id: Annotated[int, Meta(description="The id of the variant.")]
    sku: Annotated[str | None, Meta(description="The SKU of the variant; null if none is set.")]
    stock: Annotated[Stock, Meta(description="The stock of the variant.")]


class Product(msgspec.Struct):
    """A product of the store, with at least one variant."""

    id: Annotated[int, Meta(description="The id of the product, assigned by Stoa. It never changes.")]
    name: Annotated[str, Meta(description="The name that customers see.")]
    price: Annotated[
        Money, Meta(description="The price of variants that have no price of their own, in the currency of the store.")
    ]
    external_id: Annotated[
        str | None,
        Meta(description="The id of the product in your own system, unique in the store; null if none is set."),
    ]
    slug: Annotated[
        str,
        Meta(
            description="The name for addresses in a shop, in lower case with hyphens. Unless you send one, Stoa derives it from the name in Latin letters, unique in the store, such as `linen-shirt-2`. One that you send need not be unique."
        ),
    ]
    description: Annotated[
        str | None,
        Meta(
            description="The text about the product, up to 65,535 characters; null if none is set. Stoa stores it unchanged, so escape or sanitize it before you show it."
        ),
    ]
    status: Annotated[
        Status,
        Meta(
            description="`active` is for sale, `draft` is not ready yet, `archived` is no longer sold but keeps its SKUs. The default is `active`."
        ),
    ]
    compare_at_price: Annotated[
        Money | None, Meta(description="The earlier price, which a shop shows struck through; null if there is none.")
    ]
    cost_price: Annotated[
        Money | None, Meta(description="What the shop pays for one unit; null if unknown. Not meant for customers.")
    ]
    currency: Annotated[
        str, Meta(description="The currency of the store, as an ISO 4217 code. All amounts of the store are in it.")
    ]
    sku: Annotated[
        str | None,
        Meta(
            description="The SKU of the only variant; null if there are several or it has none. Change it on the variant."
        ),
    ]
    barcode: Annotated[
        str | None,
        Meta(
            description="The barcode of the only variant; null if there are several or it has none. Change it on the variant."
        ),
    ]
    brand: Annotated[
        str | None, Meta(description="The manufacturer or label; null if none is set. Lists filter by it.")
    ]
    category: Annotated[
        str | None,
        Meta(
            description="The category as a path with slashes, such as `Home/Kitchen`; null if none is set. A filter finds all levels below."
        ),
    ]
    tags: Annotated[
        list[str],
        Meta(description="Words to group products by; lists filter by one. An update replaces the whole list."),
    ]
    images: Annotated[
        list[Image],
        Meta(description="The images in the order in which a shop shows them. An update replaces the whole list."),
    ]
    options: Annotated[
        list[Option],
        Meta(
            description="Up to three options by which the variants differ, such as Size. Empty if there is only one form of the product."
        ),
    ]
    variants_count: Annotated[int, Meta(description="The number of variants, at least 1.")]
    weight: Annotated[
        float | None,
        Meta(
            description="The weight of one unit in `weight_unit`, for variants that have none of their own; null if unknown."
        ),
    ]
    weight_unit: Annotated[
        WeightUnit, Meta(description="The unit of all weights of the product and its variants. The default is `kg`.")
    ]
    requires_shipping: Annotated[
        bool, Meta(description="Whether the product is shipped. False for services and downloads; the default is true.")
    ]
    taxable: Annotated[
        bool, Meta(description="Whether tax applies. Stoa stores it for your tax calculation; the default is true.")
    ]
    track_inventory: Annotated[
        bool,
        Meta(
            description="Whether orders change the stock. Variants take the value when they are created, and a change applies to all of them. The default is true."
        ),
    ]
    seo: Annotated[Seo, Meta(description="The title and description for search engines.")]
    metadata: ShownMetadata
    stock: Annotated[Stock, Meta(description="The sum of the stock of all variants.")]
    in_stock: Annotated[
        bool,
        Meta(
            description="Whether any variant can be bought now: it has available units, allows backorders, or is not tracked."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    version: Version
    deleted_at: Annotated[Time | None, Meta(description="The time of the deletion; null while the product exists.")]
    variants: (
        Annotated[
            list[Variant],
            Meta(description="The variants in their order. Lists and reads contain them only with `include=variants`."),
        ]
        | UnsetType
    ) = UNSET
    inventory: (
        Annotated[list[Level], Meta(description="The stock of each variant. Only with `include=inventory`.")]
        | UnsetType
    ) = UNSET
    collections: Annotated[
        list[InCollection],
        added(2),
        Meta(
            description="The collections that the product is in, by hand or by their rules, in the order of their handles. An update replaces those chosen by hand; rules apply by themselves."
        ),
    ] = []


class SkuTaken(Refusal):
    """Another variant of the store has this SKU. `existing_id` is the id of its product."""

    status, code, title = 409, "sku_taken", "The SKU is taken"
