"""Forward-only migrations: numbered SQL files, applied once, in order, by whichever process comes first."""

import hashlib
from importlib.resources import files

import msgspec

from stoa.db.pool import connect
from stoa.db.query import Command, Executor, Query

_EVERYWHERE = "the schema belongs to no store"
_LOCK = Query(str, "SELECT pg_advisory_lock(7306217)::text", unbound=_EVERYWHERE)
_UNLOCK = Query(bool, "SELECT pg_advisory_unlock(7306217)", unbound=_EVERYWHERE)
_CREATE = Command(
    """CREATE TABLE IF NOT EXISTS schema_migrations (
           version integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL,
           applied_at timestamptz NOT NULL DEFAULT now())""",
    unbound=_EVERYWHERE,
)


class Applied(msgspec.Struct):
    version: int
    name: str
    digest: str


_APPLIED = Query(Applied, "SELECT version, name, digest FROM schema_migrations ORDER BY version", unbound=_EVERYWHERE)
_RECORD = Command("INSERT INTO schema_migrations (version, name, digest) VALUES ($1, $2, $3)", unbound=_EVERYWHERE)
_EXISTS = Query(bool, "SELECT to_regclass('schema_migrations') IS NOT NULL", unbound=_EVERYWHERE)


class MigrationRefused(Exception):
    """The database was migrated by another or altered set of files."""


class Migration(msgspec.Struct, frozen=True):
    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def known() -> list[Migration]:
    """All migrations this release carries, in order."""
    folder = files("stoa") / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return [Migration(int(name[:4]), name[5:-4], (folder / name).read_text(encoding="utf-8")) for name in names]


LATEST = max(migration.version for migration in known())


async def version(db: Executor) -> int:
    """The schema version of a database; 0 when it was never migrated."""
    if not await _EXISTS.one(db):
        return 0
    applied = await _APPLIED.all(db)
    return applied[-1].version if applied else 0


async def migrate(url: str) -> list[Migration]:
    """Bring a database to this release's schema and say what was applied."""
    db = await connect(url, statement_timeout_ms=0, lock_timeout_ms=0, timeout_s=10)
    try:
        await _LOCK.one(db)
        await _CREATE.run(db)
        applied = {row.version: row for row in await _APPLIED.all(db)}
        done: list[Migration] = []
        for migration in known():
            before = applied.get(migration.version)
            if before is None:
                await db.execute("BEGIN")
                await db.execute("SET LOCAL lock_timeout = '5s'")
                await db.execute(migration.sql)
                await _RECORD.run(db, migration.version, migration.name, migration.digest)
                await db.execute("COMMIT")
                done.append(migration)
            elif before.digest != migration.digest:
                raise MigrationRefused(
                    f"migration {migration.version:04} ({migration.name}) differs from the one this database "
                    "was migrated with: files once applied are never edited, add a new one"
                )
        await _UNLOCK.one(db)
        return done
    finally:
        await db.close()
