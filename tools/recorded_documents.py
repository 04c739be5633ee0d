"""Records one document of each resource as this release stores it: `tests/upgrades/documents/<version>.json`.

`make release` writes it. A test reads the recorded rows with the code of every later release.
"""

import asyncio
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from tests.support.shops import PERSON, SHIRT, Shop, open_shop

from stoa.app import Application
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.settings import load

FOLDER = Path("tests/upgrades/documents")
# In an order in which they can be inserted; without generated columns.
TABLES = ("customers", "products", "product_terms", "variants", "orders", "order_lines")
_COLUMNS = """
SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"""


async def _trade(shop: Shop) -> None:
    """Store a product, a customer, and an order with a discount, a tax, a shipment and a refund."""

    async def call(method: str, path: str, body: dict[str, Any]) -> Any:
        answer = await shop.client.request(method, path, json=body)
        if not answer.is_success:
            sys.exit(f"{method} {path}: {answer.text}")
        return answer.json()["data"]

    await call("POST", "/products", SHIRT)
    customer = await call("POST", "/customers", {**PERSON, "metadata": {"tier": "gold", "shared.size": "M"}})
    lines = [
        {
            "sku": "LS-S",
            "quantity": 2,
            "discount_total": "5.00",
            "tax_lines": [{"title": "VAT", "rate": "21.00", "amount": "23.73"}],
        },
        {"name": "Gift wrap", "unit_price": "4.00", "quantity": 1, "requires_shipping": False},
    ]
    address = {"address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"}
    order = {"line_items": lines, "customer_id": customer["id"], "shipping_address": address, "payment_status": "paid"}
    placed = await call("POST", "/orders", {**order, "shipping_total": "6.00", "note": "Ring twice", "tags": ["gift"]})
    path, first = f"/orders/{placed['id']}/status", placed["line_items"][0]["id"]
    await call("PUT", path, {"status": "processing"})
    parcel = {"carrier": "DHL", "number": "JD014600003", "url": "https://parcels.example.com/JD014600003"}
    part = [{"id": first, "quantity": 1}]
    await call("PUT", path, {"status": "shipped", "line_items": part, "tracking": parcel})
    await call("PUT", path, {"refund": {"line_items": [{"line_item_id": first, "quantity": 1}], "reason": "damaged"}})


async def record(url: str) -> dict[str, list[dict[str, Any]]]:
    await migrate(url)
    db = Database(url, size=4)
    application = Application(
        load(
            {},
            database_url=url,
            secret_key=hashlib.sha256(b"recorded").hexdigest(),
            metrics="off",
            log_level="error",
            access_log=False,
        )
    )
    try:
        shop = await open_shop(application, db)
        await _trade(shop)
        found: dict[str, list[dict[str, Any]]] = {}
        for table in TABLES:
            [[columns]] = await db.fetch(_COLUMNS, table)
            rows = await db.fetch(
                f"SELECT row_to_json(t)::text FROM (SELECT {columns} FROM {table} WHERE store_id = $1) t", shop.store_id
            )
            found[table] = [msgspec.json.decode(text) for [text] in rows]
        return found
    finally:
        await application.close()
        await db.close()


def write_documents(version: str) -> Path:
    """Record the documents of this tree under a version; returns the file."""
    with tempfile.TemporaryDirectory(prefix="stoa-documents-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres", durable=False)
        try:
            recorded = asyncio.run(record(server.start()))
        finally:
            server.stop()
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{version}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(recorded), indent=1) + b"\n")
    return file
