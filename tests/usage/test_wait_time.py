"""Time that a caller asked to wait is not counted as latency."""

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.usage.reports import usage_report
from tests.support.shops import Shop, api_client

WAIT_S = 1
ROUNDING_S = 0.01


@pytest.fixture
async def whole_worker(shop: Shop) -> AsyncIterator[Application]:
    """Another worker, with all endpoints of the API."""
    app = Application(shop.application.settings)
    yield app
    await app.close()


async def recorded_s(db: Database, shop: Shop, worker: Application) -> float:
    await worker.usage.flush(worker.shards)
    today = datetime.now(UTC).date()
    return (await usage_report(db, shop.app_id, today - timedelta(days=1), today)).total.total_us / 1_000_000


async def test_long_polling_for_events_is_not_latency(shop: Shop, db: Database, whole_worker: Application) -> None:
    hook = (await shop.client.post("/webhooks", json={"events": ["*"]})).json()["data"]
    async with api_client(whole_worker, shop.store.handle, shop.token) as client:
        started = time.perf_counter()
        answer = await client.get(f"/webhooks/{hook['id']}/deliveries", params={"after": 0, "wait": WAIT_S})
        elapsed = time.perf_counter() - started
    assert (answer.status_code, answer.json()["data"]) == (200, [])
    assert elapsed >= WAIT_S
    assert await recorded_s(db, shop, whole_worker) <= elapsed - WAIT_S + ROUNDING_S


async def test_waiting_for_an_import_is_not_latency(shop: Shop, db: Database, whole_worker: Application) -> None:
    headers = {"content-type": "application/x-ndjson", "prefer": f"wait={WAIT_S}"}
    async with api_client(whole_worker, shop.store.handle, shop.token) as client:
        started = time.perf_counter()
        answer = await client.post(
            "/products/imports", content=b'{"sku":"A","name":"A","price":"1"}\n', headers=headers
        )
        elapsed = time.perf_counter() - started
    assert answer.status_code == 202
    assert elapsed >= WAIT_S
    assert await recorded_s(db, shop, whole_worker) <= elapsed - WAIT_S + ROUNDING_S
