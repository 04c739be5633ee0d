"""A separate worker for each test, so that other tests do not add to its counts."""

from collections.abc import AsyncIterator

import pytest

from stoa.app import Application
from tests.support.notes import routes
from tests.support.shops import Shop, api_client


@pytest.fixture
async def worker(shop: Shop) -> AsyncIterator[Application]:
    """The application of another worker process."""
    app = Application(shop.application.settings, routes.endpoints)
    yield app
    await app.close()


@pytest.fixture
async def caller(worker: Application, shop: Shop) -> AsyncIterator[object]:
    """A client of the shop's app that calls this worker."""
    client = api_client(worker, shop.store.handle, shop.token)
    yield client
    await client.aclose()
