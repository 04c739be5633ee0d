"""A shop moves by the public API and the SDK: 5,000 products, 2,000 customers and 3,000 orders, in less than two minutes."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from stoa.db.connection import connect
from stoa_client import Client
from tests.support.moved_shop import Shop, comparable, sent, shop_of, shown
from tests.support.service import Account, Service

PRODUCTS, CUSTOMERS, ORDERS = 5_000, 2_000, 3_000
MOST_S = 120.0
NEW_ORDERS, TIMES_AS_FAST = 300, 10
_TICKS = os.sysconf("SC_CLK_TCK")


async def move(folder: Path) -> bool:
    """Move a shop into an empty store of a running service, compare what it then has, and place new orders to compare the work."""
    shop = shop_of(PRODUCTS, CUSTOMERS, ORDERS)
    with Service(folder, workers=2, access_log=False, log_level="error") as service:
        account = await service.account("moving")
        seconds = await asyncio.to_thread(move_catalog, account, shop)
        started, cpu = time.perf_counter(), cpu_of(service)
        await asyncio.to_thread(move_orders, account, shop)
        moved_ms = (cpu_of(service) - cpu) / ORDERS * 1000
        seconds["orders"] = time.perf_counter() - started
        different = await asyncio.to_thread(differences, account, shop)
        events = await events_of(service, account)
        cpu = cpu_of(service)
        await asyncio.to_thread(place_orders, account, shop)
        new_ms = (cpu_of(service) - cpu) / NEW_ORDERS * 1000
        clean = service.stop() == 0
    whole = sum(seconds.values())
    parts = ", ".join(f"{name} {each:.1f} s" for name, each in seconds.items())
    click.echo(
        f"moving: {PRODUCTS} products, {CUSTOMERS} customers and {ORDERS} historical orders in {whole:.1f} s ({parts});"
        f" {different} orders, products or customers differ, {events} events; {moved_ms:.2f} ms of CPU for a historical order,"
        f" {new_ms:.2f} ms for a new one ({new_ms / moved_ms:.1f} times as much); exit code 0: {clean}"
    )
    return clean and whole < MOST_S and not different and not events and new_ms >= TIMES_AS_FAST * moved_ms


def client_of(account: Account) -> Client:
    return Client(
        f"{account.service.url}/stores/{account.handle}",
        auth_url=f"{account.service.url}/oauth/token",
        client_id=account.client_id,
        client_secret=account.client_secret,
    )


def move_shop(account: Account, shop: Shop) -> None:
    """Move a shop as the guide says."""
    move_catalog(account, shop)
    move_orders(account, shop)


def move_catalog(account: Account, shop: Shop) -> dict[str, float]:
    """Import products and customers; returns the seconds of each."""
    seconds: dict[str, float] = {}
    with client_of(account) as stoa:
        for name, rows in (("products", shop.products), ("customers", shop.customers)):
            started = time.perf_counter()
            jobs: Any = getattr(stoa, name).imports
            job = jobs.wait(jobs.create(rows, send_events=False))
            assert (job.status, job.counts.created) == ("succeeded", len(rows)), job
            seconds[name] = time.perf_counter() - started
    return seconds


def move_orders(account: Account, shop: Shop) -> None:
    with client_of(account) as stoa:
        for start in range(0, len(shop.orders), 100):
            items: Any = shop.orders[start : start + 100]
            moved = stoa.orders.create_many(historical=True, items=items)
            assert not moved.failures, moved.failures[:3]


def place_orders(account: Account, shop: Shop) -> None:
    """Place new orders with the same line items, of products that are in stock."""
    in_stock = {row["sku"] for row in shop.products if row["stock"]["on_hand"] > 20}
    names = ("customer", "shipping_total", "payment_method", "tags", "shipping_address")
    with client_of(account) as stoa:
        create: Callable[..., Any] = stoa.orders.create
        for order in shop.orders[:NEW_ORDERS]:
            lines = [{"sku": line["sku"], "quantity": 1} for line in order["line_items"] if line["sku"] in in_stock]
            lines += [{"name": line["name"], "quantity": 1, "unit_price": "1.00"} for line in order["line_items"]]
            lines = lines[: len(order["line_items"])]
            create(line_items=lines, **{name: order[name] for name in names})


def differences(account: Account, shop: Shop) -> int:
    """How many orders, products with their stock, and customers of the export differ from those that were moved."""
    with client_of(account) as stoa:
        orders = {order.number: shown(msgspec.to_builtins(order)) for order in stoa.orders.list(limit=250)}
        products = {each.sku: [each.stock.on_hand, each.created_at] for each in stoa.products.list(limit=250)}
        customers = {each.email: each.created_at for each in stoa.customers.list(limit=250)}
    different = abs(len(orders) - len(shop.orders))
    different += sum(orders.get(order["number"]) != sent(order) for order in shop.orders)
    different += sum(
        products.get(row["sku"]) != comparable([row["stock"]["on_hand"], row["created_at"]]) for row in shop.products
    )
    return different + sum(customers.get(row["email"]) != comparable(row["created_at"]) for row in shop.customers)


async def events_of(service: Service, account: Account) -> int:
    """The events of the store, without that of the installation of the app."""
    db = await connect(service.database_url)
    try:
        rows = await db.fetch(
            """SELECT count(*) FROM events e JOIN stores s ON s.id = e.store_id
                WHERE s.handle = $1 AND e.type <> 'app.installed'""",
            account.handle,
        )
    finally:
        await db.close()
    return rows[0][0]


def cpu_of(service: Service) -> float:
    """The CPU seconds of all processes of a service, the database included."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # PostgreSQL overwrites its environment, but works in its data folder.
            own = f"STOA_DATA_DIR={service.folder}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if own or (folder / "cwd").readlink().is_relative_to(service.folder):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:13]))
    return ticks / _TICKS
