"""Where tables live on a Citus cluster: reads what their comments declare, and places the tables that live elsewhere."""

from graphlib import TopologicalSorter

import msgspec

from stoa.db.query import Executor, Query

_SCHEMA = "the schema belongs to no store"
CITUS_CATALOG = "it reads the catalog of Citus"

STORE, GLOBAL, LOCAL = "store", "global", "local"


class Table(msgspec.Struct):
    """A table, where its comment says that it lives, and where it lives now; `after` names the tables that it refers to.

    The rows of a keyless table have nothing that identifies them while a shard is copied to another node.
    """

    name: str
    declared: str
    placed: str
    unlogged: bool
    after: list[str]
    keyless: bool = False


HAS_CITUS = Query(bool, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')", unbound=_SCHEMA)
_HAS_DISTRIBUTED = Query(
    bool, "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE partmethod = 'h')", unbound=CITUS_CATALOG
)
TABLES = Query(
    Table,
    """SELECT c.relname::text AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS declared,
              CASE WHEN d.partmethod = 'h' THEN 'store' WHEN d.partmethod = 'n' AND d.repmodel = 't' THEN 'global'
                   ELSE 'local' END AS placed,
              c.relpersistence = 'u' AS unlogged,
              ARRAY(SELECT DISTINCT r.relname::text FROM pg_constraint f JOIN pg_class r ON r.oid = f.confrelid
                     WHERE f.conrelid = c.oid AND f.contype = 'f' AND r.oid <> c.oid) AS after,
              c.relreplident = 'd' AND NOT EXISTS (
                  SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS keyless
         FROM pg_class c LEFT JOIN pg_dist_partition d ON d.logicalrelid = c.oid
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
          AND NOT relation_is_a_known_shard(c.oid)
        ORDER BY c.relname""",
    unbound=CITUS_CATALOG,
)
# The settings of these sessions only: they concern how tables are placed, not how they are used.
PREPARE = (
    # Otherwise Citus takes over every table that refers to a reference table first.
    "SET LOCAL citus.enable_local_reference_table_foreign_keys = off",
    # Several tables that refer to each other are placed in one transaction.
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
)


# Functions that set a lock timeout, which holds only on the node where they run: they run on the node of their store. They take
# no ids, because a sequence gives other ids there.
DELEGATED = ("claim_key", "keep_response", "keep_responses")
_DELEGATED_SIGNATURES = Query(
    str,
    """SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proname = ANY ($1::text[])""",
    unbound=_SCHEMA,
)


class PlacementRefused(Exception):
    """A table cannot live where its comment says."""


async def is_distributed(db: Executor) -> bool:
    """Whether tables of this database are distributed over a cluster."""
    return await HAS_CITUS.one(db) and await _HAS_DISTRIBUTED.one(db)


async def misplaced(db: Executor) -> list[Table]:
    """The tables that do not live where they declare, in an order in which they can be placed: referred tables first."""
    tables = {table.name: table for table in await TABLES.all(db)}
    for table in tables.values():
        if table.declared not in (STORE, GLOBAL, LOCAL):
            raise PlacementRefused(f"the comment on table {table.name} must say store, global or local")
        if table.placed not in (LOCAL, table.declared) and not _returns(table):
            raise PlacementRefused(f"table {table.name} is placed as {table.placed}, but declares {table.declared}")
    order = TopologicalSorter({table.name: table.after for table in tables.values()}).static_order()
    # Reference tables come first, because tables of both kinds refer to them.
    found = [table for name in order if (table := tables[name]).declared != table.placed]
    return sorted(found, key=lambda table: table.declared == STORE)


def _returns(table: Table) -> bool:
    """Whether every node has a copy of the table, but it declares to live on the coordinator alone."""
    return (table.placed, table.declared) == (GLOBAL, LOCAL)


def placing(table: Table, colocated_with: str) -> list[str]:
    """The statements that place a table; tables of a store live with `colocated_with`, if there is one already."""
    if _returns(table):
        # Citus replaces the table by a new one, without its comment.
        return [f"SELECT undistribute_table('{table.name}')", f"COMMENT ON TABLE {table.name} IS '{LOCAL}'"]
    if table.declared == GLOBAL:
        return [f"SELECT create_reference_table('{table.name}')"]
    place = (
        f"SELECT create_distributed_table('{table.name}', 'store_id', colocate_with => '{colocated_with or 'none'}')"
    )
    # An unlogged table cannot be replicated, so its shards could not be moved while they are used.
    logged = [f"ALTER TABLE {table.name} SET LOGGED"] if table.unlogged else []
    return [*logged, *identifying(table), place]


def identifying(table: Table) -> list[str]:
    """The statement that lets a keyless table be copied while it is written to: its whole rows identify themselves."""
    return [f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"] if table.keyless else []


async def colocation(db: Executor) -> str:
    """A table with which the tables of a store are co-located; empty if none is distributed yet."""
    return next((table.name for table in await TABLES.all(db) if table.placed == STORE), "")


async def delegate_functions(db: Executor) -> None:
    """Let the functions that must run on the node of their store do so."""
    colocated_with = await colocation(db)
    for signature in await _DELEGATED_SIGNATURES.all(db, list(DELEGATED)):
        await db.execute(
            f"""SELECT create_distributed_function('{signature}', 'in_store_id', colocate_with => '{colocated_with}',
                                                   force_delegation => true)"""
        )


async def place_tables(db: Executor) -> None:
    """Place what does not live where it declares, inside the transaction of the caller."""
    colocated_with = await colocation(db)
    for statement in PREPARE:
        await db.execute(statement)
    for table in await misplaced(db):
        for statement in placing(table, colocated_with):
            await db.execute(statement)
