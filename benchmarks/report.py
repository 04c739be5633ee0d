"""Shows results: as tables in a terminal, as Markdown for the documentation."""

from rich.console import Console
from rich.table import Table

from benchmarks.drive import Figures
from benchmarks.results import Results

COLUMNS = (
    "Row",
    "Stoa /s",
    "p50 ms",
    "p99 ms",
    "pgbench /s",
    "of pgbench",
    "baseline /s",
    "p50 ms",
    "p99 ms",
    "times baseline",
)
_READING = """\
Each row is driven by wrk over the same connections for Stoa and the baseline, and by pgbench over as many with
Stoa's own statements: what the database alone could answer is the limit. (Documents reach pgbench as one text where
Stoa takes a binary array, because the quoting of arrays as text would halve the limit.) Load generator, service and database share
the machine's cores. Runs take turns, round by round; figures are medians. The baseline is FastAPI with SQLAlchemy's
async ORM, asyncpg, pydantic models and uvicorn on uvloop and httptools, on normalised tables with the same data, and
its answers are compared with Stoa's before it is measured. It checks the token, but has no rate limiter, no request
ids and no defences of its own; Stoa is measured with all of them.
"""


def _rows(results: Results) -> list[list[str]]:
    return [
        [
            f"{row.name}: {row.title}",
            *_figures(row.ours),
            f"{row.limit.per_second:,.0f}",
            f"{row.of_limit:.0%}",
            *(_figures(row.baseline) if row.baseline else ["-", "-", "-"]),
            f"{row.of_baseline:.1f}" if row.of_baseline is not None else "-",
        ]
        for row in results.rows
    ]


def _figures(figures: Figures) -> list[str]:
    times = ("-" if time is None else f"{time:.1f}" for time in (figures.p50_ms, figures.p99_ms))
    return [f"{figures.per_second:,.0f}", *times]


def show(results: Results, console: Console) -> None:
    if results.rows:
        table = Table(title="Requests a second and latency")
        for place, column in enumerate(COLUMNS):
            table.add_column(column, justify="right" if place else "left")
        for cells in _rows(results):
            table.add_row(*cells)
        console.print(table)
    if results.marks:
        marks = Table("What", "Figure", "Mark", "Met", title="Marks")
        for mark in results.marks:
            marks.add_row(mark.what, mark.figure, mark.wanted, "[green]yes" if mark.met else "[red]no")
        console.print(marks)
    if results.memory:
        console.print(
            f"Worker after load: {results.memory.rss_mb:.0f} MB resident, {results.memory.pss_mb:.0f} MB its share."
        )
    console.print(results.conditions)
    console.print(results.machine.sentence())


def as_markdown(results: Results) -> str:
    marks = [[mark.what, mark.figure, mark.wanted, "yes" if mark.met else "**no**"] for mark in results.marks]
    memory = results.memory
    parts = [
        "# Benchmarks\n",
        f"Made by `{results.command}`.\n",
        f"{results.machine.sentence()} {results.conditions}\n",
        _READING,
        _table(COLUMNS, _rows(results)) if results.rows else "",
        "## Marks\n" if marks else "",
        _table(("What", "Figure", "Mark", "Met"), marks) if marks else "",
        f"A worker after load: {memory.rss_mb:.0f} MB resident, {memory.pss_mb:.0f} MB its share.\n" if memory else "",
    ]
    return "\n".join(part for part in parts if part)


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [columns, ["---", *(["---:"] * (len(columns) - 1))], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
