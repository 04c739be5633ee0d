"""A connection is cut after the commit and before the response: the retry with the same key has one effect."""

import asyncio
import json
import os
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.support.service import Account, Service, migrated_database

CUTS = int(os.environ.get("CUTS", "40"))  # `make cut` sets 500
AT_ONCE = 5


class Cutter:
    """Forwards requests to a service, and closes the connection when the response starts."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._connections: set[asyncio.Task[None]] = set()
        self.swallowed: list[int] = []  # the statuses that the client never received

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._connections:
            await asyncio.wait(self._connections)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        responses, requests = await asyncio.open_connection("127.0.0.1", self._target)

        async def forward() -> None:
            while data := await reader.read(65_536):
                requests.write(data)
                await requests.drain()

        forwarding = asyncio.create_task(forward())
        try:
            # The first byte of a response is sent after the commit.
            self.swallowed.append(int((await responses.readline()).split()[1]))
        finally:
            writer.transport.abort()
            requests.transport.abort()
            forwarding.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await forwarding


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    with Service(tmp_path, database_url=await migrated_database(f"cut_{os.getpid()}"), background=False) as service:
        yield await service.account("cut")


async def _cut_and_retry(account: Account, path: str, bodies: list[dict[str, Any]]) -> list[int]:
    """Send each body over a connection that is cut, then twice over a good one; returns the created ids."""
    limit = asyncio.Semaphore(AT_ONCE)
    async with Cutter(account.service.port) as cutter, account.client() as client:
        cut_url = account.url.replace(f":{account.service.port}/", f":{cutter.port}/")

        async def write(body: dict[str, Any]) -> int:
            headers = {"idempotency-key": f"{path}-{body['external_id']}"}
            async with limit:
                async with account.service.client(base_url=cut_url, headers=account.headers) as unlucky:
                    with pytest.raises(httpx.TransportError):
                        await unlucky.post(path, json=body, headers=headers)
                retries = [await client.post(path, json=body, headers=headers) for _ in range(2)]
            assert [retry.status_code for retry in retries] == [201, 201], retries[0].text
            assert [retry.headers.get("idempotent-replayed") for retry in retries] == ["true", "true"]
            assert retries[0].content == retries[1].content
            return json.loads(retries[0].content)["data"]["id"]

        made = await asyncio.gather(*(write(body) for body in bodies))
    assert cutter.swallowed == [201] * len(bodies)
    return made


async def test_writes_whose_responses_were_cut_off_take_effect_once(account: Account) -> None:
    half = CUTS // 2
    products = [
        {"name": f"Mug {n}", "price": "9.00", "external_id": f"p{n}", "sku": f"MUG-{n}", "stock": {"on_hand": 100_000}}
        for n in range(half)
    ]
    made = await _cut_and_retry(account, "/products", products)
    orders = [
        {"external_id": f"o{n}", "line_items": [{"sku": f"MUG-{n % 5}", "quantity": 2}]} for n in range(CUTS - half)
    ]
    placed = await _cut_and_retry(account, "/orders", orders)
    assert len({*made}) == half
    assert len({*placed}) == CUTS - half
    async with account.client() as client:
        assert (await client.get("/products?limit=1")).json()["meta"]["total"] == half
        assert (await client.get("/orders?limit=1")).json()["meta"]["total"] == CUTS - half
        levels = (await client.get("/products/inventory", params={"limit": 250})).json()["data"]
        reserved = sum(level["stock"]["reserved"] for level in levels)
        assert reserved == 2 * (CUTS - half)
