"""Restores a backup in one transaction, and counts the rows before it commits."""

import asyncio
import base64
import os
import re
import zipfile
from asyncio.subprocess import Process
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from stoa.backup.archive import DUMP, KEY, BackupRefused, Manifest, opened
from stoa.backup.erasures import ErasureList, collect, not_repeated
from stoa.backup.programs import CHUNK, Server, check_exit, server_of, start_reading, start_script
from stoa.db import migrate
from stoa.db.connection import connect
from stoa.db.query import Executor, Query
from stoa.db.service_facts import TO_REPEAT
from stoa.secret_keys import key_fingerprint
from stoa.settings import Settings, existing_key

_ALL_STORES = "a backup contains every store"
OTHERS = Query(
    int,
    """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'stoa%'
          AND backend_type = 'client backend'""",
    unbound=_ALL_STORES,
)
HAS_SCHEMA = Query(bool, "SELECT to_regclass('public.stores') IS NOT NULL", unbound=_ALL_STORES)
ANY_STORE = Query(bool, "SELECT EXISTS (SELECT FROM stores)", unbound=_ALL_STORES)
_PG_RESTORE = ("--no-owner", "--no-privileges", "--exit-on-error", "--file=-")
_PSQL = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse", "--output=/dev/null")
# The default, which servers before PostgreSQL 17 do not know, and the line after it.
_SINCE_17, _NEXT = b"\nSET transaction_timeout = 0;", b"\nSET client_encoding"
# Debian's PostgreSQL 15.20 keeps a version of each column among its options. A pg_dump that does not know it takes it for a setting,
# which other servers refuse.
_COLUMN_VERSION = re.compile(rb"(?<=\()pg_attver=\d+(?:, )?|, pg_attver=\d+")
_ROWS_FOLLOW = re.compile(rb"COPY .+ FROM stdin;\n")
_BEGIN = b"BEGIN;\nSET LOCAL lock_timeout = '10s';\nSET LOCAL client_min_messages = 'error';\nDROP SCHEMA IF EXISTS public CASCADE;\n"


class ErasuresUnknown(BackupRefused):
    """Nobody knows who was erased since the backup."""


async def restore(
    url: str,
    settings: Settings,
    file: Path,
    *,
    replace: bool,
    server: Server | None = None,
    erasures: Sequence[ErasureList] = (),
) -> Manifest:
    """Replace the database by a backup and migrate it to this release's schema; returns the manifest. `server` chooses the
    programs; a drill names the one to which a restore would connect. The `erasures` are noted with the rows, so that they can be
    repeated after an interruption, too."""
    with opened(file) as (archive, manifest):
        key = await check(url, settings, archive, manifest, replace=replace)
        with archive.open(DUMP) as dump:
            await _load(url, server or await server_of(url), dump, _major(manifest.server), _end(manifest, erasures))
        if key is not None and not settings.secret_key:
            _write_key(settings.data_dir / KEY, key)
    await migrate.migrate(url)
    db = await connect(url, statement_timeout_ms=0)
    await db.execute("ANALYZE")
    await db.close()
    return manifest


async def check(
    url: str, settings: Settings, archive: zipfile.ZipFile, manifest: Manifest, *, replace: bool
) -> str | None:
    """Refuse what cannot be restored, before anything is changed; returns the key in the backup."""
    _check_schema(manifest)
    key = archive.read(KEY).decode() if KEY in archive.namelist() else None
    _check_key(settings, manifest, key)
    await _check_target(url, replace=replace)
    return key


def _check_schema(manifest: Manifest) -> None:
    """Refuse a backup whose schema this release cannot migrate."""
    if manifest.schema > migrate.LATEST:
        raise BackupRefused(
            f"the backup was taken by a newer release (schema {manifest.schema}; this release has {migrate.LATEST}): "
            "install that release first"
        )
    known = {migration.version: migration.digest for migration in migrate.known()}
    if unknown := [version for version, digest in manifest.migrations.items() if known.get(version) != digest]:
        raise BackupRefused(
            f"the schema of the backup does not belong to this release: migration {unknown[0]:04} differs"
        )


def _check_key(settings: Settings, manifest: Manifest, key: str | None) -> None:
    """Refuse a backup without its key: stored credentials are useless without it."""
    keys = existing_key(settings)
    known = keys is not None and manifest.key_fingerprint in map(key_fingerprint, keys.configured)
    if settings.secret_key and not known:
        raise BackupRefused(
            "STOA_SECRET_KEY is not the key of this backup: set the key with which the backup was taken, or if it was "
            "rotated since, the current one and that one, separated by a comma"
        )
    if not settings.secret_key and key is None and not known:
        raise BackupRefused("this backup contains no key: set STOA_SECRET_KEY to the key with which it was taken")


async def has_stores(db: Executor) -> bool:
    return await HAS_SCHEMA.one(db) and await ANY_STORE.one(db)


async def erasures_to_repeat(
    db: Executor, given: list[ErasureList], *, sure: bool, holds_stores: Query[bool] = ANY_STORE
) -> list[ErasureList]:
    """The given lists, what the database knows that is about to be replaced, and what a restore of it has not repeated yet."""
    has_schema = await HAS_SCHEMA.one(db)
    left = await not_repeated(db) if has_schema else []
    if left or (has_schema and await holds_stores.one(db)):
        return [*given, *left, await collect(db)]
    if given or sure:
        return given
    raise ErasuresUnknown(
        "customers who were erased after this backup would come back: pass --erasures FILE with the list of "
        "`stoa erasures export`, or --no-erasures if nobody was erased"
    )


async def _check_target(url: str, *, replace: bool) -> None:
    db = await connect(url, timeout_s=10, session=True)
    try:
        others = await OTHERS.one(db)
        occupied = await has_stores(db)
    finally:
        await db.close()
    if others:
        raise BackupRefused(f"a running Stoa has {others} open connections: stop every service and worker first")
    if occupied and not replace:
        raise BackupRefused("the database already contains stores: pass --replace to replace them with the backup")


async def _load(url: str, server: Server, dump: IO[bytes], major: int, end: bytes) -> None:
    """Stream the dump through pg_restore into psql as one transaction, which commits only after the last statement."""
    started: list[Process] = []
    try:
        started.append(reader := await start_reading(major, _PG_RESTORE))
        started.append(writer := await start_script(url, server, _PSQL))
        errors = await _pump(reader, writer, dump, end)
    except BaseException:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.wait()
        raise
    await check_exit(writer, "the backup could not be restored, and nothing was changed", errors[1])
    await check_exit(reader, "the backup could not be read", errors[0])


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


async def _pump(reader: Process, writer: Process, dump: IO[bytes], last: bytes) -> tuple[bytes, bytes]:
    if not (reader.stdin and reader.stdout and reader.stderr and writer.stdin and writer.stdout and writer.stderr):
        raise BackupRefused("pg_restore or psql could not be started")
    outputs = [asyncio.create_task(each.read()) for each in (reader.stderr, writer.stderr, writer.stdout)]
    feed = asyncio.create_task(_feed(reader, dump))
    try:
        writer.stdin.write(_BEGIN)
        writer.stdin.write((await _until(reader.stdout, _NEXT)).replace(_SINCE_17, b""))
        async for line in reader.stdout:  # the tables, before their rows
            writer.stdin.write(without_versions(line))
            if _ROWS_FOLLOW.fullmatch(line):
                break
        while part := await reader.stdout.read(CHUNK):
            writer.stdin.write(part)
            await writer.stdin.drain()
        await feed
        if await reader.wait() == 0:  # otherwise psql exits without committing
            writer.stdin.write(last)
        writer.stdin.close()
        await writer.stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        feed.cancel()  # psql has exited and reports why
        reader.kill()
        await reader.stdout.read()  # to its end, so that the pipe is closed
    await writer.wait()
    return await outputs[0], await outputs[1]


def without_versions(line: bytes) -> bytes:
    """A line of a dump, without the version of a column that it would set."""
    if not line.startswith(b"ALTER TABLE"):
        return line
    changed = _COLUMN_VERSION.sub(b"", line)
    return b"" if changed.endswith(b" SET ();\n") else changed


async def _until(output: asyncio.StreamReader, text: bytes) -> bytes:
    try:
        return await output.readuntil(text)
    except asyncio.IncompleteReadError as ended:
        return ended.partial  # pg_restore has exited and reports why


async def _feed(reader: Process, dump: IO[bytes]) -> None:
    if reader.stdin is None:
        return
    try:
        while part := dump.read(CHUNK):
            reader.stdin.write(part)
            await reader.stdin.drain()
        reader.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # pg_restore has exited and reports why


def _end(manifest: Manifest, erasures: Sequence[ErasureList]) -> bytes:
    """The end of the transaction: it commits only if each table has as many rows as the manifest says."""
    checks = "".join(
        f"IF (SELECT count(*) FROM public.\"{name}\") <> {int(count)} THEN RAISE EXCEPTION '{name} is not complete'; END IF;\n"
        for name, count in manifest.tables.items()
    )
    return f"\n;DO $check$ BEGIN\n{checks}END $check$;\n{_note(erasures)}COMMIT;\n".encode()


def _note(erasures: Sequence[ErasureList]) -> str:
    """Note the erasures beside those that the backup has to repeat, if it was taken before its own restore had ended."""
    if not erasures:
        return ""
    noted = base64.b64encode(msgspec.json.encode(erasures)).decode()
    return f"""INSERT INTO public.service_facts AS f (name, value) VALUES ('{TO_REPEAT}', convert_from(decode('{noted}', 'base64'), 'UTF8'))
        ON CONFLICT (name) DO UPDATE SET value = (f.value::jsonb || excluded.value::jsonb)::text;\n"""


def _write_key(file: Path, key: str) -> None:
    """Write the key file atomically; a different existing one is kept next to it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.read_text().strip() != key.strip():
        os.link(file, file.with_name(f"{KEY}.before-{os.urandom(4).hex()}"))
    new = file.with_name(f"{KEY}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(key)
        handle.flush()
        os.fsync(handle.fileno())
    new.replace(file)
