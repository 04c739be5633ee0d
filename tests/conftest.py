"""One PostgreSQL server per run, one database per test process, and new stores for each test."""

import asyncio
import gc
import hashlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import hypothesis
import pytest
import structlog
from hypothesis import HealthCheck

from stoa.accounts import ownership
from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.cluster.distribution import distribute
from stoa.db import pool, waiting
from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.pool import Database
from stoa.demo import development_stores
from stoa.rest import body
from stoa.settings import Settings, load
from tests.support import data_folders, notes, sharded
from tests.support.clocks import Clock
from tests.support.databases import (
    CLUSTER,
    PATIENCE_S,
    SERVER,
    SHARDS,
    TEMPLATE,
    directory_of,
    drop_made,
    log_fan_out,
    migrated_database,
    on_cluster,
    sharded_runs,
)
from tests.support.deadlocks import LOG, log_deadlocks
from tests.support.shops import Shop, open_shop

SECRET_KEY = hashlib.sha256(b"the key of the tests").hexdigest()
HERE = Path(__file__).parent
# Folders and files whose tests start services, servers, browsers, compilers or many commands, execute documentation, measure plans, or
# send thousands of requests. They run first, so that no process waits for another at the end; `--quick` leaves them out.
# `tests/test_slow.py` checks the list.
SLOW = (
    "access/test_commands.py", "accounting", "app_file/test_commands.py", "benchmarks/test_recording.py", "browser", "cli", "client",
    "connectors", "contract/test_endpoints.py", "contract/test_hostile.py", "contract/test_plans.py", "contract/test_shard_statements.py",
    "contract/test_unused.py", "db/test_embedded.py", "db/test_migration_phases.py", "db/test_migration_plan.py", "demo",
    "deploy/test_pictures.py", "docs", "examples", "fault", "generated", "imports", "inventory/test_races.py", "mcp",
    "operations/test_doctor.py", "orders/test_order_backup.py", "orders/test_order_races.py", "orders/test_status_groups.py",
    "pictures/test_fetching.py", "pictures/test_storage.py", "portal", "property", "reference", "rest/test_shard_routing.py", "shards",
    "test_shard_duties.py", "typescript", "upgrades", "usage/test_shutdown.py", "webhooks/api/test_schemas.py", "webhooks/delivery",
    "webhooks/test_listen.py",
)  # fmt: skip
# Of these, one process runs the whole folder. It begins with them, because another process steals the last tests of its list.
ONE_SERVICE = ("client", "connectors", "docs", "generated", "shards", "typescript", "upgrades")

# Test machines are busy, and a crowd of requests of a test is served there, too.
waiting.MOST_WAIT_S = waiting.SHED_AFTER_S = PATIENCE_S

# Test machines are busy, and one shop serves all examples of a test: neither is a health problem.
_PATIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
hypothesis.settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_PATIENT)
hypothesis.settings.register_profile("deep", hypothesis.settings.get_profile("quick"), max_examples=1_000)
hypothesis.settings.load_profile("quick")  # `make deep` uses the other


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the slow files, without importing them")


@cache
def is_slow(path: Path) -> bool:
    """Whether `SLOW` names a file or a folder that contains it."""
    return any(path.is_relative_to(HERE / name) for name in SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.option.quick and is_slow(collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the first process; the others find its URL in their environment."""
    gc.disable()  # until the tests are collected, because nothing of this is ever freed
    config.addinivalue_line("markers", "long: a scenario of about ten seconds or more, which `make test` leaves out")
    config.addinivalue_line("markers", "not_on_cluster(reason): the test means nothing on a Citus cluster")
    config.addinivalue_line("markers", "not_in_shard(reason): the test means nothing for a store in a shard")
    # A shell lets its background jobs ignore SIGINT, also their children. Then `stoa listen` would not end when a test interrupts it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if TEMPLATE not in os.environ:
        os.environ[TEMPLATE] = f"test_template_{os.getpid()}"
        config.add_cleanup(data_folders.remove_template)
    if on_cluster():
        os.environ[SERVER] = os.environ[CLUSTER]
    if SERVER in os.environ or config.option.collectonly:
        return
    folder = Path(tempfile.mkdtemp(prefix="stoa-test-"))
    server = EmbeddedPostgres(folder / "postgres", durable=False)
    os.environ[SERVER] = server.start()
    if sharded.is_on():
        server.stop()
        sharded.let_replicate(folder / "postgres")
        server.start()
    asyncio.run(log_deadlocks(server.dsn))
    os.environ[LOG] = str(folder / "postgres" / "server.log")

    def stop() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[SERVER], os.environ[LOG]

    config.add_cleanup(stop)


def _name_of(item: pytest.Item) -> str:
    """The file and the function of a test, without its parameters."""
    return f"{item.path.relative_to(HERE).as_posix()}::{item.name.partition('[')[0]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each process its share of the slow files first: the scheduler splits the list into equal parts."""
    for item in items if on_cluster() else ():
        if (marker := item.get_closest_marker("not_on_cluster")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on a cluster: {marker.args[0]}"))
    for item in items if sharded.is_on() else ():
        marker = item.get_closest_marker("not_in_shard")
        reason = marker.args[0] if marker is not None else sharded.why_apart(_name_of(item))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"not in a shard: {reason}"))
    shrinking = max(600, config.option.timeout or 0)
    for item in items:
        # A failure is shrunk for up to five minutes. A timeout that only raises would end an example, and leave the next one waiting.
        if hasattr(getattr(item, "function", None), "hypothesis") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(shrinking, method="thread"))
    slow: dict[Path, list[pytest.Item]] = {HERE / folder: [] for folder in ONE_SERVICE}
    fast: list[pytest.Item] = []
    for path, tests in groupby(items, lambda item: item.path):
        if is_slow(path):
            folder = path.relative_to(HERE).parts[0]
            slow.setdefault(HERE / folder if folder in ONE_SERVICE else path, []).extend(tests)
        else:
            fast.extend(tests)
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    files = [tests for tests in slow.values() if tests]
    shares = [[item for tests in files[n::processes] for item in tests] for n in range(processes)]
    start, rest = 0, len(items)
    for n, share in enumerate(shares):
        count = max(rest // (processes - n) - len(share), 0)
        share.extend(fast[start : start + count])
        start, rest = start + count, rest - len(share)
    items[:] = [item for share in shares for item in share]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    asyncio.run(drop_made())


async def _create_database(name: str) -> str:
    url = await migrated_database(name)
    db = await connect(url)
    await db.execute(notes.SCHEMA)
    await db.close()
    if on_cluster():
        await distribute(url, shards=SHARDS)
        await log_fan_out(url)
    return url


@pytest.fixture(scope="session")
def database_url(worker_id: str) -> str:
    """A migrated database for this test process."""
    return asyncio.run(_create_database(f"test_{worker_id}_{os.getpid()}"))


@pytest.fixture(scope="session")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return load(
        {},
        database_url=database_url,
        secret_key=SECRET_KEY,
        media_url=tmp_path_factory.mktemp("media").as_uri(),
        log_level="error",
        metrics="off",
        access_log=False,
    )


@pytest.fixture(scope="session")
async def shard_url(database_url: str, settings: Settings) -> AsyncIterator[str]:
    """The shard that has the stores; without `make test-shards`, the directory itself."""
    if not sharded.is_on():
        yield database_url
        return
    url = await sharded.add_shard(database_url, settings, os.environ[TEMPLATE])
    shard = await connect(url)
    await shard.execute(notes.SCHEMA)
    await shard.close()
    yield url
    await sharded.drop_shard(database_url)


@pytest.fixture(scope="session")
async def db(shard_url: str, settings: Settings) -> AsyncIterator[Database]:
    """The database of the stores."""
    database = Database(shard_url, size=10)
    if sharded.is_on():
        sharded_runs[shard_url] = sharded.shards_of(settings)
    yield database
    await database.close()
    if sharded.is_on():
        shards = sharded_runs.pop(shard_url)
        await shards.close()
        await shards.directory.close()


@pytest.fixture(scope="session")
def directory(db: Database) -> Database:
    """The database of the global rows, which is that of the stores without `make test-shards`."""
    return directory_of(db)


@pytest.fixture(scope="session")
async def application(settings: Settings, shard_url: str) -> AsyncIterator[Application]:
    """The application in this process, with the tests' own slice added."""
    app = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    if shard_url != settings.database_url:
        await app.shards.look()
    yield app
    await app.close()


@pytest.fixture(autouse=True)
def stores_in_the_shard(request: pytest.FixtureRequest) -> None:
    """With `make test-shards`, stores that people create are in the shard, too, however many it has."""
    if sharded.is_on():
        monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        for module in (ownership, development_stores):
            monkeypatch.setattr(module, "choose_shard", sharded.choose)


@pytest.fixture(autouse=True)
def default_logging() -> Iterator[None]:
    """Commands that a test runs in this process set up the log, which the next test must not inherit: else what libraries log would
    be printed between the output of a command."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root = logging.getLogger()
        for handler in [each for each in root.handlers if type(each).__module__.startswith("stoa.")]:
            root.removeHandler(handler)


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 1 MB in place of the temporary folder."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Requests wait by this clock, which stands still until the test moves it."""
    clock = Clock()
    for module in (waiting, pool, body):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
async def shop(application: Application, db: Database) -> AsyncIterator[Shop]:
    """A new store with an app that has all scopes, and a client of that app."""
    opened = await open_shop(application, db)
    yield opened
    await opened.client.aclose()


@pytest.fixture
async def other_shop(application: Application, db: Database) -> AsyncIterator[Shop]:
    """A second store, in which the ids of the first do not exist."""
    opened = await open_shop(application, db)
    yield opened
    await opened.client.aclose()
