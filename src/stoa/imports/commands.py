"""The command by which operators bring files into a store."""

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
from stoa.db.pool import Database
from stoa.imports import queries
from stoa.imports.contract import CSV, JSON, NDJSON, Import, Options
from stoa.imports.customers import CUSTOMERS
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import new_import_id, shown_import, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Job
from stoa.imports.runner import claim_this, run_import
from stoa.rest.problems import Refusal
from stoa.rest.uploads import UPLOAD_BYTES

MEDIA = {".ndjson": NDJSON, ".jsonl": NDJSON, ".csv": CSV, ".json": JSON}
LOOK_EVERY_S = 0.2


@click.group("import")
def import_files() -> None:
    """Bring files into a store.

    \b
    Example:
      stoa import products catalogue.csv --store demo
    """


def _choice(name: str, *words: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice(words), default=words[0], show_default=True, help=text)


@import_files.command("products")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", "handle", required=True, help="The store's handle.")
@_choice("--mode", "upsert", "create", "update", text="What may happen to a row's product.")
@_choice("--match-by", *PRODUCTS.match_by, text="The field by which a row names its product.")
@_choice("--on-error", "continue", "abort", text="With abort nothing is written unless every row is right.")
@_choice("--missing", "ignore", "archive", text="What becomes of products that the file does not name.")
@click.option("--dry-run", is_flag=True, help="Only check, and tell what would change.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")
@click.pass_obj
def import_products(console: Console, file: Path, handle: str, *, as_json: bool, **options: Any) -> None:
    """Import products from FILE: .ndjson, .csv or .json, each also packed as .gz.

    \b
    Examples:
      stoa import products catalogue.csv --store demo
      stoa import products stock.ndjson.gz --store demo --mode update --dry-run --json
    """
    _run(console, PRODUCTS, file, handle, options, as_json=as_json)


@import_files.command("customers")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", "handle", required=True, help="The store's handle.")
@_choice("--mode", "upsert", "create", "update", text="What may happen to a row's customer.")
@_choice("--match-by", *CUSTOMERS.match_by, text="The field by which a row names its customer.")
@_choice("--on-error", "continue", "abort", text="With abort nothing is written unless every row is right.")
@click.option("--dry-run", is_flag=True, help="Only check, and tell what would change.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")
@click.pass_obj
def import_customers(console: Console, file: Path, handle: str, *, as_json: bool, **options: Any) -> None:
    """Import customers from FILE: .ndjson, .csv or .json, each also packed as .gz.

    Metadata keys must start with `shared.`, because no app imports here.

    \b
    Examples:
      stoa import customers people.csv --store demo
      stoa import customers crm.ndjson.gz --store demo --match-by external_id --dry-run --json
    """
    _run(console, CUSTOMERS, file, handle, options, as_json=as_json)


def _run(console: Console, of: Importable, file: Path, handle: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Bring a file in, say what became of it, and end as a shell expects."""
    wanted = msgspec.convert(options, Options)
    done = console.run(lambda by: _import(by, of, file, handle, wanted, quiet=as_json))
    if as_json:
        print_one(done, as_json=True)
    else:
        print_one({"id": done.id, "status": done.status, **msgspec.structs.asdict(done.counts)}, as_json=False)
        if done.errors:
            print_rows(done.errors, as_json=False, none="")
    if done.status != "succeeded":
        sys.exit(IN_PART if done.status == "partially_succeeded" else FAILED)


async def _import(by: Operator, of: Importable, file: Path, handle: str, options: Options, *, quiet: bool) -> Import:
    """Keep the file as an upload is kept, and carry it out here; should this process end, a worker goes on with it."""
    row = await find_store(by.db, handle)
    task = Task(await queries.STORE.one(by.db, row.id), new_import_id(), None, by.request_id, options)
    try:
        with progress(quiet=quiet) as shown, _unpacked(file) as (plain, media):
            shown.add_task(f"Reading {file.name}", total=None)
            async with by.db.transaction() as db:
                job = await start_import(db, task, of, plain, media)
    except Refusal as refusal:
        faults = "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in refusal.faults)
        raise Refused(f"{refusal.detail}{faults}") from refusal
    job = await _carry_out(by, job, quiet=quiet)
    return await shown_import(by.db, job)


async def _carry_out(by: Operator, job: Job, *, quiet: bool) -> Job:
    """Run the job here, or watch the worker that was faster."""
    if not isinstance(by.db, Database):
        raise TypeError("an import has transactions of its own")
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
def _unpacked(file: Path) -> Generator[tuple[Path, str]]:
    """A file as it is when unpacked, and what its name says it is."""
    packed = file.suffix.lower() == ".gz"
    media = MEDIA.get((file.with_suffix("") if packed else file).suffix.lower())
    if media is None:
        raise Refused(f"{file.name} must end in {', '.join(MEDIA)}, or one of these and .gz")
    with tempfile.NamedTemporaryFile(prefix="stoa-import-") as plain:
        try:
            with gzip.open(file) if packed else file.open("rb") as source:
                while part := source.read(1 << 20):
                    plain.write(part)
                    if plain.tell() > UPLOAD_BYTES:
                        raise Refused(f"{file.name} may have at most {UPLOAD_BYTES:,} bytes unpacked")
        except (OSError, EOFError) as error:
            words = error.strerror if isinstance(error, OSError) else None
            raise Refused(f"{file.name} cannot be read: {words or error}") from error
        plain.flush()
        yield Path(plain.name), media


COMMANDS: list[click.Command] = [import_files]
