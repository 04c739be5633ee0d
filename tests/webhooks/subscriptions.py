"""Creates subscriptions for tests, routes their events on demand, and settles deliveries with a given status."""

import asyncio
import secrets
from typing import Any

from stoa.db.errors import PostgresError, sqlstate
from stoa.webhooks.delivery.queries import RELEASE_BUCKETS
from stoa.webhooks.delivery.router import route_events
from tests.support.shops import Shop

HOOK: dict[str, Any] = {"url": "https://hooks.example.com/stoa", "events": ["product.*"]}
UNROUTED = "SELECT id FROM events WHERE store_id = $1 AND routed_on = 'infinity' LIMIT 1"
FINISH = """WITH settled AS (DELETE FROM pending_deliveries WHERE store_id = $1 AND webhook_id = $2
                             AND sequence = $3 RETURNING *),
                 lane AS (UPDATE lanes SET waiting = waiting - 1 WHERE store_id = $1
                             AND webhook_id = $2)
            INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                        resource_type, resource_id, resource_version, status, attempt_count, attempts, created_at, finished_at)
            SELECT store_id, webhook_id, sequence, current_date, event_id, event_day, event_type, resource_type, resource_id,
                   resource_version, $4, 1, $5, created_at, now() FROM settled"""
ATTEMPT = '[{"at":"2026-03-14T09:26:53.589793Z","duration_ms":12,"response_status":500,"response_body":"\\"status\\":\\"pending\\"","error":null}]'


async def subscribe(shop: Shop, **given: Any) -> dict[str, Any]:
    answer = await shop.client.post("/webhooks", json=HOOK | given)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def route(shop: Shop) -> None:
    """Route all unrouted events of the store to its subscriptions; several calls can run at once, like routers."""
    holder = secrets.token_hex(8)
    while await shop.db.fetch(UNROUTED, shop.store_id):
        try:
            if not (await route_events(shop.db, [shop.store_id % 64], holder=holder)).events:
                await asyncio.sleep(0.05)
        except PostgresError as error:
            if sqlstate(error) != "40001":
                raise
            await RELEASE_BUCKETS.run(shop.db, holder)


async def add_products(shop: Shop, *names: str) -> list[int]:
    """Create products with these names and route their events; returns the product ids."""
    ids = await shop.add(*({"name": name, "price": "5.00"} for name in names))
    await route(shop)
    return ids


async def finish(shop: Shop, webhook_id: int, sequence: int, status: str, attempts: str = ATTEMPT) -> None:
    await shop.db.execute(FINISH, shop.store_id, webhook_id, sequence, status, attempts)


async def deliveries(shop: Shop, webhook_id: int, **query: Any) -> dict[str, Any]:
    answer = await shop.client.get(f"/webhooks/{webhook_id}/deliveries", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()
