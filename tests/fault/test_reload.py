"""On SIGHUP the service moves to the installed release without a failed request."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGHUP, SIGKILL

import pytest

import stoa
from stoa.db.connection import connect
from tests.support.partial_request import PartialRequest
from tests.support.service import PATIENCE_S, WITH_NOTES, Service, alive, migrated_database, until
from tests.support.service import children as processes

# The changes of a new release: every response and the schema name it.
NEW_CODE = """

class NewRelease(Application):
    async def __call__(self, scope, receive, send):
        async def send_marked(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-release", b"new")]
            await send(message)

        await super().__call__(scope, receive, send_marked)


def create():
    settings = load()
    configure_logging(settings)
    return NewRelease(settings)
"""
NEW_SCHEMA = "CREATE TABLE new_release (); COMMENT ON TABLE new_release IS 'global';"


@pytest.fixture(scope="module")
async def single(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service with a single worker, whose secret key is in its data folder."""
    url = await migrated_database(f"reload_{os.getpid()}")
    folder = tmp_path_factory.mktemp("reload")
    with Service(folder, database_url=url, command=WITH_NOTES, background=False, workers=1, secret_key="") as service:
        await service.add_notes()
        yield service


def reload(service: Service) -> int:
    """Ask for a reload; returns the old worker."""
    [old] = service.workers()
    os.kill(service.pid, SIGHUP)
    return old


async def exited(worker: int) -> None:
    await asyncio.to_thread(until, lambda: not alive(worker), "the old worker has exited")


def installed_copy(folder: Path) -> Path:
    """A copy of the package with its bytecode, for a test to change while it runs."""
    package = Path(stoa.__file__).parent
    shutil.copytree(package, folder / "stoa")
    return folder / "stoa"


def install_new_release(package: Path) -> None:
    with (package / "app.py").open("a") as code:
        code.write(NEW_CODE)
    schema = next(package.glob("*/0001_*.sql")).parent
    (schema / "9000_new_release.sql").write_text(NEW_SCHEMA)


async def call(service: Service, releases: set[str], failures: list[str], done: asyncio.Event) -> None:
    """Send requests until `done`, on new and on open connections in turn, and record the release that responds."""
    while not done.is_set():
        async with service.client() as client:
            for _ in range(5):
                response = await client.get("/ready")
                if response.status_code != 200:
                    failures.append(response.text)
                releases.add(response.headers.get("x-release", "old"))


@pytest.mark.long
async def test_a_new_release_takes_over_without_a_failed_request(tmp_path: Path) -> None:
    package = installed_copy(tmp_path / "site-packages")
    service = Service(tmp_path / "data", database_url=await migrated_database(f"upgrade_{os.getpid()}"))
    service.environment["PYTHONPATH"] = os.pathsep.join([str(package.parent), service.environment["PYTHONPATH"]])
    with service:
        releases: set[str] = set()
        failures: list[str] = []
        done = asyncio.Event()
        callers = [asyncio.create_task(call(service, releases, failures, done)) for _ in range(4)]
        await asyncio.sleep(0.5)
        assert releases == {"old"}
        before = children(service)
        install_new_release(package)
        os.kill(service.pid, SIGHUP)
        await asyncio.to_thread(until, lambda: "reload finished" in service.output(), "the reload is finished")
        await asyncio.to_thread(until, lambda: not any(map(alive, before)), "every old process has exited")
        done.set()
        await asyncio.gather(*callers)
        assert failures == []
        assert releases == {"old", "new"}
        assert {await asyncio.to_thread(release, service) for _ in range(12)} == {"new"}
        assert len(service.workers()) == 2
        assert await table_exists(service, "new_release")
        assert service.stop() == 0
        assert "Traceback" not in service.output()


def children(service: Service) -> list[int]:
    return [int(child) for child in Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()]


def release(service: Service) -> str:
    return service.headers("/live").get("x-release", "old")


async def table_exists(service: Service, name: str) -> bool:
    db = await connect(service.database_url)
    [[found]] = await db.fetch("SELECT to_regclass($1) IS NOT NULL", name)
    await db.close()
    return found


async def test_new_connections_are_served_while_a_worker_is_replaced(single: Service) -> None:
    old = reload(single)
    statuses: set[int] = set()
    while alive(old):
        statuses.add(await asyncio.to_thread(single.status, "/ready"))
    assert statuses == {200}
    assert len(single.workers()) == 1


async def test_an_open_connection_gets_a_last_response_that_closes_it(single: Service) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", single.port)
    old = reload(single)
    heads: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while not heads or b"connection: close" not in heads[-1]:
            writer.write(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
            length = next(line for line in heads[-1].split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        assert {head.split()[1] for head in heads} == {b"200"}
        assert await reader.read() == b""
    writer.close()
    await exited(old)


async def test_a_running_request_is_finished_by_the_old_worker(single: Service) -> None:
    account = await single.account("reloaded")
    async with PartialRequest(account, "started before the reload") as request:
        old = reload(single)
        await asyncio.to_thread(until, lambda: single.workers() not in ([old], []), "a new worker starts")
        assert await request.finish() == 201
    await exited(old)


@pytest.mark.long
async def test_a_worker_that_does_not_start_leaves_the_old_one_serving(single: Service) -> None:
    key = single.folder / "secret.key"
    text = key.read_text()
    key.write_text("ab" * 8)
    old = reload(single)
    try:
        await asyncio.to_thread(until, lambda: "a new worker did not start" in single.output(), "the reload failed")
    finally:
        key.write_text(text)
    assert single.workers() == [old]
    assert single.status("/ready") == 200


@pytest.mark.long
async def test_a_failed_migration_leaves_the_old_release_serving(tmp_path: Path) -> None:
    package = installed_copy(tmp_path / "site-packages")
    url = await migrated_database(f"stuck_{os.getpid()}")
    service = Service(tmp_path / "data", database_url=url, background=False, workers=1)
    service.environment["PYTHONPATH"] = os.pathsep.join([str(package.parent), service.environment["PYTHONPATH"]])
    with service:
        install_new_release(package)
        next(package.glob("*/9000_*.sql")).write_text("SELECT no_such_function();")
        old = reload(service)
        await asyncio.to_thread(until, lambda: "the migration failed" in service.output(), "the reload failed")
        assert service.workers() == [old]
        assert release(service) == "old"


@pytest.mark.long
async def test_connections_avoid_a_worker_that_dies_during_the_migration(tmp_path: Path) -> None:
    async def status() -> int:
        async with service.client() as client:
            return (await client.get("/live")).status_code

    url = await migrated_database(f"reload_kill_{os.getpid()}")
    with Service(tmp_path, database_url=url, background=False) as service:
        other = await connect(url)
        try:
            await other.fetch("SELECT pg_advisory_lock(7306231)")  # the migration waits for it
            os.kill(service.pid, SIGHUP)
            await asyncio.to_thread(until, lambda: processes(service.pid, b"migrate"), "the migration has started")
            killed = service.workers()[0]
            os.kill(killed, SIGKILL)
            await asyncio.sleep(1)
            async with asyncio.timeout(PATIENCE_S / 4):
                assert {await status() for _ in range(12)} == {200}
        finally:
            await other.close()
        await asyncio.to_thread(until, lambda: "reload finished" in service.output(), "the reload is finished")
        assert killed not in service.workers()
        assert len(service.workers()) == 2


@pytest.mark.parametrize("options", [(), ("--no-migrate",)])
@pytest.mark.long
async def test_a_service_outlives_processes_that_cannot_start(tmp_path: Path, options: tuple[str, ...]) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    url = await migrated_database(f"unstarted_{os.getpid()}_{len(options)}")
    command = (str(python), "-m", "stoa")
    with Service(tmp_path, database_url=url, command=command, options=options) as service:
        await asyncio.to_thread(until, lambda: len(processes(service.pid, b"stoa.worker")) == 2, "both have started")
        before = children(service)
        [killed] = set(processes(service.pid, b"stoa.worker")) - set(processes(service.pid, b"--deliveries"))
        python.rename(tmp_path / "away")  # as while somebody installs a release
        os.kill(service.pid, SIGHUP)
        await asyncio.to_thread(until, lambda: "reload failed" in service.output(), "the reload failed")
        assert service.status("/ready") == 200
        assert children(service) == before
        for each in (service.workers()[0], killed):
            os.kill(each, SIGKILL)
        refusals = [f'"process":"{kind}","error":"FileNotFoundError"' for kind in ("web", "imports")]
        await asyncio.to_thread(until, lambda: all(each in service.output() for each in refusals), "nothing can start")
        assert service.status("/ready") == 200
        (tmp_path / "away").rename(python)
        await asyncio.to_thread(until, lambda: len(children(service)) == len(before), "all run again")
        assert service.stop() == 0
        assert "Traceback" not in service.output()


@pytest.mark.long
async def test_a_stop_during_a_reload_ends_all_workers(tmp_path: Path) -> None:
    url = await migrated_database(f"reload_stop_{os.getpid()}")
    with Service(tmp_path, database_url=url, background=False) as service:
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)  # idles, so that draining takes long
        os.kill(service.pid, SIGHUP)
        await asyncio.to_thread(until, lambda: len(service.workers()) == 3, "a new worker starts")
        workers = service.workers()
        assert await asyncio.to_thread(service.stop) == 0
        writer.close()
        assert not any(map(alive, workers))
        assert "Traceback" not in service.output()
