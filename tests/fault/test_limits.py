"""Limits under load: the rate limit is exact over all workers, and excess requests are shed while others are served."""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack

import httpx
import pytest

from tests.support.metrics import metric, scrape
from tests.support.partial_request import PartialRequest
from tests.support.service import PATIENCE_S, WITH_NOTES, Account, Service, free_port, migrated_database
from tests.support.unread_client import connect

BURST = 50
MAX_UNSENT_BYTES = 4 * 1024 * 1024
UNREAD_CLIENTS = 20  # together above the limit, each with at least 256 KiB


@pytest.fixture(scope="module")
async def limited(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One worker with low limits."""
    with Service(
        tmp_path_factory.mktemp("limited"),
        database_url=await migrated_database(f"limits_{os.getpid()}"),
        command=WITH_NOTES,
        background=False,
        metrics=f"127.0.0.1:{free_port()}",
        workers=1,
        max_in_flight=4,
        app_concurrency=2,
        max_unsent_bytes=MAX_UNSENT_BYTES,
        address_unsent_bytes=MAX_UNSENT_BYTES // 2,
        proxies=1,
    ) as service:
        await service.add_notes()
        yield service


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


async def reported(service: Service, reason: str) -> None:
    """Wait until the log and the metrics say why requests were shed."""
    async with asyncio.timeout(PATIENCE_S):
        while f'"reason":"{reason}"' not in service.output():
            await asyncio.sleep(0.1)
        while not metric(await scrape(service), "stoa_shed_total", reason=reason):
            await asyncio.sleep(0.1)


async def test_excess_concurrent_requests_are_shed_per_app_and_then_per_worker(limited: Service) -> None:
    one, other, third = [await limited.account(name) for name in ("one", "other", "third")]
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(PartialRequest(one, f"running {n}")) for n in range(2)]
        refused = await answered(one, 429)
        assert (refused.json()["code"], refused.headers["retry-after"]) == ("too_many_in_flight", "1")
        assert (await answered(other, 200)).json()["meta"]["total"] == 0
        running += [await stack.enter_async_context(PartialRequest(other, f"running {n}")) for n in range(2)]
        shed = await answered(third, 503)
        assert (shed.json()["code"], shed.headers["retry-after"]) == ("overloaded", "1")
        assert limited.status("/live") == limited.status("/ready") == 200
        await reported(limited, "in_flight")
        assert await asyncio.gather(*(request.finish() for request in running)) == [201] * 4
    for account in (one, other, third):
        await answered(account, 200)


async def disconnected(service: Service, limit: str) -> float:
    return metric(await scrape(service), "stoa_slow_clients_disconnected_total", limit=limit)


async def test_clients_that_do_not_take_their_responses_are_disconnected_and_others_are_served(
    limited: Service,
) -> None:
    account = await limited.account("unsent")
    with ExitStack() as stack:
        for number in range(UNREAD_CLIENTS):
            client = connect(limited.port, receive_bytes=8_192, forwarded_for=f"198.51.100.{number}")
            stack.enter_context(client)
        async with account.client() as client, asyncio.timeout(PATIENCE_S):
            while await disconnected(limited, "worker") < UNREAD_CLIENTS // 4:
                assert (await client.get("/notes")).status_code == 200
                await asyncio.sleep(0.1)
        async with limited.client() as client:
            assert (await client.get("/docs")).status_code == 200
        assert limited.status("/live") == limited.status("/ready") == 200
        assert metric(await scrape(limited), "stoa_unsent_bytes") <= MAX_UNSENT_BYTES


async def test_the_clients_of_one_address_leave_room_for_others(limited: Service) -> None:
    before = await disconnected(limited, "address")
    with ExitStack() as stack:
        patient = stack.enter_context(connect(limited.port, receive_bytes=8_192, forwarded_for="192.0.2.2"))
        for _ in range(UNREAD_CLIENTS):
            stack.enter_context(connect(limited.port, receive_bytes=8_192, forwarded_for="192.0.2.1"))
        async with asyncio.timeout(PATIENCE_S):
            while await disconnected(limited, "address") == before:
                await asyncio.sleep(0.1)
        patient.settimeout(PATIENCE_S)
        received = 0
        while received < 2_000_000:
            received += len(part := await asyncio.to_thread(patient.recv, 262_144))
            assert part, "the connection of the other client was closed"
