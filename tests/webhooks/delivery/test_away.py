"""Stores whose node of a cluster is away do not stop the deliveries and feeds of others. A stand-in refuses their statements."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from aiohttp import web

from stoa.app import Application
from stoa.db.errors import NodeAway
from stoa.db.pool import Database
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop, open_shop
from tests.webhooks.subscriptions import route
from tests.webhooks.workers import create_product, log, subscribe, until, working


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The stores whose statements fail, if their arguments name the store."""
    stores: set[int] = set()
    fetch = Database.fetch

    async def refusing(database: Database, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        if any(_names(arg, store) for arg in args for store in stores):
            raise NodeAway("a node of the database cannot be reached")
        return await fetch(database, sql, *args)

    monkeypatch.setattr(Database, "fetch", refusing)
    return stores


def _names(argument: Any, store: int) -> bool:
    return (
        store in cast("list[Any]", argument) if isinstance(argument, list) else f'"store_id":{store},' in str(argument)
    )


async def test_an_outcome_is_stored_when_the_node_is_back(application: Application, shop: Shop, away: set[int]) -> None:
    other = await open_shop(application, shop.db)
    respond = asyncio.Event()

    async def respond_late(_request: web.Request, _received: Received) -> web.StreamResponse:
        await respond.wait()
        return web.Response()

    async with Receiver() as receiver, Receiver(respond_late) as late, working(application.settings):
        hook = await subscribe(shop, late.url, "product.created")
        await subscribe(other, receiver.url, "product.created")
        await create_product(shop)
        await late.until(1)
        away.add(shop.store_id)
        respond.set()
        for number in range(1, 4):
            await create_product(other)
            await receiver.until(number)
        await asyncio.sleep(1.5)  # the lease of the lane has ended
        assert [each["status"] for each in await log(shop.db, hook.id)] == ["pending"]
        away.clear()

        async def stored() -> bool:
            return [each["status"] for each in await log(shop.db, hook.id)] == ["succeeded"]

        await until(stored, "the outcome is stored")
        await create_product(shop)
        await late.until(2)
    # Nothing was sent twice.
    assert [event["sequence"] for event in late.events] == [1, 2]
    assert [event["sequence"] for event in receiver.events] == [1, 2, 3]
    await other.client.aclose()


async def test_only_the_feeds_of_its_stores_are_refused(application: Application, shop: Shop, away: set[int]) -> None:
    other = await open_shop(application, shop.db)
    waits: list[asyncio.Task[Any]] = []
    for each in (shop, other):
        hook = await subscribe(each, None, "product.created")
        asked = each.client.get(f"/webhooks/{hook.id}/deliveries", params={"after": 0, "wait": 20})
        waits.append(asyncio.create_task(asked))
    await asyncio.sleep(0.3)
    away.add(shop.store_id)
    refused = await waits[0]
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    await create_product(other)
    await route(other)
    fed = await waits[1]
    assert [each["sequence"] for each in fed.json()["data"]] == [1]
    await other.client.aclose()
