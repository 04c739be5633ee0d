"""The public contract of stock: levels, adjustments, the ledger and errors."""

from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.events.outbox import Actor
from stoa.products.contract import Quantity, Sku, Stock
from stoa.rest.batch import Mode
from stoa.rest.fields import Short
from stoa.rest.filters import Choices, Flag, Ids, Moment, MomentRange, Text, Texts
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

Kind = Literal["set", "adjust", "transfer", "reserve", "release", "commit", "restock", "import"]
Reason = Literal["restock", "correction", "stocktake", "damaged", "lost", "return", "sync", "order", "other"]
VariantId = Annotated[int, Meta(ge=1, le=10**18 - 1)]
LocationCode = Annotated[str, Meta(min_length=1, max_length=32)]
MOST_ITEMS = 500


class Location(msgspec.Struct):
    """A place that holds stock of the store, such as a warehouse or a shop."""

    code: Annotated[str, Meta(description="Identifies the location in requests; never changes.")]
    name: Annotated[str, Meta(description="The name for people.")]
    address: Annotated[
        str | None, Meta(description="The postal address as free text; null if the store has not set it.")
    ]
    priority: Annotated[int, Meta(description="Orders reserve stock at the location with the lowest number first.")]
    active: Annotated[bool, Meta(description="Whether the location can hold stock. An inactive location holds none.")]


class LocationLevel(msgspec.Struct):
    """The stock level of a variant at one location."""

    code: Annotated[str, Meta(description="The code of the location.")]
    on_hand: Annotated[int, Meta(description="Units at the location.")]
    reserved: Annotated[int, Meta(description="Units at the location that are reserved for orders.")]
    available: Annotated[int, Meta(description="`on_hand` minus `reserved`.")]


class StockLevel(msgspec.Struct):
    """The stock level of a variant, and how its inventory is tracked."""

    variant_id: Annotated[int, Meta(description="The id of the variant.")]
    product_id: Annotated[int, Meta(description="The id of the product of the variant.")]
    sku: Annotated[str | None, Meta(description="The SKU of the variant; null if none is set.")]
    track_inventory: Annotated[bool, Meta(description="Whether orders change the stock of the variant.")]
    allow_backorder: Annotated[bool, Meta(description="Whether orders can reserve more units than are available.")]
    low_stock_threshold: Annotated[
        int | None,
        Meta(
            description="The available units at or below which the variant runs low, as set on the variant; null if none is set."
        ),
    ]
    stock: Annotated[Stock, Meta(description="The sum over all locations.")]
    updated_at: Annotated[
        datetime, Meta(description="The time of the last change of the variant or its stock, in UTC.")
    ]
    version: Annotated[
        int, Meta(description="The version of the variant; it increases with each change of the variant or its stock.")
    ]
    locations: Annotated[
        list[LocationLevel] | UnsetType,
        Meta(
            description="The level at each location that holds units, in the order of their priority, and at `default`. "
            "Only with `include=locations`."
        ),
    ] = UNSET


class LedgerEntry(msgspec.Struct):
    """One change of a variant's stock: the differences, the reason, the actor, and the levels after the change."""

    id: Annotated[int, Meta(description="The id of the entry, assigned by Stoa.")]
    variant_id: Annotated[int, Meta(description="The id of the variant.")]
    sku: Annotated[
        str | None, Meta(description="The SKU of the variant at the time of the entry; null if it had none.")
    ]
    kind: Annotated[
        Kind,
        Meta(
            description="`set` is a new level, `adjust` a difference, `transfer` a move to another location, and `import` a row of a file. Orders `reserve` units, `release` them, ship them (`commit`, with positive numbers if a shipment is voided) and return them (`restock`)."
        ),
    ]
    location: Annotated[str, Meta(description="The code of the location whose level changed.")]
    delta_on_hand: Annotated[
        int,
        Meta(
            description="The units that were added to the stock on hand at the location; negative if they were removed."
        ),
    ]
    delta_reserved: Annotated[
        int,
        Meta(description="The units that were reserved at the location; negative if they were released or shipped."),
    ]
    on_hand_after: Annotated[int, Meta(description="Units of the variant at all locations after the change.")]
    reserved_after: Annotated[int, Meta(description="Reserved units at all locations after the change.")]
    reason: Annotated[
        Reason,
        Meta(
            description="Why the stock changed: the reason that was sent, or `other`; `order` or `return` for orders, and `sync` for imports."
        ),
    ]
    reference: Annotated[
        str | None,
        Meta(
            description="The reference that was sent, the number of the order, or the id of the import; null if there is none."
        ),
    ]
    order_id: Annotated[
        int | None, Meta(description="The id of the order that changed the stock; null if it was no order.")
    ]
    actor: Annotated[Actor, Meta(description="The app, person or operator that changed the stock.")]
    request_id: Annotated[str, Meta(description="The id of the request that changed the stock, as in `X-Request-Id`.")]
    created_at: Annotated[datetime, Meta(description="The time of the change, in UTC.")]


class Adjustment(msgspec.Struct, forbid_unknown_fields=True):
    """A new level (`set`), a difference (`adjust`) or a move to another location (`transfer`) for one variant, named by its id or its SKU."""

    quantity: Annotated[
        Quantity,
        Meta(
            description="The new stock on hand with `set`, the difference with `adjust`, negative to subtract, or the units to move with `transfer`, at least 1."
        ),
    ]
    variant_id: Annotated[VariantId | None, Meta(description="The id of the variant. Send either this or `sku`.")] = (
        None
    )
    sku: Annotated[Sku | None, Meta(description="The SKU of the variant. Send either this or `variant_id`.")] = None
    op: Annotated[
        Literal["set", "adjust", "transfer"],
        Meta(
            description="`set` replaces the stock on hand, `adjust` adds to it, and `transfer` moves units to `to_location`. The default is `adjust`."
        ),
    ] = "adjust"
    location: Annotated[
        LocationCode | None,
        Meta(description="The code of the location whose stock changes. The default is `default`."),
    ] = None
    to_location: Annotated[
        LocationCode | None,
        Meta(description="With `transfer`, and only then: the code of the location to which the units move."),
    ] = None
    compare_quantity: Annotated[
        Quantity | None,
        Meta(
            description="The stock on hand that you expect at the location. If it differs, the item fails with `stale_quantity`."
        ),
    ] = None
    reason: Annotated[
        Reason | None, Meta(description="Why the stock changes. The default is the `reason` of the request.")
    ] = None
    reference: Annotated[
        Short | None,
        Meta(
            description="Your own text for the ledger, such as a document number. The default is the `reference` of the request."
        ),
    ] = None


class Adjustments(msgspec.Struct, forbid_unknown_fields=True):
    """Adjustments in the order in which they apply. An item's own `reason` and `reference` override these."""

    items: Annotated[
        Annotated[list[Adjustment], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_ITEMS})],
        Meta(description=f"The adjustments, from 1 to {MOST_ITEMS}."),
    ]
    mode: Annotated[
        Mode,
        Meta(
            description="`atomic`, the default, applies all items or none; `independent` applies each item by itself."
        ),
    ] = "atomic"
    reason: Annotated[Reason, Meta(description="The reason of items that have none. The default is `other`.")] = "other"
    reference: Annotated[Short | None, Meta(description="The reference of items that have none.")] = None


class StaleQuantity(Refusal):
    """`compare_quantity` differs from the stock on hand, which is in `on_hand`. Read the level again, then retry."""

    status, code, title = 409, "stale_quantity", "The stock has changed"


class InsufficientStock(Refusal):
    """The quantity exceeds the available stock, which is in `available`. Reduce it, or set `allow_backorder`."""

    status, code, title = 409, "insufficient_stock", "Not enough stock"


INVENTORY = ListOf(
    filters={
        "product_id": Ids(description="Variants of these products."),
        "variant_id": Ids(description="These variants."),
        "sku": Texts(description="The variants with these SKUs.", longest=100),
        "low_stock": Flag(
            description="Whether the variant is tracked and its available stock is at its `low_stock_threshold` or below."
        ),
        "in_stock": Flag(
            description="Whether the variant can be bought now: not tracked, open to backorders, or available."
        ),
        "location": Text(description="Variants with units at the location with this code.", longest=32),
        "updated_since": Moment(description="Variants changed at or after this time, in stock or in any other field."),
    },
    sorts={"id": int, "updated_at": datetime},
    includes=("locations",),
    deletable=True,
    meta={
        "locations": {
            "type": "array",
            "description": "The locations of the store, in the order of their priority.",
            "items": msgspec.json.schema_components([Location])[1]["Location"],
        }
    },
)

LEDGER = ListOf(
    filters={
        "variant_id": Ids(description="Entries of these variants."),
        "product_id": Ids(description="Entries of the variants of these products."),
        "sku": Texts(description="Entries of variants that had these SKUs at the time of the entry.", longest=100),
        "kind": Choices(values=get_args(Kind), description="One or more of these kinds."),
        "reason": Choices(values=get_args(Reason), description="One or more of these reasons."),
        "reference": Text(description="Entries with exactly this reference."),
        "order_id": Ids(description="Entries that these orders caused."),
        "location": Text(description="Entries of the location with this code.", longest=32),
        "created_at": MomentRange(description="The time of the entry, or a time range."),
        "updated_since": Moment(description="Entries at or after this time. An entry never changes."),
    },
    sorts={"id": int, "created_at": datetime},
    default_sort=("-id",),
)
