"""Turns a migrated database on a Citus coordinator into a distributed one, step by step, each in its own transaction."""

from collections.abc import Callable

import msgspec

from stoa.db import migrate
from stoa.db.connection import APPLICATION_NAME, Connection, connect
from stoa.db.placement import (
    CITUS_CATALOG,
    GLOBAL,
    HAS_CITUS,
    LOCAL,
    PREPARE,
    STORE,
    TABLES,
    Table,
    colocation,
    identifying,
    misplaced,
    placing,
)
from stoa.db.query import Executor, Query
from stoa.db.service_facts import own_shard
from stoa.db.shards import SHARDS as REGISTERED

_SCHEMA = "the schema belongs to no store"
OLDEST_CITUS = (13, 0)
SHARDS = 32
# What every session needs on a cluster, stored with the database.
SETTINGS = {
    # asyncpg looks up types in pg_class. Citus would filter each row of it, which takes a second for each type.
    "citus.override_table_visibility": "off",
    # One connection for each session and node. Otherwise a transaction that read several shards cannot write a reference table.
    "citus.multi_shard_modify_mode": "sequential",
    "citus.max_adaptive_executor_pool_size": "1",
    # SET LOCAL lock_timeout must hold on the node where the lock is.
    "citus.propagate_set_commands": "local",
    # A request to a store whose node is away must not hold its connection until the statement timeout.
    "citus.node_connection_timeout": "3000",
}

# What a step does with a table, and has done, by what the table declares.
_PLANNED = {STORE: "distribute by store_id", GLOBAL: "copy to every node", LOCAL: "move back to the coordinator"}
_DONE = {STORE: "distributed by store_id", GLOBAL: "copied to every node", LOCAL: "moved back to the coordinator"}


class DistributionRefused(Exception):
    """The database cannot be distributed; the message says what is missing."""


class Step(msgspec.Struct):
    """One step of the distribution: what it concerns, and what it does."""

    subject: str
    action: str


class _Server(msgspec.Struct):
    citus: str
    coordinator: bool
    coordinator_known: bool
    workers: int
    database: str
    services: int


_SERVER = Query(
    _Server,
    f"""SELECT e.extversion AS citus, citus_is_coordinator() AS coordinator,
              EXISTS (SELECT FROM pg_dist_node WHERE groupid = 0) AS coordinator_known,
              (SELECT count(*) FROM pg_dist_node
                WHERE isactive AND noderole = 'primary' AND shouldhaveshards) AS workers,
              current_database()::text AS database,
              (SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE '{APPLICATION_NAME}%'
                  AND pid <> pg_backend_pid() AND state IS NOT NULL) AS services
         FROM pg_extension e WHERE e.extname = 'citus'""",
    unbound=CITUS_CATALOG,
)
_SET = Query(
    str,
    """SELECT unnest(s.setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        WHERE d.datname = current_database() AND s.setrole = 0""",
    unbound=_SCHEMA,
)
# Functions that existed before the cluster are unknown to its nodes.
_UNKNOWN_FUNCTIONS = Query(
    str,
    """SELECT p.oid::regprocedure::text FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
          AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.objid = p.oid AND e.deptype = 'e')
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_dist_object o
                           WHERE o.classid = 'pg_proc'::regclass AND o.objid = p.oid)
        ORDER BY 1""",
    unbound=CITUS_CATALOG,
)
# What was copied to the shards is still in the tables of the coordinator, where nothing reads it.
_LEFT_BEHIND = Query(
    str,
    """SELECT c.relname::text FROM pg_dist_partition d JOIN pg_class c ON c.oid = d.logicalrelid
        WHERE NOT c.relispartition AND pg_relation_size(c.oid) + coalesce(
              (SELECT sum(pg_relation_size(i.inhrelid)) FROM pg_inherits i WHERE i.inhparent = c.oid), 0) > 0
        ORDER BY 1""",
    unbound=CITUS_CATALOG,
)


class _ColumnOptions(msgspec.Struct):
    name: str
    changes: str


# Citus does not copy the planner settings of columns to shards, neither to new ones nor to moved ones.
_COLUMN_OPTIONS = Query(
    _ColumnOptions,
    """SELECT c.oid::regclass::text AS name,
              string_agg(format('ALTER COLUMN %I SET (%s)', a.attname, o.option), ', ' ORDER BY a.attnum) AS changes
         FROM pg_dist_partition d JOIN pg_class c ON c.oid = d.logicalrelid JOIN pg_attribute a ON a.attrelid = c.oid
              CROSS JOIN LATERAL unnest(a.attoptions) AS o (option)
        WHERE d.partmethod = 'h' AND c.relkind = 'r' AND o.option LIKE 'n_distinct=%'
        GROUP BY c.oid ORDER BY 1""",
    unbound=CITUS_CATALOG,
)
_ON_SHARDS = Query(
    int,
    "SELECT count(*) FROM run_command_on_shards($1::text::regclass, $2) WHERE NOT success",
    unbound=CITUS_CATALOG,
)


def no_report(_: Step) -> None:
    return None


async def plan(url: str) -> list[Step]:
    """The steps that `distribute` would take now; empty if the database is distributed as it declares."""
    db = await connect_to_cluster(url, "stoa distribute")
    try:
        server = await _check(db, changing=False)
        steps = [Step(f"database {server.database}", f"set {name} = {value}") for name, value in await _unset(db)]
        steps += [Step(f"table {table.name}", _PLANNED[table.declared]) for table in await misplaced(db)]
        steps += [Step(f"table {table.name}", "identify rows by all columns") for table in await _keyless(db)]
        changed = await migrate.changed_for_cluster(db)
        steps += [Step(f"function {name}", "replace by its form for a cluster") for name in changed]
        return steps + [Step(f"table {name}", "delete the copied rows") for name in await _LEFT_BEHIND.all(db)]
    finally:
        await db.close()


async def distribute(url: str, *, shards: int = SHARDS, report: Callable[[Step], None] = no_report) -> list[Step]:
    """Take every step that is missing. A step that fails leaves those before it in place, and a new run continues."""
    done: list[Step] = []

    def finish(subject: str, action: str) -> None:
        done.append(Step(subject, action))
        report(done[-1])

    db = await connect_to_cluster(url, "stoa distribute")
    try:
        server = await _check(db, changing=True)
        for name, value in await _unset(db):
            await db.execute(f'ALTER DATABASE "{server.database}" SET {name} = {value}')
            finish(f"database {server.database}", f"set {name} = {value}")
        for table in await misplaced(db):
            await _in_transaction(
                db,
                *PREPARE,
                f"SET LOCAL citus.shard_count = {shards}",
                *placing(table, await colocation(db)),
            )
            finish(f"table {table.name}", _DONE[table.declared])
        for table in await _keyless(db):
            await _in_transaction(db, *identifying(table))
            finish(f"table {table.name}", "rows are identified by all columns")
        for signature in await _UNKNOWN_FUNCTIONS.all(db):
            await db.execute(f"SELECT create_distributed_function('{signature}')")
        await db.execute("BEGIN")
        replaced = await migrate.replace_functions_for_cluster(db)
        await db.execute("COMMIT")
        if replaced:
            finish(f"{replaced} functions", "replaced by their form for a cluster")
        for name in await _LEFT_BEHIND.all(db):
            await db.execute(f"SELECT truncate_local_data_after_distributing_table('{name}')")
            finish(f"table {name}", "deleted the copied rows")
        await restore_planner_settings(db)
        return done
    finally:
        await db.close()


async def restore_planner_settings(db: Executor) -> None:
    """Set the planner settings of columns on all shards; new and moved shards do not have them."""
    for options in await _COLUMN_OPTIONS.all(db):
        if await _ON_SHARDS.one(db, options.name, f"ALTER TABLE %s {options.changes}"):
            raise DistributionRefused(
                f"a shard of {options.name} did not accept its planner settings; run `stoa db distribute` again"
            )


async def connect_to_cluster(url: str, name: str) -> Connection:
    """A connection for work that takes as long as it needs."""
    return await connect(url, statement_timeout_ms=0, lock_timeout_ms=10_000, timeout_s=10, name=name)


async def _keyless(db: Executor) -> list[Table]:
    """The distributed tables whose shards could not be moved while they are written to."""
    return [table for table in await TABLES.all(db) if table.placed == STORE and table.keyless]


async def _in_transaction(db: Connection, *statements: str) -> None:
    await db.execute("BEGIN")
    try:
        for statement in statements:
            await db.execute(statement)
        await db.execute("COMMIT")
    except BaseException:
        if not db.is_closed():
            await db.execute("ROLLBACK")
        raise


async def _check(db: Executor, *, changing: bool) -> _Server:
    """Refuse a database that cannot be distributed, with the command that helps."""
    if await migrate.version(db) == migrate.LATEST and (await own_shard(db) or await REGISTERED.all(db)):
        raise DistributionRefused(
            "the database is a shard or has shards: a store is either distributed by Citus or in a shard, not both"
        )
    if not await HAS_CITUS.one(db):
        raise DistributionRefused(
            "the database has no Citus: install it on every node, add it to shared_preload_libraries, and run "
            "CREATE EXTENSION citus in this database on every node"
        )
    server = await _SERVER.one(db)
    found = tuple(int(part) for part in server.citus.split("-")[0].split(".")[:2])
    if found < OLDEST_CITUS:
        oldest = ".".join(map(str, OLDEST_CITUS))
        raise DistributionRefused(f"the database has Citus {server.citus}; Stoa needs {oldest} or later")
    if not server.coordinator:
        raise DistributionRefused("this is a worker node; set STOA_DATABASE_URL to the coordinator")
    if await migrate.version(db) != migrate.LATEST:
        raise DistributionRefused("the schema of the database is not the one of this release; run `stoa migrate` first")
    if not server.coordinator_known:
        raise DistributionRefused(
            "the nodes do not know the coordinator; run SELECT citus_set_coordinator_host('<host>', <port>) on it"
        )
    if not server.workers:
        raise DistributionRefused(
            "the cluster has no worker; run SELECT citus_add_node('<host>', <port>) on the coordinator"
        )
    if changing and server.services and await misplaced(db):
        raise DistributionRefused(
            f"{server.services} connections of Stoa are open; stop the service and its workers while tables move"
        )
    return server


async def _unset(db: Executor) -> list[tuple[str, str]]:
    known = {setting.partition("=")[0]: setting.partition("=")[2] for setting in await _SET.all(db)}
    return [(name, value) for name, value in SETTINGS.items() if known.get(name) != value]
