"""Putting a backup back: everything in one transaction, counted before it is committed, so that it happens whole or not."""

import asyncio
import os
from asyncio.subprocess import Process
from pathlib import Path
from typing import IO

from stoa.backup.archive import DUMP, KEY, BackupRefused, Manifest, key_mark, opened
from stoa.backup.programs import CHUNK, start, start_alone, told
from stoa.db import migrate
from stoa.db.pool import connect
from stoa.db.query import Query
from stoa.settings import Settings, secret_key

_WHOLE = "a backup holds every store"
OTHERS = Query(
    int,
    """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'stoa'""",
    unbound=_WHOLE,
)
INHABITED = Query(bool, "SELECT to_regclass('public.stores') IS NOT NULL", unbound=_WHOLE)
ANY_STORE = Query(bool, "SELECT EXISTS (SELECT FROM stores)", unbound=_WHOLE)
_PSQL = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse", "--output=/dev/null")
_SINCE_17 = b"\nSET transaction_timeout = 0;"  # the default anyway, and unknown to older servers
_BEGIN = b"BEGIN;\nSET LOCAL lock_timeout = '10s';\nSET LOCAL client_min_messages = 'error';\nDROP SCHEMA IF EXISTS public CASCADE;\n"


async def restore(url: str, settings: Settings, file: Path, *, replace: bool) -> Manifest:
    """Put a backup in the place of what is there, bring it to this release's schema, and say what it held."""
    with opened(file) as (archive, manifest):
        _check_schema(manifest)
        key = archive.read(KEY).decode() if KEY in archive.namelist() else None
        _check_key(settings, manifest, key)
        await _check_place(url, replace=replace)
        with archive.open(DUMP) as dump:
            await _load(url, dump, manifest)
        if key is not None and not settings.secret_key:
            _put_key(settings.data_dir / KEY, key)
    await migrate.migrate(url)
    db = await connect(url, statement_timeout_ms=0)
    await db.execute("ANALYZE")
    await db.close()
    return manifest


def _check_schema(manifest: Manifest) -> None:
    """Only what this release can carry on with is put back."""
    if manifest.schema > migrate.LATEST:
        raise BackupRefused(
            f"the backup was taken by a newer release (schema {manifest.schema}, this one knows {migrate.LATEST}): "
            "install that release first"
        )
    known = {migration.version: migration.digest for migration in migrate.known()}
    if strange := [version for version, digest in manifest.migrations.items() if known.get(version) != digest]:
        raise BackupRefused(f"the backup's schema is not of this release's line: migration {strange[0]:04} differs")


def _check_key(settings: Settings, manifest: Manifest, key: str | None) -> None:
    """Credentials are worth nothing without the key that they were kept with, so it is asked for first."""
    if settings.secret_key and key_mark(secret_key(settings)) != manifest.key_mark:
        raise BackupRefused("STOA_SECRET_KEY is not the key of this backup: give the one that it was taken with")
    file = settings.data_dir / KEY
    known = file.exists() and key_mark(bytes.fromhex(file.read_text().strip())) == manifest.key_mark
    if not settings.secret_key and key is None and not known:
        raise BackupRefused("this backup holds no key: give the STOA_SECRET_KEY that it was taken with")


async def _check_place(url: str, *, replace: bool) -> None:
    db = await connect(url, timeout_s=10)
    try:
        others = await OTHERS.one(db)
        inhabited = await INHABITED.one(db) and await ANY_STORE.one(db)
    finally:
        await db.close()
    if others:
        raise BackupRefused(f"{others} connections of a running Stoa are open: stop every service and worker first")
    if inhabited and not replace:
        raise BackupRefused("the database holds stores already: with --replace they are replaced by the backup")


async def _load(url: str, dump: IO[bytes], manifest: Manifest) -> None:
    """The dump becomes a script and the script a transaction, which ends in COMMIT only once all of it has come through."""
    reader = await start_alone("pg_restore", url, ["--no-owner", "--no-privileges", "--exit-on-error", "--file=-"])
    writer = await start("psql", url, _PSQL)
    try:
        errors = await _pump(reader, writer, dump, _counted(manifest))
    except BaseException:
        for process in (reader, writer):
            if process.returncode is None:
                process.kill()
            await process.wait()
        raise
    await told(writer, "the backup could not be put back, and nothing was changed", errors[1])
    await told(reader, "the backup could not be read", errors[0])


async def _pump(reader: Process, writer: Process, dump: IO[bytes], last: bytes) -> tuple[bytes, bytes]:
    if not (reader.stdin and reader.stdout and reader.stderr and writer.stdin and writer.stdout and writer.stderr):
        raise BackupRefused("PostgreSQL's programs do not answer")
    words = [asyncio.create_task(each.read()) for each in (reader.stderr, writer.stderr, writer.stdout)]
    feeding = asyncio.create_task(_feed(reader, dump))
    try:
        writer.stdin.write(_BEGIN)
        while part := await reader.stdout.read(CHUNK):
            writer.stdin.write(part.replace(_SINCE_17, b"") if _SINCE_17 in part else part)
            await writer.stdin.drain()
        await feeding
        if await reader.wait() == 0:  # else the transaction ends here, uncommitted
            writer.stdin.write(last)
        writer.stdin.close()
        await writer.stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        feeding.cancel()  # the writer has ended, and says why
        reader.kill()
    await writer.wait()
    return await words[0], await words[1]


async def _feed(reader: Process, dump: IO[bytes]) -> None:
    if reader.stdin is None:
        return
    try:
        while part := dump.read(CHUNK):
            reader.stdin.write(part)
            await reader.stdin.drain()
        reader.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # the reader has ended, and says why


def _counted(manifest: Manifest) -> bytes:
    """The end of the transaction: each table must hold as many rows as were counted, or nothing is committed."""
    checks = "".join(
        f"IF (SELECT count(*) FROM public.\"{name}\") <> {int(count)} THEN RAISE EXCEPTION '{name} is not complete'; END IF;\n"
        for name, count in manifest.tables.items()
    )
    return f"\n;DO $check$ BEGIN\n{checks}END $check$;\nCOMMIT;\n".encode()


def _put_key(file: Path, key: str) -> None:
    """The key's file, whole or as it was; a different one that stood there is kept beside it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.read_text().strip() != key.strip():
        os.link(file, file.with_name(f"{KEY}.before-{os.urandom(4).hex()}"))
    new = file.with_name(f"{KEY}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(key)
        handle.flush()
        os.fsync(handle.fileno())
    new.replace(file)
