"""Streams of a running service: a client, a worker, the database or the service goes away, and every row arrives once."""

import asyncio
import json
import os
import signal
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException

import pytest

from stoa.db.connection import connect
from tests.fault.test_lost_database import Postgres
from tests.support.data_folders import copy_migrated
from tests.support.service import PATIENCE_S, WITH_NOTES, Account, Service, until
from tests.support.stream_client import StreamClient, fill, names, titles

ROWS = 4_000  # of two kilobytes each
NDJSON = {"accept": "application/x-ndjson"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(copy_migrated(tmp_path_factory.mktemp("streams") / "postgres")) as running:
        yield running


@pytest.fixture(scope="module")
def service(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with one connection to its database, so that a stream that held it would block everybody."""
    with Service(
        tmp_path_factory.mktemp("service"),
        database_url=server.dsn,
        command=WITH_NOTES,
        background=False,
        workers=1,
        database_pool=1,
    ) as running:
        yield running


async def filled(service: Service, handle: str, rows: int = ROWS) -> Account:
    await service.add_notes()
    account = await service.account(handle)
    await fill(account, rows)
    return account


def is_checkpoint(line: dict[str, object]) -> bool:
    return "meta" in line


def resumed(account: Account, before: StreamClient, cursor: str) -> list[str]:
    """The titles of a stream up to a cursor, and of the one that resumes there."""
    kept = before.lines
    place = next(n for n, line in enumerate(kept) if cursor in (line.get("cursor"), line.get("meta", {}).get("cursor")))
    with StreamClient.when_free(account, cursor=cursor) as after:
        assert after.rest()["meta"]["complete"]
        return [*titles(kept[:place]), *titles(after.lines)]


def last_cursor(client: StreamClient) -> str:
    return [line["meta"]["cursor"] for line in client.lines if "meta" in line][-1]


async def test_a_client_that_is_killed_resumes_at_its_last_checkpoint(service: Service) -> None:
    account = await filled(service, "killed-client")
    with StreamClient(account) as client:
        client.read_until(is_checkpoint)
        client.read_until(is_checkpoint)
        client.take(7)  # which are sent again
    assert await asyncio.to_thread(resumed, account, client, last_cursor(client)) == names(ROWS)


@pytest.mark.long
async def test_after_kill_9_of_its_worker_a_stream_has_no_last_line_and_resumes(service: Service) -> None:
    account = await filled(service, "killed-worker")
    with StreamClient(account) as client:
        client.read_until(is_checkpoint)
        [worker] = service.workers()
        os.kill(worker, signal.SIGKILL)
        with suppress(OSError, HTTPException, json.JSONDecodeError):  # a line may be cut
            client.rest()
    assert not any("complete" in (line, *line.get("meta", {})) for line in client.lines)
    await asyncio.to_thread(until, lambda: service.status("/ready") == 200, "another worker serves")
    assert await asyncio.to_thread(resumed, account, client, last_cursor(client)) == names(ROWS)


_HELD = """SELECT pid, state, xact_start, query FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
              AND (xact_start IS NOT NULL OR state <> 'idle')"""
_PIDS = """SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


async def test_a_slow_reader_holds_no_connection_and_no_transaction(service: Service) -> None:
    account, other = await filled(service, "slow-reader"), await service.account("beside")
    db = await connect(service.database_url)
    with StreamClient(account) as client:
        client.take(3)
        held = await db.fetch(_HELD)
        async with asyncio.timeout(PATIENCE_S):
            while held:  # rows are read ahead until nothing more can be sent
                await asyncio.sleep(0.05)
                held = await db.fetch(_HELD)
        before = await db.fetch(_PIDS)
        assert await other.statuses() == {200}, "they need the only connection"
        assert await db.fetch(_PIDS) == before, "the connection that it used is the one that others use"
        assert not any(line.get("meta", {}).get("complete") for line in client.lines)
        assert (await asyncio.to_thread(client.rest))["meta"]["complete"]
    await db.close()
    assert titles(client.lines) == names(ROWS)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("app uninstall {app} {store}", "app_not_installed"),
        ("token revoke {token}", "invalid_token"),
        ("app install {app} {store} --scope orders:read", "insufficient_scope"),
    ],
)
async def test_a_revocation_ends_a_stream_with_its_reason(service: Service, command: str, code: str) -> None:
    account = await filled(service, code.replace("_", "-"))
    with StreamClient(account) as client:
        client.take(3)
        words = command.format(token=account.token, app=account.client_id, store=account.handle).split()
        ended = await asyncio.to_thread(service.run, *words)
        assert ended.returncode == 0, ended.stderr
        await asyncio.sleep(1)  # after which every worker knows
        end = await asyncio.to_thread(client.rest)
    assert (end["code"], end["complete"]) == (code, False)
    sent = len(titles(client.lines))
    assert titles(client.lines) == names(ROWS)[:sent]
    assert 0 < sent < ROWS


async def test_a_restart_of_the_database_delays_a_stream(service: Service, server: Postgres) -> None:
    account = await filled(service, "restarted")
    with StreamClient(account) as client:
        client.take(3)
        with server.stopped():
            reading = asyncio.create_task(asyncio.to_thread(client.rest))
            await asyncio.sleep(1)
            assert not reading.done(), "it waits for the database"
        assert (await reading)["meta"]["complete"]
    assert titles(client.lines) == names(ROWS)


async def test_a_service_that_stops_ends_a_stream_with_a_problem_and_its_cursor(service: Service) -> None:
    account = await filled(service, "stopped")
    with StreamClient(account) as client:
        client.take(3)
        os.kill(service.pid, signal.SIGTERM)
        end = await asyncio.to_thread(client.rest)
    assert (end["code"], end["retryable"], end["complete"]) == ("unavailable", True, False)
    assert service.wait() == 0
    assert "Traceback" not in service.output()
    service.start()
    assert await asyncio.to_thread(resumed, account, client, end["cursor"]) == names(ROWS)


async def test_a_reload_ends_a_stream_and_the_new_worker_resumes_it(service: Service) -> None:
    account = await filled(service, "reloaded")
    async with service.client() as beside:
        assert (await beside.get("/live")).headers.get("connection") != "close"
        with StreamClient(account) as client:
            client.take(3)
            os.kill(service.pid, signal.SIGHUP)
            async with asyncio.timeout(2 * PATIENCE_S):  # in which another worker starts
                while (await beside.get("/live")).headers.get("connection") != "close":
                    await asyncio.sleep(0.1)
            end = await asyncio.to_thread(client.rest)
    assert (end["code"], end["complete"]) == ("unavailable", False)
    assert await asyncio.to_thread(resumed, account, client, end["cursor"]) == names(ROWS)


async def test_head_of_a_stream_leaves_its_connection_usable(service: Service) -> None:
    account = await filled(service, "head", 300)
    async with account.client() as client:
        for _ in range(3):
            answer = await client.head("/notes", headers=NDJSON)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"] == "application/x-ndjson"
            assert (await client.get("/notes", params={"limit": 1})).json()["meta"]["total"] == 300
        assert (await client.get("/notes", headers=NDJSON)).text.count("\n") == 301, "no lease was taken"


async def test_a_compressed_stream_is_readable_before_its_end(service: Service) -> None:
    account = await filled(service, "compressed")
    with StreamClient(account, **{"accept-encoding": "gzip", "prefer": ""}) as client:
        response = client.response
        assert response.headers["content-encoding"] == "gzip"
        unpacker = zlib.decompressobj(wbits=31)
        text = b""
        while b"\n" not in text:
            text += unpacker.decompress(response.read1(1_000))
        assert json.loads(text.partition(b"\n")[0])["title"] == "note 1"
        while part := response.read(65_536):
            text += unpacker.decompress(part)
        assert unpacker.eof
    lines = [json.loads(line) for line in text.splitlines()]
    assert titles(lines) == names(ROWS)
    assert lines[-1]["meta"]["complete"]
