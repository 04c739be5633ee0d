"""Creates subscriptions and deliveries with SQL, without a receiver or a worker."""

import hashlib
from typing import Any

import msgspec

from stoa.access.encryption import Cipher
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.events.outbox import Actor, emit
from stoa.products.events import ProductCreated
from stoa.settings import secret_key
from stoa.webhooks.api.delivery_ids import delivery_id
from stoa.webhooks.delivery.router import route_events
from stoa.webhooks.http.message import new_secret
from tests.webhooks.subscriptions import FINISH

URL = "https://hooks.example.com/stoa"
CANARY = "Linen of the canary"


async def add_subscription(
    by: Operator, store_id: int, app_id: int, *events: str, url: str | None = URL, **columns: Any
) -> int:
    """Insert a subscription of the app on the store, as the endpoint does."""
    cipher = Cipher(secret_key(by.settings))
    async with by.db.transaction() as db:
        [[number]] = await db.fetch("SELECT nextval('webhook_ids')")
        values: dict[str, Any] = {
            "store_id": store_id,
            "id": number,
            "app_id": app_id,
            "url": url,
            "events": list(events) or ["product.*"],
            "sealed_secret": cipher.encrypt(new_secret(), "webhooks", "secret", store_id, number),
            "same_key": hashlib.sha256(str(number).encode()).digest(),
            **columns,
        }
        columns_sql = ", ".join(values)
        placeholders = ", ".join(f"${n}" for n in range(1, len(values) + 1))
        await db.execute(f"INSERT INTO webhooks ({columns_sql}) VALUES ({placeholders})", *values.values())
        lane = "INSERT INTO lanes (store_id, webhook_id) VALUES ($1, $2)"
        await db.execute(lane, store_id, number)
    return number


async def emit_products(by: Operator, store_id: int, *names: str) -> None:
    """Emit an event for each product, and route it to the subscriptions."""
    for product_id, name in enumerate(names or (CANARY,), 1):
        data = msgspec.json.encode({"id": product_id, "name": name}).decode()
        event = ProductCreated(resource_id=product_id, version=1, data=data, changes={})
        async with by.db.transaction() as db:
            await emit(db, store_id, event, actor=Actor("operator"), request_id="req_tests")
    assert isinstance(by.db, Database)
    while (await route_events(by.db, [store_id % 64])).events:
        pass


async def finish_delivery(
    by: Operator, store_id: int, webhook_id: int, sequence: int, status: str, **attempt: Any
) -> None:
    """Finish a delivery with one attempt."""
    recorded = {
        "at": "2026-03-14T09:26:53.589793Z",
        "duration_ms": 12,
        "response_status": 200,
        "response_body": None,
        "error": None,
        **attempt,
    }
    attempts = msgspec.json.encode([recorded]).decode()
    await by.db.execute(FINISH, store_id, webhook_id, sequence, status, attempts)


async def create_webhook_data(by: Operator, handle: str, store_id: int, app_id: int) -> dict[str, Any]:
    """Create a subscription with a failed delivery; return their path parameters."""
    webhook_id = await add_subscription(by, store_id, app_id)
    await emit_products(by, store_id)
    await finish_delivery(
        by, store_id, webhook_id, 1, "failed", response_status=500, response_body="<b>out of order</b>"
    )
    return {"at": handle, "webhook_id": webhook_id, "sequence": 1, "delivery": delivery_id(webhook_id, 1)}
