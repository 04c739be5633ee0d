"""A store whose service may also send to this machine, as a developer's own does."""

from collections.abc import AsyncIterator

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.shops import Shop, open_shop
from tests.webhooks.workers import with_loopback


@pytest.fixture(scope="session")
async def near_application(settings: Settings) -> AsyncIterator[Application]:
    app = Application(with_loopback(settings))
    yield app
    await app.close()


@pytest.fixture
async def near_shop(near_application: Application, db: Database) -> AsyncIterator[Shop]:
    opened = await open_shop(near_application, db)
    yield opened
    await opened.client.aclose()
