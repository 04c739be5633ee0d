"""Fills columns of existing rows, while requests are served: batch by batch, each one short transaction of one store.

The statement of a migration gets the store ($1), the last id of the batch before ($2) and the size of a batch ($3). It
returns the last id of its batch, or null after the last one. The position is stored with each batch, so that an
interrupted backfill continues where it was.
"""

import asyncio
import time
from functools import partial

import msgspec
import structlog

from stoa.db.connection import Connection
from stoa.db.query import Command, Query
from stoa.db.schema_files import Migration
from stoa.db.short_transactions import in_short_transaction

_SCHEMA = "the schema belongs to no store"
BATCH = 500
_PAUSE = 1.0  # after each batch, as a share of its duration: at most half of the time is spent in batches
_REPORT_EVERY_S = 5.0

CREATE = """
CREATE TABLE IF NOT EXISTS schema_backfills (version integer PRIMARY KEY, last_store bigint NOT NULL, last_id bigint NOT NULL);
COMMENT ON TABLE schema_backfills IS 'local'"""


class Position(msgspec.Struct):
    last_store: int
    last_id: int


_POSITION = Query(Position, "SELECT last_store, last_id FROM schema_backfills WHERE version = $1", unbound=_SCHEMA)
_STORES = Query(int, "SELECT id FROM stores WHERE id >= $1 ORDER BY id", unbound="a backfill goes through all stores")
_SAVE = Command(
    """INSERT INTO schema_backfills (version, last_store, last_id) VALUES ($1, $2, $3)
           ON CONFLICT (version) DO UPDATE SET last_store = excluded.last_store, last_id = excluded.last_id""",
    unbound=_SCHEMA,
)


async def fill(db: Connection, migration: Migration) -> None:
    """Run the batches of a migration that are missing; logs the progress every few seconds."""
    before = await _POSITION.maybe(db, migration.version) or Position(0, 0)
    reported = time.monotonic()
    for store_id in await _STORES.all(db, before.last_store):
        last = before.last_id if store_id == before.last_store else 0
        while True:
            started = time.monotonic()
            work = partial(_run_batch, db, migration, store_id, last)
            reached = await in_short_transaction(db, f"Backfill {migration}", work)
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
        await _SAVE.run(db, migration.version, store_id, reached)
    return reached
