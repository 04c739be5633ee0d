"""Reliability measurements: each uses its own service on this machine, and is bounded in count and time."""

import asyncio
import resource
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

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
    exit_on_sigterm()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    chosen = named or [name for name in known if name not in ON_CLUSTER]
    missed = [name for name in chosen if not asyncio.run(_measure(known[name], minutes + 10))]
    if missed:
        click.echo(f"Targets missed: {', '.join(missed)}")
    sys.exit(bool(missed))


async def _measure(figure: Figure, minutes: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="stoa-figure-") as folder:
        try:
            async with asyncio.timeout(minutes * 60):
                return await figure(Path(folder))
        finally:
            await drop_made()


if __name__ == "__main__":
    figures()
