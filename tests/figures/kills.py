"""kill -9 of serving workers and of PostgreSQL while apps write: nothing acknowledged is lost, nothing is done twice."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import click

from tests.figures.trade import Trade, finish, reckon
from tests.support.service import Service, until

WRITERS = 6
BETWEEN = 20  # writes acknowledged between two kills, so that each one hits a service at work
SLOWEST_S = 120


async def kill_under_load(folder: Path, workers: int, databases: int, minutes: float) -> bool:
    """Kill so many, or until the time is up; answers whether all was well."""
    with Service(folder, workers=2, access_log=False) as service:
        trade = Trade(await service.account("killed", burst=10_000_000, refill=1_000_000))
        await trade.stock_up()
        writers = [asyncio.create_task(trade.write_on(fresh=n % 3 == 0)) for n in range(WRITERS)]
        started = time.monotonic()
        ends = started + minutes * 60
        fallen = await _kill(trade, workers, ends, lambda: _worker(service), "workers")
        lost = await _kill(trade, databases, ends, lambda: _postmaster(service), "PostgreSQL")
        await asyncio.to_thread(until, lambda: service.status("/ready") == 200, "it answers again", seconds=SLOWEST_S)
        await finish(trade, writers)
        seconds = time.monotonic() - started
        found = await reckon(trade)
        clean = service.stop() == 0
    click.echo(f"{fallen} kill -9 of workers, {lost} of PostgreSQL in {seconds:.0f} s; {found}")
    click.echo(f"  tried again: {dict(trade.trouble)}; ended with 0: {clean}")
    return found.whole and clean and (fallen, lost) == (workers, databases)


async def _kill(trade: Trade, times: int, ends: float, victim: Callable[[], int], name: str) -> int:
    """Kill so often, or until the time is up; answers how often."""
    for turn in range(1, times + 1):
        if time.monotonic() > ends:
            return turn - 1
        before = len(trade.ledger)
        await asyncio.to_thread(
            until, lambda before=before: len(trade.ledger) >= before + BETWEEN, "writes get through", seconds=SLOWEST_S
        )
        await asyncio.sleep(random.uniform(0, 0.2))
        os.kill(await asyncio.to_thread(victim), SIGKILL)
        if turn % 10 == 0:
            click.echo(f"  {turn} of {times} {name} killed, {len(trade.ledger)} writes acknowledged")
    return times


def _worker(service: Service) -> int:
    until(service.workers, "there is a worker", seconds=SLOWEST_S)
    return random.choice(service.workers())


def _postmaster(service: Service) -> int:
    file = service.folder / "postgres/data/postmaster.pid"
    until(file.exists, "there is a database", seconds=SLOWEST_S)
    return int(file.read_text().splitlines()[0])
