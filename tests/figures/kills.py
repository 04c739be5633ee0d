"""kill -9 of web workers and PostgreSQL while apps write: no acknowledged write is lost or applied twice."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGKILL

import click

from tests.figures.trade import Trade, finish, verify
from tests.support.service import Service, children, until

WRITERS = 6
BETWEEN = 20  # acknowledged writes between two kills, so that each hits a busy service
SLOWEST_S = 120


async def kill_under_load(folder: Path, workers: int, databases: int, minutes: float) -> bool:
    """Kill this many processes, or stop at the time limit; returns whether no write was lost."""
    with Service(folder, workers=2, access_log=False) as service:
        trade = Trade(await service.account("killed", burst=10_000_000, refill=1_000_000))
        await trade.create_products()
        writers = [asyncio.create_task(trade.write_on(fresh=n % 3 == 0)) for n in range(WRITERS)]
        started = time.monotonic()
        deadline = started + minutes * 60
        killed_workers = await kill([trade], workers, deadline, kill_worker(service), "workers")
        killed_databases = await kill([trade], databases, deadline, lambda: _kill(_postmaster(service)), "PostgreSQL")
        await asyncio.to_thread(until, lambda: service.status("/ready") == 200, "it responds again", seconds=SLOWEST_S)
        await finish(trade, writers)
        seconds = time.monotonic() - started
        found = await verify(trade)
        clean = service.stop() == 0
    click.echo(f"{killed_workers} kill -9 of workers, {killed_databases} of PostgreSQL in {seconds:.0f} s; {found}")
    click.echo(f"  retried: {dict(trade.trouble)}; exit code 0: {clean}")
    return found.intact and clean and (killed_workers, killed_databases) == (workers, databases)


async def kill(trades: Sequence[Trade], times: int, deadline: float, victim: Callable[[], None], name: str) -> int:
    """Kill this many times, or stop at the time limit; returns the number of kills."""

    def acknowledged() -> int:
        return sum(len(trade.ledger) for trade in trades)

    for turn in range(1, times + 1):
        if time.monotonic() > deadline:
            return turn - 1
        enough = acknowledged() + BETWEEN
        await asyncio.to_thread(
            until, lambda enough=enough: acknowledged() >= enough, "writes succeed", seconds=SLOWEST_S
        )
        await asyncio.sleep(random.uniform(0, 0.2))
        await asyncio.to_thread(victim)
        if turn % 10 == 0:
            click.echo(f"  {turn} of {times} {name} killed, {acknowledged()} writes acknowledged")
    return times


def kill_worker(service: Service) -> Callable[[], None]:
    return lambda: _kill(_one_of(service.workers))


def kill_courier(service: Service) -> Callable[[], None]:
    """kill -9 of the process that delivers webhooks."""
    return lambda: _kill(_one_of(lambda: children(service.pid, b"--deliveries")))


def _one_of(processes: Callable[[], list[int]]) -> int:
    until(processes, "the process runs", seconds=SLOWEST_S)
    return random.choice(processes())


def _kill(pid: int) -> None:
    os.kill(pid, SIGKILL)


def _postmaster(service: Service) -> int:
    file = service.folder / "postgres/data/postmaster.pid"
    until(file.exists, "the database runs", seconds=SLOWEST_S)
    return int(file.read_text().splitlines()[0])
