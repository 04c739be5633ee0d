"""The connection to the database breaks around a COMMIT: a retry with the same key still has one effect."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import httpx
import msgspec
import pytest

from stoa.api import ENDPOINTS
from stoa.app import Application
from tests.fault.proxy import Proxy
from tests.support import notes
from tests.support.shops import Shop, api_client

ROUNDS = 50


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(database_url) as running:
        yield running


@pytest.fixture
async def client(proxy: Proxy, shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the shop's app, for a service that connects to the database through the proxy."""
    settings = msgspec.structs.replace(shop.application.settings, database_url=proxy.url)
    application = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    async with api_client(application, shop.store.handle, shop.token) as calling:
        # The first connection also looks for a pooler, in a transaction that is not to be cut.
        assert (await calling.get("/notes")).status_code == 200
        yield calling
    await application.close()


@pytest.mark.parametrize(("where", "replayed"), [("before", None), ("after", "true")])
async def test_a_write_whose_commit_was_cut_off_takes_effect_once(
    proxy: Proxy, client: httpx.AsyncClient, where: Literal["before", "after"], replayed: str | None
) -> None:
    for turn in range(ROUNDS):
        write, key = {"title": f"note {turn}", "price": "1.00"}, {"idempotency-key": f"key-{turn}"}
        proxy.cut = where
        lost = await client.post("/notes", json=write, headers=key)
        assert (lost.status_code, lost.json()["code"], lost.headers["retry-after"]) == (503, "unavailable", "1")
        again = await client.post("/notes", json=write, headers=key)
        assert (again.status_code, again.headers.get("idempotent-replayed")) == (201, replayed), again.text
        third = await client.post("/notes", json=write, headers=key)
        assert third.content == again.content
        assert third.headers["idempotent-replayed"] == "true"
    assert proxy.cuts == ROUNDS
    assert (await client.get("/notes")).json()["meta"]["total"] == ROUNDS


async def test_concurrent_requests_are_not_affected_by_the_cut(proxy: Proxy, client: httpx.AsyncClient) -> None:
    for turn in range(10):
        proxy.cut = "after"
        writes = [
            client.post(
                "/notes", json={"title": f"{turn} {n}", "price": "1.00"}, headers={"idempotency-key": f"{turn}-{n}"}
            )
            for n in range(8)
        ]
        codes = [answer.status_code for answer in await asyncio.gather(*writes)]
        assert codes.count(201) == 7, codes
        assert codes.count(503) == 1, codes
    assert (await client.get("/notes")).json()["meta"]["total"] == 80
