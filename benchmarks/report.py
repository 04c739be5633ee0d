"""Shows results: as tables in a terminal, as Markdown for the documentation."""

from collections.abc import Sequence
from pathlib import Path

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
Stoa's own statements: what the database alone could answer is the limit. (Documents reach pgbench as text where
Stoa takes bytes, because pgbench would print bytes as twice as many digits.) The statements of a write are recorded from its
handler: the key's claim, every look, the stored function, the remembered answer, in one durable transaction, on other
rows each time; a test repeats them and counts what they wrote. Load generator, service and database share the machine's
cores. Runs take turns, round by round; figures are medians. The baseline is FastAPI with SQLAlchemy's async ORM, asyncpg,
pydantic models and uvicorn on uvloop and httptools, on normalised tables with the same data; it keeps ledger, outbox and
idempotency keys too, and its answers are compared with Stoa's before it is measured. It checks the token, but has no rate
limiter, no request ids and no defences of its own; Stoa is measured with all of them.
"""
TITLES = {
    "requests": "Requests",
    "million": "A store of a million products",
    "million-orders": "A store of a million orders",
    "imports": "Imports",
    "deliveries": "Webhook deliveries",
    "pending": "Ten million pending deliveries",
}


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


def record(file: Path, section: str, text: str) -> None:
    """Write a section into a file between its two marks, and leave all else there as it is."""
    opening, closing = f"<!-- {section} -->", f"<!-- end of {section} -->"
    whole = f"{opening}\n\n## {TITLES[section]}\n\n{text.strip()}\n\n{closing}"
    before = file.read_text() if file.exists() else "# Benchmarks\n"
    if opening in before and closing in before:
        head, _, rest = before.partition(opening)
        file.write_text(head + whole + rest.partition(closing)[2])
    else:
        file.write_text(f"{before.rstrip()}\n\n{whole}\n")


def as_markdown(results: Results, *, explained: bool) -> str:
    marks = [[mark.what, mark.figure, mark.wanted, "yes" if mark.met else "**no**"] for mark in results.marks]
    memory = results.memory
    parts = [
        f"Made by `{results.command}`.\n",
        f"{results.machine.sentence()} {results.conditions}\n",
        _READING if explained else "",
        as_table(COLUMNS, _rows(results)) if results.rows else "",
        as_table(("What", "Figure", "Mark", "Met"), marks) if marks else "",
        f"A worker after load: {memory.rss_mb:.0f} MB resident, {memory.pss_mb:.0f} MB its share.\n" if memory else "",
    ]
    return "\n".join(part for part in parts if part)


def as_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *(["---:"] * (len(columns) - 1))], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
