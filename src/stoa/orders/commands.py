"""The command `stoa import orders`, by which operators move orders of another shop into a store."""

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import msgspec

from stoa.access.console import FAILED, IN_PART, Console, Refused, print_one, print_rows, progress
from stoa.access.definitions import with_definitions
from stoa.access.operator import Operator, find_store
from stoa.access.options import json_option
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.imports import queries
from stoa.imports.commands import import_files
from stoa.imports.contract import RowError
from stoa.orders.historical_bodies import MOST_ORDERS, HistoricalOrder
from stoa.orders.moving import NumberTaken, move_orders
from stoa.rest.body import JSON_BODY_BYTES, convert, parse
from stoa.rest.call import Call, NamedOperator, Store
from stoa.rest.problems import Fault, PayloadTooLarge, Refusal, ValidationFailed

SHOWN_ERRORS = 100
_OPERATOR = NamedOperator("an operator")


class MovedOrders(msgspec.Struct):
    """The result of a file: the number of its orders by their outcome, and the first faults."""

    total: int = 0
    created: int = 0
    skipped: int = 0
    failed: int = 0
    errors: list[RowError] = msgspec.field(default_factory=list[RowError])

    @property
    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("total", "created", "skipped", "failed")}


@import_files.command("orders")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--store", "handle", required=True, help="The store's handle.")
@click.option("--skip-existing", is_flag=True, help="Skip orders whose number the store has, to continue after a stop.")
@click.option(
    "--send-events/--no-events", default=False, show_default=True, help="Whether webhooks receive the orders."
)
@json_option
@click.pass_obj
def import_orders(
    console: Console, file: Path, handle: str, *, skip_existing: bool, send_events: bool, as_json: bool
) -> None:
    """Move orders of another shop from FILE: .ndjson or .jsonl, optionally compressed as .gz, one historical order on each line.

    Orders are stored 100 at a time, as they were, without any effect on stock. A line with a fault is left out and reported.

    \b
    Examples:
      stoa import orders orders.ndjson --store demo
      stoa import orders orders.ndjson.gz --store demo --skip-existing --json
    """
    run = Moving(skip_existing=skip_existing, send_events=send_events)
    done = console.run(lambda by: _move_file(by, file, handle, run, quiet=as_json), at=handle)
    if as_json:
        print_one(done, as_json=True)
    else:
        print_one(done.counts, as_json=False)
        if done.errors:
            print_rows(done.errors, as_json=False, none="")
    if done.failed:
        sys.exit(IN_PART if done.created or done.skipped else FAILED)


class Moving(msgspec.Struct, frozen=True):
    """The options of a run."""

    skip_existing: bool
    send_events: bool


async def _move_file(by: Operator, file: Path, handle: str, run: Moving, *, quiet: bool) -> MovedOrders:
    row = await find_store(by.db, handle)
    store = await with_definitions(by.db, await queries.STORE.one(by.db, row.id), None)
    done = MovedOrders()
    with progress(quiet=quiet) as shown, _opened(file) as source:
        bar = shown.add_task("Moving orders", total=None)
        for lines in _hundreds(source):
            await _move_lines(by, store, lines, run, done)
            shown.update(bar, completed=done.total)
    return done


def _opened(file: Path) -> BinaryIO:
    compressed = file.suffix.lower() == ".gz"
    if (file.with_suffix("") if compressed else file).suffix.lower() not in (".ndjson", ".jsonl"):
        raise Refused(f"The name {file.name} must end in .ndjson or .jsonl, optionally followed by .gz")
    try:
        return cast("BinaryIO", gzip.open(file)) if compressed else file.open("rb")
    except OSError as error:
        raise Refused(f"{file.name} cannot be read: {error.strerror}") from error


def _hundreds(source: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """The lines that are not empty with their numbers, as many at a time as one call moves."""
    lines: list[tuple[int, bytes]] = []
    try:
        for number, line in enumerate(source, 1):
            if line.strip():
                lines.append((number, line))
            if len(lines) == MOST_ORDERS:
                yield lines
                lines = []
    except (OSError, EOFError) as error:
        raise Refused(f"The file cannot be read: {error}") from error
    if lines:
        yield lines


async def _move_lines(
    by: Operator, store: Store, lines: Sequence[tuple[int, bytes]], run: Moving, done: MovedOrders
) -> None:
    """Store the orders of some lines in one transaction, and count them."""
    refused: dict[int, Refusal] = {}
    items: dict[int, tuple[HistoricalOrder, dict[str, Any]]] = {}
    for number, line in lines:
        try:
            members = _members(line)
            items[number] = convert(members, HistoricalOrder, digits=store.digits), members
        except Refusal as refusal:
            refused[number] = refusal
    if items:
        if not isinstance(by.db, Database):
            raise TypeError("an import needs a connection pool, because it runs its own transactions")
        moved = await by.db.in_transaction(lambda db: _move(by, store, db, list(items.values()), run))
        for number, result in zip(items, moved, strict=True):
            if isinstance(result, Refusal):
                refused[number] = result
            else:
                done.created += 1
    done.total += len(lines)
    for number, refusal in sorted(refused.items()):
        if run.skip_existing and isinstance(refusal, NumberTaken):
            done.skipped += 1
            continue
        done.failed += 1
        key = {"number": items[number][0].number} if number in items else {}
        faults = refusal.faults or [Fault("", refusal.code, refusal.detail)]
        done.errors += [RowError(number, key, fault.pointer, fault.code, fault.detail) for fault in faults]
        del done.errors[SHOWN_ERRORS:]


async def _move(
    by: Operator, store: Store, db: Executor, items: Sequence[tuple[HistoricalOrder, dict[str, Any]]], run: Moving
) -> list[Any]:
    call = Call(db, store, _OPERATOR, by.request_id, "")
    if isinstance(by.db, Database):
        call.autocommit = by.db.autocommit
    return await move_orders(db, call, items, send_events=run.send_events)


def _members(line: bytes) -> dict[str, Any]:
    if len(line) > JSON_BODY_BYTES:
        raise PayloadTooLarge(f"An order may have at most {JSON_BODY_BYTES:,} bytes, as in a request.")
    value = parse(line)
    if not isinstance(value, dict):
        fault = Fault("", "invalid_type", "must be an object")
        raise ValidationFailed("A line must be an order.", faults=[fault])
    return cast("dict[str, Any]", value)


COMMANDS: list[click.Command] = [import_files]
