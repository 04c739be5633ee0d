"""A running service for generated clients, and the OpenAPI document from which they are generated."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoa.description import openapi_bytes
from tests.support.service import Account, Service, migrated_database


@pytest.fixture(scope="package")
async def account(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Account]:
    url = await migrated_database(f"test_generated_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("generated"), database_url=url, workers=1) as service:
        yield await service.account("generated")


@pytest.fixture(scope="session")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("description") / "openapi.json"
    file.write_bytes(openapi_bytes())
    return file
