"""Load shedding: a request is refused at once while others wait too long for a database connection, not because they are many,
and later only where it would have to wait although it has waited too long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import msgspec
import pytest
import structlog
from prometheus_client import REGISTRY
from tests.support import notes
from tests.support.clocks import Clock
from tests.support.shops import Shop, api_client

from stoa.app import Application

POOL = 2
CROWD = 20
NOTE = {"title": "Ring twice", "price": "1.00"}


@pytest.fixture
async def small(shop: Shop) -> AsyncIterator[Application]:
    """An application with few connections, which logs and counts requests."""
    settings = msgspec.structs.replace(
        shop.application.settings,
        database_pool=POOL,
        app_concurrency=10 * CROWD,
        access_log=True,
        metrics="127.0.0.1:9",
    )
    application = Application(settings, notes.routes.endpoints)
    yield application
    await application.close()


def shed_for(reason: str) -> float:
    return REGISTRY.get_sample_value("stoa_shed_total", {"reason": reason}) or 0


async def test_a_crowd_that_waits_briefly_is_served(
    shop: Shop, small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.db.waiting.SHED_AFTER_S", 60)
    monkeypatch.setattr("stoa.db.waiting.ACQUIRE_TIMEOUT_S", 60)
    async with api_client(small, shop.store.handle, shop.token) as client, AsyncExitStack() as stack:
        for _ in range(POOL):
            await stack.enter_async_context(small.database.lend())
        crowd = [asyncio.create_task(client.get("/notes")) for _ in range(CROWD)]
        waiting = [asyncio.create_task(small.database.fetch("SELECT 1")) for _ in range(10 * POOL)]
        while len(small.database.line) < len(waiting):
            await asyncio.sleep(0)
        last = asyncio.create_task(client.get("/notes"))
        await asyncio.sleep(0)
        await stack.aclose()
        answers = [*await asyncio.gather(*crowd), await last]
        await asyncio.gather(*waiting)
    assert {answer.status_code for answer in answers} == {200}


async def test_requests_are_shed_while_others_wait_too_long_for_a_connection(
    shop: Shop, small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.db.waiting.SHED_AFTER_S", 0)
    before = shed_for("database")
    async with api_client(small, shop.store.handle, shop.token) as client, AsyncExitStack() as stack:
        for _ in range(POOL):
            await stack.enter_async_context(small.database.lend())
        waiting = asyncio.create_task(small.database.fetch("SELECT 1"))
        while not small.database.line:
            await asyncio.sleep(0)
        with structlog.testing.capture_logs() as logged:
            shed = await client.get("/notes")
        await stack.aclose()
        await waiting
        assert (await client.get("/notes")).status_code == 200
    assert (shed.status_code, shed.json()["code"], shed.headers["retry-after"]) == (503, "overloaded", "1")
    assert shed.json()["retryable"] is True
    assert [(line["code"], line["reason"]) for line in logged] == [("overloaded", "database")]
    assert shed_for("database") == before + 1


async def test_a_request_that_would_wait_for_too_long_is_refused_before_it_begins(
    shop: Shop, small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.db.waiting.MOST_WAIT_S", 0)
    before = shed_for("database")
    async with api_client(small, shop.store.handle, shop.token) as client, AsyncExitStack() as stack:
        for _ in range(POOL):
            await stack.enter_async_context(small.database.lend())
        refused = await client.post("/notes", json=NOTE)
        await stack.aclose()
        assert (await client.get("/notes")).json()["data"] == []
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert shed_for("database") == before + 1


async def test_a_late_request_is_served_where_it_need_not_wait(
    shop: Shop, small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.db.waiting.MOST_WAIT_S", 0)
    async with api_client(small, shop.store.handle, shop.token) as client:
        assert (await client.post("/notes", json=NOTE)).status_code == 201


async def test_the_time_in_which_a_body_arrives_does_not_count(shop: Shop, small: Application, clock: Clock) -> None:
    async with api_client(small, shop.store.handle, shop.token) as client, AsyncExitStack() as stack:

        async def lend_all() -> None:
            for _ in range(POOL):
                await stack.enter_async_context(small.database.lend())

        async def slowly() -> AsyncIterator[bytes]:
            await asyncio.create_task(lend_all())
            clock.now += 3600
            yield msgspec.json.encode(NOTE)

        json = {"content-type": "application/json"}
        writing = asyncio.create_task(client.post("/notes", content=slowly(), headers=json))
        while not small.database.line and not writing.done():
            await asyncio.sleep(0)
        await stack.aclose()
        assert (await writing).status_code == 201
