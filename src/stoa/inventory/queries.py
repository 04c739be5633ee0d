"""The statements for stock levels and the stock ledger."""

from collections.abc import Sequence

import msgspec

from stoa.db.documents import TOMBSTONE
from stoa.db.listing import Listing, comparisons
from stoa.db.query import Command, Executor, InputRow, Query, json_rows
from stoa.events.outbox import Actor
from stoa.inventory.contract import Kind, Location, Reason
from stoa.rest.limits import DOCUMENT_BYTES

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
        "in_stock": "is_sellable(track_inventory, allow_backorder, on_hand, reserved) = {}",
        # The second part is skipped as a whole unless the location is the default one.
        "location": """id IN (SELECT variant_id FROM stock_levels WHERE store_id = $1 AND location = {}::text AND on_hand > 0
            UNION ALL
            SELECT id FROM variants
             WHERE store_id = $1 AND {}::text = 'default' AND (on_hand, reserved) <> (other_on_hand, other_reserved))""",
        "updated_since": "updated_at >= {}",
    },
)


class Levels(msgspec.Struct):
    variant_id: int
    docs: bytes


# The levels of each variant at the locations that hold units of it, and at the default location.
LEVELS_OF = Query(
    Levels,
    """SELECT t.id AS variant_id, textsend(string_agg('{"code":"' || t.code || '","on_hand":' || t.on_hand
              || ',"reserved":' || t.reserved || ',"available":' || t.on_hand - t.reserved || '}',
              ',' ORDER BY coalesce(l.priority, 0), t.code)) AS docs
         FROM (SELECT id, 'default' AS code, on_hand - other_on_hand AS on_hand, reserved - other_reserved AS reserved
                 FROM variants WHERE store_id = $1 AND id = ANY($2::bigint[]) AND deleted_at IS NULL
                UNION ALL
               SELECT s.variant_id, s.location, s.on_hand, s.reserved
                 FROM stock_levels s JOIN variants v ON v.store_id = $1 AND v.id = s.variant_id AND v.deleted_at IS NULL
                WHERE s.store_id = $1 AND s.variant_id = ANY($2::bigint[]) AND s.on_hand > 0) t
              LEFT JOIN locations l ON l.store_id = $1 AND l.code = t.code
        GROUP BY t.id""",
)


class LevelAt(msgspec.Struct):
    variant_id: int
    location: str
    on_hand: int
    reserved: int


LEDGER = Listing(
    table="stock_movements",
    doc="""movement_document(id, variant_id, sku, kind, location, delta_on_hand, delta_reserved, on_hand_after, reserved_after,
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
        "location": "location = {}",
        **comparisons("created_at"),
        "updated_since": "created_at >= {}",
    },
)


class Move(InputRow, kw_only=True):
    """One movement of stock. It names its variant by `variant_id` or by `sku`."""

    arguments = ("move_stock.in_items",)

    variant_id: int | None = None
    sku: str | None = None
    kind: Kind
    location: str | None = None  # the default location if None
    to_location: str | None = None  # of a transfer, whose units are in on_hand
    absolute: bool = False  # whether on_hand is the new level; otherwise it is the difference
    on_hand: int = 0
    reserved: int = 0  # a difference
    expected: int | None = None  # what on_hand must be
    reason: Reason
    reference: str | None = None
    order_id: int | None = None
    movement_key: str | None = None  # a movement with a key happens at most once
    silent: bool = False  # whether the whole call causes no events
    # Of one of several requests in a statement, instead of those of the statement. Requests are numbered in their order.
    call: int | None = None
    actor: str | None = None
    request_id: str | None = None


LATER = "later"  # the outcome of the movements of a request that must wait for an earlier one


class Moved(msgspec.Struct):
    """The result of a movement, and the variant's levels at its location after it."""

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


MANY_MOVES = 10
LARGE_VARIANTS = Query(
    int,
    """SELECT octet_length(head) FROM variants WHERE store_id = $1 AND id = ANY($2::bigint[]) AND octet_length(head) >= $4
        UNION ALL
       SELECT octet_length(head) FROM variants
        WHERE store_id = $1 AND sku = ANY($3::text[]) AND deleted_at IS NULL AND octet_length(head) >= $4""",
)


async def large_variants(db: Executor, store_id: int, moves: Sequence[Move]) -> list[int]:
    """The sizes of the large variants among those that many movements name: the event of each contains the variant.

    Few movements are not worth a statement.
    """
    if len(moves) < MANY_MOVES:
        return []
    ids = [each.variant_id for each in moves if each.variant_id is not None]
    skus = [each.sku for each in moves if each.sku is not None]
    return await LARGE_VARIANTS.all(db, store_id, ids, skus, DOCUMENT_BYTES)


# The levels at some locations other than the default, of variants whose products are locked.
LEVELS_AT = Query(
    LevelAt,
    """SELECT variant_id, location, on_hand, reserved FROM stock_levels
        WHERE store_id = $1 AND variant_id = ANY($2::bigint[]) AND location = ANY($3::text[])""",
)

# --- locations -------------------------------------------------------------------------------------------------------

LOCATIONS = Query(
    Location, "SELECT code, name, address, priority, active FROM locations WHERE store_id = $1 ORDER BY priority, code"
)
# Keeps the locations from being deactivated before their new stock is committed.
ACTIVE_LOCATIONS = Query(
    str,
    """SELECT code FROM locations WHERE store_id = $1 AND code = ANY($2::text[]) AND active ORDER BY code FOR KEY SHARE""",
)
LOCK_LOCATIONS = Query(str, "SELECT code FROM locations WHERE store_id = $1 AND code = 'default' FOR NO KEY UPDATE")
# Waits for every transaction that has put stock there: those hold a key share lock.
LOCK_LOCATION = Query(str, "SELECT code FROM locations WHERE store_id = $1 AND code = $2 FOR UPDATE")
ADD_LOCATION = Command(
    "INSERT INTO locations (store_id, code, name, address, priority) VALUES ($1, $2, $3, $4, $5)",
)
CHANGE_LOCATION = Command(
    """UPDATE locations SET name = $3, address = $4, priority = $5, updated_at = now()
        WHERE store_id = $1 AND code = $2"""
)
ACTIVATE_LOCATION = Command(
    "UPDATE locations SET active = $3, updated_at = now() WHERE store_id = $1 AND code = $2",
)
DROP_EMPTY_LEVELS = Command(
    "DELETE FROM stock_levels WHERE store_id = $1 AND location = $2 AND on_hand = 0 AND reserved = 0"
)


class Held(msgspec.Struct):
    on_hand: int
    reserved: int


# Units of deleted variants count only while an order holds them.
HELD = Query(
    Held,
    """SELECT coalesce(sum(s.on_hand), 0)::bigint AS on_hand, coalesce(sum(s.reserved), 0)::bigint AS reserved
         FROM stock_levels s JOIN variants v ON v.store_id = $1 AND v.id = s.variant_id
        WHERE s.store_id = $1 AND s.location = $2 AND (v.deleted_at IS NULL OR s.reserved > 0)""",
)
PUBLISH_LOCATIONS = Command(
    "UPDATE stores SET locations = $2, updated_at = now() WHERE id = $1", unbound="the row of the store itself"
)
