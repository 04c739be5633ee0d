"""The public contract of stock: levels, adjustments, the ledger and errors."""

from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from stoa.events.outbox import Actor
from stoa.products.contract import Quantity, Sku, Stock
from stoa.rest.batch import Mode
from stoa.rest.fields import Short
from stoa.rest.filters import Choices, Flag, Ids, Moment, MomentRange, Text, Texts
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

Kind = Literal["set", "adjust", "reserve", "release", "commit", "restock", "import"]
Reason = Literal["restock", "correction", "stocktake", "damaged", "lost", "return", "sync", "order", "other"]
VariantId = Annotated[int, Meta(ge=1, le=10**18 - 1)]
MOST_ITEMS = 500


class StockLevel(msgspec.Struct):
    """The stock level of a variant, and how its inventory is tracked."""

    variant_id: int
    product_id: int
    sku: str | None
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    stock: Stock
    updated_at: datetime
    version: int


class LedgerEntry(msgspec.Struct):
    """One change of a variant's stock: the differences, the reason, the actor, and the levels after the change."""

    id: int
    variant_id: int
    sku: str | None
    kind: Kind
    delta_on_hand: int
    delta_reserved: int
    on_hand_after: int
    reserved_after: int
    reason: Reason
    reference: str | None
    order_id: int | None
    actor: Actor
    request_id: str
    created_at: datetime


class Adjustment(msgspec.Struct, forbid_unknown_fields=True):
    """A new level (`set`) or a difference (`adjust`) for one variant, named by its id or its SKU."""

    quantity: Quantity
    variant_id: VariantId | None = None
    sku: Sku | None = None
    op: Literal["set", "adjust"] = "adjust"
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
        "updated_since": Moment(description="Variants changed at or after this time, in stock or in any other field."),
    },
    sorts={"id": int, "updated_at": datetime},
    deletable=True,
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
        "created_at": MomentRange(description="The time of the entry, or a time range."),
        "updated_since": Moment(description="Entries at or after this time. An entry never changes."),
    },
    sorts={"id": int, "created_at": datetime},
    default_sort=("-id",),
)
