"""Reliability measurements: each uses its own service on this machine, and is bounded in count and time."""

import asyncio
import io
import resource
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click
import msgspec

from benchmarks import report
from tests.figures.app_subscriptions import declare_for_all
from tests.figures.away import lose_a_worker
from tests.figures.collections import apply_a_wide_rule
from tests.figures.failover import fail_over
from tests.figures.filters import filter_much
from tests.figures.greedy import crowd_out
from tests.figures.growth import grow_under_load
from tests.figures.holds import expire_many
from tests.figures.idle import look_for_work
from tests.figures.kills import kill_under_load
from tests.figures.moving import move
from tests.figures.nodes import kill_nodes_under_load
from tests.figures.overload import overload
from tests.figures.pages import browse
from tests.figures.pictures import show_pictures
from tests.figures.replica import relieve
from tests.figures.restarts import restart_under_load
from tests.figures.shard_copies import cut_off_copies
from tests.figures.shard_faults import fail_over_shard, lose_directory
from tests.figures.shard_moves import move_under_load
from tests.figures.slow import loiter
from tests.figures.soak import soak
from tests.figures.stops import stop_under_load
from tests.figures.streams import export_all
from tests.figures.unread import hoard
from tests.support.databases import drop_made
from tests.support.termination import exit_on_sigterm

Figure = Callable[[Path], Awaitable[bool]]
ON_CLUSTER = ("away", "growth", "idle", "nodes")
TOGETHER = {"shards": ("shard-moves", "shard-failover", "shard-failover-source", "directory-away", "shard-copies")}


# The targets in short; docs/reliability.md explains them.
TARGETS = {
    "kills": "nothing lost, nothing twice",
    "restarts": "no request fails",
    "stops": "no request fails",
    "failover": "outage of at most 15 s, nothing lost",
    "replica": "at most 80 % of the primary's CPU time per request, no request fails",
    "overload": "80 % of the peak served with a p99 below 1 s, each refusal with `Retry-After`, normal within 10 s",
    "greedy": "p99 of others at most 1.5 times",
    "filters": "the longest delay grows by at most 100 ms",
    "holds": "each expires once, p95 of another store at most doubled",
    "moving": "less than two minutes, nothing differs",
    "app-subscriptions": "60 s for each change, p99 of deliveries at most doubled",
    "shard-moves": "nothing lost, doubled or stale, pause at most 1 s, p99 at most 2 s",
    "shard-failover": "other stores not affected, outage of at most 15 s, nothing lost",
    "shard-failover-source": "other stores not affected, outage of at most 15 s, nothing lost",
    "directory-away": "stores in shards not affected, nothing lost",
    "shard-copies": "new tokens accepted, revoked ones refused within a second",
    "slow": "p99 at most 2 times, closed within 30 s",
    "pages": "the median grows by at most 25 ms, each refusal with `Retry-After`",
    "pictures": "median at most doubled, ready within 3 minutes, 5,000 thumbnails a second",
    "collections": "one event each within 10 minutes, median at most doubled, pages at most 1.1 times a page by tag",
    "streams": "60 % of the rate of COPY, at most 32 MB more memory",
    "soak": "memory grows by at most 5 %, no request fails",
    "unread": "at most 384 KiB of memory for each client, others are served",
    "away": "other stores not affected, nothing lost",
    "growth": "no request fails",
    "idle": "at most 25 statements a second ask all shards",
    "nodes": "nothing lost, nothing twice, no gaps",
}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--workers", default=200, show_default=True, help="Number of kill -9 of web workers.")
@click.option("--databases", default=50, show_default=True, help="Number of kill -9 of PostgreSQL.")
@click.option("--restarts", default=50, show_default=True, help="Number of reloads.")
@click.option("--stops", default=50, show_default=True, help="Number of stops of a node behind HAProxy.")
@click.option(
    "--seconds",
    default=60,
    show_default=True,
    help="Duration of overload; replica and directory-away take a third of it, greedy, slow and pages a sixth of it at a time, soak thirty times.",
)
@click.option("--nodes", default=12, show_default=True, help="Number of kill -9 of cluster nodes, in turn.")
@click.option("--spare", default="127.0.0.1:9703", show_default=True, help="The node that growth adds to the cluster.")
@click.option("--holds", default=100_000, show_default=True, help="Number of orders whose holds end at once.")
@click.option("--moves", default=20, show_default=True, help="Number of moves of a store between two shards.")
@click.option("--cut", default=300, show_default=True, help="Seconds for which shard-copies cuts the replication off.")
@click.option(
    "--minutes", default=40, show_default=True, help="Time limit of kills, restarts, stops, holds and shard-moves."
)
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    help="Write the table of results to a Markdown file, replacing an earlier one.",
)
def figures(
    names: tuple[str, ...],
    workers: int,
    databases: int,
    restarts: int,
    stops: int,
    seconds: int,
    nodes: int,
    spare: str,
    holds: int,
    moves: int,
    cut: int,
    minutes: int,
    record: Path | None,
) -> None:
    """Run the named measurements: kills, restarts, stops, failover, replica, overload, greedy, filters, app-subscriptions, holds, moving,
    pictures, collections, shards, slow, pages, unread, streams, soak; by default these.

    shards stands for shard-moves, shard-failover, shard-failover-source, directory-away and shard-copies.
    away, growth, idle and nodes need a Citus cluster on this machine, which TEST_CITUS_URL names.
    """
    known: dict[str, Figure] = {
        "kills": lambda folder: kill_under_load(folder, workers, databases, minutes),
        "restarts": lambda folder: restart_under_load(folder, restarts, minutes),
        "stops": lambda folder: stop_under_load(folder, stops, minutes),
        "failover": fail_over,
        "replica": lambda folder: relieve(folder, seconds / 3),
        "overload": lambda folder: overload(folder, seconds),
        "greedy": lambda folder: crowd_out(folder, seconds / 6),
        "filters": filter_much,
        "holds": lambda folder: expire_many(folder, holds, seconds / 2, minutes),
        "moving": move,
        "app-subscriptions": declare_for_all,
        "shard-moves": lambda folder: move_under_load(folder, moves, minutes),
        "shard-failover": lambda folder: fail_over_shard(folder, "to"),
        "shard-failover-source": lambda folder: fail_over_shard(folder, "from"),
        "directory-away": lambda folder: lose_directory(folder, seconds / 3),
        "shard-copies": lambda folder: cut_off_copies(folder, cut),
        "slow": lambda folder: loiter(folder, seconds / 6),
        "pages": lambda folder: browse(folder, seconds / 6),
        "pictures": lambda folder: show_pictures(folder, seconds / 12),
        "collections": lambda folder: apply_a_wide_rule(folder, seconds / 4),
        "streams": export_all,
        "soak": lambda folder: soak(folder, seconds * 30),
        "unread": hoard,
        "away": lambda folder: lose_a_worker(folder, seconds / 3),
        "growth": lambda folder: grow_under_load(folder, spare, seconds / 2),
        "idle": lambda folder: look_for_work(folder, seconds / 2),
        "nodes": lambda folder: kill_nodes_under_load(folder, workers, nodes, minutes),
    }
    named = [each for name in names for each in TOGETHER.get(name, (name,))]
    if unknown := set(named) - known.keys():
        raise click.ClickException(f"{', '.join(unknown)}: choose from {', '.join([*known, *TOGETHER])}")
    chosen = named or [name for name in known if name not in ON_CLUSTER]
    results = [_result_of(name, known[name], minutes + 10) for name in chosen]
    missed = [each.name for each in results if not each.met]
    if len(results) > 1:
        click.echo(_as_markdown(results))
    if record:
        report.record(record, "faults", _as_markdown(results))
    if missed:
        click.echo(f"Targets missed: {', '.join(missed)}")
    sys.exit(bool(missed))


class Result(msgspec.Struct, frozen=True):
    """What a measurement reached, and whether that is its target."""

    name: str
    reached: str
    met: bool


class Printed(io.StringIO):
    """Keeps what is printed, and prints it."""

    def __init__(self) -> None:
        super().__init__()
        self._out = sys.stdout

    def write(self, text: str) -> int:
        self._out.write(text)
        self._out.flush()
        return super().write(text)


def _result_of(name: str, figure: Figure, minutes: int) -> Result:
    """Measure once. What ends with an exception misses its target, and the next measurement runs."""
    printed = Printed()
    with redirect_stdout(printed):
        try:
            met = asyncio.run(_measure(figure, minutes))
        except Exception as error:  # noqa: BLE001 - it says why in the table
            traceback.print_exc()
            click.echo(f"ended with {type(error).__name__}: {error}")
            met = False
    # Indented lines are steps on the way.
    lines = [line for line in printed.getvalue().splitlines() if line and not line.startswith(" ")]
    return Result(name, " ".join(lines).removeprefix(f"{name}: ").replace("|", "/"), met)


def _as_markdown(results: Sequence[Result]) -> str:
    rows = [[each.name, TARGETS[each.name], each.reached, "yes" if each.met else "**no**"] for each in results]
    return report.as_table(("Scenario", "Target", "Reached", "Met"), rows)


async def _measure(figure: Figure, minutes: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="stoa-figure-") as folder:
        try:
            async with asyncio.timeout(minutes * 60):
                return await figure(Path(folder))
        finally:
            await drop_made()


if __name__ == "__main__":
    exit_on_sigterm()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures()
