"""The statements for stock levels and the stock ledger."""

from collections.abc import Sequence

import msgspec

from stoa.db.documents import TOMBSTONE
from stoa.db.listing import Listing
from stoa.db.query import Executor, InputRow, Query, json_rows
from stoa.events.outbox import Actor
from stoa.inventory.contract import Kind, Reason

INVENTORY = Listing(
    table="variants",
    doc="""'{"variant_id":' || id || ',"product_id":' || product_id || ',"sku":' || json_text(sku)
           || ',"track_inventory":' || track_inventory::text || ',"allow_backorder":' || allow_backorder::text
           || ',"low_stock_threshold":' || coalesce(low_stock_threshold::text, 'null') || stock_tail(on_hand, reserved)
           || ',"updated_at":"' || rfc3339(updated_at) || '","version":' || version || '}'""",
    tombstone=TOMBSTONE,
    deletable=True,
    sorts={"id": "id", "updated_at": "updated_at"},
    where={
        "product_id": "product_id = ANY({}::bigint[])",
        "variant_id": "id = ANY({}::bigint[])",
        "sku": "sku = ANY({}::text[])",
        "low_stock": "coalesce(track_inventory AND on_hand - reserved <= low_stock_threshold, false) = {}",
        "in_stock": "(allow_backorder OR NOT track_inventory OR on_hand > reserved) = {}",
        "updated_since": "updated_at >= {}",
    },
)

LEDGER = Listing(
    table="stock_movements",
    doc="""movement_document(id, variant_id, sku, kind, delta_on_hand, delta_reserved, on_hand_after, reserved_after,
                             reason, reference, order_id, actor, request_id, created_at)""",
    sorts={"id": "id", "created_at": "created_at"},
    where={
        "variant_id": "variant_id = ANY({}::bigint[])",
        "product_id": "product_id = ANY({}::bigint[])",
        "sku": "sku = ANY({}::text[])",
        "kind": "kind = ANY({}::text[])",
        "reason": "reason = ANY({}::text[])",
        "reference": "reference = {}",
        "order_id": "order_id = ANY({}::bigint[])",
        "created_at": "created_at = {}",
        "created_at[gte]": "created_at >= {}",
        "created_at[gt]": "created_at > {}",
        "created_at[lte]": "created_at <= {}",
        "created_at[lt]": "created_at < {}",
        "updated_since": "created_at >= {}",
    },
)


class Move(InputRow, kw_only=True):
    """One movement of stock. It names its variant by `variant_id` or by `sku`."""

    arguments = ("move_stock.in_items",)

    variant_id: int | None = None
    sku: str | None = None
    kind: Kind
    absolute: bool = False  # whether on_hand is the new level; otherwise it is the difference
    on_hand: int = 0
    reserved: int = 0  # a difference
    expected: int | None = None  # what on_hand must be
    reason: Reason
    reference: str | None = None
    order_id: int | None = None
    movement_key: str | None = None  # a movement with a key happens at most once


class Moved(msgspec.Struct):
    """The result of a movement, and the variant's levels after it."""

    outcome: str
    movement_id: int | None
    on_hand: int | None
    reserved: int | None
    doc: str | None

    @property
    def available(self) -> int:
        return (self.on_hand or 0) - (self.reserved or 0)


MOVE_STOCK = Query(
    Moved, "SELECT outcome, movement_id, on_hand, reserved, doc FROM move_stock($1, $2, $3, $4, $5::json, true)"
)


async def move_stock(
    db: Executor, store_id: int, moves: Sequence[Move], *, atomic: bool, actor: Actor, request_id: str
) -> list[Moved]:
    """Move stock in the given order, with ledger rows and events, and return the result of each movement."""
    return await MOVE_STOCK.all(db, store_id, atomic, msgspec.json.encode(actor).decode(), request_id, json_rows(moves))
