"""Fills columns of existing rows, while requests are served: batch by batch, each one short transaction of one store.

The statement of a migration gets the store ($1), the last id of the batch before ($2) and the size of a batch ($3). It
returns the last id of its batch, or null after the last one. The position is stored with each batch, so that an
interrupted backfill continues where it was.
"""

import asyncio
import time
from functools import partial

import structlog

from stoa.db import migration_progress
from stoa.db.connection import Connection
from stoa.db.query import Query
from stoa.db.schema_files import Migration
from stoa.db.short_transactions import in_short_transaction

BATCH = 500
_PAUSE = 1.0  # after each batch, as a share of its duration: at most half of the time is spent in batches
_REPORT_EVERY_S = 5.0
_STORES = Query(int, "SELECT id FROM stores WHERE id >= $1 ORDER BY id", unbound="a backfill goes through all stores")


async def fill(db: Connection, migration: Migration) -> None:
    """Run the batches of a migration that are missing; logs the progress every few seconds."""
    before = await migration_progress.position(db, migration)
    reported = time.monotonic()
    for store_id in await _STORES.all(db, before.last_store):
        last = before.last_id if store_id == before.last_store else 0
        while True:
            started = time.monotonic()
            work = partial(_run_batch, db, migration, store_id, last)
            reached = await in_short_transaction(db, f"Backfill {migration}", work, of_rows=True)
            if reached is None:
                break
            last = reached
            if time.monotonic() > reported + _REPORT_EVERY_S and structlog.is_configured():
                reported = time.monotonic()
                structlog.get_logger().info("backfill", migration=str(migration), store_id=store_id, last_id=last)
            await asyncio.sleep(_PAUSE * (time.monotonic() - started))


async def _run_batch(db: Connection, migration: Migration, store_id: int, last: int) -> int | None:
    [statement] = migration.statements
    batch = Query(int, statement, unbound="a test checks the statements of backfills")
    reached = await batch.maybe(db, store_id, last, BATCH)
    if reached is not None:
        await migration_progress.save(db, migration, store_id, reached)
    return reached
