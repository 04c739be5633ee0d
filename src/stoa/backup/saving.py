"""Takes a backup while the service runs: counts and dumps one snapshot, and streams it into the file."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import IO

import msgspec

from stoa.backup.archive import (
    DUMP,
    FORMAT,
    KEY,
    MANIFEST,
    BackupRefused,
    Manifest,
    key_file_content,
    new_archive,
)
from stoa.backup.programs import CHUNK, check_exit, start_dump
from stoa.db import migrate, service_facts
from stoa.db.connection import Connection, connect
from stoa.db.migrate import Applied
from stoa.db.placement import is_distributed
from stoa.db.query import Query
from stoa.secret_keys import key_fingerprint
from stoa.settings import Settings, secret_key

_ALL_STORES = "a backup contains every store"
SNAPSHOT = Query(str, "SELECT pg_export_snapshot()", unbound=_ALL_STORES)
SERVER = Query(str, "SELECT current_setting('server_version')", unbound=_ALL_STORES)
# Unlogged tables hold transient state, and are empty after a restore.
TABLES = Query(
    str,
    """SELECT c.relname::text FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY 1""",
    unbound=_ALL_STORES,
)
APPLIED = Query(
    Applied,
    "SELECT version, name, digest FROM schema_migrations ORDER BY version",
    unbound="the schema belongs to no store",
)
_DUMP = ("--format=custom", "--no-owner", "--no-privileges", "--no-unlogged-table-data", "--schema=public",
         "--lock-wait-timeout=10s")  # fmt: skip


class Snapshot(msgspec.Struct):
    """A database at one moment, as long as the connection is open."""

    url: str
    db: Connection
    name: str
    taken_at: datetime


@asynccontextmanager
async def snapshots(urls: Sequence[str]) -> AsyncGenerator[list[Snapshot]]:
    """The snapshots of several databases, taken at the same time, as far as their servers answer equally fast. No transaction
    spans two of them, and a store is in one, so each store is consistent."""
    async with AsyncExitStack() as opened:
        connections = [await opened.enter_async_context(_transaction(url)) for url in urls]
        names = await asyncio.gather(*(_export(db) for db in connections))
        yield [
            Snapshot(url, db, name, taken_at)
            for url, db, (name, taken_at) in zip(urls, connections, names, strict=True)
        ]


@asynccontextmanager
async def _transaction(url: str) -> AsyncGenerator[Connection]:
    db = await connect(url, statement_timeout_ms=0, lock_timeout_ms=10_000, timeout_s=10, session=True)
    try:
        # pg_dump reads our snapshot, so this transaction must stay open until it ends.
        await db.execute("SET idle_in_transaction_session_timeout = 0")
        await db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield db
    finally:
        await db.close()


async def _export(db: Connection) -> tuple[str, datetime]:
    name = await SNAPSHOT.one(db)
    return name, datetime.now(UTC)


async def save(url: str, settings: Settings, file: IO[bytes]) -> Manifest:
    """Write a backup of the database and its key; concurrent writes are not included."""
    async with snapshots([url]) as [taken]:
        return await save_snapshot(taken, settings, file)


async def save_snapshot(taken: Snapshot, settings: Settings, file: IO[bytes]) -> Manifest:
    """Write a backup of a snapshot."""
    manifest = await _manifest(taken.db, settings, taken.taken_at)
    with new_archive(file) as archive:
        with archive.open(DUMP, "w", force_zip64=True) as dump:
            await _dump(taken.url, taken.name, dump)
        if (key := key_file_content(settings)) is not None:
            archive.writestr(KEY, key)
        archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


async def _manifest(db: Connection, settings: Settings, taken_at: datetime) -> Manifest:
    version = await migrate.version(db)
    if not version:
        raise BackupRefused("there is nothing to back up: the database was never migrated")
    if await is_distributed(db):
        raise BackupRefused(
            "a cluster has no common snapshot: back up each node, as docs/operations/cluster.md describes"
        )
    keys = secret_key(settings)
    await service_facts.check_key(db, keys)
    tables: dict[str, int] = {}
    for name in await TABLES.all(db):
        [[tables[name]]] = await db.fetch(f'SELECT count(*) FROM "{name}"')
    return Manifest(
        format=FORMAT,
        made_at=taken_at,
        schema=version,
        migrations={row.version: row.digest for row in await APPLIED.all(db)},
        server=await SERVER.one(db),
        key_fingerprint=await service_facts.known_key(db) or key_fingerprint(keys.current),
        tables=tables,
        shard=await service_facts.own_shard(db),
    )


async def _dump(url: str, snapshot: str, into: IO[bytes]) -> None:
    process = await start_dump(url, [*_DUMP, f"--snapshot={snapshot}"])
    if process.stdout is None or process.stderr is None:
        raise BackupRefused("pg_dump could not be started")
    errors = asyncio.create_task(process.stderr.read())
    try:
        while part := await process.stdout.read(CHUNK):
            into.write(part)
    except BaseException:
        process.kill()
        raise
    await check_exit(process, "the database could not be dumped", await errors)
