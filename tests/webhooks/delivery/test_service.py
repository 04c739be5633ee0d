"""A running service delivers webhooks without a separate worker, exports metrics about them, and answers waiting requests when it stops."""

import asyncio
import os
import re
from pathlib import Path

import httpx

from tests.support.receivers import Receiver
from tests.support.service import Service, free_port, migrated_database
from tests.webhooks.workers import until


async def test_a_service_delivers_events_and_counts_the_attempts(tmp_path: Path) -> None:
    url, metrics = await migrated_database(f"delivering_{os.getpid()}"), f"127.0.0.1:{free_port()}"
    with Service(tmp_path, database_url=url, workers=1, webhook_allow="127.0.0.0/8", metrics=metrics) as service:
        account = await service.account("delivering")
        async with Receiver() as receiver, account.client() as client:
            made = await client.post("/webhooks", json={"url": receiver.url, "events": ["product.*"]})
            assert made.status_code == 201, made.text
            product = (await client.post("/products", json={"name": "Mug", "price": "1.00"})).json()["data"]
            [got] = await receiver.until(1, seconds=60)
            assert got.verify(made.json()["data"]["secret"])["data"] == product

            async def counted() -> bool:
                async with httpx.AsyncClient() as metrics_client:
                    text = (await metrics_client.get(f"http://{metrics}/metrics")).text
                return (
                    re.search(r'stoa_webhook_attempts_total\{outcome="succeeded"\} 1\.0', text) is not None
                    and "stoa_webhook_latency_seconds_count 1.0" in text
                    and 'stoa_webhook_pending{shard=""} 0.0' in text
                )

            await until(counted, "the attempt is counted", seconds=60)
        assert await asyncio.to_thread(service.stop) == 0


def test_a_service_on_a_public_address_does_not_start_with_an_allow_list(tmp_path: Path) -> None:
    service = Service(tmp_path, host="0.0.0.0", webhook_allow="localhost")  # noqa: S104
    done = service.run("serve")
    assert done.returncode != 0
    assert "STOA_WEBHOOK_ALLOW" in done.stderr
    assert not (tmp_path / "postgres").exists()


async def test_a_stopping_service_answers_waiting_requests_of_the_feed(tmp_path: Path) -> None:
    """The drain time is shorter than the wait, so a request that kept waiting would lose its connection."""
    url = await migrated_database(f"ending_{os.getpid()}")
    with Service(tmp_path, database_url=url, workers=1, drain_seconds=8, background=False) as service:
        account = await service.account("shop")
        async with account.client() as client:
            hook = (await client.post("/webhooks", json={"events": ["*"]})).json()["data"]
            path = f"/webhooks/{hook['id']}/deliveries"
            waiting = asyncio.create_task(client.get(path, params={"after": 0, "wait": 20}))
            while (await client.get(path, params={"after": 0, "wait": 1})).status_code != 200:
                pass
            assert await asyncio.to_thread(service.stop) == 0
            answer = await waiting
    assert (answer.status_code, answer.json()["data"]) == (200, [])
