"""While the database is away every request is told so at once; when it is back, so is the service."""

import asyncio
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from stoa.db.embedded import EmbeddedPostgres
from tests.support.service import Account, Service, alive, until

# Generous: on an idle machine a request is told within 2 s (7 s when the server is silent), and served 1 s after.
TOLD_S, BACK_S = 20, 30


class Postgres(EmbeddedPostgres):
    """A server that the service does not own, and that can be lost in every way."""

    @contextmanager
    def stopped(self) -> Generator[None]:
        self.stop()
        yield
        self.start()

    @contextmanager
    def killed(self) -> Generator[None]:
        os.kill(self._postmaster()[0], signal.SIGKILL)
        yield
        self.stop()
        self.start()

    @contextmanager
    def silent(self) -> Generator[None]:
        frozen = self._processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


async def ask_often(account: Account) -> list[tuple[httpx.Response, float]]:
    """More requests at the same time than there are connections to the database, and how long each took."""

    async def ask() -> tuple[httpx.Response, float]:
        async with account.client() as client:
            started = time.monotonic()
            return await client.get("/products"), time.monotonic() - started

    return await asyncio.gather(*(ask() for _ in range(40)))


async def ask_for_token(account: Account) -> httpx.Response:
    async with account.service.client() as client:
        credentials = (account.client_id, account.client_secret)
        return await client.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=credentials)


async def assert_told(account: Account) -> None:
    live, ready, token, answers = await asyncio.gather(
        asyncio.to_thread(account.service.status, "/live"),
        asyncio.to_thread(account.service.status, "/ready"),
        ask_for_token(account),
        ask_often(account),
    )
    assert (live, ready, token.status_code) == (200, 503, 503)
    assert "retry-after" in token.headers
    for answer, seconds in answers:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
        assert answer.json()["code"] == "unavailable"
        assert seconds < TOLD_S


async def assert_back(account: Account) -> None:
    until(lambda: account.service.status("/ready") == 200, "the service is ready again", seconds=BACK_S)
    for answer, seconds in await ask_often(account):
        assert answer.status_code == 200, answer.text
        assert seconds < TOLD_S


async def test_a_database_that_stops_or_is_killed_or_falls_silent_is_missed_only_while_it_is_away(
    tmp_path: Path,
) -> None:
    with (
        Postgres(tmp_path / "postgres") as server,
        Service(tmp_path / "service", database_url=server.dsn, app_concurrency=100) as service,
    ):
        account = await service.account("outage")
        workers = service.workers()
        for lost in (server.stopped, server.killed, server.silent):
            await assert_back(account)
            asking = asyncio.create_task(ask_often(account))
            await asyncio.sleep(0.05)
            with lost():
                await assert_told(account)
                assert {answer.status_code for answer, _ in await asking} <= {200, 503}
        await assert_back(account)
        assert service.workers() == workers
        assert service.stop() == 0


def test_an_embedded_database_that_dies_is_started_again(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        postmaster = int((tmp_path / "postgres/data/postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGKILL)
        until(lambda: service.status("/ready") == 200 and not alive(postmaster), "the database is back", seconds=BACK_S)
        assert service.status("/live") == 200
