"""A connection that is cut after the commit and before the answer: the retry with the same key has one effect."""

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

from tests.support.service import Account, Service, new_database

CUTS = int(os.environ.get("CUTS", "40"))  # `make cut` asks for 500
AT_ONCE = 5


class Cutter:
    """Carries requests to a service and waits for each answer, but hangs up instead of handing it on."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._lines: set[asyncio.Task[None]] = set()
        self.swallowed: list[int] = []  # the statuses that nobody got to see

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._lines:
            await asyncio.wait(self._lines)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        line = asyncio.create_task(self._carry(reader, writer))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        answers, onward = await asyncio.open_connection("127.0.0.1", self._target)

        async def forward() -> None:
            while data := await reader.read(65_536):
                onward.write(data)
                await onward.drain()

        asking = asyncio.create_task(forward())
        try:
            # The first byte of an answer is sent after the commit, so this is the moment between the two.
            self.swallowed.append(int((await answers.readline()).split()[1]))
        finally:
            writer.transport.abort()
            onward.transport.abort()
            asking.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await asking


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    with Service(tmp_path, database_url=await new_database(f"cut_{os.getpid()}")) as service:
        yield await service.account("cut")


async def _cut_and_retry(account: Account, path: str, bodies: list[dict[str, Any]]) -> list[int]:
    """Send each body over a line that is cut, then twice over a good one; answers the ids of what was made."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with Cutter(account.service.port) as cutter, account.client() as client:
        cut_url = account.url.replace(f":{account.service.port}/", f":{cutter.port}/")

        async def write(body: dict[str, Any]) -> int:
            headers = {"idempotency-key": f"{path}-{body['external_id']}"}
            async with turns:
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


async def test_writes_whose_answers_were_cut_off_are_done_once(account: Account) -> None:
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
