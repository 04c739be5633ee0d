"""What the database does for stock levels and their ledger."""

from collections.abc import Sequence

import msgspec

from stoa.db.documents import TOMBSTONE
from stoa.db.listing import Listing
from stoa.db.query import Executor, Query
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
        "sku": "sku = {}",
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
        "sku": "sku = {}",
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


class Move(msgspec.Struct, kw_only=True):
    """One movement of stock as the database takes it; the fields stand in the order of its parameters."""

    variant_id: int | None = None
    sku: str | None = None
    kind: Kind
    absolute: bool = False  # on_hand is the new level, not what to add
    on_hand: int = 0
    reserved: int = 0
    expected_on_hand: int | None = None
    reason: Reason
    reference: str | None = None
    order_id: int | None = None
    key: str | None = None  # a movement with a key happens once


class Moved(msgspec.Struct):
    """What became of a movement, and the variant's levels after it."""

    outcome: str
    movement_id: int | None
    on_hand: int | None
    reserved: int | None
    doc: str | None

    @property
    def available(self) -> int:
        return (self.on_hand or 0) - (self.reserved or 0)


MOVE_STOCK = Query(
    Moved,
    """SELECT outcome, movement_id, on_hand, reserved, doc
         FROM move_stock($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)""",
)


async def move_stock(
    db: Executor, store_id: int, moves: Sequence[Move], *, atomic: bool, actor: Actor, request_id: str
) -> list[Moved]:
    """Move stock, in the order given, with its ledger rows and events; says what became of each movement."""
    columns = zip(*map(msgspec.structs.astuple, moves), strict=True)
    told = msgspec.json.encode(actor).decode()
    return await MOVE_STOCK.all(db, store_id, atomic, told, request_id, *columns)
