"""kill -9 of every process of a service on a cluster, and of its nodes, while apps write: nothing is lost or doubled."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from stoa.db.pool import connect
from tests.figures.cluster import distributed_database
from tests.figures.kills import SLOWEST_S, kill, kill_courier, kill_worker
from tests.figures.trade import Trade, finish, verify
from tests.support.nodes import Node, nodes_of
from tests.support.receivers import Receiver
from tests.support.service import Service, until

STORES = 4
AWAY_S = 1.0  # how long a killed node stays away
DRAIN_S = 180


class Deliveries(msgspec.Struct):
    """The deliveries of all subscriptions, compared with the events of their stores."""

    events: int
    missing: int
    repeated: int
    gaps: int

    @property
    def intact(self) -> bool:
        return not (self.missing or self.gaps)

    def __str__(self) -> str:
        return f"{self.events} events: {self.missing} not delivered, {self.repeated} delivered again, {self.gaps} gaps"


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
            delivered = await _delivered(url, receiver)
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


async def _delivered(url: str, receiver: Receiver) -> Deliveries:
    """Wait until all events are delivered, and compare."""
    db = await connect(url, statement_timeout_ms=0)
    try:
        async with asyncio.timeout(DRAIN_S):
            while (await db.fetch(_WAITING))[0][0]:
                await asyncio.sleep(0.5)
        rows = await db.fetch("SELECT store_id, id FROM events WHERE type LIKE 'order.%'")
    finally:
        await db.close()
    expected = {(store_id, event_id) for store_id, event_id in rows}
    seen = [(event["store"]["id"], event["id"], event["sequence"]) for event in receiver.events]
    arrived = {(store_id, event_id) for store_id, event_id, _ in seen}
    return Deliveries(len(expected), len(expected - arrived), len(seen) - len(arrived), _gaps(seen))


_WAITING = (
    "SELECT (SELECT sum(waiting)::bigint FROM lanes) + (SELECT count(*) FROM events WHERE routed_on = 'infinity')"
)


def _gaps(seen: Sequence[tuple[int, str, int]]) -> int:
    """The numbers that are missing or taken twice in the sequences of the subscriptions, one for each store."""
    sequences: dict[int, set[tuple[int, str]]] = {}
    for store_id, event_id, sequence in seen:
        sequences.setdefault(store_id, set()).add((sequence, event_id))
    return sum(len(set(range(1, len(pairs) + 1)) ^ {sequence for sequence, _ in pairs}) for pairs in sequences.values())
