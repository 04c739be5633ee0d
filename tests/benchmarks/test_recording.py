"""The pgbench scripts repeat the statements of the handlers, with new rows each time."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benchmarks.catalog import Loaded
from benchmarks.drive import NUMBER, Request, Script
from benchmarks.measures import Access
from benchmarks.trade import Trade
from tests.conftest import SECRET_KEY
from tests.support.service import migrated_database
from tests.support.shops import Shop, open_shop

from benchmarks import recording, writes
from stoa.access.contract import NewSecret
from stoa.app import Application
from stoa.db.connection import connect
from stoa.db.embedded import binary
from stoa.db.pool import Database
from stoa.settings import load

TIMES = 5
TABLES = (
    "products",
    "variants",
    "stock_movements",
    "events",
    "idempotency_keys",
    "row_counts",
    "orders",
    "order_lines",
)


@pytest.fixture(scope="module")
async def recorded_shop(worker_id: str) -> AsyncIterator[Shop]:
    """A shop in its own database with raised sequences."""
    url = await migrated_database(f"test_recording_{worker_id}_{os.getpid()}")
    connection = await connect(url)
    await writes.raise_sequences(connection)
    await connection.close()
    db = Database(url, size=2)
    application = Application(
        load({}, database_url=url, secret_key=SECRET_KEY, log_level="error", metrics="off", access_log=False)
    )
    shop = await open_shop(application, db)
    connection = await connect(url)
    await writes.raise_sequences(connection)  # again, for the order numbers of the new store
    await connection.close()
    yield shop
    await shop.client.aclose()
    await application.close()
    await db.close()


def request_of(shop: Shop, path: str, body: dict[str, object], first_id: int = 1, last_id: int = 1) -> Request:
    store = Loaded(shop.store_id, shop.store.handle, first_id, last_id)
    return writes.post(store, access_to(shop), path, body)


def access_to(shop: Shop) -> Access:
    return Access(NewSecret(shop.app_id, shop.client_id, ""), shop.token)


async def counts(shop: Shop) -> dict[str, int]:
    return {
        table: (await shop.db.fetch(f"SELECT count(*) FROM {table} WHERE store_id = $1", shop.store_id))[0][0]
        for table in TABLES
    }


async def repeat(shop: Shop, script: Script, folder: Path) -> dict[str, int]:
    """Run a script several times; returns how many rows it added to each table."""
    before = await counts(shop)
    file = folder / "script.sql"
    file.write_text(script.text)
    given = [part for name, value in script.variables.items() for part in ("-D", f"{name}={value}")]
    done = subprocess.run(
        [
            binary("pgbench"),
            "-n",
            "-M",
            "prepared",
            "-t",
            str(TIMES),
            "-f",
            file,
            *given,
            shop.application.settings.database_url,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {table: count - before[table] for table, count in (await counts(shop)).items() if count != before[table]}


async def test_a_repeated_creation_writes_the_same_rows_as_a_real_one(recorded_shop: Shop, tmp_path: Path) -> None:
    before = await counts(recorded_shop)
    recorded = await recording.record(
        recorded_shop.application.settings, request_of(recorded_shop, "/products", writes.NEW_PRODUCT)
    )
    once = {table: count - before[table] for table, count in (await counts(recorded_shop)).items()}
    assert once == {
        "products": 1, "variants": 2, "stock_movements": 2, "events": 1, "idempotency_keys": 1, "row_counts": 1,
        "orders": 0, "order_lines": 0,
    }  # fmt: skip
    written = await repeat(recorded_shop, recording.as_transaction(recorded, {}), tmp_path)
    assert written == {table: count * TIMES for table, count in once.items() if count}
    found = (await recorded_shop.client.get("/products", params={"sort": "-id", "limit": TIMES})).json()["data"]
    names = {product["name"] for product in found}
    assert len(names) == TIMES
    assert not any(NUMBER in name for name in names)
    rows = await recorded_shop.db.fetch(
        """SELECT count(*) FROM idempotency_keys k JOIN products p ON p.store_id = $1
             AND right(k.key, 18) = right(p.external_id, 18) WHERE k.store_id = $1 AND k.status = 201""",
        recorded_shop.store_id,
    )
    assert rows[0][0] == TIMES + 1, "each key stores the response for its own product"


async def test_a_repeated_adjustment_changes_other_rows_each_time(recorded_shop: Shop, tmp_path: Path) -> None:
    ids = await recorded_shop.add(*({"name": f"P{n}", "price": "1.00", "sku": f"SKU-{n}-1"} for n in range(10, 90)))
    assert len(ids) == 80
    item = {"sku": "SKU-%d-1", "op": "adjust", "quantity": 1}
    recorded = await recording.record(
        recorded_shop.application.settings,
        request_of(recorded_shop, "/products/inventory/adjustments", {"items": [item]}, 10, 89),
    )
    script = recording.as_transaction(
        recorded, {"SKU-10-1": "'SKU-' || :id::text || '-1'"}, ["\\set id random(11, 89)"]
    )
    written = await repeat(recorded_shop, script, tmp_path)
    # A variant that was out of stock has two events: changed, and back in stock.
    assert written.pop("events") in range(TIMES, 2 * TIMES + 1)
    assert written == {"stock_movements": TIMES, "idempotency_keys": TIMES}
    rows = await recorded_shop.db.fetch(
        "SELECT count(DISTINCT sku) FROM variants WHERE store_id = $1 AND on_hand = 1 AND sku <> 'SKU-10-1'",
        recorded_shop.store_id,
    )
    assert rows[0][0] > 1


async def test_a_repeated_order_has_its_own_number_and_stock(recorded_shop: Shop, tmp_path: Path) -> None:
    item = {"price": "1.00", "stock": {"on_hand": 100}}
    await recorded_shop.add(*({"name": f"O{n}", "sku": f"SKU-{n}-1", **item} for n in (900, 901, 902)))
    request = request_of(recorded_shop, "/orders", writes.NEW_ORDER, 900, 902)
    recorded = await recording.record(recorded_shop.application.settings, request)
    written = await repeat(recorded_shop, recording.as_transaction(recorded, {}), tmp_path)
    assert written == {
        "orders": TIMES, "order_lines": 3 * TIMES, "stock_movements": 3 * TIMES, "events": 4 * TIMES,
        "idempotency_keys": TIMES, "row_counts": TIMES,
    }  # fmt: skip
    rows = await recorded_shop.db.fetch(
        """SELECT count(DISTINCT o.number), count(DISTINCT o.external_id), count(DISTINCT m.movement_key)
             FROM orders o JOIN stock_movements m ON m.store_id = $1 AND m.order_id = o.id WHERE o.store_id = $1""",
        recorded_shop.store_id,
    )
    assert tuple(rows[0]) == (TIMES + 1, TIMES + 1, 3 * (TIMES + 1))
    rows = await recorded_shop.db.fetch(
        "SELECT sku, reserved FROM variants WHERE store_id = $1 AND reserved > 0 ORDER BY sku", recorded_shop.store_id
    )
    assert [tuple(row) for row in rows] == [
        ("SKU-900-1", 2 * (TIMES + 1)), ("SKU-901-1", TIMES + 1), ("SKU-902-1", TIMES + 1),
    ]  # fmt: skip


async def test_a_repeated_payment_changes_other_orders_and_customers(recorded_shop: Shop, tmp_path: Path) -> None:
    customers: list[int] = []
    orders: list[int] = []
    for n in range(30):
        new = await recorded_shop.client.post("/customers", json={"email": f"payer-{n}@example.com"})
        customers.append(new.json()["data"]["id"])
    for customer in customers:
        line = {"name": "Gift", "unit_price": "9.00", "quantity": 1}
        body = {"customer_id": customer, "line_items": [line]}
        placed = await recorded_shop.client.post("/orders", json=body)
        orders.append(placed.json()["data"]["id"])
    assert (customers, orders) == tuple([*range(each[0], each[0] + 30)] for each in (customers, orders))
    trade = Trade(30, 30, orders[0], orders[-1], customers[0])
    store = Loaded(recorded_shop.store_id, recorded_shop.store.handle, 1, 1)
    recorded = await recording.record(
        recorded_shop.application.settings, writes.pay(store, trade, access_to(recorded_shop))
    )
    written = await repeat(recorded_shop, recording.as_transaction(recorded, *writes.any_order(trade)), tmp_path)
    assert written == {"events": 2 * TIMES, "idempotency_keys": TIMES}
    for table, ids in (("orders", orders), ("customers", customers)):
        rows = await recorded_shop.db.fetch(
            f"SELECT count(*), sum(version - {1 if table == 'orders' else 2})::bigint FROM {table} WHERE store_id = $1 AND id = ANY ($2) AND version > {1 if table == 'orders' else 2}",
            recorded_shop.store_id,
            ids,
        )
        changed, times = rows[0]
        assert changed > 1
        assert times == TIMES + 1
