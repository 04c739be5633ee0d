"""The handlers of stock levels, adjustments and the ledger."""

from collections.abc import Sequence

import msgspec

from stoa.events.outbox import Actor
from stoa.inventory import queries
from stoa.inventory.contract import (
    INVENTORY,
    LEDGER,
    MOST_ITEMS,
    Adjustment,
    Adjustments,
    InsufficientStock,
    LedgerEntry,
    StaleQuantity,
    StockLevel,
)
from stoa.inventory.examples import ADJUSTMENTS
from stoa.inventory.queries import Move, Moved
from stoa.products.stock_locations import DEFAULT_LOCATION, locations_json
from stoa.rest.batch import Batch, BatchFailed, ItemResult, TooManyItems, done, failed, numbered, refuse_all
from stoa.rest.call import Call
from stoa.rest.endpoint import Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import Fault, Refusal, ValidationFailed

routes = Routes("Products")


@routes.get("/products/inventory", scope="inventory:read", lists=INVENTORY)
async def list_inventory(call: Call, query: ListQuery) -> Page[StockLevel]:
    """List stock levels.

    Returns one level for each variant of the store, sorted by variant id by default. `available` is `on_hand` minus
    `reserved`. `stock` is the sum over all locations; `include=locations` adds the level at each. `meta.locations` lists the
    locations of the store. To keep a copy in sync, poll with `updated_since` and `include_deleted=true`.
    """
    page = await list_page(call.db, call.store_id, queries.INVENTORY, query)
    if call.include and page.docs:
        page.docs = await _with_locations(call, page.docs, page.ids)
    page.extra_meta = {"locations": msgspec.Raw(locations_json(call.store))}
    return page


@routes.post(
    "/products/inventory/adjustments",
    scope="inventory:write",
    errors=[StaleQuantity, InsufficientStock, BatchFailed, TooManyItems],
    example=ADJUSTMENTS,
)
async def adjust_inventory(call: Call, body: Adjustments) -> Batch[LedgerEntry]:
    """Set, adjust or transfer stock.

    Applies up to 500 items in the given order; several items can name the same variant. `set` replaces the stock on hand at a
    location, `adjust` adds to it or subtracts from it, and `transfer` moves available units to `to_location`. With
    `compare_quantity`, an item applies only if exactly that quantity is on hand at the location. Available stock never falls
    below 0 at any location, except at `default` if the variant allows backorders or is not tracked. A transfer writes two
    ledger entries, of which the result contains the first. The result of each
    item contains its ledger entry; an item that changes nothing is `unchanged` and has none. With `mode: atomic` (the
    default) one failed item means that no item is applied; with `mode: independent` each item is applied by itself, and
    the status is 207 if any failed.
    """
    refusals: dict[int, Refusal] = {}
    items: dict[int, Adjustment] = {}
    for index, item in numbered(body.items, call.refused_items, MOST_ITEMS):
        refusal = item if isinstance(item, Refusal) else _contradiction(item)
        if refusal is not None:
            refusals[index] = refusal
        elif not isinstance(item, Refusal):
            items[index] = item
    atomic = body.mode == "atomic"
    moves = [_move(item, body) for item in items.values()]
    actor = Actor(call.kind, call.app_id)
    moved = await queries.move_stock(
        call.db, call.store_id, moves, atomic=atomic, actor=actor, request_id=call.request_id
    )
    call.costs_documents(await queries.large_variants(call.db, call.store_id, moves))
    results: dict[int, Moved] = dict(zip(items, moved, strict=True))
    for index, item in items.items():
        refusal = _refusal(item, results[index])
        if refusal is not None:
            refusals[index] = refusal
    if refusals and atomic:
        raise refuse_all(sorted(refusals.items()))
    return Batch(
        [
            failed(index, refusals[index]) if index in refusals else _moved(index, results[index])
            for index in sorted({*refusals, *results})
        ]
    )


@routes.get("/products/inventory/adjustments", scope="inventory:read", lists=LEDGER)
async def list_inventory_adjustments(call: Call, query: ListQuery) -> Page[LedgerEntry]:
    """List the stock ledger.

    Returns every change of every variant's stock, newest first: the differences, the actor, the reason, and the levels
    after the change. It includes stock that orders reserve, release, ship and return. Entries are never changed or
    deleted.
    """
    return await list_page(call.db, call.store_id, queries.LEDGER, query)


async def _with_locations(call: Call, docs: list[bytes], ids: Sequence[int]) -> list[bytes]:
    """Add the level at each location to the documents, with one statement for the whole page."""
    levels = {row.variant_id: row.docs for row in await queries.LEVELS_OF.all(call.db, call.store_id, ids)}
    # A document without levels is a tombstone.
    return [
        b'%b,"locations":[%b]}' % (doc[:-1], levels[variant_id]) if variant_id in levels else doc
        for doc, variant_id in zip(docs, ids, strict=True)
    ]


def _contradiction(item: Adjustment) -> Refusal | None:
    """The refusal of an item that does not name its variant by exactly one key, or whose fields do not fit its `op`."""
    faults: list[Fault] = []
    if item.variant_id is None and item.sku is None:
        faults.append(Fault("/variant_id", "required", "is required unless sku is given"))
    elif item.variant_id is not None and item.sku is not None:
        faults.append(Fault("/sku", "invalid_format", "specify either variant_id or sku, not both"))
    if item.op != "transfer":
        if item.to_location is not None:
            faults.append(Fault("/to_location", "invalid_format", "must not be sent unless op is transfer"))
    elif item.to_location is None:
        faults.append(Fault("/to_location", "required", "is required if op is transfer"))
    else:
        if item.to_location == (item.location or DEFAULT_LOCATION):
            faults.append(Fault("/to_location", "invalid_format", "must be another location than location"))
        if item.quantity < 1:
            faults.append(Fault("/quantity", "out_of_range", "must be at least 1 if op is transfer"))
    return ValidationFailed("The item is invalid.", faults=faults) if faults else None


def _moved(index: int, moved: Moved) -> ItemResult[msgspec.Raw]:
    return done(index, "updated" if moved.movement_id else "unchanged", moved.movement_id, moved.doc)


def _move(item: Adjustment, body: Adjustments) -> Move:
    return Move(
        variant_id=item.variant_id,
        sku=item.sku,
        kind=item.op,
        location=item.location,
        to_location=item.to_location,
        absolute=item.op == "set",
        on_hand=item.quantity,
        expected=item.compare_quantity,
        reason=item.reason or body.reason,
        reference=item.reference or body.reference,
    )


def _refusal(item: Adjustment, moved: Moved) -> Refusal | None:
    """The reason why an item was not applied, with the values that the caller needs to correct it."""
    match moved.outcome:
        case "unknown" if item.sku is not None:
            fault = Fault("/sku", "unknown_sku", "no variant of this store has this SKU")
            return ValidationFailed("The SKU does not exist.", faults=[fault])
        case "unknown":
            fault = Fault("/variant_id", "unknown_variant", "no variant of this store has this id")
            return ValidationFailed("The variant does not exist.", faults=[fault])
        case "unknown_location":
            return _unknown_location("/location")
        case "unknown_target":
            return _unknown_location("/to_location")
        case "stale":
            words = f"on_hand is {moved.on_hand}, not {item.compare_quantity}"
            fault = Fault("/compare_quantity", StaleQuantity.code, words, {"on_hand": moved.on_hand})
            return StaleQuantity(f"{words}.", faults=[fault])
        case "insufficient":
            words = f"available is {moved.available} and cannot fall below 0"
            fault = Fault("/quantity", InsufficientStock.code, words, {"available": moved.available})
            return InsufficientStock(f"{words}.", faults=[fault])
        case _:
            return None


def _unknown_location(at: str) -> Refusal:
    fault = Fault(at, "unknown_location", "no active location of this store has this code")
    return ValidationFailed("The location does not exist or is inactive.", faults=[fault])
