"""kill -9 of every process of a service on a cluster, and of its nodes, while apps write: nothing is lost or doubled."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import click

from tests.figures.arrivals import delivered_to
from tests.figures.cluster import distributed_database
from tests.figures.kills import SLOWEST_S, kill, kill_courier, kill_worker
from tests.figures.trade import Trade, finish, verify
from tests.support.nodes import Node, nodes_of
from tests.support.receivers import Receiver
from tests.support.service import Service, until

STORES = 4
AWAY_S = 1.0  # how long a killed node stays away


async def kill_nodes_under_load(folder: Path, processes: int, nodes: int, minutes: float) -> bool:
    """Kill web workers, couriers and nodes in turn, or stop at the time limit; returns whether no write was lost."""
    url = await distributed_database("nodes")
    coordinator, workers = await nodes_of(url)
    turns = itertools.cycle([*workers, coordinator])
    async with Receiver() as receiver:
        with Service(folder, database_url=url, workers=2, access_log=False, webhook_allow="127.0.0.0/8") as service:
            trades = [
                Trade(await service.account(f"killed-{n}", burst=10_000_000, refill=1_000_000)) for n in range(STORES)
            ]
            for trade in trades:
                await trade.create_products()
                async with trade.account.client() as client:
                    hook = {"url": f"{receiver.url}/{trade.account.handle}", "events": ["order.*"]}
                    assert (await client.post("/webhooks", json=hook)).status_code == 201
            running = [asyncio.create_task(trade.write_on(fresh=n == 0)) for trade in trades for n in range(2)]
            started = time.monotonic()
            deadline = started + minutes * 60
            kinds: dict[str, tuple[int, Callable[[], None]]] = {
                "web workers": (processes, kill_worker(service)),
                "couriers": (processes, kill_courier(service)),
                "nodes": (nodes, lambda: _lose(next(turns))),
            }
            killed = {
                name: await kill(trades, times, deadline, victim, name) for name, (times, victim) in kinds.items()
            }
            await asyncio.to_thread(
                until, lambda: service.status("/ready") == 200, "it responds again", seconds=SLOWEST_S
            )
            await finish(trades[0], running, *trades[1:])
            seconds = time.monotonic() - started
            found = await verify(*trades)
            delivered = await delivered_to(receiver, url)
            clean = service.stop() == 0
    counts = ", ".join(f"{count} {name}" for name, count in killed.items())
    click.echo(f"nodes: kill -9 of {counts} in {seconds:.0f} s; {found}; {delivered}")
    click.echo(f"  retried: {[dict(trade.trouble) for trade in trades]}; exit code 0: {clean}")
    for line in service.output().splitlines():
        if '"status":500' in line:
            click.echo(f"  {line[:600]}")
    complete = killed == {name: times for name, (times, _) in kinds.items()}
    return found.intact and delivered.intact and clean and complete


def _lose(node: Node) -> None:
    node.kill()
    time.sleep(AWAY_S)
    node.start()
