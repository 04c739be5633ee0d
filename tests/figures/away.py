"""A worker node of a cluster is lost and stays away: only requests to its own stores are refused."""

import asyncio
import itertools
import time
from pathlib import Path

import click
import httpx

from stoa.cluster.status import STORE_SHARD
from stoa.db.pool import Database
from tests.figures.arrivals import delivered_to
from tests.figures.cluster import distributed_database
from tests.figures.trade import Trade, finish, spread, verify
from tests.support.nodes import nodes_of
from tests.support.receivers import Receiver
from tests.support.service import Account, Service

STORES = 2  # on each worker
THINK_S = 0.2
TOKENS_EVERY_S = 0.5


async def lose_a_worker(folder: Path, seconds: float) -> bool:
    """Trade before, while and after a worker is away; returns whether the stores of the others noticed nothing."""
    url = await distributed_database("away")
    _, workers = await nodes_of(url)
    lost = workers[-1]
    async with Receiver() as receiver:
        with Service(folder, database_url=url, workers=2, access_log=False, webhook_allow="127.0.0.0/8") as service:
            placed = await _stores(service, url, [worker.name for worker in workers])
            trades = [trade for of_worker in placed.values() for trade in of_worker]
            away = placed[lost.name]
            others = [trade for trade in trades if trade not in away]
            for trade in trades:
                await _prepare(trade, receiver)
            apps = [app for each in trades for app in (each.write_on(think_s=THINK_S), each.read_on(think_s=THINK_S))]
            running = [asyncio.create_task(app) for app in apps]
            began = time.monotonic()
            await asyncio.sleep(seconds)
            lost.kill()
            gone = time.monotonic()
            issued = await _issue_tokens(others[0].account, gone + seconds)
            back = time.monotonic()
            await asyncio.to_thread(lost.start)
            await asyncio.sleep(seconds)
            ended = time.monotonic()
            await finish(trades[0], running, *trades[1:])
            found = await verify(*trades)
            delivered = await delivered_to(receiver, url)
            clean = service.stop() == 0
    handles = {trade.account.handle for trade in others}
    arrived = [
        each for each in receiver.received if gone + 1 < each.at < back and each.event["store"]["handle"] in handles
    ]
    refused = sum(sum(trade.trouble.values()) for trade in others)
    tokens = f"{issued.count(200)} of {len(issued)} tokens issued"
    click.echo(f"away: {lost.name} for {back - gone:.0f} s; {found}; {delivered}")
    click.echo(f"  other stores: {refused} requests failed; {tokens}; {len(arrived)} events arrived meanwhile")
    for name, start, end in (("before", began, gone), ("while it is away", gone, back), ("after", back, ended)):
        took = [lasted for trade in others for at, lasted in trade.took if start <= at < end]
        click.echo(f"  other stores, {name}: {spread(took)}")
    click.echo(f"  its stores: {[dict(trade.trouble) for trade in away]}; exit code 0: {clean}")
    served = not refused and issued.count(200) == len(issued) and bool(arrived)
    return found.intact and delivered.intact and served and clean


async def _stores(service: Service, url: str, workers: list[str]) -> dict[str, list[Trade]]:
    """The same number of stores on each worker."""
    placed: dict[str, list[Trade]] = {worker: [] for worker in workers}
    db = Database(url, size=1)
    for number in itertools.count():
        if min(map(len, placed.values())) == STORES:
            break
        account = await service.account(f"away-{number}", burst=10_000_000, refill=1_000_000)
        [[store_id]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", account.handle)
        node = (await STORE_SHARD.one(db, store_id)).node
        if len(placed[node]) < STORES:
            placed[node].append(Trade(account))
    await db.close()
    return placed


async def _prepare(trade: Trade, receiver: Receiver) -> None:
    await trade.create_products()
    async with trade.account.client() as client:
        hook = {"url": f"{receiver.url}/{trade.account.handle}", "events": ["order.*"]}
        assert (await client.post("/webhooks", json=hook)).status_code == 201


async def _issue_tokens(account: Account, until: float) -> list[int]:
    """Ask for a token again and again; returns the statuses."""
    statuses: list[int] = []
    credentials = httpx.BasicAuth(account.client_id, account.client_secret)
    async with account.service.client() as client:
        while time.monotonic() < until:
            form = {"grant_type": "client_credentials", "resource": account.url}
            statuses.append((await client.post("/oauth/token", data=form, auth=credentials)).status_code)
            await asyncio.sleep(TOKENS_EVERY_S)
    return statuses
