"""One running service for all tests of the SDK, and a store with an app for each test."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from stoa_client import AsyncClient, Client
from tests.support.service import Account, Service, migrated_database

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_client_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("client"), database_url=url, workers=1) as running:
        yield running


@pytest.fixture
async def account(service: Service) -> Account:
    return await service.account(f"client-{next(_numbers)}")


def base_url(account: Account) -> str:
    return f"{account.service.url}/stores/{account.handle}"


@pytest.fixture
def client(account: Account) -> Iterator[Client]:
    """A client as an app would create it."""
    with Client(
        base_url(account),
        auth_url=f"{account.service.url}/oauth/token",
        client_id=account.client_id,
        client_secret=account.client_secret,
    ) as made:
        yield made


@pytest.fixture
async def async_client(account: Account) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(
        base_url(account),
        auth_url=f"{account.service.url}/oauth/token",
        client_id=account.client_id,
        client_secret=account.client_secret,
    ) as made:
        yield made
