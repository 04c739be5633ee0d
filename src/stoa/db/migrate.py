"""Migrates a database to this release's schema: numbered migrations run once, functions run again when they change."""

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from stoa.db.placement import delegate_functions, is_distributed, place_new_tables
from stoa.db.pool import Connection, connect
from stoa.db.query import Command, Executor, Query

_SCHEMA = "the schema belongs to no store"
_LOCK = Query(str, "SELECT pg_advisory_xact_lock(7306217)::text", unbound=_SCHEMA)
_CREATE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS schema_functions (name text PRIMARY KEY, digest text NOT NULL);
COMMENT ON TABLE schema_migrations IS 'local';
COMMENT ON TABLE schema_functions IS 'local'"""


class Applied(msgspec.Struct):
    version: int
    name: str
    digest: str


class AppliedFunction(msgspec.Struct):
    name: str
    digest: str


_EXISTS = Query(bool, "SELECT to_regclass('schema_migrations') IS NOT NULL", unbound=_SCHEMA)
_APPLIED = Query(Applied, "SELECT version, name, digest FROM schema_migrations ORDER BY version", unbound=_SCHEMA)
_RECORD = Command("INSERT INTO schema_migrations (version, name, digest) VALUES ($1, $2, $3)", unbound=_SCHEMA)
_FUNCTIONS = Query(AppliedFunction, "SELECT name, digest FROM schema_functions", unbound=_SCHEMA)
_SIGNATURES = Query(
    str,
    """SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ($1::text[])""",
    unbound=_SCHEMA,
)
_REPLACE_FUNCTION = Command(
    """INSERT INTO schema_functions (name, digest) VALUES ($1, $2)
           ON CONFLICT (name) DO UPDATE SET digest = excluded.digest""",
    unbound=_SCHEMA,
)
_CLUSTER = "cluster"
_GENERIC, _CUSTOM = "plan_cache_mode = force_generic_plan", "plan_cache_mode = force_custom_plan"
_FORGET_FUNCTIONS = Command("DELETE FROM schema_functions WHERE name = ANY ($1::text[])", unbound=_SCHEMA)


class MigrationRefused(Exception):
    """The database was migrated by another or altered set of files."""


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return _digest(self.sql)


class Function(msgspec.Struct, frozen=True):
    """A stored function. A pure one reads no table; generated columns may call it, so it exists before the tables."""

    name: str
    package: str
    sql: str

    @property
    def pure(self) -> bool:
        return self.package == "db"

    @property
    def digest(self) -> str:
        return _digest(self.sql)


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


def known() -> list[Migration]:
    """All migrations of this release, in order."""
    folder = files("stoa") / "schema"
    names = sorted(item.name for item in folder.iterdir() if item.name[:4].isdigit())
    return [Migration(int(name[:4]), name[5:-4], (folder / name).read_text(encoding="utf-8")) for name in names]


def functions(*, distributed: bool = False) -> list[Function]:
    """All stored functions of this release: each `<package>/functions/<name>.sql` holds one.

    On a cluster, a file of the package `cluster` replaces the function of the same name, and each call is planned with its
    store, because a plan without a store cannot be sent to the store's node.
    """
    found = sorted(_functions_below(files("stoa"), ""), key=lambda function: (not function.pure, function.name))
    plain = [function for function in found if function.package != _CLUSTER]
    if not distributed:
        return plain
    cluster = {function.name: function.sql for function in found if function.package == _CLUSTER}
    return [
        msgspec.structs.replace(function, sql=cluster.get(function.name, function.sql).replace(_GENERIC, _CUSTOM))
        for function in plain
    ]


def _functions_below(folder: Traversable, package: str) -> Iterator[Function]:
    for item in folder.iterdir():
        if item.is_dir() and item.name == "functions":
            for file in item.iterdir():
                yield Function(file.name.removesuffix(".sql"), package, file.read_text(encoding="utf-8"))
        elif item.is_dir() and item.name != "__pycache__":
            yield from _functions_below(item, f"{package}.{item.name}" if package else item.name)


LATEST = max(migration.version for migration in known())


async def version(db: Executor) -> int:
    """The schema version of a database; 0 if it was never migrated."""
    if not await _EXISTS.one(db):
        return 0
    applied = await _APPLIED.all(db)
    return applied[-1].version if applied else 0


async def migrate(url: str) -> list[Migration]:
    """Apply what is missing in one transaction, and return the migrations applied. Concurrent callers wait for each other."""
    db = await connect(url, statement_timeout_ms=0, lock_timeout_ms=0, timeout_s=10, session=True)
    try:
        await db.execute("BEGIN")
        await _LOCK.one(db)
        await db.execute("SET LOCAL lock_timeout = '5s'")
        await db.execute(_CREATE)
        pending = await _pending(db)
        distributed = await is_distributed(db)
        changed = await _changed_functions(db, distributed=distributed)
        for function in changed:
            if function.pure:
                await db.execute(function.sql)
        for migration in pending:
            for statement in _statements(migration.sql) if distributed else [migration.sql]:
                await db.execute(statement)
            await _RECORD.run(db, migration.version, migration.name, migration.digest)
        if distributed:
            await place_new_tables(db)
        await _replace_functions(db, changed)
        if distributed:
            await delegate_functions(db)
        await db.execute("COMMIT")
        return pending
    finally:
        await db.close()


def _statements(sql: str) -> list[str]:
    """The statements of a migration one by one, as Citus needs them; each ends at the end of a line, and none has a body."""
    lines = [line for line in sql.splitlines() if not line.lstrip().startswith("--")]
    return [part for part in re.split(r"(?<=;)\s*$", "\n".join(lines), flags=re.MULTILINE) if part.strip()]


async def _pending(db: Executor) -> list[Migration]:
    applied = {row.version: row for row in await _APPLIED.all(db)}
    for migration in known():
        before = applied.get(migration.version)
        if before is not None and before.digest != migration.digest:
            raise MigrationRefused(
                f"Migration {migration.version:04} ({migration.name}) differs from the one applied to this database. "
                "Never edit an applied migration; add a new one."
            )
    return [migration for migration in known() if migration.version not in applied]


async def _changed_functions(db: Executor, *, distributed: bool) -> list[Function]:
    applied = {row.name: row.digest for row in await _FUNCTIONS.all(db)}
    current = functions(distributed=distributed)
    return [function for function in current if applied.get(function.name) != function.digest]


async def outdated_functions(db: Executor) -> int:
    """The number of stored functions that differ from those of this release."""
    return len(await _changed_functions(db, distributed=await is_distributed(db)))


async def changed_for_cluster(db: Executor) -> list[str]:
    """The functions that differ from those that this release has on a cluster."""
    return [function.name for function in await _changed_functions(db, distributed=True)]


async def replace_functions_for_cluster(db: Connection) -> int:
    """Give a database that was just distributed the functions of a cluster; returns how many were replaced."""
    changed = await _changed_functions(db, distributed=True)
    for function in changed:
        if function.pure:
            await db.execute(function.sql)
    await _replace_functions(db, changed)
    await delegate_functions(db)
    return len(changed)


async def _replace_functions(db: Connection, changed: list[Function]) -> None:
    """Drop every overload of a changed or removed function, then create the current definitions.

    Pure functions are replaced in place, because generated columns depend on them.
    """
    recorded = {row.name for row in await _FUNCTIONS.all(db)}
    removed = recorded - {function.name for function in functions()}
    outdated = [function.name for function in changed if not function.pure and function.name in recorded]
    signatures = await _SIGNATURES.all(db, [*outdated, *removed])
    if signatures:
        await db.execute(f"DROP FUNCTION {', '.join(signatures)}")
    await _FORGET_FUNCTIONS.run(db, list(removed))
    for function in changed:
        if not function.pure:
            await db.execute(function.sql)
        await _REPLACE_FUNCTION.run(db, function.name, function.digest)
