"""A worker is added to a cluster and shards move to it while apps trade: no request fails."""

import asyncio
import time
from pathlib import Path

import click

from stoa.cluster.distribution import distribute
from stoa.db.connection import connect
from tests.figures.cluster import distributed_database, shards_by_node
from tests.figures.trade import Trade, finish, spread, verify
from tests.support.service import Service

STORES = 6
THINK_S = 0.2
LONGEST_MOVE_S = 900


async def grow_under_load(folder: Path, spare: str, seconds: float) -> bool:
    """Trade for a while, add the node and rebalance meanwhile; returns whether no request failed and nothing is lost."""
    host, _, port = spare.rpartition(":")
    if not port.isdigit():
        raise click.ClickException("--spare names a node of the cluster that is not registered yet, as host:port")
    url = await distributed_database("growth", spare=[(host, int(port))])
    with Service(folder, database_url=url, workers=2, access_log=False) as service:
        trades = [
            Trade(await service.account(f"growing-{n}", burst=10_000_000, refill=1_000_000)) for n in range(STORES)
        ]
        for trade in trades:
            await trade.create_products()
        apps = [app for trade in trades for app in (trade.write_on(think_s=THINK_S), trade.read_on(think_s=THINK_S))]
        running = [asyncio.create_task(app) for app in apps]
        began = time.monotonic()
        await asyncio.sleep(seconds)
        before, moving = await shards_by_node(url), time.monotonic()
        await _add(url, host, int(port))
        moved = time.monotonic()
        await distribute(url)  # restores the planner settings of moved shards
        await asyncio.sleep(seconds)
        ended = time.monotonic()
        await finish(trades[0], running, *trades[1:])
        after, found = await shards_by_node(url), await verify(*trades)
        clean = service.stop() == 0
    failed = sum(sum(trade.trouble.values()) for trade in trades)
    took = [each for trade in trades for each in trade.took]
    click.echo(
        f"growth: shards of each node {list(before.values())}, then {list(after.values())}; moved in {moved - moving:.0f} s; "
        f"{len(took)} requests answered, {failed} failed; {found}"
    )
    for name, start, end in (("before", began, moving), ("while it moved", moving, moved), ("after", moved, ended)):
        click.echo(f"  {name}: {spread([lasted for at, lasted in took if start <= at < end])}")
    click.echo(f"  failed: {[dict(trade.trouble) for trade in trades if trade.trouble]}; exit code 0: {clean}")
    return found.intact and clean and not failed and len(after) > len(before) and all(after.values())


async def _add(url: str, host: str, port: int) -> None:
    db = await connect(url, statement_timeout_ms=0, lock_timeout_ms=0)
    try:
        await db.fetch("SELECT citus_add_node($1, $2)", host, port)
        [[job]] = await db.fetch("SELECT citus_rebalance_start(rebalance_strategy => 'by_shard_count')")
        async with asyncio.timeout(LONGEST_MOVE_S):
            while True:
                [[state]] = await db.fetch("SELECT state::text FROM citus_rebalance_status() WHERE job_id = $1", job)
                if state in ("finished", "failed", "cancelled"):
                    break
                await asyncio.sleep(0.5)
        if state != "finished":
            raise click.ClickException(f"the rebalance is {state}")
    finally:
        await db.close()
