"""Migrates a database to this release's schema while the previous release serves: numbered migrations run once, in
phases; functions are replaced when they change."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import msgspec

from stoa.db import backfill, migration_progress, stored_functions
from stoa.db.connection import Connection, connect
from stoa.db.placement import delegate_functions, is_distributed, place_tables
from stoa.db.query import Command, Executor, Query
from stoa.db.schema_files import VERSIONS, Function, Migration, MigrationRefused, functions, known
from stoa.db.short_transactions import in_short_transaction
from stoa.db.statement_locks import LockReader, created_index
from stoa.settings import WrongSetting

LATEST = VERSIONS[-1]
OLDEST_POSTGRES = 15  # that the schema works on
_SCHEMA = "the schema belongs to no store"
# Several processes may migrate at once, for example because several machines start. They ask for this lock in single
# statements: CREATE INDEX CONCURRENTLY waits for every transaction, so it would wait for one that waits for the lock.
_TRY_LOCK = Query(bool, "SELECT pg_try_advisory_lock(7306231)", unbound=_SCHEMA)
_ASK_AGAIN_S = 0.1
_TRY_SHARED = Query(bool, "SELECT pg_try_advisory_xact_lock_shared(7306231)", unbound=_SCHEMA)
_BEGUN = Query(
    bool,
    """SELECT EXISTS (SELECT FROM schema_backfills b
                       WHERE NOT EXISTS (SELECT FROM schema_migrations m WHERE m.version = b.version))""",
    unbound=_SCHEMA,
)
_CREATE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
COMMENT ON TABLE schema_migrations IS 'local'"""


class Applied(msgspec.Struct):
    version: int
    name: str
    digest: str


_EXISTS = Query(bool, "SELECT to_regclass('schema_migrations') IS NOT NULL", unbound=_SCHEMA)
_APPLIED = Query(Applied, "SELECT version, name, digest FROM schema_migrations ORDER BY version", unbound=_SCHEMA)
_RECORD = Command("INSERT INTO schema_migrations (version, name, digest) VALUES ($1, $2, $3)", unbound=_SCHEMA)
_INDEX_IS_VALID = Query(
    bool, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1::text)", unbound=_SCHEMA
)


async def version(db: Executor) -> int:
    """The schema version of a database, up to which nothing is missing; 0 if it was never migrated."""
    if not await _EXISTS.one(db):
        return 0
    applied = {row.version for row in await _APPLIED.all(db)}
    missing = [version for version in VERSIONS if version not in applied]
    return max((version for version in applied if not missing or version < missing[0]), default=0)


async def check_schema(db: Executor) -> None:
    """Refuse a database that the installed release cannot work on."""
    found = await version(db)
    if found < LATEST:
        has = f"has schema {found}, but this release needs {LATEST}" if found else "has no schema of Stoa yet"
        raise WrongSetting(f"the database {has}: run `stoa migrate`")


async def begun(db: Executor) -> bool:
    """Whether a migration has filled rows here and was interrupted; it goes on behind the last store that it has reached."""
    return await _BEGUN.one(db)


async def may_begin(db: Executor) -> bool:
    """Whether no process migrates the database; none begins before this transaction has ended."""
    return await _TRY_SHARED.one(db)


async def migrate(
    url: str, shards: Sequence[str] = (), permit: Callable[[Connection], Awaitable[None]] | None = None
) -> list[Migration]:
    """Apply what is missing, and return the migrations applied. Concurrent callers wait for each other.

    Each phase runs in the database and in its shards before the next one begins. A shard is extended first, because replication
    must not bring a column that it lacks, and nothing is removed from it before the database sends it no more. A failure leaves
    the phases before it in place, on which both releases work, and the next call continues. Before anything changes, `permit` may
    refuse that.
    """
    databases: list[Connection] = []
    try:
        for each in (*shards, url):
            databases.append(await connect(each, statement_timeout_ms=0, lock_timeout_ms=0, timeout_s=10, session=True))
            await _lock(databases[-1])
        if permit is not None and await _lacks_any(databases):
            await permit(databases[-1])
        pending = [await _expand(db) for db in databases]
        for db, migrations in zip(databases, pending, strict=True):
            await _fill(db, migrations)
        for db, migrations in zip(reversed(databases), reversed(pending), strict=True):
            await _contract(db, migrations)
    finally:
        for db in databases:
            await db.close()
    return pending[-1]


async def _lacks_any(databases: Sequence[Connection]) -> bool:
    """Whether a migration is missing anywhere."""
    for db in databases:
        await in_short_transaction(db, "The schema", partial(_prepare, db))
        if not await is_behind(db) and await missing(db):
            return True
    return False


async def _lock(db: Connection) -> None:
    """Keep other processes from migrating the same database."""
    while not await _TRY_LOCK.one(db):  # noqa: ASYNC110 - another process holds it
        await asyncio.sleep(_ASK_AGAIN_S)


async def _expand(db: Connection) -> list[Migration]:
    """Add tables and columns, and replace the functions; returns the migrations that are missing."""
    await in_short_transaction(db, "The schema", lambda: _prepare(db))
    if await is_behind(db):
        return []  # a later release has migrated the database, and this one works on its schema
    pending = await missing(db)
    distributed = await is_distributed(db)
    await _replace_pure_functions(db, distributed=distributed)
    reader = LockReader()
    for migration in pending:
        if migration.phase == "expand":
            await _apply(db, migration, reader, distributed=distributed)
    await _replace_functions(db, distributed=distributed)
    return pending


async def _fill(db: Connection, pending: Sequence[Migration]) -> None:
    """Build indexes and fill columns, while requests are served."""
    for migration in pending:
        if migration.phase == "concurrently":
            await _build(db, migration)
        elif migration.phase == "backfill":
            await backfill.fill(db, migration)
        else:
            continue
        await _record(db, migration)


async def _contract(db: Connection, pending: Sequence[Migration]) -> None:
    """Remove what the previous release no longer needs."""
    for migration in pending:
        if migration.phase == "contract":
            await _apply(db, migration, LockReader(), distributed=await is_distributed(db))


async def _prepare(db: Connection) -> None:
    await db.execute(_CREATE)
    await db.execute(migration_progress.CREATE)
    await stored_functions.prepare(db)


async def is_behind(db: Executor) -> bool:
    """Whether a later release than this one has migrated the database."""
    applied = await _APPLIED.all(db)
    return bool(applied) and (applied[-1].version > known()[-1].version or await stored_functions.of_later_release(db))


async def _apply(db: Connection, migration: Migration, reader: LockReader, *, distributed: bool) -> None:
    """Run what is left of a migration. The record comes first in a transaction, so that its locks are held until COMMIT and no
    longer."""
    done = (await migration_progress.position(db, migration)).last_id
    left = migration.statements[done:]
    for part in [left] if distributed else parts(left, reader):
        done += len(part)
        work = partial(_apply_part, db, migration, part, done, distributed=distributed)
        await in_short_transaction(db, f"Migration {migration}", work)


def parts(statements: Sequence[str], reader: LockReader) -> Iterator[list[str]]:
    """The statements by transaction. At most one statement of each locks a table that requests use: a transaction that held one
    table and waited for another would deadlock with a request that uses them in the other order."""
    part: list[str] = []
    locks = False
    for statement in statements:
        if reader.locks(statement):
            if locks:
                yield part
                part = []
            locks = True
        part.append(statement)
    yield part


async def _apply_part(
    db: Connection, migration: Migration, statements: Sequence[str], done: int, *, distributed: bool
) -> None:
    if done == len(migration.statements):
        await _record(db, migration)
    else:
        await migration_progress.save(db, migration, 0, done)
    for statement in statements if distributed else ["\n".join(statements)]:
        await db.execute(statement)
    if distributed:
        await place_tables(db)


async def _record(db: Executor, migration: Migration) -> None:
    await _RECORD.run(db, migration.version, migration.name, migration.digest)


async def _build(db: Connection, migration: Migration) -> None:
    """Run statements that take long but block nobody, outside a transaction. Each may be repeated."""
    for statement in migration.statements:
        index = created_index(statement)
        valid = await _INDEX_IS_VALID.maybe(db, index) if index else None
        if valid is False:  # left behind by an attempt that failed
            await db.execute(f"DROP INDEX CONCURRENTLY {index}")
        if not valid:
            await db.execute(statement)


async def missing(db: Executor) -> list[Migration]:
    """The migrations that are not applied yet; refuses a database whose migrations differ from the files."""
    applied = {row.version: row for row in await _APPLIED.all(db)}
    for migration in known():
        before = applied.get(migration.version)
        if before is not None and before.digest != migration.digest:
            raise MigrationRefused(
                f"Migration {migration.version:04} ({migration.name}) differs from the one applied to this database. "
                "Never edit an applied migration; add a new one."
            )
    return [migration for migration in known() if migration.version not in applied]


async def _changed(db: Executor, *, distributed: bool) -> list[Function]:
    return await stored_functions.changed(db, functions(distributed=distributed))


async def _replace_pure_functions(db: Connection, *, distributed: bool) -> None:
    """Replace the functions that generated columns call, before the tables."""
    changed = [function for function in await _changed(db, distributed=distributed) if function.pure]
    await in_short_transaction(db, "Replacing functions", lambda: stored_functions.replace(db, changed))


async def _replace_functions(db: Connection, *, distributed: bool) -> None:
    async def work() -> None:
        await stored_functions.replace(db, await _changed(db, distributed=distributed))
        await stored_functions.drop_unneeded(db, functions(distributed=distributed))
        if distributed:
            await delegate_functions(db)

    await in_short_transaction(db, "Replacing functions", work)


async def outdated_functions(db: Executor) -> int:
    """The number of stored functions that differ from those of this release."""
    return len(await _changed(db, distributed=await is_distributed(db)))


async def changed_for_cluster(db: Executor) -> list[str]:
    """The functions that differ from those that this release has on a cluster."""
    return [function.name for function in await _changed(db, distributed=True)]


async def replace_functions_for_cluster(db: Connection) -> int:
    """Give a database that was just distributed the functions of a cluster; returns how many were replaced."""
    changed = await _changed(db, distributed=True)
    await stored_functions.replace(db, changed)
    await delegate_functions(db)
    return len(changed)
