"""A hanging host with many subscriptions does not delay deliveries to other hosts."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from stoa.settings import Settings
from stoa.webhooks.delivery import lane_scheduler
from stoa.webhooks.http.client import HostLimits
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, create_product, lane, subscribe, until, working

LANES, MAX_LANES_LEASED, MAX_PER_HOST = 40, 20, 5
LONG_TIMEOUT = msgspec.structs.replace(QUICK, request_timeout=60, lease=90, host_full_delay=0.1)


async def test_a_hanging_host_does_not_delay_other_hosts(
    shop: Shop, other_shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_scheduler, "MAX_LANES", MAX_LANES_LEASED)
    recovered = asyncio.Event()

    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await recovered.wait()
        return web.Response()

    async with Receiver(hang) as hanging, Receiver() as healthy, working(settings, LONG_TIMEOUT) as worker:
        worker.scheduler.shared.sender.limits = HostLimits(max_per_host=MAX_PER_HOST)
        slow = [await subscribe(shop, hanging.url, "product.created") for _ in range(LANES)]
        await create_product(shop)
        await hanging.until(MAX_PER_HOST)
        await subscribe(other_shop, healthy.url, "product.created")
        await create_product(other_shop)
        await healthy.until(1)
        assert len(hanging.received) == MAX_PER_HOST
        recovered.set()
        await hanging.until(LANES)

        async def empty() -> bool:
            return not sum([(await lane(shop.db, hook.id))["waiting"] for hook in slow])

        await until(empty, "no delivery is pending after the host recovered")
        assert len(hanging.received) == LANES
