"""A service is ready only if its database accepts writes, and a 503 is logged with its cause."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import structlog

from stoa.app import Application
from stoa.db.connection import Connection, connect
from stoa.operations import readiness
from stoa.operations.telemetry import LOGGED
from stoa.settings import Settings
from tests.support.service import migrated_database, sibling
from tests.support.shops import service_client

NAME = f"readiness_{os.getpid()}"


@pytest.fixture
async def application(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Application]:
    monkeypatch.setattr(readiness, "CACHE_S", 0.0)
    url = await migrated_database(NAME)
    app = Application(msgspec.structs.replace(settings, database_url=url, access_log=True))
    yield app
    await app.close()


@asynccontextmanager
async def admin_of(application: Application) -> AsyncGenerator[Connection]:
    admin = await connect(sibling(application.settings.database_url, "postgres"))
    try:
        yield admin
    finally:
        await admin.close()


async def ready(client: httpx.AsyncClient) -> tuple[int, str]:
    answer = await client.get("/ready")
    return answer.status_code, answer.json()["status"]


async def test_a_read_only_database_is_not_ready_until_it_accepts_writes_again(application: Application) -> None:
    async with service_client(application) as client, admin_of(application) as admin:
        assert await ready(client) == (200, "ready")
        await admin.execute(f"ALTER DATABASE {NAME} SET default_transaction_read_only = on")
        await admin.fetch("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                          f"WHERE datname = '{NAME}' AND backend_type = 'client backend'")  # fmt: skip
        # The first request finds the lost connection, or already a new one.
        assert (await ready(client))[0] == 503
        with structlog.testing.capture_logs() as logged:
            assert await ready(client) == (503, "the database does not accept writes")
        [line] = [line for line in logged if line["event"] == "the database does not accept writes"]
        assert (line["cause"], line["sqlstate"]) == ("ReadOnlySQLTransactionError", "25006")
        await admin.execute(f"ALTER DATABASE {NAME} RESET default_transaction_read_only")
        assert await ready(client) == (200, "ready")


async def test_a_missing_privilege_to_write_is_not_ready(application: Application) -> None:
    async with service_client(application) as client:
        await application.database.execute("ALTER TABLE service_facts RENAME TO elsewhere")
        assert await ready(client) == (503, "the database does not accept writes")


async def test_a_503_is_logged_with_its_cause_and_sqlstate(application: Application) -> None:
    locker = await connect(application.settings.database_url)
    await locker.execute("BEGIN; LOCK TABLE stores")
    async with service_client(application) as client:
        with structlog.testing.capture_logs() as logged:
            await application.database.fetch("SELECT set_config('lock_timeout', '50', false)")
            answer = await client.get("/stores/demo/api/v3/app/products")
    await locker.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    [line] = [line for line in logged if line["event"] == "request"]
    assert (line["error"], line["cause"], line["sqlstate"]) == ("Unavailable", "LockNotAvailableError", "55P03")
    assert "pool.py" in line["where"]
    assert {"cause", "sqlstate"} <= LOGGED
