"""A running service: an operator adds shards, moves a store to and fro, and migrates all databases, while apps write, read, and receive
events."""

import asyncio
import os
import subprocess
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.shards.test_migrating import COLUMN, INDEX, KNOWN, REMOVAL, TABLE
from tests.support.fleet import copied_database
from tests.support.receivers import Receiver
from tests.support.service import Service

from stoa.db import migrate as migrations
from stoa.db.schema_files import Migration
from stoa.settings import Settings
from stoa.shards.migrating import migrate_all

pytestmark = pytest.mark.timeout(600)
HOT_COLUMN = Migration(9005, "hot column", "ALTER TABLE products ADD COLUMN probe text NOT NULL DEFAULT 'added';\n")


class Caller:
    """Creates products, repeats each request until it is answered, and reads what it has created."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self.client = client
        self._name = name
        self.created: list[tuple[str, int]] = []
        self.refused: Counter[int] = Counter()
        self.stopped = False

    async def run(self) -> None:
        while not self.stopped:
            sku = f"{self._name}-{len(self.created)}"
            body, key = {"name": sku, "price": "1.00", "sku": sku}, {"idempotency-key": sku}
            answer = await self._call("POST", "/products", json=body, headers=key)
            assert answer.status_code == 201, answer.text
            self.created.append((sku, answer.json()["data"]["id"]))
            read = await self._call("GET", f"/products/{self.created[-1][1]}")
            assert (read.status_code, read.json()["data"]["sku"]) == (200, sku), "a stale read"

    async def _call(self, method: str, path: str, **more: object) -> httpx.Response:
        while True:
            answer = await self.client.request(method, path, **more)  # pyright: ignore[reportArgumentType]
            if answer.status_code != 503:
                return answer
            self.refused[503] += 1
            await asyncio.sleep(min(float(answer.headers["retry-after"]), 0.2))

    async def until(self, count: int) -> None:
        """Wait until this many more products are created."""
        count += len(self.created)
        while len(self.created) < count:
            await asyncio.sleep(0.02)


async def stoa(service: Service, *words: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [*service.command, "shard", *words],
        env=service.environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.long
async def test_a_store_moves_while_apps_use_it(replicating: str, settings: Settings, tmp_path: Path) -> None:
    directory = await copied_database(replicating, f"served_{os.getpid()}")
    shard = await copied_database(replicating, f"served_{os.getpid()}_east")
    with Service(
        tmp_path,
        database_url=directory,
        workers=1,
        secret_key=settings.secret_key,
        webhook_allow="127.0.0.0/8",
        log_level="warning",
    ) as service:
        account = await service.account("acme")
        await stoa(service, "add", shard, "--name", "east")
        async with Receiver() as receiver, account.client() as client:
            hook = {"url": receiver.url, "events": ["product.created"]}
            assert (await client.post("/webhooks", json=hook)).status_code == 201
            callers = [Caller(client, f"c{n}") for n in range(3)]
            tasks = [asyncio.create_task(caller.run()) for caller in callers]
            try:
                for place in ("east", "directory"):
                    await callers[0].until(5)
                    moved = await stoa(service, "move", "acme", "--to", place)
                    assert "switched" in moved
                    await callers[0].until(5)
            finally:
                for caller in callers:
                    caller.stopped = True
                await asyncio.gather(*tasks)
            created = Counter(sku for caller in callers for sku, _ in caller.created)
            listed: Counter[str] = Counter()
            path = "/products?limit=250"
            while path:
                page = (await client.get(path)).json()
                listed.update(product["sku"] for product in page["data"])
                cursor = page["meta"]["next_cursor"]
                path = f"/products?limit=250&cursor={cursor}" if cursor else ""
            assert listed == created
            for caller in callers:
                ids = [number for _, number in caller.created]
                assert ids == sorted(set(ids))
            async with asyncio.timeout(120):
                while set(created) - {each.event["data"]["sku"] for each in receiver.received}:
                    await asyncio.sleep(0.1)


@pytest.mark.long
async def test_two_shards_are_migrated_while_apps_use_them(
    replicating: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await copied_database(replicating, f"upgraded_{os.getpid()}")
    with Service(
        tmp_path, database_url=directory, workers=1, secret_key=settings.secret_key, log_level="warning"
    ) as service:
        accounts = [await service.account(handle) for handle in ("acme", "bolt", "core")]
        for account, name in zip(accounts, ("east", "west"), strict=False):
            url = await copied_database(replicating, f"upgraded_{os.getpid()}_{name}")
            await stoa(service, "add", url, "--name", name)
            await stoa(service, "move", account.handle, "--to", name)
        callers = [Caller(account.client(), account.handle) for account in accounts]
        tasks = [asyncio.create_task(caller.run()) for caller in callers]
        monkeypatch.setattr(migrations, "known", lambda: [*KNOWN, TABLE, COLUMN, INDEX, REMOVAL, HOT_COLUMN])
        try:
            await asyncio.gather(*(caller.until(10) for caller in callers))
            refused = [caller.refused.copy() for caller in callers]
            done = await migrate_all(directory, settings)
            await asyncio.gather(*(caller.until(10) for caller in callers))
        finally:
            for caller in callers:
                caller.stopped = True
            await asyncio.gather(*tasks)
        assert {each.version for each in done} == {9001, 9002, 9003, 9004, 9005}
        assert [caller.refused for caller in callers] == refused, "a request was refused during the migration"
        for caller in callers:
            total = (await caller.client.get("/products?limit=1")).json()["meta"]["total"]
            assert total == len(caller.created)
            await caller.client.aclose()
