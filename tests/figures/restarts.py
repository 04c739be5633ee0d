"""Reloads while apps read and write: no request fails, on any kind of connection."""

import asyncio
import os
import time
from pathlib import Path
from signal import SIGHUP

import click

from tests.figures.trade import Trade, finish, verify
from tests.support.service import Service, alive, until

SLOWEST_S = 180


async def restart_under_load(folder: Path, times: int, minutes: float) -> bool:
    """Reload this many times, or stop at the time limit; returns whether no request failed."""
    with Service(folder, workers=2, access_log=False) as service:
        trade = Trade(await service.account("restarted", burst=10_000_000, refill=1_000_000))
        await trade.create_products()
        apps = [
            *(trade.write_on() for _ in range(2)),
            *(trade.write_on(fresh=True) for _ in range(2)),
            *(trade.write_on(think_s=1.0) for _ in range(6)),  # on connections that are mostly idle
            trade.read_on(),
            trade.read_on(fresh=True),
        ]
        running = [asyncio.create_task(app) for app in apps]
        started = time.monotonic()
        done = 0
        while done < times and time.monotonic() - started < minutes * 60:
            await asyncio.to_thread(_reload, service)
            done += 1
            if done % 5 == 0:
                click.echo(
                    f"  {done} of {times}: {len(trade.ledger)} writes, {trade.reads} reads, {_failed(trade)} failed"
                )
        await finish(trade, running)
        seconds = time.monotonic() - started
        found = await verify(trade)
        clean = service.stop() == 0
    requests = len(trade.ledger) + trade.reads
    click.echo(f"{done} reloads in {seconds:.0f} s, {requests} requests: {_failed(trade)} failed; {found}")
    click.echo(f"  failed: {dict(trade.trouble)}; exit code 0: {clean}")
    return found.intact and clean and not trade.trouble and done == times


def _failed(trade: Trade) -> int:
    return sum(trade.trouble.values())


def _reload(service: Service) -> None:
    old = service.workers()
    os.kill(service.pid, SIGHUP)
    until(lambda: not any(map(alive, old)), "every worker is replaced", seconds=SLOWEST_S)
    until(lambda: len(service.workers()) == len(old), "all new workers run", seconds=SLOWEST_S)
