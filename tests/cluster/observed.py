"""`python -m tests.cluster.observed LOG`: the statements that asked several nodes during a run of the suite, by its log.

With TEST_CITUS_FAN_OUT=1, the coordinator logs each of them. A statement of Stoa that is not in the list of fan_out.py fails.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from tests.cluster.fan_out import FAN_OUT, PLANNED
from tests.contract.tenancy import OVER_ALL_STORES
from tests.contract.test_statements import ALL, LISTINGS, shapes

from stoa.db.schema_files import functions

_MESSAGE = "multi-task query about to be executed"
_LINE = re.compile(r"^\S+ \S+ \S+ \[(\d+)\] (\w+):  (.*)$", re.DOTALL)
_FUNCTION = re.compile(r"PL/pgSQL function (\w+)\(|SQL function \"(\w+)\"")


class Asked(msgspec.Struct):
    """A statement that asked several nodes, and the functions that it was inside of, innermost first."""

    statement: str = ""
    functions: list[str] = []


def read(log: str) -> Iterator[Asked]:
    """The statements in a log with PostgreSQL's default prefix; the lines of one message share the id of a process."""
    found: dict[str, Asked] = {}
    for entry in re.split(r"\n(?!\t)", log):
        line = _LINE.match(entry)
        if line is None:
            continue
        process, kind, text = line.groups()
        if kind not in ("HINT", "CONTEXT", "STATEMENT", "DETAIL") and process in found:
            yield found.pop(process)
        if text.startswith(_MESSAGE):
            found[process] = Asked()
        elif process in found and kind == "CONTEXT":
            found[process].functions = [one or other for one, other in _FUNCTION.findall(text)]
        elif process in found and kind == "STATEMENT":
            found[process].statement = text
    yield from found.values()


def _same(sql: str) -> str:
    return " ".join(sql.split())


def known() -> dict[str, str]:
    """The statements of Stoa by their text."""
    lists = {
        _same(listing.statement(shape)): f"list {path}"
        for listing, path in LISTINGS
        for shape in set(shapes(listing, list(listing.sorts)))
    }
    return lists | {_same(query.sql): name for name, query in ALL}


def judge(asked: Asked, names: dict[str, str], over_all: set[str]) -> tuple[str, bool]:
    """The name of a statement or function, and whether it may ask several nodes."""
    name = names.get(_same(asked.statement), "")
    if name in FAN_OUT or name in PLANNED:
        return name, True
    if asked.functions and (name or asked.functions[-1] in over_all):
        return f"function {asked.functions[-1]}", asked.functions[-1] in over_all
    return (name, False) if name else ("statements of the tests", True)


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def observed(logs: tuple[Path, ...]) -> None:
    """Print what asked several nodes, and fail if something is not listed."""
    names = known()
    over_all = {each.name for each in functions(distributed=True) if each.sql.startswith(OVER_ALL_STORES)}
    counts: Counter[tuple[str, bool]] = Counter()
    for log in logs:
        counts.update(judge(asked, names, over_all) for asked in read(log.read_text(errors="replace")))
    for (name, listed), count in counts.most_common():
        click.echo(f"{count:8}  {name}{'' if listed else '  NOT LISTED'}")
    sys.exit(any(not listed for _, listed in counts))


if __name__ == "__main__":
    observed()
