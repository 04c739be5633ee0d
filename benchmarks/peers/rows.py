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
All platforms run at the same time on this machine with the same number of API processes, and the load alternates between them round by
round. Each has a PostgreSQL server of its own, of the same version with the same settings, durable, over a Unix socket. They sell the
same products: names, descriptions, prices, variants, tags and stock are read from Stoa by its API, and loaded by the importer of
Vendure and the workflows of Medusa. wrk sends the reads. Orders take several requests on some platforms, so one client in Python
places them on all of them, each after the one before on its connection, and checks the line items and the total of every order; a read is checked once, for
its products, prices and total, before it is measured. CPU is the time of all processes of the platform, and of its PostgreSQL server
with its background processes, for one request or one order, in ms. It depends less than the rate on other work of the machine.

What to bear in mind:

- **Production mode as documented**: `NODE_ENV=production`, no dashboard, no playground, no telemetry, no log of requests (Stoa's is
  off too). Vendure has its search index, its job queue in the database and one more process for jobs, its session and entity
  caches. Medusa has its query cache switched on, in the memory of each process. Medusa recommends Redis for events, workflows, locks
  and the cache; Vendure recommends it for its cache with several processes. Neither needs it for these requests, and without it they do
  less: a call to another server for each of these is spared.
- **Vendure and Medusa do more than Stoa** in an order: they compute promotions, taxes (none apply here) and shipping options, and
  Vendure authorizes a payment by its test provider, without which it places no order. Vendure answers any GraphQL query, and
  both can be extended by code in the process. Prices in the list of the shop are computed for the customer's region or channel.
- **Stoa does more than the others** in an order: it stores an idempotency key with the response, an event for each change in an
  outbox that survives a crash, a ledger of stock, and compares the order with recent ones of the same person. In every
  request it checks the scopes of an app and its rate limit, and keeps it for the request log.
- Vendure has no pictures here, because it takes files, not addresses. Its products, and those of Medusa, have no price of their own:
  their lists name the prices of the variants.
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
