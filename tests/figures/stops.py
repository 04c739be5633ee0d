"""Stops of a node behind a proxy while apps read and write: no request fails, on any kind of connection."""

import asyncio
import itertools
import time
from copy import copy
from pathlib import Path

import click

from stoa.db.embedded import EmbeddedPostgres
from tests.figures.trade import Trade, finish, verify
from tests.support.haproxy import HAProxy
from tests.support.service import Service, until

SLOWEST_S = 180
BETWEEN = 20  # acknowledged writes between two stops, so that each hits a busy service


async def stop_under_load(folder: Path, times: int, minutes: float, workers: int = 2, think_s: float = 0) -> bool:
    """Stop and start two nodes in turn, or stop at the time limit; returns whether no request failed.

    With `think_s`, the apps pause between requests, so that they do not use the whole processor.
    """
    database = EmbeddedPostgres(folder / "postgres")
    nodes = [
        Service(
            folder / f"node-{n}",
            database_url=database.dsn,
            options=["--no-background"],
            workers=workers,
            proxies=1,
            access_log=False,
            shutdown_delay_seconds=5,
        )
        for n in range(2)
    ]
    with database, nodes[0], nodes[1], HAProxy(folder, nodes) as proxy:
        front = copy(nodes[0])
        front.url = proxy.url
        trade = Trade(await front.account("stopped", burst=10_000_000, refill=1_000_000))
        await trade.create_products()
        apps = [
            *(trade.write_on(think_s=think_s) for _ in range(2)),
            trade.write_on(fresh=True, think_s=think_s),
            *(trade.write_on(think_s=1.0) for _ in range(3)),  # on connections that are mostly idle
            trade.read_on(think_s=think_s),
            trade.read_on(fresh=True, think_s=think_s),
        ]
        running = [asyncio.create_task(app) for app in apps]
        started = time.monotonic()
        done, clean = 0, True
        for node in itertools.cycle(nodes):
            if done == times or time.monotonic() - started > minutes * 60:
                break
            enough = len(trade.ledger) + BETWEEN
            await asyncio.to_thread(
                until, lambda enough=enough: len(trade.ledger) >= enough, "writes succeed", seconds=SLOWEST_S
            )
            clean = await asyncio.to_thread(node.stop) == 0 and clean
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(until, proxy.all_up, "the proxy uses it again", seconds=SLOWEST_S)
            done += 1
            if done % 5 == 0:
                click.echo(
                    f"  {done} of {times}: {len(trade.ledger)} writes, {trade.reads} reads, {dict(trade.trouble)}"
                )
        await finish(trade, running)
        seconds = time.monotonic() - started
        found = await verify(trade)
    requests, failed = len(trade.ledger) + trade.reads, sum(trade.trouble.values())
    click.echo(f"{done} stops behind a proxy in {seconds:.0f} s, {requests} requests: {failed} failed; {found}")
    click.echo(f"  failed: {dict(trade.trouble)}; exit code 0: {clean}")
    return found.intact and clean and not trade.trouble and done == times
