"""Slow and silent clients are disconnected, and do not affect others."""

import asyncio
import resource
import time

from tests.support.partial_request import PartialRequest
from tests.support.service import Service

HEADERS_S = 10
LATEST_S = 40  # generous: on an idle machine it is half a second after the limit
EACH = 300  # together more than Granian accepts by default
SLOW = {
    "silent": [],
    "half of the headers": [b"GET /live HTTP/1.1\r\nhost: localhost\r\nx-slow: "],
    "headers that drip": [b"GET /live HTTP/1.1\r\nx-slow: ", *([b"z"] * LATEST_S)],
    "idle after an answer": [b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"],
}


async def seconds_until_closed(port: int, parts: list[bytes]) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.monotonic()

    async def send() -> None:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(2)

    sending = asyncio.create_task(send())
    try:
        async with asyncio.timeout(LATEST_S):
            while await reader.read(65_536):
                pass
    except ConnectionError:  # closed while a byte was being sent
        pass
    finally:
        sending.cancel()
        writer.close()
    return time.monotonic() - started


async def test_clients_without_a_complete_request_are_closed_after_ten_seconds_and_block_no_others(
    service: Service,
) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    account = await service.account("crowded")
    kinds = [kind for kind in SLOW for _ in range(EACH)]
    clients = asyncio.gather(*(seconds_until_closed(service.port, SLOW[kind]) for kind in kinds))
    await asyncio.sleep(HEADERS_S / 3)
    assert await account.statuses() == {200}
    for kind, seconds in zip(kinds, await clients, strict=True):
        assert HEADERS_S / 2 < seconds < LATEST_S, kind


async def test_a_body_that_does_not_arrive_gets_408(service: Service) -> None:
    async with PartialRequest(await service.account("slow-body"), "too slow") as request:
        assert await request.status() == 408


async def test_a_body_that_arrives_too_slowly_gets_408(service: Service) -> None:
    async with PartialRequest(await service.account("dripping-body"), "so many letters" * 100) as request:
        dripping = asyncio.create_task(request.drip())
        assert await request.status() == 408
        dripping.cancel()
