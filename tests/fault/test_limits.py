"""Limits under load: the rate limit is exact over all workers, and excess requests are shed while others are served."""

import asyncio
import math
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from tests.support.partial_request import PartialRequest
from tests.support.service import PATIENCE_S, WITH_NOTES, Account, Service, new_database

BURST = 50


async def test_a_burst_over_many_connections_is_counted_exactly_by_all_workers(service: Service) -> None:
    account = await service.account("burst", burst=BURST, refill=1)

    async def send_eight() -> list[httpx.Response]:
        async with account.client() as client:
            return [await client.get("/products") for _ in range(8)]

    started = time.monotonic()
    answers = [answer for each in await asyncio.gather(*(send_eight() for _ in range(20))) for answer in each]
    refilled = math.ceil(time.monotonic() - started)
    served = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(served) + len(refused) == len(answers) == 160
    assert BURST <= len(served) <= BURST + refilled
    for answer in refused:
        assert answer.json()["code"] == "rate_limited"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-ratelimit-remaining"] == "0"
    for answer in answers:
        assert answer.headers["ratelimit-policy"] == f'"default";q={BURST};w={BURST}'
        assert answer.headers["x-ratelimit-limit"] == str(BURST)


async def answered(account: Account, status: int) -> httpx.Response:
    """Send requests until the response has this status, because earlier requests may not have arrived yet."""
    async with account.client() as client, asyncio.timeout(PATIENCE_S):
        while (answer := await client.get("/notes")).status_code != status:
            await asyncio.sleep(0.02)
    return answer


async def test_excess_concurrent_requests_are_shed_per_app_and_then_per_worker(tmp_path: Path) -> None:
    url = await new_database(f"limits_{os.getpid()}")
    with Service(
        tmp_path, database_url=url, command=WITH_NOTES, workers=1, max_in_flight=4, app_concurrency=2
    ) as service:
        await service.add_notes()
        one, other, third = [await service.account(name) for name in ("one", "other", "third")]
        async with AsyncExitStack() as stack:
            running = [await stack.enter_async_context(PartialRequest(one, f"running {n}")) for n in range(2)]
            refused = await answered(one, 429)
            assert (refused.json()["code"], refused.headers["retry-after"]) == ("rate_limited", "1")
            assert (await answered(other, 200)).json()["meta"]["total"] == 0
            running += [await stack.enter_async_context(PartialRequest(other, f"running {n}")) for n in range(2)]
            shed = await answered(third, 503)
            assert (shed.json()["code"], shed.headers["retry-after"]) == ("unavailable", "1")
            assert service.status("/live") == service.status("/ready") == 200
            assert await asyncio.gather(*(request.finish() for request in running)) == [201] * 4
        for account in (one, other, third):
            await answered(account, 200)
