"""The background duty that applies the rules of collections to the products that existed before them, in batches."""

import asyncio
import time

from stoa.db.connection import Connection
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.events.outbox import Actor, Cause
from stoa.ids import new_id
from stoa.loops import log_failure
from stoa.products import collection_queries as queries
from stoa.products.collections import memberships
from stoa.products.queries import COLLECTIONS_IN_FORCE
from stoa.products.save import load, product_copy, save

NAME = "collections"
BATCH = 500  # products that one transaction reads
_MOST_REVISIONS = 500  # whose locks one transaction takes


class _ByStoa(Cause, frozen=True):
    """Stoa itself causes the change."""

    @property
    def actor(self) -> Actor:
        return Actor("system")


async def apply_collections(database: Database, *, batch: int = BATCH) -> int:
    """Apply all rules that changed; returns the number of products that entered or left a collection.

    The stores take turns, a batch each, so that a large store does not delay the others. A batch is one transaction with its
    progress: after a crash, the next run continues behind it. A store that another worker has locked is left to it. Each batch
    is followed by a pause of its own duration, so that others have at least half of the time.
    """
    changed, working = 0, True
    while working:
        working = False
        for store_id in await queries.DUE_STORES.all(database.autocommit):
            started = time.monotonic()
            try:
                done = await _apply_batch(database, store_id, batch)
            except Exception as error:  # noqa: BLE001 - one store must not keep the others waiting
                log_failure(NAME, error)
                continue
            if done is not None:
                working, changed = True, changed + done
                await asyncio.sleep(time.monotonic() - started)
    return changed


async def _apply_batch(database: Database, store_id: int, batch: int) -> int | None:
    """Apply the rules to the next products of a store; returns how many changed, or None if the store has to wait."""

    async def work(db: Connection) -> int | None:
        scan = await queries.LOCK_SCAN.maybe(db, store_id)
        revision = await queries.REVISION.maybe(db, store_id)
        if scan is None or revision is None or scan.applied >= revision:
            return None
        if scan.scanning != revision:
            settled = max(scan.applied, scan.scanning)
            until = min(revision, settled + _MOST_REVISIONS)
            if not await queries.SETTLED.one(db, store_id, settled, until - 1):
                return None
            if until < revision:
                await queries.ADVANCE.run(db, store_id, until, 0)
                return 0
            scan.reached = 0
        found = await queries.PRODUCTS_AFTER.all(db, store_id, scan.reached, batch)
        stored = await COLLECTIONS_IN_FORCE.one(db, store_id)
        copies = [product_copy(row) for row in found]
        stale = [
            each.stored_id
            for each in copies
            if memberships(each.fields, stored, [entry["handle"] for entry in each.fields.collections])
            != each.fields.collections
        ]
        changed = await _save(db, store_id, stale) if stale else 0
        if len(found) == batch:
            await queries.ADVANCE.run(db, store_id, revision, found[-1].id)
        else:
            await queries.FORGET_PRODUCTS.run(db, store_id, revision)
            await queries.FORGET.run(db, store_id, revision)
            await queries.FINISH.run(db, store_id, revision)
        return changed

    return await database.in_transaction(work, store_id)


async def _save(db: Executor, store_id: int, stale: list[int]) -> int:
    """Save products once more under lock, which applies the rules; another request may have done so meanwhile."""
    products = await load(db, store_id, ids=stale)
    stored = await COLLECTIONS_IN_FORCE.one(db, store_id)
    for product in products:
        handles = [entry["handle"] for entry in product.fields.collections]
        product.set_fields(collections=memberships(product.fields, stored, handles))
    await save(db, store_id, products, _ByStoa(None, new_id("req")))
    return sum(product.touched for product in products)
