"""The commands to take, restore and rehearse a backup."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from stoa.access.console import WRONG_USAGE, Console, Refused, print_one, print_rows, progress
from stoa.access.options import json_option
from stoa.access.output_files import new_file
from stoa.backup import invariants
from stoa.backup.archive import BackupRefused, Manifest
from stoa.backup.erasure_commands import COMMANDS as ERASURE_COMMANDS
from stoa.backup.erasure_commands import read_list
from stoa.backup.erasures import ErasureList, Replayed, repeat
from stoa.backup.programs import Server, server_of
from stoa.backup.restoring import ErasuresUnknown, erasures_to_repeat, restore
from stoa.backup.saving import save, save_snapshot, snapshots
from stoa.db.connection import connect
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgres
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.db.service_facts import note_backup
from stoa.db.shards import DIRECTORY_NAME
from stoa.ids import new_id
from stoa.media.storage import folder_of
from stoa.settings import Settings, load, secret_key

T = TypeVar("T")
OPEN_MOVES = Query(
    int, "SELECT count(*) FROM store_moves WHERE ended_at IS NULL", unbound="a backup contains every store"
)


class Backup(msgspec.Struct):
    """A summary of what was saved."""

    file: str
    bytes: int
    schema: int
    rows: int
    holds_key: bool
    pictures: int  # whose files the backup does not contain


class Restored(msgspec.Struct):
    """A summary of what was restored, and the result of the checks."""

    made_at: str
    schema: int
    rows: int
    pictures: int
    erasures: Replayed
    invariants: list[invariants.Found]


@contextmanager
def _database(settings: Settings, *, exclusive: bool) -> Generator[str]:
    """The URL of the database: configured, embedded, or of a running service unless access must be exclusive."""
    if settings.database_url:
        yield settings.direct_url
        return
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        server.start()
    except DataFolderInUse as error:
        if exclusive:
            raise BackupRefused(f"{error} Restoring needs exclusive access to the data.") from error
        yield server.dsn
        return
    try:
        yield server.dsn
    finally:
        server.stop()


def _with_progress(work: Callable[[], Awaitable[T]], description: str, *, quiet: bool) -> T:
    with progress(quiet=quiet) as shown:
        shown.add_task(description, total=None)
        return asyncio.run(_awaited(work))


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@click.option("--shard", help="Save this shard instead of the directory.")
@click.option("--all-shards", is_flag=True, help="Save the directory and all shards, to the folder FILE.")
@json_option
@click.pass_obj
def backup(
    console: Console, file: Path, shard: str | None, *, overwrite: bool, all_shards: bool, as_json: bool
) -> None:
    """Save all data to FILE while the service runs; `-` writes to standard output.

    The file contains a consistent snapshot of the database, and the secret key unless it comes from STOA_SECRET_KEY.
    Protect the file as you protect the service itself.

    With --all-shards, the snapshots of all databases are taken at the same time, and FILE is a folder with a file for each.

    \b
    Examples:
      stoa backup stoa-2026-11-15.backup
      stoa backup - | ssh vault.example.com 'cat > stoa.backup'
      stoa backup east-2026-11-15.backup --shard east
      stoa backup stoa-2026-11-15 --all-shards
    """
    if all_shards:
        _back_up_all(console, file, as_json=as_json)
        return
    url = _url_of(console, shard) if shard else ""
    try:
        if str(file) == "-":
            _save(console.settings, None, quiet=True, url=url)
            return
        if file.exists() and not file.is_file():
            raise Refused(
                f"{file} is not a regular file; use `-` for standard output"
            )  # a device would be replaced by a file
        if file.exists() and not overwrite:
            raise Refused(f"{file} already exists; choose another name or pass --overwrite")
        done = _save(console.settings, file, quiet=as_json, url=url)
    except BackupRefused as refusal:
        raise Refused(str(refusal)) from refusal
    print_one(_summary(console.settings, file, done), as_json=as_json)
    _warn_of_key(console.settings)
    _warn_of_pictures(console.settings, [done])


def _summary(settings: Settings, file: Path, done: Manifest) -> Backup:
    rows, holds_key = sum(done.tables.values()), not settings.secret_key
    return Backup(str(file), file.stat().st_size, done.schema, rows, holds_key, _pictures(done))


def _warn_of_key(settings: Settings) -> None:
    if settings.secret_key:
        click.echo(
            "The backup does not contain the secret key: keep STOA_SECRET_KEY as well, in another place.", err=True
        )


def _warn_of_pictures(settings: Settings, saved: Sequence[Manifest]) -> None:
    if pictures := sum(_pictures(each) for each in saved):
        place = folder_of(settings) or "the bucket of STOA_MEDIA_URL"
        click.echo(f"The backup does not contain the files of {pictures} pictures: copy {place} as well.", err=True)


def _pictures(saved: Manifest) -> int:
    return saved.tables.get("media_files", 0)


def _url_of(console: Console, shard: str) -> str:
    """The URL of a shard."""
    found = console.run(lambda by: by.shard_urls())
    if shard not in found:
        raise Refused(f'there is no shard "{shard}"; choose one of {", ".join(found) or "none"}')
    return found[shard]


def _back_up_all(console: Console, folder: Path, *, as_json: bool) -> None:
    """Save the directory and all shards, each to a file of its own, from snapshots that are taken together."""
    if folder.exists():
        raise Refused(f"{folder} already exists; choose another name")
    urls = console.run(lambda by: by.shard_urls())
    if console.run(lambda by: OPEN_MOVES.one(by.db)):
        raise Refused("a move of a store has not ended: wait for it, so that the store is in one of the backups")
    settings = console.settings
    with _database(settings, exclusive=False) as directory:
        folder.mkdir(mode=0o700, parents=True)
        files = {DIRECTORY_NAME: directory, **urls}
        try:
            done = _with_progress(lambda: _save_all(settings, folder, files), "Saving", quiet=as_json)
        except (BackupRefused, Refused, Unavailable) as refusal:
            raise Refused(f"{refusal}; {folder} is not complete") from refusal
        for url in files.values():
            asyncio.run(_note(url))
    rows = [_summary(settings, folder / f"{name}.backup", manifest) for name, manifest in done.items()]
    print_rows(rows, as_json=as_json, none="")
    moments = [manifest.made_at for manifest in done.values()]
    apart = (max(moments) - min(moments)).total_seconds() * 1000
    click.echo(f"The snapshots were taken within {apart:.0f} ms.", err=True)
    _warn_of_key(settings)
    _warn_of_pictures(settings, list(done.values()))


async def _save_all(settings: Settings, folder: Path, urls: Mapping[str, str]) -> dict[str, Manifest]:
    done: dict[str, Manifest] = {}
    async with snapshots(list(urls.values())) as taken:
        for name, snapshot in zip(urls, taken, strict=True):
            with new_file(folder / f"{name}.backup") as handle:
                done[name] = await save_snapshot(snapshot, settings, handle)
    return done


def _save(settings: Settings, file: Path | None, *, quiet: bool, url: str = "") -> Manifest:
    """Write the backup of the database, or of another one by its URL."""
    with nullcontext(url) if url else _database(settings, exclusive=False) as source:
        if file is None:
            done = asyncio.run(save(source, settings, sys.stdout.buffer))
        else:
            with new_file(file) as handle:
                done = _with_progress(lambda: save(source, settings, handle), "Saving", quiet=quiet)
        asyncio.run(_note(source))
        return done


async def _note(url: str) -> None:
    """Store the time of the backup, from which metrics and `stoa doctor` know its age."""
    db = Database(url, size=1)
    try:
        await note_backup(db)
    finally:
        await db.close()


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--replace", is_flag=True, help="Replace the stores in the database.")
@click.option(
    "--erasures",
    type=click.Path(path_type=Path),
    help="Erase the customers in this list of `stoa erasures export` again.",
)
@click.option("--no-erasures", is_flag=True, help="Confirm that nobody was erased since the backup.")
@click.option("--drill", is_flag=True, help="Only rehearse: restore into a temporary database, check it and delete it.")
@json_option
@click.pass_obj
def restore_backup(
    console: Console,
    file: Path,
    erasures: Path | None,
    *,
    replace: bool,
    no_erasures: bool,
    drill: bool,
    as_json: bool,
) -> None:
    """Restore the backup FILE atomically and check the result; `-` reads standard input.

    Stop the service first. Existing stores are replaced only with --replace. An older backup is migrated to this
    release's schema. With --drill, nothing outside a temporary folder changes.

    A customer who was erased after the backup would come back. The erasures that the replaced database knows are repeated;
    if it is lost, pass the list of `stoa erasures export`, or --no-erasures.

    \b
    Examples:
      stoa restore stoa-2026-11-15.backup --drill
      stoa restore stoa-2026-11-15.backup --replace
      stoa restore stoa-2026-11-15.backup --erasures erasures.json
      ssh vault.example.com 'cat stoa.backup' | stoa restore - --drill
    """
    try:
        given = [read_list(erasures)] if erasures else []
        with _readable(file) as backup_file:
            if drill:
                done = _drilled(console.settings, backup_file, given, quiet=as_json)
            else:
                done = _restored(console.settings, backup_file, given, sure=no_erasures, replace=replace, quiet=as_json)
    except ErasuresUnknown as refusal:
        raise Refused(str(refusal), WRONG_USAGE) from refusal
    except BackupRefused as refusal:
        raise Refused(str(refusal)) from refusal
    if as_json:
        print_one(done, as_json=True)
    else:
        shown = {"made_at": done.made_at, "schema": done.schema, "rows": done.rows}
        print_one({**shown, "erased_again": done.erasures.erased, "left_alone": done.erasures.others}, as_json=False)
        print_rows(done.invariants, as_json=False, none="")
    if done.pictures and not drill:
        click.echo(
            f"The backup has {done.pictures} pictures: copy their files back, and run `stoa media check`.", err=True
        )
    broken = [each.invariant for each in done.invariants if each.broken]
    if broken:
        raise Refused(f"the restored data violates these invariants: {'; '.join(broken)}")


@contextmanager
def _readable(file: Path) -> Generator[Path]:
    """The backup as a file; standard input is first copied to one, because a zip archive is read from its end."""
    if str(file) != "-":
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="stoa-", suffix=".backup") as handle:  # readable only by its owner
        shutil.copyfileobj(sys.stdin.buffer, handle)
        handle.flush()
        yield Path(handle.name)


def _restored(
    settings: Settings, file: Path, given: list[ErasureList], *, sure: bool, replace: bool, quiet: bool
) -> Restored:
    with _database(settings, exclusive=True) as url:
        lists = asyncio.run(_to_repeat(url, given, sure=sure))
        return _with_progress(lambda: _restore(url, settings, file, lists, replace=replace), "Restoring", quiet=quiet)


async def _to_repeat(url: str, given: list[ErasureList], *, sure: bool) -> list[ErasureList]:
    db = await connect(url, statement_timeout_ms=0, timeout_s=10)
    try:
        return await erasures_to_repeat(db, given, sure=sure)
    finally:
        await db.close()


def _drilled(configured: Settings, file: Path, given: list[ErasureList], *, quiet: bool) -> Restored:
    with tempfile.TemporaryDirectory(prefix="stoa-drill-", ignore_cleanup_errors=True) as folder:
        settings = load({}, data_dir=Path(folder) / "data", secret_key=configured.secret_key or None)
        with EmbeddedPostgres(Path(folder) / "postgres", durable=False) as temporary:
            return _with_progress(
                lambda: _rehearse(temporary.dsn, settings, file, given, configured), "Rehearsing", quiet=quiet
            )


async def _rehearse(
    url: str, settings: Settings, file: Path, lists: list[ErasureList], configured: Settings
) -> Restored:
    """Restore with the programs that a restore into the configured database would use."""
    server = None
    if configured.database_url:
        with suppress(Unavailable):  # backups are also tested on machines that do not reach the database
            server = await server_of(configured.direct_url)
    return await _restore(url, settings, file, lists, replace=False, server=server)


async def _restore(
    url: str,
    settings: Settings,
    file: Path,
    lists: list[ErasureList],
    *,
    replace: bool,
    server: Server | None = None,
) -> Restored:
    manifest = await restore(url, settings, file, replace=replace, server=server, erasures=lists)
    db = Database(url, size=1, statement_timeout_ms=0)
    try:
        erased = await repeat(db, new_id("req"))
        found = await invariants.check(db, secret_key(settings))
    finally:
        await db.close()
    rows = sum(manifest.tables.values())
    made_at = manifest.made_at.isoformat(timespec="seconds")
    return Restored(made_at, manifest.schema, rows, _pictures(manifest), erased, found)


COMMANDS: list[click.Command] = [backup, restore_backup, *ERASURE_COMMANDS]
