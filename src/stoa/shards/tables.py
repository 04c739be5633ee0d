"""Which tables are replicated to every shard, which ones move with a store, and the partitions and ids that a move needs."""

import msgspec

from stoa.db.connection import Connection
from stoa.db.placement import GLOBAL, STORE
from stoa.db.query import Executor, Query
from stoa.db.short_transactions import in_short_transaction
from stoa.store_data.store_erasure import STEPS, Step

_CATALOG = "it reads the catalog of PostgreSQL"
# Tables that a cluster keeps on its coordinator. A shard reads tokens to admit a request, so they are replicated to it; the sealed
# end of an audit log belongs to its store, so it moves along.
_REPLICATED_TOO = "tokens"
_MOVED_TOO = "audit_heads"
MARKERS = "move_markers"
_AHEAD = 1_000  # ids that stay unused, so that a sequence which is in use while it is raised never goes back


class Table(msgspec.Struct):
    """A table and where its rows live. A row of a keyless table is identified by all of its columns."""

    name: str
    declared: str
    keyless: bool
    unlogged: bool


class Partition(msgspec.Struct):
    table: str
    day: str


class LastId(msgspec.Struct):
    name: str
    last: int


TABLES = Query(
    Table,
    """SELECT c.relname::text AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS declared,
              c.relreplident = 'd' AND NOT EXISTS (
                  SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS keyless,
              c.relpersistence = 'u' AS unlogged
         FROM pg_class c
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
        ORDER BY c.relname""",
    unbound=_CATALOG,
)
_DAYS = Query(
    Partition,
    r"""SELECT p.relname::text AS table, substring(c.relname FROM '_(\d{8})$') AS day
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
         WHERE p.relkind = 'p' AND p.relnamespace = 'public'::regnamespace AND c.relname ~ '_\d{8}$'
         ORDER BY 1, 2""",
    unbound=_CATALOG,
)
_MAKE_DAYS = Query(
    int,
    """SELECT count(*) FILTER (WHERE make_day(d.name, to_date(d.day, 'YYYYMMDD')))
         FROM unnest($1::text[], $2::text[]) AS d (name, day)""",
    unbound="a partition holds rows of all stores",
)
_LAST_IDS = Query(
    LastId,
    """SELECT sequencename::text AS name, last_value AS last FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL""",
    unbound=_CATALOG,
)
# One statement, inside the pause. The row makes its commit wait for the disk, also for everything that was replayed before it.
_RAISE_IDS = Query(
    int,
    f"""WITH closed AS (
            INSERT INTO store_residence (store_id, here) VALUES ($1, false)
                ON CONFLICT (store_id) DO UPDATE SET here = false)
        SELECT count(setval(quote_ident(s.sequencename)::regclass, l.last + {_AHEAD}))
          FROM unnest($2::text[], $3::bigint[]) AS l (name, last) JOIN pg_sequences s ON s.sequencename = l.name
         WHERE s.schemaname = 'public' AND coalesce(s.last_value, 0) <= l.last""",
    unbound=_CATALOG,
)


async def global_tables(db: Executor) -> list[str]:
    """The tables whose rows every shard has."""
    return [table.name for table in await TABLES.all(db) if table.declared == GLOBAL or table.name == _REPLICATED_TOO]


async def moved_tables(db: Executor) -> list[Table]:
    """The tables whose rows move with their store; unlogged ones are not replicated, and their rows may be lost."""
    return [table for table in await TABLES.all(db) if _is_moved(table) and not table.unlogged]


async def erasing_steps(db: Executor) -> tuple[Step, ...]:
    """The steps that delete what a store has in one database, and nothing that every shard has."""
    moved = {table.name for table in await TABLES.all(db) if _is_moved(table)}
    return tuple(step for step in STEPS if step.table in moved)


def _is_moved(table: Table) -> bool:
    return table.declared == STORE or table.name == _MOVED_TOO


def filtered(tables: list[Table], store_id: int, move_id: int) -> list[str]:
    """The tables of a store as a publication names them, with the table of markers."""
    return [
        *(f"{table.name} WHERE (store_id = {store_id})" for table in tables),
        f"{MARKERS} WHERE (move_id = {move_id})",
    ]


async def identify_rows(db: Connection, tables: list[Table]) -> None:
    """Let the rows of keyless tables be identified by all columns; otherwise their updates fail as soon as they are published."""
    for table in tables:
        if table.keyless:
            statement = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"
            await in_short_transaction(db, f"Table {table.name}", lambda statement=statement: db.execute(statement))


async def make_days(source: Executor, target: Executor) -> int:
    """Create the day partitions at the target that only the source has; returns how many."""
    days = await _DAYS.all(source)
    return await _MAKE_DAYS.one(target, [each.table for each in days], [each.day for each in days])


async def raise_ids(source: Executor, target: Executor, store_id: int) -> int:
    """Let every sequence of the target go on above the source's, so that the ids of the store ascend; returns how many rose."""
    lasts = await _LAST_IDS.all(source)
    return await _RAISE_IDS.one(target, store_id, [each.name for each in lasts], [each.last for each in lasts])
