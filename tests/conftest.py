"""One PostgreSQL for the whole run, one database for each test process, and stores made fresh for each test."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import Database, connect
from stoa.settings import Settings, load
from tests.support import notes
from tests.support.shops import Shop, open_shop

SERVER = "TEST_POSTGRES_URL"  # given from outside, the suite runs on that server instead of an embedded one
SECRET_KEY = "5e" * 32

# Machines that run tests are busy, and a shop serves all examples of a test: neither makes an example a bad one.
_PATIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
hypothesis.settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_PATIENT)
hypothesis.settings.register_profile("deep", hypothesis.settings.get_profile("quick"), max_examples=1_000)
hypothesis.settings.load_profile("quick")  # `make deep` chooses the other


def pytest_configure(config: pytest.Config) -> None:
    """The first process starts the server; the others find it in their environment."""
    if SERVER in os.environ or config.option.collectonly:
        return
    folder = Path(tempfile.mkdtemp(prefix="stoa-test-"))
    server = EmbeddedPostgres(folder / "postgres", durable=False)
    os.environ[SERVER] = server.start()

    def stop() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[SERVER]

    config.add_cleanup(stop)


async def _create_database(name: str) -> str:
    server = os.environ[SERVER]
    admin = await connect(server)
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}"')
    await admin.execute(f'CREATE DATABASE "{name}"')
    await admin.close()
    base, _, options = server.partition("?")
    url = f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{options}" if options else "")
    await migrate(url)
    db = await connect(url)
    await db.execute(notes.SCHEMA)
    await db.close()
    return url


@pytest.fixture(scope="session")
def database_url(worker_id: str) -> str:
    """A migrated database that this test process has to itself."""
    return asyncio.run(_create_database(f"test_{worker_id}_{os.getpid()}"))


@pytest.fixture(scope="session")
def settings(database_url: str) -> Settings:
    return load(
        {},
        database_url=database_url,
        secret_key=SECRET_KEY,
        log_level="error",
        metrics="off",
        access_log=False,
    )


@pytest.fixture(scope="session")
async def db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, size=10)
    yield database
    await database.close()


@pytest.fixture(scope="session")
async def application(settings: Settings) -> AsyncIterator[Application]:
    """The service in this process, with the test's own slice beside the real ones."""
    app = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    yield app
    await app.close()


@pytest.fixture
async def shop(application: Application, db: Database) -> AsyncIterator[Shop]:
    """A store of this test's own, with an app that may do everything and a client that calls as that app."""
    opened = await open_shop(application, db)
    yield opened
    await opened.client.aclose()


@pytest.fixture
async def other_shop(application: Application, db: Database) -> AsyncIterator[Shop]:
    """A second store, to which the first one's ids mean nothing."""
    opened = await open_shop(application, db)
    yield opened
    await opened.client.aclose()
