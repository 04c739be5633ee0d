"""One store has a hundred large filters and large orders; the webhooks and requests of another store are hardly delayed."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

import click
import msgspec

from stoa.db.connection import connect
from tests.support.receivers import Receiver
from tests.support.service import Account, Service

SUBSCRIPTIONS, LINES, EVENTS = 100, 500, 50
FIELDS = ("sku", "name", "id", "product_id", "variant_id", "quantity", "unit_price")
WRITERS, PAUSE_S = 4, 0.1
BURST, REFILL = 1_000, 100  # ten times the default: a change of such an order costs ten requests
MOST_S = 0.1
_ENLARGE = """UPDATE webhooks SET filter = $2
               WHERE store_id = (SELECT id FROM stores WHERE handle = $1) AND ended_at IS NULL"""


async def filter_much(folder: Path) -> bool:
    """Measure the other store alone, then beside the same writes without large filters, then with them."""
    async with Receiver() as receiver:
        with Service(folder, workers=2, access_log=False, log_level="error", webhook_allow="127.0.0.0/8") as service:
            other = await service.account("neighbor", burst=10_000_000, refill=1_000_000)
            busy = await service.account("filters", burst=BURST, refill=REFILL)
            async with other.client() as client:
                hook = {"url": receiver.url, "events": ["product.created"]}
                assert (await client.post("/webhooks", json=hook)).status_code == 201
            orders = await _prepare(service, busy)
            alone = await _measure(other, receiver)
            over = asyncio.Event()
            writers = [asyncio.create_task(_write(busy, order, over)) for order in orders]
            beside = await _measure(other, receiver)
            await _enlarge_filters(service, busy)
            together = await _measure(other, receiver)
            over.set()
            written = sum(await asyncio.gather(*writers))
            clean = service.stop() == 0
    click.echo(
        f"filters: {SUBSCRIPTIONS} subscriptions with {len(FIELDS)} conditions of 249 words, and {written} changes of orders of"
        f" {LINES} lines; from commit to arrival of {EVENTS} events of another store: p50 {_ms(alone, 50)}, p95 {_ms(alone, 95)},"
        f" longest {max(alone) * 1000:.0f} ms alone; p50 {_ms(beside, 50)}, p95 {_ms(beside, 95)}, longest"
        f" {max(beside) * 1000:.0f} ms beside the same writes with small filters; p50 {_ms(together, 50)},"
        f" p95 {_ms(together, 95)}, longest {max(together) * 1000:.0f} ms with the large ones; exit code 0: {clean}"
    )
    return clean and max(*beside, *together) - max(alone) <= MOST_S


def _ms(delays: Sequence[float], percent: int) -> str:
    return f"{statistics.quantiles(delays, n=100)[percent - 1] * 1000:.0f} ms"


async def _prepare(service: Service, busy: Account) -> list[int]:
    """Subscribe with small filters, and place the orders; returns their ids."""
    lines = [{"name": f"Line {n}", "quantity": 1, "unit_price": "1.00"} for n in range(LINES)]
    orders: list[int] = []
    async with busy.client() as client:
        for number in range(SUBSCRIPTIONS):
            body = {"url": f"http://127.0.0.1:9/{number}", "events": ["order.*"], "filter": {"currency": "XXX"}}
            assert (await client.post("/webhooks", json=body)).status_code == 201
        for _ in range(WRITERS):
            answer = await client.post("/orders", json={"status": "draft", "line_items": lines})
            assert answer.status_code == 201, answer.text
            orders.append(answer.json()["data"]["id"])
    return orders


async def _enlarge_filters(service: Service, busy: Account) -> None:
    words = ",".join(f"{n}.5" for n in range(249))  # of no field
    db = await connect(service.database_url, statement_timeout_ms=0)
    try:
        large = msgspec.json.encode({f"line_items.{name}": words for name in FIELDS}).decode()
        await db.execute(_ENLARGE, busy.handle, large)
    finally:
        await db.close()


async def _write(busy: Account, order: int, over: asyncio.Event) -> int:
    """Change an order until it is over; each change causes an event that contains the whole order."""
    written = 0
    async with busy.client() as client:
        while not over.is_set():
            answer = await client.patch(f"/orders/{order}", json={"note": f"Change {written}"})
            if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                await asyncio.sleep(float(answer.headers["retry-after"]))
                continue
            assert answer.status_code == HTTPStatus.OK, answer.text
            written += 1
    return written


async def _measure(other: Account, receiver: Receiver) -> list[float]:
    """The seconds from the commit of each event to its arrival."""
    first = len(receiver.received)
    async with other.client() as client:
        for number in range(EVENTS):
            answer = await client.post("/products", json={"name": f"Mug {number}", "price": "9.90"})
            assert answer.status_code == 201, answer.text
            await asyncio.sleep(PAUSE_S)
    await receiver.until(first + EVENTS, seconds=180)
    since_boot = time.time() - time.monotonic()
    return [
        since_boot + each.at - datetime.fromisoformat(each.event["timestamp"]).timestamp()
        for each in receiver.received[first:]
    ]
