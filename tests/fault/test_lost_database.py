"""While the database is unavailable, requests fail fast with 503; when it is back, they succeed again."""

import asyncio
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from stoa.db.embedded import EmbeddedPostgres
from tests.support.data_folders import copy_migrated
from tests.support.service import Account, Service, alive, until

# Generous: on an idle machine, requests fail within 2 s (7 s if the server hangs), and succeed again after 1 s.
FAIL_S, RECOVER_S = 20, 30


class Postgres(EmbeddedPostgres):
    """A server that the service does not own, and that can fail in different ways."""

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
    def hung(self) -> Generator[None]:
        frozen = self._processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


async def send_many(account: Account) -> list[tuple[httpx.Response, float]]:
    """Send more concurrent requests than there are database connections; returns the responses and durations."""

    async def send() -> tuple[httpx.Response, float]:
        async with account.client() as client:
            started = time.monotonic()
            return await client.get("/products"), time.monotonic() - started

    return await asyncio.gather(*(send() for _ in range(40)))


async def request_token(account: Account) -> httpx.Response:
    async with account.service.client() as client:
        credentials = (account.client_id, account.client_secret)
        return await client.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=credentials)


async def assert_unavailable(account: Account) -> None:
    live, ready, token, answers = await asyncio.gather(
        asyncio.to_thread(account.service.status, "/live"),
        asyncio.to_thread(account.service.status, "/ready"),
        request_token(account),
        send_many(account),
    )
    assert (live, ready, token.status_code) == (200, 503, 503)
    assert "retry-after" in token.headers
    for answer, seconds in answers:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
        # While others wait for a connection, further requests are shed.
        assert answer.json()["code"] in ("unavailable", "overloaded")
        assert seconds < FAIL_S


async def assert_recovered(account: Account) -> None:
    until(lambda: account.service.status("/ready") == 200, "the service is ready again", seconds=RECOVER_S)
    for answer, seconds in await send_many(account):
        assert answer.status_code == 200, answer.text
        assert seconds < FAIL_S


@pytest.mark.long
async def test_the_service_recovers_when_a_stopped_killed_or_hung_database_is_back(
    tmp_path: Path,
) -> None:
    with (
        Postgres(copy_migrated(tmp_path / "postgres")) as server,
        Service(tmp_path / "service", database_url=server.dsn, app_concurrency=100, background=False) as service,
    ):
        account = await service.account("outage")
        workers = service.workers()
        for outage in (server.stopped, server.killed, server.hung):
            await assert_recovered(account)
            sending = asyncio.create_task(send_many(account))
            await asyncio.sleep(0.05)
            with outage():
                await assert_unavailable(account)
                assert {answer.status_code for answer, _ in await sending} <= {200, 503}
        await assert_recovered(account)
        assert service.workers() == workers
        assert service.stop() == 0


@pytest.mark.long
def test_an_embedded_database_that_dies_is_restarted(tmp_path: Path) -> None:
    copy_migrated(tmp_path / "postgres")
    with Service(tmp_path, background=False) as service:
        postmaster = int((tmp_path / "postgres/data/postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGKILL)
        until(
            lambda: service.status("/ready") == 200 and not alive(postmaster), "the database is back", seconds=RECOVER_S
        )
        assert service.status("/live") == 200


@pytest.mark.long
def test_an_embedded_database_is_restarted_after_a_start_that_the_system_refused(tmp_path: Path) -> None:
    copy_migrated(tmp_path / "postgres")
    with Service(tmp_path, background=False) as service:
        postmaster = int((tmp_path / "postgres/data/postmaster.pid").read_text().splitlines()[0])
        written_at_start = tmp_path / "postgres/postgresql.conf"
        written_at_start.unlink()
        written_at_start.mkdir()
        os.kill(postmaster, signal.SIGKILL)
        until(lambda: "the database does not restart" in service.output(), "a start failed")
        written_at_start.rmdir()
        until(lambda: service.status("/ready") == 200, "the database is back", seconds=RECOVER_S)
