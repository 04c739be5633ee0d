"""Rolling restarts while apps read and write: not one request fails, whatever kind of connection it came on."""

import asyncio
import os
import time
from pathlib import Path
from signal import SIGHUP

import click

from tests.figures.trade import Trade, finish, reckon
from tests.support.service import Service, alive, until

SLOWEST_S = 180


async def restart_under_load(folder: Path, times: int, minutes: float) -> bool:
    """Replace all workers so often, or until the time is up; answers whether nobody noticed."""
    with Service(folder, workers=2, access_log=False) as service:
        trade = Trade(await service.account("restarted", burst=10_000_000, refill=1_000_000))
        await trade.stock_up()
        apps = [
            *(trade.write_on() for _ in range(2)),
            *(trade.write_on(fresh=True) for _ in range(2)),
            *(trade.write_on(think_s=1.0) for _ in range(6)),  # whose connections idle most of the time
            trade.read_on(),
            trade.read_on(fresh=True),
        ]
        running = [asyncio.create_task(app) for app in apps]
        started = time.monotonic()
        done = 0
        while done < times and time.monotonic() - started < minutes * 60:
            await asyncio.to_thread(_restart, service)
            done += 1
            if done % 5 == 0:
                click.echo(
                    f"  {done} of {times}: {len(trade.ledger)} writes, {trade.reads} reads, {_failed(trade)} failed"
                )
        await finish(trade, running)
        seconds = time.monotonic() - started
        found = await reckon(trade)
        clean = service.stop() == 0
    requests = len(trade.ledger) + trade.reads
    click.echo(f"{done} rolling restarts in {seconds:.0f} s, {requests} requests: {_failed(trade)} failed; {found}")
    click.echo(f"  failed: {dict(trade.trouble)}; ended with 0: {clean}")
    return found.whole and clean and not trade.trouble and done == times


def _failed(trade: Trade) -> int:
    return sum(trade.trouble.values())


def _restart(service: Service) -> None:
    old = service.workers()
    os.kill(service.pid, SIGHUP)
    until(lambda: not any(map(alive, old)), "every worker is replaced", seconds=SLOWEST_S)
    until(lambda: len(service.workers()) == len(old), "they are as many as before", seconds=SLOWEST_S)
