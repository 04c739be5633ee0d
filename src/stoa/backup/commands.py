"""The commands that take a backup, put one back, and rehearse it."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from stoa.access.console import Console, Refused, print_one, print_rows, progress
from stoa.backup import invariants
from stoa.backup.archive import BackupRefused, Manifest
from stoa.backup.restoring import restore
from stoa.backup.saving import save
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgres
from stoa.db.pool import Database
from stoa.settings import Settings, load

T = TypeVar("T")


class Backup(msgspec.Struct):
    """What was saved."""

    file: str
    bytes: int
    schema: int
    rows: int
    holds_key: bool


class Restored(msgspec.Struct):
    """What was put back, and how it was found."""

    made_at: str
    schema: int
    rows: int
    invariants: list[invariants.Found]


@contextmanager
def _database(settings: Settings, *, alone: bool) -> Generator[str]:
    """The database's URL: given, embedded, or of a running service unless we must be alone with it."""
    if settings.database_url:
        yield settings.database_url
        return
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        server.start()
    except DataFolderInUse as error:
        if alone:
            raise BackupRefused(f"{error} A backup is put back while nothing else runs.") from error
        yield server.dsn
        return
    try:
        yield server.dsn
    finally:
        server.stop()


def _carried_out(work: Callable[[], Awaitable[T]], what: str, *, quiet: bool) -> T:
    with progress(quiet=quiet) as shown:
        shown.add_task(what, total=None)
        return asyncio.run(_awaited(work))


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")
@click.pass_obj
def backup(console: Console, file: Path, *, overwrite: bool, as_json: bool) -> None:
    """Save everything in FILE, while the service runs; `-` writes to standard output.

    The file holds the database as it was at one moment, and the key that its credentials need, unless STOA_SECRET_KEY
    brings that: guard it as you guard the service itself.

    \b
    Examples:
      stoa backup stoa-2026-11-15.backup
      stoa backup - | ssh vault.example.com 'cat > stoa.backup'
    """
    try:
        if str(file) == "-":
            _save(console.settings, None, quiet=True)
            return
        if file.exists() and not file.is_file():
            raise Refused(f"{file} is no file; `-` writes to standard output")  # a device would be replaced by one
        if file.exists() and not overwrite:
            raise Refused(f"{file} exists already; choose another name, or --overwrite")
        done = _save(console.settings, file, quiet=as_json)
    except BackupRefused as refusal:
        raise Refused(str(refusal)) from refusal
    holds_key = not console.settings.secret_key
    rows = sum(done.tables.values())
    print_one(Backup(str(file), file.stat().st_size, done.schema, rows, holds_key), as_json=as_json)
    if not holds_key:
        click.echo("The key is not in it: keep STOA_SECRET_KEY as well, apart from it.", err=True)


def _save(settings: Settings, file: Path | None, *, quiet: bool) -> Manifest:
    """Write the backup beside its name, and give it the name only when it is whole and on the disk."""
    with _database(settings, alone=False) as url:
        if file is None:
            return asyncio.run(save(url, settings, sys.stdout.buffer))
        half = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            new = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise BackupRefused(f"{file} cannot be written: {error.strerror}") from error
        try:
            with os.fdopen(new, "wb") as handle:
                done = _carried_out(lambda: save(url, settings, handle), "Saving", quiet=quiet)
                handle.flush()
                os.fsync(handle.fileno())
            half.replace(file)
        finally:
            half.unlink(missing_ok=True)
        return done


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--replace", is_flag=True, help="Replace the stores that are there.")
@click.option("--drill", is_flag=True, help="Only rehearse: into a database of the moment, checked and thrown away.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")
@click.pass_obj
def restore_backup(console: Console, file: Path, *, replace: bool, drill: bool, as_json: bool) -> None:
    """Put the backup FILE back, whole or not at all, and check what came of it; `-` reads standard input.

    The service must be stopped. What is there is replaced only with --replace. An older backup is brought to this release's
    schema. With --drill nothing of yours is touched.

    \b
    Examples:
      stoa restore stoa-2026-11-15.backup --drill
      stoa restore stoa-2026-11-15.backup --replace
      ssh vault.example.com 'cat stoa.backup' | stoa restore - --drill
    """
    try:
        with _readable(file) as whole:
            done = (
                _drilled(console.settings.secret_key, whole, quiet=as_json)
                if drill
                else _restored(console.settings, whole, replace=replace, quiet=as_json)
            )
    except BackupRefused as refusal:
        raise Refused(str(refusal)) from refusal
    if as_json:
        print_one(done, as_json=True)
    else:
        print_one({"made_at": done.made_at, "schema": done.schema, "rows": done.rows}, as_json=False)
        print_rows(done.invariants, as_json=False, none="")
    broken = [each.invariant for each in done.invariants if each.broken]
    if broken:
        raise Refused(f"this does not hold in what was put back: {'; '.join(broken)}")


@contextmanager
def _readable(file: Path) -> Generator[Path]:
    """The backup as a file; from standard input it is first written to one, because it is read to its end beforehand."""
    if str(file) != "-":
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="stoa-", suffix=".backup") as handle:  # readable by its owner alone
        shutil.copyfileobj(sys.stdin.buffer, handle)
        handle.flush()
        yield Path(handle.name)


def _restored(settings: Settings, file: Path, *, replace: bool, quiet: bool) -> Restored:
    with _database(settings, alone=True) as url:
        return _carried_out(lambda: _put_back(url, settings, file, replace=replace), "Restoring", quiet=quiet)


def _drilled(key: str, file: Path, *, quiet: bool) -> Restored:
    with tempfile.TemporaryDirectory(prefix="stoa-drill-", ignore_cleanup_errors=True) as folder:
        settings = load({}, data_dir=Path(folder) / "data", secret_key=key or None)
        with EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server:
            return _carried_out(lambda: _put_back(server.dsn, settings, file, replace=False), "Rehearsing", quiet=quiet)


async def _put_back(url: str, settings: Settings, file: Path, *, replace: bool) -> Restored:
    manifest = await restore(url, settings, file, replace=replace)
    db = Database(url, size=1, statement_timeout_ms=0)
    try:
        found = await invariants.check(db)
    finally:
        await db.close()
    rows = sum(manifest.tables.values())
    return Restored(manifest.made_at.isoformat(timespec="seconds"), manifest.schema, rows, found)


COMMANDS: list[click.Command] = [backup, restore_backup]
