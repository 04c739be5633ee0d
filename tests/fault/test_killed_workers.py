"""Workers killed under load are replaced, and no acknowledged write is lost or applied twice."""

import asyncio
import os
from collections.abc import AsyncIterator
from signal import SIGKILL

import httpx
import pytest

from stoa.db.connection import connect
from tests.support.service import PATIENCE_S, WITH_NOTES, Account, Service, alive, migrated_database, until

WRITERS = 4
KILLS = 6


@pytest.fixture(scope="module")
async def killable(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Two workers, for this module alone."""
    url = await migrated_database(f"killed_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("killed"), database_url=url, command=WITH_NOTES, background=False) as service:
        await service.add_notes()
        yield service


async def write(client: httpx.AsyncClient, title: str) -> int:
    """Create a note as a careful app does: retry with the same key until it succeeds; returns the number of attempts."""
    async with asyncio.timeout(PATIENCE_S):
        for attempts in range(1, 10_000):
            try:
                body, key = {"title": title, "price": "1.00"}, {"idempotency-key": title}
                answer = await client.post("/notes", json=body, headers=key)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 201:
                return attempts
            assert answer is None or answer.status_code in (409, 503), answer.text
            await asyncio.sleep(0.05)
    raise AssertionError


async def write_on(account: Account, name: str, done: asyncio.Event) -> list[str]:
    written: list[str] = []
    async with account.client() as client:
        while not done.is_set():
            written.append(f"{name}-{len(written)}")
            await write(client, written[-1])
    return written


@pytest.mark.parametrize("killed", [1, 2])
@pytest.mark.long
async def test_connections_are_neither_refused_nor_reset_while_killed_workers_are_replaced(
    killable: Service, killed: int
) -> None:
    async def status() -> int:
        async with killable.client() as client:
            return (await client.get("/live")).status_code

    await asyncio.to_thread(until, lambda: len(killable.workers()) == 2, "two workers run")
    workers = killable.workers()
    for worker in workers[:killed]:
        os.kill(worker, SIGKILL)
    await asyncio.to_thread(until, lambda: not any(map(alive, workers[:killed])), "they are dead")
    statuses = [await asyncio.gather(*(status() for _ in range(10))) for _ in range(5)]
    assert {each for some in statuses for each in some} == {200}
    await asyncio.to_thread(until, lambda: len(set(killable.workers()) - set(workers)) == killed, "they are replaced")


@pytest.mark.long
async def test_repeated_kills_of_workers_neither_stop_the_service_nor_lose_writes(killable: Service) -> None:
    account = await killable.account("killed")
    done = asyncio.Event()
    writers = [asyncio.create_task(write_on(account, f"writer-{n}", done)) for n in range(WRITERS)]
    for turn in range(KILLS):
        await asyncio.to_thread(until, lambda: len(killable.workers()) == 2, "two workers run")
        await asyncio.sleep(0.2)
        for worker in killable.workers()[: 1 + turn % 2]:  # alternately one and all of them
            os.kill(worker, SIGKILL)
    await asyncio.to_thread(until, lambda: killable.status("/ready") == 200, "it answers again")
    done.set()
    written = [title for titles in await asyncio.gather(*writers) for title in titles]
    assert not killable.ended
    db = await connect(killable.database_url)
    rows = await db.fetch("SELECT title FROM notes WHERE title LIKE 'writer-%'")
    await db.close()
    assert sorted(row[0] for row in rows) == sorted(written)
    assert killable.output().count("a worker exited unexpectedly") >= KILLS
    assert killable.stop() == 0
