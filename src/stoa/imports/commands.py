"""The command `stoa import`, by which operators import files into a store."""

import asyncio
import gzip
import secrets
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from stoa.access.console import FAILED, IN_PART, Console, Refused, print_one, print_rows, progress
from stoa.access.operator import Operator, find_store
from stoa.access.options import json_option
from stoa.db.pool import Database
from stoa.events.outbox import Cause
from stoa.imports import queries
from stoa.imports.contract import Import, Options
from stoa.imports.customers import CUSTOMERS
from stoa.imports.ending import cancel_import
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import new_import_id, shown_import, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Job
from stoa.imports.reading import MEDIA
from stoa.imports.runner import claim_this, run_import
from stoa.rest.problems import Refusal
from stoa.rest.uploads import UPLOAD_BYTES

LOOK_EVERY_S = 0.2


@click.group("import")
def import_files() -> None:
    """Import files into a store.

    \b
    Example:
      stoa import products catalog.csv --store demo
    """


def _choice(name: str, *words: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice(words), default=words[0], show_default=True, help=text)


@import_files.command("products")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", "handle", required=True, help="The store's handle.")
@_choice("--mode", "upsert", "create", "update", text="Whether a row may create or update its product.")
@_choice("--match-by", *PRODUCTS.match_by, text="The field that identifies the product of a row.")
@_choice("--on-error", "continue", "abort", text="With abort, nothing is written if any row has a fault.")
@_choice("--missing", "ignore", "archive", text="What to do with products that are not in the file.")
@_choice("--unknown-columns", "refuse", "ignore", text="Whether a CSV file may have columns that Stoa does not know.")
@click.option(
    "--send-events/--no-events", default=True, show_default=True, help="Whether webhooks receive the changes."
)
@click.option("--dry-run", is_flag=True, help="Check the file and report the changes without writing them.")
@json_option
@click.pass_obj
def import_products(console: Console, file: Path, handle: str, *, as_json: bool, **options: Any) -> None:
    """Import products from FILE: .ndjson, .csv or .json, optionally compressed as .gz.

    \b
    Examples:
      stoa import products catalog.csv --store demo
      stoa import products stock.ndjson.gz --store demo --mode update --dry-run --json
    """
    _run(console, PRODUCTS, file, handle, options, as_json=as_json)


@import_files.command("customers")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", "handle", required=True, help="The store's handle.")
@_choice("--mode", "upsert", "create", "update", text="Whether a row may create or update its customer.")
@_choice("--match-by", *CUSTOMERS.match_by, text="The field that identifies the customer of a row.")
@_choice("--on-error", "continue", "abort", text="With abort, nothing is written if any row has a fault.")
@_choice("--unknown-columns", "refuse", "ignore", text="Whether a CSV file may have columns that Stoa does not know.")
@click.option(
    "--send-events/--no-events", default=True, show_default=True, help="Whether webhooks receive the changes."
)
@click.option("--dry-run", is_flag=True, help="Check the file and report the changes without writing them.")
@json_option
@click.pass_obj
def import_customers(console: Console, file: Path, handle: str, *, as_json: bool, **options: Any) -> None:
    """Import customers from FILE: .ndjson, .csv or .json, optionally compressed as .gz.

    Metadata keys must start with `shared.`, because only apps have private keys.

    \b
    Examples:
      stoa import customers people.csv --store demo
      stoa import customers crm.ndjson.gz --store demo --match-by external_id --dry-run --json
    """
    _run(console, CUSTOMERS, file, handle, options, as_json=as_json)


@import_files.command("cancel")
@click.argument("import_id", metavar="ID")
@json_option
@click.pass_obj
def cancel(console: Console, import_id: str, *, as_json: bool) -> None:
    """Cancel the import ID, which is waiting or running. Rows that were already written stay, and the report lists them.

    \b
    Example:
      stoa import cancel imp_01jd3vp6s2m4wq8e7r5t
    """
    _print(console.run(lambda by: _cancel(by, import_id)), as_json=as_json)


async def _cancel(by: Operator, import_id: str) -> Import:
    job = await queries.UNFINISHED_IMPORT.maybe(by.everywhere, import_id)
    if job is None:
        raise Refused(f"No import with the id {import_id} is waiting or running")
    async with (await by.database_of(job.store_id)).transaction() as db:
        store = await queries.STORE.one(db, job.store_id)
        if not await cancel_import(db, store, job, Cause(None, by.request_id)):
            raise Refused(f"The import {import_id} has already finished")
        await by.record(db, store.id, f"{job.resource}.import_cancelled", f"store:{store.id}", import_id=job.id)
        return await shown_import(db, await queries.GET.one(db, job.store_id, job.resource, job.id))


def _print(done: Import, *, as_json: bool) -> None:
    if as_json:
        print_one(done, as_json=True)
        return
    print_one({"id": done.id, "status": done.status, **msgspec.structs.asdict(done.counts)}, as_json=False)
    if done.errors:
        print_rows(done.errors, as_json=False, none="")


def _run(console: Console, of: Importable, file: Path, handle: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Import a file, print the result, and exit with a status that shows scripts the outcome."""
    wanted = msgspec.convert(options, Options)
    done = console.run(lambda by: _import(by, of, file, handle, wanted, quiet=as_json), at=handle)
    _print(done, as_json=as_json)
    if done.status != "succeeded":
        sys.exit(IN_PART if done.status == "partially_succeeded" else FAILED)


async def _import(by: Operator, of: Importable, file: Path, handle: str, options: Options, *, quiet: bool) -> Import:
    """Store the file like an upload, and run the job here. If this process ends, a worker continues the job."""
    row = await find_store(by.db, handle)
    task = Task(await queries.STORE.one(by.db, row.id), new_import_id(), None, by.request_id, options)
    try:
        with progress(quiet=quiet) as shown, _decompressed(file) as (plain, media):
            shown.add_task(f"Reading {file.name}", total=None)
            async with by.db.transaction() as db:
                job = await start_import(db, task, of, plain, media)
    except Refusal as refusal:
        faults = "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in refusal.faults)
        raise Refused(f"{refusal.detail}{faults}") from refusal
    job = await _run_job(by, job, quiet=quiet)
    return await shown_import(by.db, job)


async def _run_job(by: Operator, job: Job, *, quiet: bool) -> Job:
    """Run the job here, or watch the worker that claimed it first."""
    if not isinstance(by.db, Database):
        raise TypeError("an import needs a connection pool, because it runs its own transactions")
    running: asyncio.Task[None] | None = None
    with progress(quiet=quiet) as shown:
        bar = shown.add_task("Importing", total=job.total)
        while job.finished_at is None:
            owner = secrets.token_hex(8)
            if running is None and (claimed := await claim_this(by.db, owner, job.store_id, job.id)) is not None:
                running = asyncio.create_task(run_import(by.db, claimed, owner))
            if running is None:
                await asyncio.sleep(LOOK_EVERY_S)
            elif (await asyncio.wait({running}, timeout=LOOK_EVERY_S))[0]:
                await running
                running = None
            job = await queries.GET.one(by.db, job.store_id, job.resource, job.id)
            shown.update(bar, completed=job.processed)
    return job


@contextmanager
def _decompressed(file: Path) -> Generator[tuple[Path, str]]:
    """The decompressed file, and its media type by its name."""
    compressed = file.suffix.lower() == ".gz"
    media = MEDIA.get((file.with_suffix("") if compressed else file).suffix.lower())
    if media is None:
        raise Refused(f"The name {file.name} must end in {', '.join(MEDIA)}, optionally followed by .gz")
    with tempfile.NamedTemporaryFile(prefix="stoa-import-") as plain:
        try:
            with gzip.open(file) if compressed else file.open("rb") as source:
                while part := source.read(1 << 20):
                    plain.write(part)
                    if plain.tell() > UPLOAD_BYTES:
                        raise Refused(f"{file.name} must have at most {UPLOAD_BYTES:,} bytes after decompression")
        except (OSError, EOFError) as error:
            words = error.strerror if isinstance(error, OSError) else None
            raise Refused(f"{file.name} cannot be read: {words or error}") from error
        plain.flush()
        yield Path(plain.name), media


COMMANDS: list[click.Command] = [import_files]
