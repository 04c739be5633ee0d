"""How far a migration is that takes several transactions: stored with each of them, so that an interrupted one continues.

Of a backfill, it is the last row that is done. Of a migration that adds or removes, `last_store` is 0, and `last_id` is the number
of its statements that are done.
"""

import msgspec

from stoa.db.query import Command, Executor, Query
from stoa.db.schema_files import Migration

_SCHEMA = "the schema belongs to no store"

CREATE = """
CREATE TABLE IF NOT EXISTS schema_backfills (version integer PRIMARY KEY, last_store bigint NOT NULL, last_id bigint NOT NULL);
COMMENT ON TABLE schema_backfills IS 'local'"""


class Position(msgspec.Struct):
    last_store: int
    last_id: int


_POSITION = Query(Position, "SELECT last_store, last_id FROM schema_backfills WHERE version = $1", unbound=_SCHEMA)
_SAVE = Command(
    """INSERT INTO schema_backfills (version, last_store, last_id) VALUES ($1, $2, $3)
           ON CONFLICT (version) DO UPDATE SET last_store = excluded.last_store, last_id = excluded.last_id""",
    unbound=_SCHEMA,
)


async def position(db: Executor, migration: Migration) -> Position:
    return await _POSITION.maybe(db, migration.version) or Position(0, 0)


async def save(db: Executor, migration: Migration, last_store: int, last_id: int) -> None:
    await _SAVE.run(db, migration.version, last_store, last_id)
