"""Reports results as tables in a terminal and as Markdown for the documentation."""

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
COSTS = (
    "Row",
    "service µs",
    "PostgreSQL µs",
    "pgbench: PostgreSQL µs",
    "baseline: service µs",
    "PostgreSQL µs",
    "times Stoa",
)
_COSTS = """\
CPU time for one request, in the same runs. The service is counted with its background workers, which skip or deliver the events
of a write, and PostgreSQL with vacuum, checkpoints and the writers of its log. Other load on the machine lowers a rate more than it
raises these figures.
"""
_READING = """\
wrk sends the requests to Stoa and to the baseline, over the same number of connections. pgbench runs Stoa's statements
over as many connections: the rate of the database alone is the limit. (pgbench reads documents as text where Stoa reads
bytes, because it would print bytes as twice as many digits.) The statements of a write are recorded from its handler: the
claim of the idempotency key, every lookup, the stored function and the stored response, in one durable transaction, with
new rows each time; a test repeats them and counts the rows they write. Load generator, service and database share the
machine's cores. Runs alternate round by round; results are medians. The baseline is FastAPI with SQLAlchemy's async ORM,
asyncpg, pydantic models and uvicorn on uvloop and httptools, on normalized tables with the same data. It also writes
ledger, outbox and idempotency keys, and its responses are compared with Stoa's before it is measured. It checks the
token, but has no rate limiter, no request ids and no other protections; Stoa is measured with all of them.
"""
TITLES = {
    "requests": "Requests",
    "instructions": "Instructions of a request",
    "million": "A store with a million products",
    "million-orders": "A store with a million orders",
    "imports": "Imports",
    "deliveries": "Webhook deliveries",
    "pending": "Ten million pending deliveries",
    "engines": "One server and a Citus cluster",
    "shards": "One server and several shards",
    "sizes": "Bytes of each row",
    "peers": "Peers",
    "faults": "The last run of all scenarios",
}


def _rows(results: Results) -> list[list[str]]:
    return [
        [
            f"{row.name}: {row.title}",
            *_figures(row.ours),
            f"{row.limit.per_second:,.0f}" if row.limit else "-",
            f"{row.of_limit:.0%}" if row.of_limit is not None else "-",
            *(_figures(row.baseline) if row.baseline else ["-", "-", "-"]),
            f"{row.of_baseline:.1f}" if row.of_baseline is not None else "-",
        ]
        for row in results.rows
    ]


def _costs(results: Results) -> list[list[str]]:
    """The rows whose CPU time was counted."""
    return [
        [row.name, *_cost(row.ours), *_cost(row.limit)[1:], *_cost(row.baseline), _times(row.baseline, row.ours)]
        for row in results.rows
        if row.ours.service_us is not None
    ]


def _cost(figures: Figures | None) -> list[str]:
    costs = (figures.service_us, figures.database_us) if figures else (None, None)
    return ["-" if cost is None else f"{cost:,.0f}" for cost in costs]


def _times(one: Figures | None, other: Figures) -> str:
    if one is None:
        return "-"
    total = [(each.service_us or 0) + (each.database_us or 0) for each in (one, other)]
    return f"{total[0] / total[1]:.1f}"


def _figures(figures: Figures) -> list[str]:
    times = ("-" if time is None else f"{time:.1f}" for time in (figures.p50_ms, figures.p99_ms))
    return [f"{figures.per_second:,.0f}", *times]


def show(results: Results, console: Console) -> None:
    if results.rows:
        table = Table(title="Requests per second and latency")
        for index, column in enumerate(COLUMNS):
            table.add_column(column, justify="right" if index else "left")
        for cells in _rows(results):
            table.add_row(*cells)
        console.print(table)
        costs = Table(*COSTS, title="CPU time of a request")
        for cells in _costs(results):
            costs.add_row(*cells)
        console.print(costs)
    if results.marks:
        marks = Table("What", "Result", "Target", "Met", title="Targets")
        for mark in results.marks:
            marks.add_row(mark.what, mark.figure, mark.wanted, "[green]yes" if mark.met else "[red]no")
        console.print(marks)
    if results.memory:
        console.print(
            f"Worker after load: {results.memory.rss_mb:.0f} MB resident, {results.memory.pss_mb:.0f} MB proportional (PSS)."
        )
    console.print(results.conditions)
    console.print(results.machine.sentence())


def record(file: Path, section: str, text: str) -> None:
    """Write a section of a file between its two comments; the rest of the file stays unchanged."""
    opening, closing = f"<!-- {section} -->", f"<!-- end of {section} -->"
    content = f"{opening}\n\n## {TITLES[section]}\n\n{text.strip()}\n\n{closing}"
    before = file.read_text() if file.exists() else "# Benchmarks\n"
    if opening in before and closing in before:
        head, _, rest = before.partition(opening)
        file.write_text(head + content + rest.partition(closing)[2])
    else:
        file.write_text(f"{before.rstrip()}\n\n{content}\n")


def as_markdown(results: Results, *, explained: bool) -> str:
    marks = [[mark.what, mark.figure, mark.wanted, "yes" if mark.met else "**no**"] for mark in results.marks]
    memory = results.memory
    parts = [
        f"Made by `{results.command}`.\n",
        f"{results.machine.sentence()} {results.conditions}\n",
        _READING if explained else "",
        as_table(COLUMNS, _rows(results)) if results.rows else "",
        *((_COSTS, as_table(COSTS, costs)) if (costs := _costs(results)) else ()),
        as_table(("What", "Result", "Target", "Met"), marks) if marks else "",
        f"A worker after load: {memory.rss_mb:.0f} MB resident, {memory.pss_mb:.0f} MB proportional (PSS).\n"
        if memory
        else "",
    ]
    return "\n".join(part for part in parts if part)


def as_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *(["---:"] * (len(columns) - 1))], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
