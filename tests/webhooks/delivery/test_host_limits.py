"""A host that hangs, subscribed to by very many: the others are served as if it were not there."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from stoa.settings import Settings
from stoa.webhooks.delivery import lane_scheduler
from stoa.webhooks.delivery.shared_state import HostLimits
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, add_note, lane, subscribe, until, working

LANES, SEATS, TO_A_HOST = 40, 20, 5
PATIENT = msgspec.structs.replace(QUICK, request_timeout=60, lease=90, host_full_delay=0.1)


async def test_a_host_that_hangs_keeps_nobody_else_waiting(
    shop: Shop, other_shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_scheduler, "MAX_LANES", SEATS)
    answered = asyncio.Event()

    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await answered.wait()
        return web.Response()

    async with Receiver(hang) as hanging, Receiver() as healthy, working(settings, PATIENT) as worker:
        worker.scheduler.shared.hosts = HostLimits(max_per_host=TO_A_HOST)
        slow = [await subscribe(shop, hanging.url, "product.created") for _ in range(LANES)]
        await add_note(shop)
        await hanging.until(TO_A_HOST)
        await subscribe(other_shop, healthy.url, "product.created")
        await add_note(other_shop)
        await healthy.until(1)
        assert len(hanging.received) == TO_A_HOST
        answered.set()
        await hanging.until(LANES)

        async def empty() -> bool:
            return not sum([(await lane(shop.db, hook.id))["waiting"] for hook in slow])

        await until(empty, "all have arrived, once it answers again")
        assert len(hanging.received) == LANES
