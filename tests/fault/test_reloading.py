"""On SIGHUP the workers are relieved one by one, and nobody notices: neither who comes, nor who is there, nor who idles."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGHUP

import pytest

from tests.support.service import PATIENCE_S, WITH_NOTES, Held, Service, alive, new_database, until


@pytest.fixture(scope="module")
async def lone(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service with a single worker, whose key lies in its folder."""
    url = await new_database(f"reload_{os.getpid()}")
    folder = tmp_path_factory.mktemp("reload")
    with Service(folder, database_url=url, command=WITH_NOTES, workers=1, secret_key="") as service:
        await service.add_notes()
        yield service


def reload(service: Service) -> int:
    """Ask for new workers; answers the old one."""
    [old] = service.workers()
    os.kill(service.pid, SIGHUP)
    return old


async def test_whoever_comes_while_a_worker_is_relieved_is_served(lone: Service) -> None:
    old = reload(lone)
    statuses: set[int] = set()
    while alive(old):
        statuses.add(await asyncio.to_thread(lone.status, "/ready"))
    assert statuses == {200}
    assert len(lone.workers()) == 1


async def test_an_open_connection_gets_a_last_answer_that_says_so(lone: Service) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", lone.port)
    old = reload(lone)
    answers: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while not answers or b"connection: close" not in answers[-1]:
            writer.write(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            answers.append((await reader.readuntil(b"\r\n\r\n")).lower())
            length = next(line for line in answers[-1].split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        assert {answer.split()[1] for answer in answers} == {b"200"}
        assert await reader.read() == b""
    writer.close()
    await asyncio.to_thread(until, lambda: not alive(old), "the old worker has left")


async def test_a_request_that_runs_is_finished_by_the_worker_that_leaves(lone: Service) -> None:
    account = await lone.account("reloaded")
    async with Held(account, "begun before") as request:
        old = reload(lone)
        await asyncio.to_thread(until, lambda: lone.workers() not in ([old], []), "a new worker starts")
        assert await request.let_go() == 201
    await asyncio.to_thread(until, lambda: not alive(old), "the old worker has left")


async def test_a_worker_is_not_relieved_by_one_that_does_not_start(lone: Service) -> None:
    key = lone.folder / "secret.key"
    whole = key.read_text()
    key.write_text("ab" * 8)
    old = reload(lone)
    try:
        await asyncio.to_thread(until, lambda: "the old ones stay" in lone.said(), "the new worker gave up")
    finally:
        key.write_text(whole)
    assert lone.workers() == [old]
    assert lone.status("/ready") == 200


async def test_a_stop_is_heard_while_workers_are_relieved(tmp_path: Path) -> None:
    url = await new_database(f"reload_stop_{os.getpid()}")
    with Service(tmp_path, database_url=url) as service:
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)  # idles, and so makes a goodbye long
        os.kill(service.pid, SIGHUP)
        await asyncio.to_thread(until, lambda: len(service.workers()) == 3, "a new worker starts")
        assert await asyncio.to_thread(service.stop) == 0
        writer.close()
        assert "Traceback" not in service.said()
