"""Workers killed under load are replaced, and no acknowledged write is lost or applied twice."""

import asyncio
import os
from pathlib import Path
from signal import SIGKILL

import httpx

from stoa.db.pool import connect
from tests.support.service import PATIENCE_S, WITH_NOTES, Account, Service, new_database, until

WRITERS = 4
KILLS = 6


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


async def test_repeated_kills_of_workers_neither_stop_the_service_nor_lose_writes(tmp_path: Path) -> None:
    with Service(tmp_path, database_url=await new_database(f"killed_{os.getpid()}"), command=WITH_NOTES) as service:
        await service.add_notes()
        account = await service.account("killed")
        done = asyncio.Event()
        writers = [asyncio.create_task(write_on(account, f"writer-{n}", done)) for n in range(WRITERS)]
        for turn in range(KILLS):
            await asyncio.to_thread(until, lambda: len(service.workers()) == 2, "two workers run")
            await asyncio.sleep(0.2)
            for worker in service.workers()[: 1 + turn % 2]:  # alternately one and all of them
                os.kill(worker, SIGKILL)
        await asyncio.to_thread(until, lambda: service.status("/ready") == 200, "it answers again")
        done.set()
        written = [title for titles in await asyncio.gather(*writers) for title in titles]
        assert not service.ended
        db = await connect(service.database_url)
        rows = await db.fetch("SELECT title FROM notes WHERE title LIKE 'writer-%'")
        await db.close()
        assert sorted(row[0] for row in rows) == sorted(written)
        assert service.output().count("a worker exited unexpectedly") >= KILLS
        assert service.stop() == 0
