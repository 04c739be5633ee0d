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

    variant_id: int
    product_id: int
    sku: str | None
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    stock: Annotated[Stock, Meta(description="The sum over all locations.")]
    updated_at: datetime
    version: int
    locations: Annotated[
        list[LocationLevel] | UnsetType,
        Meta(
            description="The level at each location that holds units, in the order of their priority, and at `default`. "
            "Only with `include=locations`."
        ),
    ] = UNSET


class LedgerEntry(msgspec.Struct):
    """One change of a variant's stock: the differences, the reason, the actor, and the levels after the change."""

    id: int
    variant_id: int
    sku: str | None
    kind: Kind
    location: Annotated[str, Meta(description="The code of the location whose level changed.")]
    delta_on_hand: int
    delta_reserved: int
    on_hand_after: Annotated[int, Meta(description="Units of the variant at all locations after the change.")]
    reserved_after: Annotated[int, Meta(description="Reserved units at all locations after the change.")]
    reason: Reason
    reference: str | None
    order_id: int | None
    actor: Actor
    request_id: str
    created_at: datetime


class Adjustment(msgspec.Struct, forbid_unknown_fields=True):
    """A new level (`set`), a difference (`adjust`) or a move to another location (`transfer`) for one variant, named by its id or its SKU."""

    quantity: Quantity
    variant_id: VariantId | None = None
    sku: Sku | None = None
    op: Literal["set", "adjust", "transfer"] = "adjust"
    location: Annotated[
        LocationCode | None,
        Meta(description="The code of the location whose stock changes. The default is `default`."),
    ] = None
    to_location: Annotated[
        LocationCode | None,
        Meta(description="With `transfer`, and only then: the code of the location to which the units move."),
    ] = None
    compare_quantity: Quantity | None = None
    reason: Reason | None = None
    reference: Short | None = None


class Adjustments(msgspec.Struct, forbid_unknown_fields=True):
    """Adjustments in the order in which they apply. An item's own `reason` and `reference` override these."""

    items: Annotated[list[Adjustment], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_ITEMS})]
    mode: Mode = "atomic"
    reason: Reason = "other"
    reference: Short | None = None


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
