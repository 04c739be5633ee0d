"""The holds of very many orders end at once: each expires exactly once, and the requests of other stores are hardly delayed."""

import asyncio
import random
import statistics
import time
from pathlib import Path

import click
import msgspec

from stoa.db.connection import Connection, connect
from tests.support.service import Account, Service

CALLERS, PAUSE_S = 4, 0.05
MOST = 2.0  # times the p95 of the same requests alone
UNLIMITED = 10_000_000
_COPY = """
    INSERT INTO orders (store_id, id, number, status, payment_status, fulfillment_status, total, placed_at, basket, created_at,
                        updated_at, head, lines, person, terms, edition, expires_at)
    SELECT o.store_id, nextval('order_ids'), o.number + n, o.status, o.payment_status, o.fulfillment_status, o.total, o.placed_at,
           o.basket, o.created_at, o.updated_at,
           regexp_replace(regexp_replace(o.head, '"number":[0-9]+', '"number":' || o.number + n),
                          '"expires_at":"[^"]*"', '"expires_at":"' || rfc3339(now()) || '"'),
           o.lines, o.person, o.terms, o.edition, now()
      FROM orders o CROSS JOIN generate_series(1, $2::integer) AS n WHERE o.id = $1"""
_COPY_LINES = """
    INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
    SELECT l.store_id, o.id, l.id, l.variant_id, l.sku, l.quantity, 0, 0
      FROM order_lines l JOIN orders o ON o.store_id = l.store_id AND o.id > l.order_id WHERE l.order_id = $1"""
_RESERVE = """
    UPDATE variants v SET reserved = v.reserved + $2 FROM order_lines l
     WHERE l.order_id = $1 AND v.store_id = l.store_id AND v.id = l.variant_id"""
_COUNT = (
    """INSERT INTO row_counts (store_id, resource, delta) SELECT store_id, 'orders', $2 FROM orders WHERE id = $1"""
)
_LEFT = "SELECT count(*) FROM orders WHERE expires_at <= now()"
_EXPIRED = """
    SELECT count(*), count(DISTINCT e.resource_id),
           (SELECT v.reserved FROM variants v JOIN orders o ON o.store_id = v.store_id WHERE o.id = $1)
      FROM events e WHERE e.type = 'order.expired'"""


class Spent(msgspec.Struct):
    """The seconds of each request, and the number of those that failed."""

    seconds: list[float] = []
    failed: int = 0

    @property
    def p95_ms(self) -> float:
        return statistics.quantiles(self.seconds, n=20)[18] * 1000


async def expire_many(folder: Path, orders: int, seconds: float, minutes: float) -> bool:
    """Measure the other store alone, then while the orders of the first one expire; then wait for all of them."""
    with Service(folder, workers=2, access_log=False, log_level="error") as service:
        held = await service.account("held", burst=UNLIMITED, refill=UNLIMITED)
        other = await service.account("neighbor", burst=UNLIMITED, refill=UNLIMITED)
        first = await _prepare(held, orders)
        await _prepare(other, orders)
        await _trade(other, seconds / 2)
        alone = await _trade(other, seconds)
        db = await connect(service.database_url, statement_timeout_ms=0)
        await _hold(db, first, orders)
        started = time.monotonic()
        beside = await _trade(other, seconds)
        measured = orders - await _count(db, _LEFT)
        while await _count(db, _LEFT) and time.monotonic() < started + minutes * 60:
            await asyncio.sleep(1)
        took = time.monotonic() - started
        [[events, distinct, reserved]] = await db.fetch(_EXPIRED, first)
        await db.close()
        clean = service.stop() == 0
    once = events == distinct == orders and reserved == 1  # the order that was copied is held for a month
    failed = alone.failed + beside.failed
    click.echo(
        f"holds: {orders} orders due at once, {events} expired in {took:.0f} s ({events / took:.0f}/s; {measured} while others were"
        f" measured), each once and all stock released: {once}; requests of another store: p95 {alone.p95_ms:.1f} ms alone,"
        f" {beside.p95_ms:.1f} ms beside ({beside.p95_ms / alone.p95_ms:.2f} times; {len(beside.seconds)} requests), {failed} failed;"
        f" exit code 0: {clean}"
    )
    return clean and once and not failed and beside.p95_ms <= MOST * alone.p95_ms


async def _prepare(account: Account, units: int) -> int:
    """Add a product with stock for all orders, and place one that is held; returns its id."""
    async with account.client() as client:
        product = {"name": "Held", "price": "9.90", "sku": "HELD", "stock": {"on_hand": units + 100_000}}
        assert (await client.post("/products", json=product)).status_code == 201
        body = {"line_items": [{"sku": "HELD", "quantity": 1}], "hold_for": 30 * 24 * 3600}
        answer = await client.post("/orders", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["id"]


async def _hold(db: Connection, order_id: int, orders: int) -> None:
    """Copy an order with its reservation, due now: placing so many would take longer than the measurement."""
    await db.execute("BEGIN")
    await db.execute(_COPY, order_id, orders)
    await db.execute(_COPY_LINES, order_id)
    await db.execute(_RESERVE, order_id, orders)
    await db.execute(_COUNT, order_id, orders)
    await db.execute("COMMIT")


async def _trade(account: Account, seconds: float) -> Spent:
    """List products, and place and read orders, with a few callers for a number of seconds."""
    spent, until = Spent(), time.monotonic() + seconds

    async def trade(number: int) -> None:
        dice = random.Random(number)
        async with account.client() as client:
            while time.monotonic() < until:
                started = time.perf_counter()
                if dice.random() < 0.5:
                    answer = await client.get("/products?limit=20")
                else:
                    body = {"line_items": [{"sku": "HELD", "quantity": 1}], "window_hours": 1}
                    answer = await client.post("/orders", json=body)
                spent.seconds.append(time.perf_counter() - started)
                spent.failed += answer.status_code not in (200, 201)
                await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(trade(number) for number in range(CALLERS)))
    return spent


async def _count(db: Connection, statement: str) -> int:
    return (await db.fetch(statement))[0][0]
