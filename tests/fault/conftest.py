"""Services that tests share if they leave them unchanged."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.service import PATIENCE_S, WITH_NOTES, Service, free_port, migrated_database

BODY_SECONDS = "2"
SEND_SECONDS = 4


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Service]:
    """Two workers with metrics and short time limits for bodies and slow readers, on a database of the test server."""
    url = await migrated_database(f"fault_{worker_id}_{os.getpid()}")
    running = Service(
        tmp_path_factory.mktemp("service"),
        database_url=url,
        command=WITH_NOTES,
        metrics=f"127.0.0.1:{free_port()}",
        send_seconds=SEND_SECONDS,
    )
    running.environment["BODY_SECONDS"] = BODY_SECONDS
    with running:
        await running.add_notes()
        yield running


@pytest.fixture(scope="package")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Two workers with an embedded database and metrics; clients may be slow."""
    with Service(
        tmp_path_factory.mktemp("embedded"),
        command=WITH_NOTES,
        metrics=f"127.0.0.1:{free_port()}",
        send_seconds=10 * PATIENCE_S,
    ) as running:
        await running.add_notes()
        yield running
