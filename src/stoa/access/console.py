"""How a command reaches the database and speaks to its operator: tables for people, JSON for programs."""

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime
from typing import IO, Any, TypeVar, cast

import click
import msgspec
import rich.box
import rich.console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from stoa.access.contract import AccessRefused
from stoa.access.operator import Operator
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.ids import new_id
from stoa.settings import Settings

T = TypeVar("T")
FAILED, WRONG_USAGE, UNREACHABLE, IN_PART, INTERRUPTED = 1, 2, 3, 4, 130  # how a command ends; 0 is well
_WIDTH_WITHOUT_TERMINAL = 250  # a table in a file or pipe keeps its lines whole


class Refused(click.ClickException):
    """The command was not carried out: one line on stderr, and an exit code that says what kind of reason."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # pyright: ignore[reportAttributeAccessIssue] - click's own way, declared for the class

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


class Console(msgspec.Struct, frozen=True):
    """What a command needs: the settings, and a way to the database for as long as it runs."""

    settings: Settings
    database: Callable[[], AbstractAsyncContextManager[Database]]

    def run(self, work: Callable[[Operator], Awaitable[T]]) -> T:
        """Carry out one verb; a refusal ends the command with one line that says what to do."""

        async def inside() -> T:
            async with self.database() as db:
                actor = f"operator:{_user()}"
                return await work(Operator(db, self.settings, actor=actor, request_id=new_id("req")))

        try:
            return asyncio.run(inside())
        except AccessRefused as refusal:
            raise Refused(str(refusal)) from refusal
        except Unavailable as error:
            words = f"{error}; check that it runs and that STOA_DATABASE_URL is right"
            raise Refused(words, UNREACHABLE) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return "unknown"


def print_rows(rows: Sequence[Any], *, as_json: bool, none: str) -> None:
    """A table, a row for each; or a JSON array."""
    if as_json:
        _print_json(rows)
    elif rows:
        table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for name in _fields(rows[0]):
            table.add_column(_heading(name), overflow="fold")
        for row in rows:
            table.add_row(*map(_words, _fields(row).values()))
        _print(table)
    else:
        click.echo(none)


def print_one(row: Any, *, as_json: bool) -> None:
    """One thing, a line for each of its fields; or a JSON object."""
    if as_json:
        _print_json(row)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _fields(row).items():
        table.add_row(_heading(name), _words(value))
    _print(table)


@contextmanager
def progress(*, quiet: bool = False) -> Generator[Progress]:
    """Bars on stderr for people who wait; none where a program reads or nobody looks."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    screen = rich.console.Console(stderr=True)
    with Progress(*columns, console=screen, disable=quiet or not screen.is_terminal, transient=True) as shown:
        yield shown


def say_once(what: str) -> None:
    """Said on stderr, so that it never mixes with what a program reads."""
    click.echo(f"This {what} is shown once and cannot be shown again: keep it in a safe place now.", err=True)


def _print(table: Table) -> None:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    rich.console.Console(file=sys.stdout, width=width, highlight=False, markup=False).print(table)


def _print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _fields(row: Any) -> Mapping[str, Any]:
    return msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else row


def _heading(name: str) -> str:
    return name.replace("_", " ")


def _words(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if value is None or value in ([], {}, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "; ".join(f"{name}: {_words(inner)}" for name, inner in pairs)
    if isinstance(value, list):
        return ", ".join(map(_words, cast("list[Any]", value)))
    return str(value)
