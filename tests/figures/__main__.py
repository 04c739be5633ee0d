"""The large figures of reliability: each a service of its own, on this machine alone, bounded in count and time."""

import asyncio
import resource
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from tests.figures.greedy import crowd_out
from tests.figures.kills import kill_under_load
from tests.figures.overload import overload
from tests.figures.restarts import restart_under_load
from tests.figures.slow import loiter

Figure = Callable[[Path], Awaitable[bool]]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--workers", default=200, show_default=True, help="kill -9 of serving workers.")
@click.option("--databases", default=50, show_default=True, help="kill -9 of PostgreSQL.")
@click.option("--restarts", default=50, show_default=True, help="Rolling restarts.")
@click.option("--seconds", default=60, show_default=True, help="Of overload; the other two measure a sixth at a time.")
@click.option("--minutes", default=40, show_default=True, help="After so long, kills and restarts end where they are.")
def figures(names: tuple[str, ...], workers: int, databases: int, restarts: int, seconds: int, minutes: int) -> None:
    """Take the figures named: kills, restarts, overload, greedy, slow; all of them when none is."""
    known: dict[str, Figure] = {
        "kills": lambda folder: kill_under_load(folder, workers, databases, minutes),
        "restarts": lambda folder: restart_under_load(folder, restarts, minutes),
        "overload": lambda folder: overload(folder, seconds),
        "greedy": lambda folder: crowd_out(folder, seconds / 6),
        "slow": lambda folder: loiter(folder, seconds / 6),
    }
    if strange := set(names) - known.keys():
        raise click.ClickException(f"{', '.join(strange)}: choose from {', '.join(known)}")
    signal.signal(signal.SIGTERM, _stop)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    missed = [name for name in names or known if not asyncio.run(_take(known[name], minutes + 10))]
    if missed:
        click.echo(f"Not as demanded: {', '.join(missed)}")
    sys.exit(bool(missed))


def _stop(*_: object) -> None:
    sys.exit(1)  # so that what was started is ended


async def _take(figure: Figure, minutes: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="stoa-figure-") as folder:
        async with asyncio.timeout(minutes * 60):
            return await figure(Path(folder))


if __name__ == "__main__":
    figures()
