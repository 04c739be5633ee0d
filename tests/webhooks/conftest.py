"""A store whose service may send webhooks to loopback addresses, as in local development."""

from collections.abc import AsyncIterator

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.shops import Shop, open_shop
from tests.webhooks.workers import with_loopback


@pytest.fixture(scope="session")
async def loopback_application(settings: Settings) -> AsyncIterator[Application]:
    app = Application(with_loopback(settings))
    yield app
    await app.close()


@pytest.fixture
async def loopback_shop(loopback_application: Application, db: Database) -> AsyncIterator[Shop]:
    opened = await open_shop(loopback_application, db)
    yield opened
    await opened.client.aclose()
