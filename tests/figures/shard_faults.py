"""A shard, the directory, or the replication between them fails while apps write: only its own stores notice, and nothing is lost."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Literal

import click
import msgspec

from stoa.cluster.distribution import Step
from stoa.db.embedded import EmbeddedPostgres
from stoa.settings import load
from stoa.shards import moving
from stoa.shards.registry import ShardRefused
from stoa.shards.tables import global_tables
from tests.conftest import SECRET_KEY
from tests.figures.arrivals import delivered_to
from tests.figures.kills import kill_worker
from tests.figures.trade import Trade, verify
from tests.support.data_folders import remove_template
from tests.support.databases import TEMPLATE
from tests.support.fleet import Fleet, replicating_server
from tests.support.nodes import Node
from tests.support.receivers import Receiver
from tests.support.service import Service
from tests.support.sharded import as_superuser
from tests.support.standby import Pair

SHARD = "second"
WRITES = 40  # acknowledged before and after each fault
DETECTION_S = 3.0  # the time after which a cluster manager promotes the standby
LONGEST_OUTAGE_S = 15.0
BETWEEN = 30  # acknowledged writes between two kills of web workers
THINK_S = 0.05
PATIENCE_S = 180


class Served(msgspec.Struct):
    """A running service with a directory and one shard, and the receiver of its webhooks."""

    fleet: Fleet
    service: Service
    directory: EmbeddedPostgres
    receiver: Receiver

    async def open(self, handle: str, place: str = "") -> Trade:
        """A store with an app that trades in it and a subscription to its orders, in this shard."""
        trade = Trade(await self.service.account(handle, burst=10_000_000, refill=1_000_000))
        await trade.create_products()
        async with trade.account.client() as client:
            hook = {"url": f"{self.receiver.url}/{handle}", "events": ["order.*"]}
            assert (await client.post("/webhooks", json=hook)).status_code == 201
        if place:
            await moving.move(self.fleet.ask_for(handle, place))
        return trade

    async def check(self, places: dict[str, list[Trade]]) -> bool:
        """Compare the ledgers, the deliveries and the global tables; says what it finds."""
        intact = True
        for place, trades in places.items():
            url = self.fleet.shards[place].url
            found, delivered = await verify(*trades, url=url), await delivered_to(self.receiver, url)
            click.echo(f"  in the {place or 'directory'}: {found}; {delivered}")
            intact = intact and found.intact and delivered.intact
        different = await self.differing_copies()
        click.echo(f"  global tables that differ in the shard: {different or 'none'}")
        return intact and not different

    async def differing_copies(self) -> list[str]:
        """The global tables that do not become equal in the directory and in the shard. Both change several times a second."""
        different: list[str] = []
        for _ in range(PATIENCE_S):
            here, there = [await self._copies(shard) for shard in ("", SHARD)]
            different = [name for name in here if here[name] != there.get(name)]
            if not different:
                break
            await asyncio.sleep(1)
        return different

    async def _copies(self, shard: str) -> dict[str, str]:
        async with self.fleet.connection(shard) as db:
            tables = [name for name in await global_tables(db) if name != "directory_beats"]
            digest = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {} t"
            return {name: (await db.fetch(digest.format(name)))[0][0] for name in tables}


@asynccontextmanager
async def serving(folder: Path, shard_url: str = "") -> AsyncGenerator[Served]:
    """Start a directory, add the shard with this URL, or one on a server of its own, and serve both."""
    folder.chmod(0o755)  # the servers run as another user
    os.environ.setdefault(TEMPLATE, f"figure_{os.getpid()}")
    with ExitStack() as running:
        running.callback(remove_template)
        directory = replicating_server(folder / "directory", durable=True)
        running.callback(directory.stop)
        url = as_superuser(await asyncio.to_thread(directory.start))
        (folder / "directory").chmod(0o711)  # also for a server of the same user with another group
        if not shard_url:
            second = replicating_server(folder / SHARD, durable=True)
            running.callback(second.stop)
            shard_url = as_superuser(await asyncio.to_thread(second.start))
        fleet = Fleet(load({}, secret_key=SECRET_KEY, data_dir=folder, access_log=False), url, {SHARD: shard_url})
        await fleet.add_shards()
        service = Service(folder / "service", database_url=url, access_log=False, webhook_allow="127.0.0.0/8")
        with service:
            async with Receiver() as receiver:
                yield Served(fleet, service, directory, receiver)


@asynccontextmanager
async def trading(trades: Sequence[Trade]) -> AsyncGenerator[None]:
    """Let the apps of each store write and read while the block runs."""
    apps = [
        asyncio.create_task(app)
        for trade in trades
        for app in (trade.write_on(think_s=THINK_S), trade.write_on(fresh=True), trade.read_on(think_s=THINK_S))
    ]
    try:
        await acknowledged(trades, WRITES)
        yield
        await acknowledged(trades, WRITES)
    finally:
        for trade in trades:
            trade.over.set()
        await asyncio.gather(*apps)


@asynccontextmanager
async def killing_workers(service: Service, trades: Sequence[Trade]) -> AsyncGenerator[Counter[str]]:
    """kill -9 of a web worker again and again while the block runs, each time after some more writes; counts them."""
    killed: Counter[str] = Counter()

    def written() -> int:
        return sum(len(trade.ledger) for trade in trades)

    async def kill_on() -> None:
        while True:
            enough = written() + BETWEEN
            while written() < enough:
                await asyncio.sleep(0.05)
            with suppress(ProcessLookupError):
                await asyncio.to_thread(kill_worker(service))
                killed["workers"] += 1

    killing = asyncio.create_task(kill_on())
    try:
        yield killed
    finally:
        killing.cancel()


async def acknowledged(trades: Sequence[Trade], more: int) -> None:
    """Wait until each store has acknowledged this many more writes."""
    wanted = [len(trade.ledger) + more for trade in trades]
    async with asyncio.timeout(PATIENCE_S):
        while any(len(trade.ledger) < count for trade, count in zip(trades, wanted, strict=True)):
            await asyncio.sleep(0.02)


def refusals(trade: Trade) -> int:
    """The requests that were answered with an error; those that a killed worker left unanswered do not count."""
    return sum(count for kind, count in trade.trouble.items() if kind.isdigit())


async def probe(trade: Trade, seconds: float) -> set[tuple[int, str]]:
    """What a store answers for a while: each status with its Retry-After."""
    found: set[tuple[int, str]] = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError):
            async with trade.account.client() as client:
                answer = await client.get("/products?limit=1")
                found.add((answer.status_code, answer.headers.get("retry-after", "")))
        await asyncio.sleep(0.1)
    return found


async def fail_over_shard(folder: Path, direction: Literal["to", "from"]) -> bool:
    """Lose the primary of a shard while a store moves to it, or from it, and promote its standby."""
    place, target = ("", SHARD) if direction == "to" else (SHARD, "")
    folder.chmod(0o755)  # the servers run as another user
    with Pair(folder / "shard", settings=["wal_level=logical"]) as pair:
        async with serving(folder, pair.url) as served:
            near, far = await served.open("near"), await served.open("far", SHARD)
            moved = await served.open("moved", place)
            ask = served.fleet.ask_for("moved", target, place)
            answers: set[tuple[int, str]] = set()
            lost_at = 0.0

            async def lose(step: Step) -> None:
                nonlocal lost_at
                if step.action == ("prepared" if direction == "to" else "copied"):
                    await asyncio.to_thread(pair.lose_primary)
                    lost_at = time.monotonic()
                    answers.update(await probe(far, DETECTION_S))
                    await asyncio.to_thread(pair.promote)

            trades = [near, far, moved]
            async with trading(trades), killing_workers(served.service, trades) as killed:
                refused_before = refusals(near)
                outcome = await _attempt(ask, lose)
                await acknowledged([far], 4)
                outage_s, refused = _first_after(far, lost_at), refusals(near) - refused_before
                steps = [outcome, *await _finish_move(ask)]
            click.echo(
                f"shards: the primary of a shard lost while a store moves {direction} it: its stores answered {sorted(answers)} and"
                f" were away for {outage_s:.1f} s; {refused} requests of a store in the directory refused; {killed['workers']} workers killed; the move: {'; '.join(steps)}"
            )
            places = {"": [near], SHARD: [far]}
            places[target].append(moved)
            intact = await served.check(places)
    retryable = {status for status, after in answers if not after} <= {200} and any(
        status == 503 for status, _ in answers
    )
    return intact and retryable and not refused and outage_s <= LONGEST_OUTAGE_S


def _first_after(trade: Trade, moment: float) -> float:
    """Seconds until the first request that was sent after a moment is answered with success."""
    return min(began + lasted for began, lasted in trade.took if began > moment) - moment


async def _attempt(ask: moving.Ask, report: moving.Report = moving.no_report) -> str:
    try:
        await moving.move(ask, report)
    except Exception as error:  # noqa: BLE001 - what the command reports, in one line
        return f"{type(error).__name__}: {str(error)[:80]}"
    return "done"


async def _finish_move(ask: moving.Ask) -> list[str]:
    """Do what an operator does: repeat the command, and undo the move if it says so."""
    done: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not done or done[-1] != "done":
            done.append(await _attempt(ask))
            if done[-1].startswith(ShardRefused.__name__) and "undo" in done[-1]:
                await moving.undo(ask)
                done.append("undone")
    return done


async def lose_directory(folder: Path, seconds: float) -> bool:
    """Kill the directory for a while: the stores of the shard are read, written and delivered from as before."""
    async with serving(folder) as served:
        near, far = await served.open("near"), await served.open("far", SHARD)
        node = await Node.of(served.fleet.directory.url, "directory")
        async with trading([near, far]):
            async with killing_workers(served.service, [near, far]):
                await acknowledged([near, far], WRITES)
            await acknowledged([near, far], WRITES)  # until every worker knows both stores
            writes, reads, refused, sent = len(far.ledger), far.reads, refusals(far), len(served.receiver.received)
            for pid in node.pids():
                os.kill(pid, SIGKILL)
            answers = await probe(near, seconds)
            ready = await asyncio.to_thread(served.service.status, "/ready")
            writes, reads = len(far.ledger) - writes, far.reads - reads
            refused, sent = refusals(far) - refused, len(served.receiver.received) - sent
            back_at = time.monotonic()
            await asyncio.to_thread(served.directory.start)
            await acknowledged([near], 4)
            back_s = time.monotonic() - back_at
            async with killing_workers(served.service, [near, far]):
                await acknowledged([near, far], WRITES)
        click.echo(
            f"shards: the directory killed for {seconds:.0f} s: a store in a shard was read {reads} and written {writes} times, {refused}"
            f" requests refused, {sent} deliveries; /ready {ready}; a store of the directory answered {sorted(answers)}, and was"
            f" written again {back_s:.1f} s after the start"
        )
        intact = await served.check({"": [near], SHARD: [far]})
    away = any(status == 503 and after for status, after in answers)
    return intact and away and ready == 200 and not refused and bool(writes and reads and sent)
