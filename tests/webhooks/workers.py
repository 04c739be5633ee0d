"""Subscriptions and delivery workers for tests, with much shorter delays than in production. A request may take long, because a
receiver of a test also shares a busy machine."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from stoa.access.encryption import Cipher
from stoa.background import open_pools
from stoa.db.pool import Database
from stoa.settings import Settings, secret_key
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, SentAttempt
from stoa.webhooks.delivery.worker import DeliveryWorker
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender
from stoa.webhooks.http.message import new_secret
from stoa.webhooks.http.resolver import Resolve
from tests.support.sharded import url_of_stores
from tests.support.shops import Shop

QUICK = DeliveryConfig(
    retries=(0.05, 0.1, 0.2),
    probes=(0.1, 0.2, 0.4),
    request_timeout=30,
    connect_timeout=10,
    lease=40,
    heartbeat=0.3,
    takeover_after=1,
    stop_after=1.5,
    poll=0.05,
    suspended_delay=0.2,
    maintenance_every=0.5,
)


def quick_sender(allowed: Allowed, resolve: Resolve | None = None) -> Sender:
    return Sender(
        allowed,
        request_timeout_s=QUICK.request_timeout,
        connect_timeout_s=QUICK.connect_timeout,
        resolve=resolve,
    )


def with_loopback(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, webhook_allow="127.0.0.0/8 localhost")


@asynccontextmanager
async def working(
    settings: Settings, config: DeliveryConfig = QUICK, seen: list[SentAttempt] | None = None
) -> AsyncGenerator[DeliveryWorker]:
    """Run a delivery worker in this process until the block ends."""
    observed: list[SentAttempt] = [] if seen is None else seen
    here = msgspec.structs.replace(settings, database_url=url_of_stores(settings.database_url))
    pools = open_pools(here.database_url)
    allowing = with_loopback(here)
    worker = DeliveryWorker(pools.durable, pools.relaxed, allowing, config, observe=observed.append)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        try:
            await running
        finally:
            await pools.close()


class Subscribed(msgspec.Struct):
    id: int
    secret: str


async def subscribe(
    shop: Shop, url: str | None, *events: str, headers: dict[str, str] | None = None, **columns: Any
) -> Subscribed:
    """Insert a subscription of the shop's app with the same rows that the endpoint writes."""
    cipher, secret = Cipher(secret_key(shop.application.settings)), new_secret()
    async with shop.db.transaction() as db:
        [[number]] = await db.fetch("SELECT nextval('webhook_ids')")
        values: dict[str, Any] = {
            "store_id": shop.store_id,
            "id": number,
            "app_id": shop.app_id,
            "url": url,
            "events": list(events) or ["*"],
            "sealed_secret": cipher.encrypt(secret, "webhooks", "secret", shop.store_id, number),
            "same_key": hashlib.sha256(str(number).encode()).digest(),
            **columns,
        }
        if headers:
            text = msgspec.json.encode(headers).decode()
            values["sealed_headers"] = cipher.encrypt(text, "webhooks", "headers", shop.store_id, number)
        names, placeholders = ", ".join(values), ", ".join(f"${n}" for n in range(1, len(values) + 1))
        await db.execute(f"INSERT INTO webhooks ({names}) VALUES ({placeholders})", *values.values())
        await db.execute(
            "INSERT INTO lanes (store_id, webhook_id) VALUES ($1, $2)",
            shop.store_id,
            number,
        )
    return Subscribed(number, secret)


async def create_product(shop: Shop, name: str = "Mug") -> int:
    """Create a product, which produces one `product.created` event; returns its id."""
    answer = await shop.client.post("/products", json={"name": name, "price": "1.00"})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]["id"]


async def log(db: Database, webhook: int) -> list[dict[str, Any]]:
    """The delivery log of a subscription, ordered by sequence."""
    rows = await db.fetch(
        "SELECT sequence, event_type, status, attempt_count, attempts, redelivery_of FROM delivery_log "
        "WHERE webhook_id = $1 ORDER BY sequence",
        webhook,
    )
    names = ("sequence", "event_type", "status", "attempt_count", "attempts", "redelivery_of")
    return [{**dict(zip(names, row, strict=True)), "attempts": msgspec.json.decode(row[4])} for row in rows]


async def lane(db: Database, webhook: int) -> dict[str, Any]:
    [row] = await db.fetch(
        "SELECT waiting, due_at, owner, epoch, breaker, probes, failures, hold_until, next_sequence, failing_since, failing_event_sent "
        "FROM lanes WHERE webhook_id = $1",
        webhook,
    )
    names = "waiting due_at owner epoch breaker probes failures hold_until next_sequence failing_since failing_event_sent".split()
    return dict(zip(names, row, strict=True))


async def until(found: Any, what: str, *, seconds: float = 30) -> Any:
    """Call `found` until it returns a true value, and return that value."""
    try:
        async with asyncio.timeout(seconds):
            while not (value := await found()):
                await asyncio.sleep(0.02)
            return value
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds} s: {what}") from error
