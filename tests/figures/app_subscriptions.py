"""An app changes its subscription on 10,000 stores beside full traffic; the deliveries of others are hardly delayed."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Sequence
from datetime import datetime
from pathlib import Path
from signal import SIGKILL

import click

from stoa.access.apps import create_app
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import load
from stoa.webhooks.app_subscriptions import AppSubscription, Declared, declare, declared_by, remove
from tests.support.receivers import Receiver
from tests.support.service import Account, Service, children

STORES, WRITERS, SECONDS, KILLS = 10_000, 8, 15, 3
MOST_S, MOST_TIMES = 60.0, 2.0
_ADD_STORES = """WITH made AS (
    INSERT INTO stores (handle, name, currency)
    SELECT 'many-' || n, 'Store ' || n, 'EUR' FROM generate_series(1, $2::int) n RETURNING id)
    INSERT INTO installations (store_id, app_id, scopes) SELECT id, $1, ARRAY['products:read', 'orders:read'] FROM made"""


async def declare_for_all(folder: Path) -> bool:
    """Measure the deliveries of busy stores alone, then while a declaration is added to, changed on, and removed from
    all stores."""
    async with Receiver() as receiver:
        with Service(folder, workers=2, access_log=False, log_level="error", webhook_allow="127.0.0.0/8") as service:
            busy = [await service.account(f"busy-{n}", burst=10_000_000, refill=1_000_000) for n in range(WRITERS)]
            for account in busy:
                async with account.client() as client:
                    hook = {"url": receiver.url, "events": ["product.created"]}
                    assert (await client.post("/webhooks", json=hook)).status_code == 201
            settings = load(service.environment, database_url=service.database_url)
            db = Database(service.database_url, size=2, statement_timeout_ms=120_000)
            by = Operator(db, settings, actor="operator:tests", request_id="req_tests")
            app = await create_app(by, "Everywhere", ["products:read", "orders:read"])
            await db.execute(_ADD_STORES, app.app_id, STORES)
            over = asyncio.Event()
            writers = [asyncio.create_task(_write(account, over)) for account in busy]
            alone = await _during(receiver, asyncio.sleep(SECONDS))
            body = AppSubscription("all", ["product.updated"], receiver.url)
            added, adding = await _rolled_out(by, app.client_id, app.app_id, body, receiver)
            body = AppSubscription("all", ["order.*"], receiver.url)
            changed, changing = await _rolled_out(by, app.client_id, app.app_id, body, receiver)
            [declared] = await declared_by(db, app.app_id)
            removed = await _removed_beside_kills(by, app.client_id, app.app_id, service)
            over.set()
            written = sum(await asyncio.gather(*writers))
            await db.close()
            clean = service.stop() == 0
    limit = MOST_TIMES * _p99(alone)
    click.echo(
        f"app-subscriptions: {STORES} stores got a declaration in {added:.1f} s and its change in {changed:.1f} s, and lost it in {removed:.1f} s"
        f" although its worker was killed {KILLS} times, beside"
        f" {written} writes of {WRITERS} callers; {declared.failed_stores} stores failed; commit to arrival of"
        f" {len(alone)} deliveries alone p50 {_p50(alone)} ms, p99 {_p99(alone) * 1000:.0f} ms; of {len(adding)} beside the"
        f" first p50 {_p50(adding)} ms, p99 {_p99(adding) * 1000:.0f} ms; of {len(changing)} beside the change p50"
        f" {_p50(changing)} ms, p99 {_p99(changing) * 1000:.0f} ms; exit code 0: {clean}"
    )
    reached = declared.current_stores == STORES and not declared.failed_stores
    return clean and reached and max(added, changed, removed) <= MOST_S and max(_p99(adding), _p99(changing)) <= limit


def _p50(delays: Sequence[float]) -> int:
    return round(statistics.median(delays) * 1000)


def _p99(delays: Sequence[float]) -> float:
    return statistics.quantiles(delays, n=100)[98]


async def _rolled_out(
    by: Operator, client_id: str, app_id: int, body: AppSubscription, receiver: Receiver
) -> tuple[float, list[float]]:
    """Declare a subscription; returns the seconds until all stores have it, and the delays of deliveries meanwhile."""
    started = time.monotonic()

    async def roll_out() -> None:
        await declare(by, client_id, body)
        while not (await _declared(by, app_id)).applied:
            await asyncio.sleep(0.2)

    delays = await _during(receiver, roll_out())
    return time.monotonic() - started, delays


async def _removed_beside_kills(by: Operator, client_id: str, app_id: int, service: Service) -> float:
    """Remove the declaration, and kill -9 the background process meanwhile; returns the seconds until no store has it."""
    started = time.monotonic()
    await remove(by, client_id, "all")
    for _ in range(KILLS):
        await asyncio.sleep(1)
        for pid in children(service.pid, b"--deliveries"):
            os.kill(pid, SIGKILL)
    while await declared_by(by.db, app_id):
        await asyncio.sleep(0.2)
    return time.monotonic() - started


async def _declared(by: Operator, app_id: int) -> Declared:
    [found] = await declared_by(by.db, app_id)
    return found


async def _during(receiver: Receiver, work: Awaitable[None]) -> list[float]:
    """The seconds from commit to arrival of what arrives while some work runs."""
    first = len(receiver.received)
    await work
    since_boot = time.time() - time.monotonic()
    return [
        since_boot + each.at - datetime.fromisoformat(each.event["timestamp"]).timestamp()
        for each in receiver.received[first:]
        if each.event["type"] == "product.created"
    ]


async def _write(account: Account, over: asyncio.Event) -> int:
    written = 0
    async with account.client() as client:
        while not over.is_set():
            answer = await client.post("/products", json={"name": f"Mug {written}", "price": "9.90"})
            assert answer.status_code == 201, answer.text
            written += 1
    return written
