"""What a database needs so that stores can move from it or to it; a refusal says what to change."""

import msgspec

from stoa.db import migrate
from stoa.db.connection import Connection
from stoa.db.errors import PostgresError
from stoa.db.placement import HAS_CITUS
from stoa.db.query import Executor, Query
from stoa.shards.registry import Shard, ShardRefused

_CATALOG = "it reads the catalog of PostgreSQL"
# One for the global tables, one for a move, and one that copies a table of each.
_WORKERS = 4


class _Server(msgspec.Struct):
    version: int
    wal_level: str
    workers: int
    role: str
    text: str


_SERVER = Query(
    _Server,
    """SELECT current_setting('server_version_num')::integer / 10000 AS version, current_setting('wal_level') AS wal_level,
              current_setting('max_logical_replication_workers')::integer AS workers, current_user::text AS role,
              (SELECT pg_encoding_to_char(d.encoding) || ' ' || d.datcollate || ' ' || d.datctype
                 FROM pg_database d WHERE d.datname = current_database()) AS text""",
    unbound=_CATALOG,
)
# A temporary slot that reserves nothing: its creation needs the same right as a real one.
_TRY_SLOT = Query(
    str, "SELECT slot_name::text FROM pg_create_physical_replication_slot($1, false, true)", unbound=_CATALOG
)
_DROP_TRIED = Query(str, "SELECT pg_drop_replication_slot($1)::text", unbound=_CATALOG)
_SESSION = Query(int, "SELECT pg_backend_pid()::bigint", unbound=_CATALOG)


def refuse(*faults: str) -> None:
    """Refuse with everything that is missing, so that each server restarts once."""
    if faults:
        raise ShardRefused("; ".join(dict.fromkeys(faults)))


async def source_faults(db: Connection, shard: Shard) -> list[str]:
    """What a database lacks whose rows shall be replicated to another one."""
    _, faults = await _check_server(db, shard)
    slot = f"stoa_check_{await _SESSION.one(db)}"
    try:
        await _TRY_SLOT.one(db, slot)
        await _DROP_TRIED.one(db, slot)
    except PostgresError as error:
        role = (await _SERVER.one(db)).role
        faults.append(
            f"{shard.shown}: a replication slot cannot be created ({error}): run `ALTER ROLE {role} REPLICATION`, or raise "
            "max_replication_slots"
        )
    remedy = "GRANT CREATE ON DATABASE to the role of Stoa"
    return faults + await _try(db, shard, "CREATE PUBLICATION stoa_check", remedy)


async def target_faults(db: Connection, shard: Shard) -> list[str]:
    """What a database lacks that shall receive rows from another one."""
    server, faults = await _check_server(db, shard)
    if server.workers < _WORKERS:
        faults.append(
            f"{shard.shown}: max_logical_replication_workers is {server.workers}: set it to {_WORKERS} or more, and restart the server"
        )
    return faults + await _try(
        db,
        shard,
        """CREATE SUBSCRIPTION stoa_check CONNECTION 'host=127.0.0.1 password=unused' PUBLICATION stoa_check
           WITH (connect = false, slot_name = NONE, enabled = false, create_slot = false)""",
        "use a superuser, or from PostgreSQL 16 on GRANT pg_create_subscription and CREATE ON DATABASE to the role of Stoa",
    )


async def check_same_text(directory: Executor, db: Executor, shard: Shard) -> None:
    """Refuse another encoding or collation, which would sort lists in another order after a move."""
    expected, found = (await _SERVER.one(directory)).text, (await _SERVER.one(db)).text
    if found != expected:
        raise ShardRefused(
            f"{shard.shown} has the encoding and collation {found}, the directory {expected}: create it alike"
        )


async def check_schema(db: Executor, shard: Shard) -> None:
    """Refuse a database without a migration or a function of this release."""
    version = await migrate.version(db)
    if version != migrate.LATEST:
        raise ShardRefused(
            f"{shard.shown} has schema {version}, but this release needs {migrate.LATEST}: run `stoa migrate`"
        )
    if await migrate.begun(db):
        raise ShardRefused(f"{shard.shown} is being migrated to another release: run `stoa migrate` of that release")
    if outdated := await migrate.outdated_functions(db):
        raise ShardRefused(f"{shard.shown}: {outdated} stored functions are outdated: run `stoa migrate`")


async def _check_server(db: Executor, shard: Shard) -> tuple[_Server, list[str]]:
    """The settings of a server, and what it lacks. A server that cannot be a shard at all is refused at once."""
    server = await _SERVER.one(db)
    if server.version < migrate.OLDEST_POSTGRES:
        raise ShardRefused(
            f"{shard.shown} is PostgreSQL {server.version}; Stoa needs {migrate.OLDEST_POSTGRES} or later"
        )
    if await HAS_CITUS.one(db):
        raise ShardRefused(
            f"{shard.shown} has the extension citus: a store is either distributed by Citus or in a shard, not both; "
            "use a plain database"
        )
    if server.wal_level == "logical":
        return server, []
    return server, [f"{shard.shown}: wal_level is {server.wal_level}: set wal_level = logical, and restart the server"]


async def _try(db: Connection, shard: Shard, statement: str, remedy: str) -> list[str]:
    """Run a statement and roll it back, because no table of rights says for sure whether a provider allows it."""
    await db.execute("BEGIN")
    try:
        await db.execute(statement)
    except PostgresError as error:
        return [f"{shard.shown}: {error}: {remedy}"]
    finally:
        await db.execute("ROLLBACK")
    return []
