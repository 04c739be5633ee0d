"""A running service, and the environment in which an agent's host starts `stoa mcp`."""

import itertools
import os
import sys
from collections.abc import AsyncIterator

import pytest

from tests.support.service import Account, Service, migrated_database

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_mcp_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("mcp"), database_url=url, workers=1) as running:
        yield running


@pytest.fixture
async def account(service: Service) -> Account:
    return await service.account(f"agent-{next(_numbers)}")


def base_url(account: Account) -> str:
    return f"{account.service.url}/stores/{account.handle}"


def environment(account: Account) -> dict[str, str]:
    """The variables of an agent's host: the app's credentials, and no settings of the service."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "STOA_DATA_DIR": str(account.service.folder / "none"),
        "STOA_BASE_URL": base_url(account),
        "STOA_CLIENT_ID": account.client_id,
        "STOA_CLIENT_SECRET": account.client_secret,
    }
