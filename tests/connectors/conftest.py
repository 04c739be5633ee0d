"""A running service, whose data the connectors read."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.service import Service, migrated_database


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_connectors_{os.getpid()}")
    folder = tmp_path_factory.mktemp("connectors")
    with Service(folder, database_url=url, workers=1, webhook_allow="127.0.0.0/8") as running:
        yield running
