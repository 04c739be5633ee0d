"""Tables and progress bars of commands. Loaded when the first one is shown, because rich is slow to load."""

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

_WIDTH_WITHOUT_TERMINAL = 250  # in a file or pipe, table rows should not wrap


def show_rows(rows: Sequence[Mapping[str, Any]], text: Callable[[Any], str]) -> None:
    """A table with one row per item."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in rows[0]:
        table.add_column(_heading(name), overflow="fold")
    for row in rows:
        table.add_row(*map(text, row.values()))
    _print(table)


def show_one(row: Mapping[str, Any], text: Callable[[Any], str]) -> None:
    """A line per field of one item."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in row.items():
        table.add_row(_heading(name), text(value))
    _print(table)


def show_settings(rows: Sequence[Mapping[str, str]]) -> None:
    table = Table("Variable", "Value", "Default", "Description", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(row["variable"], row["value"], row["default"], row["description"])
    Console().print(table)


@contextmanager
def bars(*, quiet: bool) -> Generator[Progress]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, disable=quiet or not screen.is_terminal, transient=True) as shown:
        yield shown


def _print(table: Table) -> None:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    Console(file=sys.stdout, width=width, highlight=False, markup=False).print(table)


def _heading(name: str) -> str:
    return name.replace("_", " ")
