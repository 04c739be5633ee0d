"""The machine of the database is switched off, and nobody tells the connection that waits for notifications."""

import asyncio

import msgspec
import pytest

from stoa.settings import Settings
from tests.fault.proxy import Proxy
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, create_product, subscribe, until, working


@pytest.mark.not_in_shard("the proxy leads to the other database")
async def test_a_worker_listens_again_after_its_server_fell_silent(shop: Shop, settings: Settings) -> None:
    rarely = msgspec.structs.replace(
        QUICK, poll=3600, check_listener=0.2
    )  # so that only a notification wakes the router
    async with Receiver() as receiver, Proxy(settings.database_url) as proxy:
        created: list[int] = []

        async def all_arrive() -> bool:
            """A notification also brings the events before it, which nobody heard of."""
            created.append(await create_product(shop))
            await asyncio.sleep(0.3)
            return len(receiver.received) == len(created)

        await subscribe(shop, receiver.url, "product.created")
        async with working(msgspec.structs.replace(settings, database_direct_url=proxy.url), rarely):
            await until(all_arrive, "the worker listens")
            proxy.silence()
            await until(all_arrive, "the worker listens again")
