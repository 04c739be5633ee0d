"""The inventory's own shop."""

from collections.abc import AsyncIterator

import pytest

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.inventory.endpoints import routes
from stoa.settings import Settings
from tests.inventory.shelves import CARD, LAMP, SOCKS, Shelves
from tests.support import notes
from tests.support.shops import Shop


@pytest.fixture(scope="session")
async def application(settings: Settings) -> AsyncIterator[Application]:
    app = Application(settings, [*ENDPOINTS, *routes.endpoints, *notes.routes.endpoints])
    yield app
    await app.database.close()


@pytest.fixture
async def shelves(shop: Shop) -> Shelves:
    """Socks (tracked, two sizes), a lamp on backorder and a gift card that is not tracked."""
    return await Shelves(shop).open(SOCKS, LAMP, CARD)
