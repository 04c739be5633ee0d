"""`python -m benchmarks.peers`: Stoa, Medusa and Vendure with the same products on this machine, measured in turns."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from tests.support.termination import exit_on_sigterm

from benchmarks import report
from benchmarks.drive import CannotMeasure, Load
from benchmarks.peers import stoa_side
from benchmarks.peers.goods import Product
from benchmarks.peers.medusa import peer as medusa
from benchmarks.peers.rows import COLUMNS, ROWS, PeerRow, Requests, as_markdown, rows_of
from benchmarks.peers.sides import Run, Side
from benchmarks.peers.vendure import peer as vendure
from benchmarks.results import describe_machine
from stoa.db.embedded import MAJOR_VERSION

PEERS: dict[str, Callable[[Path, Sequence[Product], int], AbstractContextManager[Side]]] = {
    "medusa": medusa.running,
    "vendure": vendure.running,
}


class Plan(msgspec.Struct, frozen=True):
    """The options of the command line."""

    peers: tuple[str, ...]
    products: int
    load: Load
    rounds: int
    workers: int

    def command(self) -> str:
        """The command that repeats this measurement."""
        only = f" --only {','.join(self.peers)}" if self.peers != tuple(PEERS) else ""
        options = f"--products {self.products} --seconds {self.load.seconds:g} --rounds {self.rounds}"
        return (
            f"python -m benchmarks.peers{only} {options} --connections {self.load.connections} --workers {self.workers}"
        )

    def conditions(self) -> str:
        return (
            f"{self.products:,} products, {self.load.connections} connections, {self.workers} API processes of each "
            f"platform, {self.rounds} rounds of at least {self.load.seconds:g} s each."
        )


def measure(plan: Plan, folder: Path, console: Console) -> tuple[list[PeerRow], list[Requests]]:
    """Run all platforms, and measure every row on each in turns."""
    with ExitStack() as stack:
        ours, products = stack.enter_context(stoa_side.running(folder / "stoa", plan.products, plan.workers))
        peers = [PEERS[name](folder / name, products, plan.workers) for name in plan.peers]
        with ThreadPoolExecutor() as threads:  # they take minutes, mostly on one core
            starts = [threads.submit(stack.enter_context, peer) for peer in peers]
        sides = [ours, *(start.result() for start in starts)]
        rows: list[PeerRow] = []
        for row in ROWS:
            rows += rows_of(row, _take_turns(row, sides, products, plan))
            for each in rows[-len(sides) :]:
                console.print(" | ".join(each.cells()))
        return rows, [Requests.of(side) for side in sides]


def _take_turns(
    row: str, sides: Sequence[Side], products: Sequence[Product], plan: Plan
) -> list[tuple[str, list[Run]]]:
    for side in sides:
        if row in side.reads:
            side.check(row, products)
        side.warm_up(row, products, plan.load)
    runs = [(side.name, list[Run]()) for side in sides]
    for _ in range(plan.rounds):
        for side, (_, done) in zip(sides, runs, strict=True):
            done.append(side.run(row, products, plan.load))
    return runs


def show(rows: Sequence[PeerRow], console: Console) -> None:
    table = Table(title="Stoa and its peers; CPU in ms for one request")
    for index, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if index > 1 else "left")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...]:
    names = tuple(given.split(",")) if given else tuple(PEERS)
    if unknown := set(names) - set(PEERS):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: choose from {', '.join(PEERS)}")
    return names


@click.command()
@click.option("--only", callback=_names, help=f"Comma-separated platforms beside Stoa: {', '.join(PEERS)}.")
@click.option("--products", default=1000, show_default=True, type=click.IntRange(100, 10_000), help="Products to load.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(1, 120), help="Duration of a run.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 20), help="Number of runs of each side.")
@click.option("--connections", default=16, show_default=True, type=click.IntRange(1, 60), help="Concurrent requests.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 16), help="API processes of each side.")
@click.option("--record", type=click.Path(path_type=Path), help="Write the results to a Markdown file.")
def main(
    only: tuple[str, ...],
    products: int,
    seconds: float,
    rounds: int,
    connections: int,
    workers: int,
    record: Path | None,
) -> None:
    """Measure Stoa beside Medusa and Vendure; `make bench-peers` installs them first."""
    exit_on_sigterm()
    plan = Plan(only, products, Load(connections, seconds), rounds, workers)
    console = Console(width=None if sys.stdout.isatty() else 200)
    machine = describe_machine(MAJOR_VERSION)
    with tempfile.TemporaryDirectory(prefix="stoa-peers-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # the database servers may run as another user
        try:
            rows, requests = measure(plan, folder, console)
        except CannotMeasure as error:
            raise click.ClickException(str(error)) from error
    show(rows, console)
    console.print(f"{machine.sentence()} {plan.conditions()}")
    if record:
        report.record(record, "peers", as_markdown(rows, requests, machine, plan.command(), plan.conditions()))


if __name__ == "__main__":
    main()
