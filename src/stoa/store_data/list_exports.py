"""The command `stoa export`, by which operators write a list of a store to a file, with the rows that the API streams."""

import asyncio
import gzip
import sys
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlencode

import click
import msgspec

from stoa.access.console import Console, Refused, print_one, progress
from stoa.access.operator import Operator, find_store
from stoa.access.options import json_option
from stoa.access.output_files import new_file
from stoa.access.queries import STORE_BY_ID
from stoa.customers.endpoints import routes as customers
from stoa.db.errors import Unavailable
from stoa.inventory.endpoints import routes as inventory
from stoa.orders.endpoints import routes as orders
from stoa.products.endpoints import routes as products
from stoa.products.variants import routes as variants
from stoa.rest.call import Call, NamedOperator
from stoa.rest.endpoint import Endpoint
from stoa.rest.headers import CSV, NDJSON
from stoa.rest.list_reader import ListReader
from stoa.rest.lists import Page, read_list
from stoa.rest.problems import Refusal
from stoa.store_data.held_store import HeldStore

PATIENCE_S, LOOK_EVERY_S = 300.0, 0.5  # for a database that restarts
_ENDPOINTS = {
    endpoint.path: endpoint
    for routes in (products, variants, inventory, customers, orders)
    for endpoint in routes.endpoints
    if endpoint.lists
}
LISTS: dict[str, Endpoint] = {
    "products": _ENDPOINTS["/products"],
    "variants": _ENDPOINTS["/products/variants"],
    "inventory": _ENDPOINTS["/products/inventory"],
    "adjustments": _ENDPOINTS["/products/inventory/adjustments"],
    "customers": _ENDPOINTS["/customers"],
    "orders": _ENDPOINTS["/orders"],
}
_MEDIA = {"csv": CSV, "ndjson": NDJSON}
_SUFFIXES = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}
_OPERATOR = NamedOperator("an operator")


class Exported(msgspec.Struct):
    """The result of an export."""

    file: str
    rows: int
    bytes: int
    cursor: str | None


def _parameters(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    if wrong := next((name for name, equals, _ in pairs if not name or not equals), None):
        raise click.BadParameter(f"{wrong}: write NAME=VALUE, such as status=active")
    return [(name, value) for name, _, value in pairs]


@click.command("export")
@click.argument("name", metavar="LIST", type=click.Choice(list(LISTS)))
@click.option("--store", "handle", required=True, help="The store's handle.")
@click.option("--format", "kind", type=click.Choice(list(_MEDIA)), help="By default, the name of the file decides.")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    help="The file; without it, standard output. May end in .gz.",
)
@click.option(
    "-p",
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_parameters,
    help="A parameter of the list in the API, such as a filter, fields, include, sort or cursor. Can be repeated.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@json_option
@click.pass_obj
def export_list(
    console: Console,
    name: str,
    handle: str,
    *,
    kind: str | None,
    file: Path | None,
    parameters: list[tuple[str, str]],
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write all rows of a LIST as NDJSON or CSV: products, variants, inventory, adjustments, customers or orders.

    The rows are those of the API, without the private metadata of apps. A file exists only when it is complete.

    \b
    Examples:
      stoa export orders --store demo -o orders.csv
      stoa export products --store demo --format ndjson -p status=active -p fields=id,name,price | gzip > active.gz
      stoa export customers --store demo -o customers.ndjson.gz --overwrite --json
    """
    if as_json and file is None:
        raise click.UsageError("--json prints the result, so the rows need a file: pass -o FILE")
    plain = file.with_suffix("") if file and file.suffix.lower() == ".gz" else file
    kind = kind or (_SUFFIXES.get(plain.suffix.lower()) if plain else "ndjson")
    if kind is None:
        raise click.UsageError(f"the name of the file must end in {', '.join(_SUFFIXES)}, or pass --format")
    if file is not None and file.exists() and not (overwrite and file.is_file()):
        raise Refused(f"{file} already exists; choose another name or pass --overwrite")

    async def run(by: Operator) -> Exported:
        with _opened(file) as output:
            return await _export(by, name, handle, _MEDIA[kind], parameters, output, quiet=as_json or file is None)

    done = console.run(run, at=handle)
    if file is not None:
        print_one(msgspec.structs.replace(done, file=str(file), bytes=file.stat().st_size), as_json=as_json)


@contextmanager
def _opened(file: Path | None) -> Generator[BinaryIO]:
    """The output; compressed, if the name of the file ends in .gz."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(file) as raw:
        if file.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6) as packed:
                yield cast("BinaryIO", packed)
        else:
            yield raw


async def _export(
    by: Operator,
    name: str,
    handle: str,
    media: str,
    parameters: Sequence[tuple[str, str]],
    output: BinaryIO,
    *,
    quiet: bool,
) -> Exported:
    endpoint = LISTS[name]
    if endpoint.lists is None:
        raise TypeError(f"{name} is not a list")
    found = await find_store(by.db, handle)
    store = await STORE_BY_ID.one(by.db, found.id)
    try:
        query = read_list(endpoint.lists, urlencode(parameters).encode(), store, endpoint.path)
        call = Call(HeldStore(by.db, store.id), store, _OPERATOR, by.request_id, "")
        call.accepted, call.fields = media, query.fields
        reader = ListReader(endpoint, call, {"query": query})
        first = await reader.read()
    except Refusal as refusal:
        faults = "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in refusal.faults)
        raise Refused(f"{refusal.detail}{faults}") from refusal
    async with by.db.transaction() as db:
        # The names of the filters, not their values: these can be personal data.
        filters = sorted({given for given, _ in parameters})
        await by.record(db, store.id, f"{name}.exported", f"store:{store.id}", rows=first.total, filters=filters)
    rows = 0
    with progress(quiet=quiet) as shown:
        bar = shown.add_task(f"Exporting {name}", total=first.total)
        async for part, count in _parts(reader, first):
            output.write(part)
            rows += count
            shown.update(bar, completed=rows)
    return Exported("", rows, 0, reader.cursor)


async def _parts(reader: ListReader, page: Page[Any]) -> AsyncGenerator[tuple[bytes, int]]:
    """The lines of all rows with their number. The next rows are read while these are written."""
    while True:
        part, rows = await reader.lines(page)
        reader.move_on(page, len(part))
        if page.next_cursor is None:
            yield part, rows
            return
        ahead = asyncio.create_task(_patiently(reader))
        try:
            yield part, rows
            page = await ahead
        finally:
            ahead.cancel()


async def _patiently(reader: ListReader) -> Page[Any]:
    """The next rows. If the connection breaks, the export goes on after the last row when the database is back."""
    until = 0.0
    while True:
        try:
            return await reader.read()
        except Unavailable as error:
            if not until:
                click.echo(f"{error}; the export continues when it is back ...", err=True)
            until = until or time.monotonic() + PATIENCE_S
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(LOOK_EVERY_S)


COMMANDS: list[click.Command] = [export_list]
