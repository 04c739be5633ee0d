"""Slow and silent clients are disconnected, and do not affect others."""

import asyncio
import resource
import socket
import time
from pathlib import Path

import pytest

from stoa.rest.unsent import KERNEL_BYTES
from tests.fault.conftest import SEND_SECONDS
from tests.support.metrics import metric, scrape
from tests.support.partial_request import PartialRequest
from tests.support.service import Service, until
from tests.support.unread_client import connect

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


@pytest.mark.long
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


def unsent_bytes(port: int, client: socket.socket) -> int:
    """What the kernel holds of the responses that the service has sent to a client."""
    ends = f":{port:04X}", f":{client.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    [queues] = [row[4] for row in rows if row[1].endswith(ends[0]) and row[2].endswith(ends[1])]
    return int(queues.split(":")[0], 16)


async def answered(service: Service, operation: str) -> float:
    return metric(await scrape(service), "stoa_requests_total", operation=operation)


def open_connections(port: int) -> set[int]:
    """The ports of the clients whose connection the service holds open."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = [row for row in rows if row[3] == "01" and row[1].endswith(f":{port:04X}")]
    return {int(row[2].split(":")[1], 16) for row in established}


@pytest.mark.long
async def test_clients_that_do_not_read_are_closed_and_block_no_others(service: Service) -> None:
    account = await service.account("unread")
    clients = [connect(service.port) for _ in range(30)]
    try:
        ports = {client.getsockname()[1] for client in clients}
        assert open_connections(service.port) >= ports
        assert await account.statuses() == {200}
        async with asyncio.timeout(LATEST_S):
            while open_connections(service.port) & ports:
                await asyncio.sleep(0.1)
    finally:
        for client in clients:
            client.close()


@pytest.mark.long
async def test_what_a_client_does_not_read_is_not_buffered_and_its_request_ends_with_the_connection(
    embedded: Service,
) -> None:
    port, before = embedded.port, await answered(embedded, "/openapi.json")
    clients = [connect(port, receive_bytes=8_192) for _ in range(10)]
    try:
        await asyncio.to_thread(until, lambda: all(unsent_bytes(port, each) for each in clients), "it has sent")
        await asyncio.sleep(0.5)
        assert max(unsent_bytes(port, each) for each in clients) < 4 * KERNEL_BYTES
        assert await answered(embedded, "/openapi.json") == before  # each waits until its client takes the next part
    finally:
        for client in clients:
            client.close()
    async with asyncio.timeout(LATEST_S):
        while await answered(embedded, "/openapi.json") < before + len(clients):
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_a_client_that_reads_slowly_gets_the_whole_response(service: Service) -> None:
    async with service.client() as other:
        # The document names the host of the request, so the size depends on it.
        plain = {"accept-encoding": "identity", "host": "localhost"}
        size = len((await other.get("/openapi.json", headers=plain)).content)
    client = connect(service.port)
    client.settimeout(LATEST_S)
    received, started = 0, time.monotonic()
    with client:
        while received < 40 * size:
            pause = SEND_SECONDS / 4 if time.monotonic() < started + 2 * SEND_SECONDS else 0
            await asyncio.sleep(pause)
            part = await asyncio.to_thread(client.recv, 262_144)
            assert part, f"the connection was closed after {received} bytes"
            received += len(part)
    assert time.monotonic() - started > 2 * SEND_SECONDS
