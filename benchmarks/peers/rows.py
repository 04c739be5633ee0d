"""The rows of the comparison, and their section of the documentation."""

from collections.abc import Sequence

import msgspec

from benchmarks.peers.sides import Run, Side
from benchmarks.report import as_table
from benchmarks.results import Machine

ROWS = {
    "listing": "50 products with total, as an app or an administrator reads them",
    "listing-shop": "50 products with total, as a shop front reads them",
    "one": "one product with its variants",
    "create-order": "an order with three line items, placed",
}
COLUMNS = ("Row", "Platform", "per second", "p50 ms", "p99 ms", "CPU platform", "CPU PostgreSQL", "CPU, times Stoa")
_READING = """\
All platforms run at the same time on this machine with the same number of API processes, and the load alternates between them
round by round; a row shows the run with the median rate. Each platform has a PostgreSQL server of its own, of the same version and
with the same settings, durable, over a Unix socket. They sell the same products: names, descriptions, prices, variants and tags
are read from Stoa by its API, and loaded by the importer of Vendure and the workflows of Medusa. wrk sends the reads. Some platforms
need several requests for an order, so one client in Python places the orders on all of them, one after another on each connection,
and checks the line items and the total of every order. A read is checked once, before it is measured, for its products, prices and
total. CPU is the time of all processes of the platform and of its PostgreSQL server, background processes included, for one request
or one order in ms. Other work on the machine affects it less than the rate. A run with fewer than three responses on each
connection is repeated, for longer, and the requests that are under way at the end of a run count for the CPU time that they have cost.

What to bear in mind:

- **Production mode, as documented**: `NODE_ENV=production`, no dashboard, no playground, no telemetry, no log of requests on the
  console (Stoa's is off too). Vendure has its search index, its job queue in the database with a process for jobs, and its caches
  of sessions and entities. Medusa has its query cache, which is off by default.
- **No Redis.** Medusa recommends Redis for events, workflows, locks and the cache, and Vendure recommends its database or Redis for
  the cache, if there are several processes. Here all of these are in the memory of each process: these requests are correct
  without sharing it, and cost less than with calls to another server.
- **Vendure and Medusa do more than Stoa** in an order: they compute promotions, taxes (none apply here) and the price of the
  shipping option, and Vendure authorizes a payment by its test provider, because it places no order without one. Vendure answers any GraphQL
  query. The prices in the list of a shop front are computed for its region or channel.
- **Stoa does more than the others** in an order: it stores an idempotency key with the response, writes an event for each change to
  an outbox in the same transaction, and compares the order with recent orders of the same person. In every request it
  checks the scopes and the rate limit of an app, and it keeps the request for the log of the app.
- Products of Vendure have no pictures here, because it stores files and not addresses. Products of Vendure and Medusa have no price of
  their own, so their lists contain the prices of the variants.
"""


class PeerRow(msgspec.Struct, frozen=True):
    """One row on one platform: the run with the median rate."""

    row: str
    name: str
    run: Run
    times: float  # the CPU of Stoa

    def cells(self) -> list[str]:
        figures = self.run.figures
        times = [f"{time:,.1f}" if time is not None else "-" for time in (figures.p50_ms, figures.p99_ms)]
        cpu = [f"{self.run.service_ms:.2f}", f"{self.run.database_ms:.2f}", f"{self.times:.1f}"]
        return [self.row, self.name, f"{figures.per_second:,.1f}", *times, *cpu]


def rows_of(row: str, runs: Sequence[tuple[str, Sequence[Run]]]) -> list[PeerRow]:
    """A row on each platform, Stoa first."""
    medians = [(name, _median(each)) for name, each in runs]
    ours = medians[0][1]
    return [PeerRow(row, name, run, run.cpu_ms / ours.cpu_ms) for name, run in medians]


def _median(runs: Sequence[Run]) -> Run:
    return sorted(runs, key=lambda run: run.figures.per_second)[len(runs) // 2]


class Requests(msgspec.Struct, frozen=True):
    """What a platform is asked in each row."""

    name: str
    asked: list[str]

    @classmethod
    def of(cls, side: Side) -> "Requests":
        notes = dict.fromkeys(read.note for read in side.reads.values())
        return cls(side.name, [*notes, f"an order by {side.checkout.requests}"])


def as_markdown(
    rows: Sequence[PeerRow], requests: Sequence[Requests], machine: Machine, command: str, conditions: str
) -> str:
    titles = [f"- `{name}`: {title}." for name, title in ROWS.items() if any(row.row == name for row in rows)]
    asked = [f"- {each.name}: {'; '.join(each.asked)}." for each in requests]
    return "\n".join(
        [
            f"Made by `{command}`.\n",
            f"{machine.sentence()} {conditions}\n",
            as_table(COLUMNS, [row.cells() for row in rows]),
            *titles,
            "",
            "The requests:\n",
            *asked,
            "",
            _READING,
        ]
    )
