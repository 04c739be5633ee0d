"""The handlers of stock levels, adjustments and the ledger."""

from collections.abc import Sequence

import msgspec

from stoa.inventory import queries
from stoa.inventory.adjusting import adjust_all
from stoa.inventory.contract import (
    INVENTORY,
    LEDGER,
    Adjustments,
    InsufficientStock,
    LedgerEntry,
    StaleQuantity,
    StockLevel,
)
from stoa.inventory.examples import ADJUSTMENTS
from stoa.products.stock_locations import locations_json
from stoa.rest.batch import Batch, BatchFailed, TooManyItems
from stoa.rest.call import Call
from stoa.rest.endpoint import Page, Routes
from stoa.rest.group_commit import only_outcome
from stoa.rest.lists import ListQuery, list_page

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
    grouped=adjust_all,
)
async def adjust_inventory(call: Call, body: Adjustments) -> Batch[LedgerEntry]:
    """Set, adjust or transfer stock.

    Applies up to 500 items in the given order; several items can name the same variant. The result of each item
    contains its ledger entry; an item that changes nothing is `unchanged` and has none.

    - **Kinds.** `set` replaces the stock on hand at a location, `adjust` adds to it or subtracts from it, and
      `transfer` moves available units to `to_location`. A transfer writes two ledger entries, of which the result
      contains the first.
    - **Conditions.** With `compare_quantity`, an item applies only if exactly that quantity is on hand at the
      location.
    - **Bounds.** Available stock never falls below 0 at any location, except at `default` if the variant allows
      backorders or is not tracked.
    - **Failures.** With `mode: atomic` (the default) one failed item means that no item is applied; with `mode:
      independent` each item is applied by itself, and the status is 207 if any failed.
    """
    return await only_outcome(call, adjust_all(call.db, [(call, body)]))


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
