"""The service with imports in it, and files to send."""

from collections.abc import AsyncIterator

import pytest

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.imports.endpoints import routes
from stoa.settings import Settings


@pytest.fixture(scope="session")
async def application(settings: Settings) -> AsyncIterator[Application]:
    known = {endpoint.name for endpoint in ENDPOINTS}
    app = Application(settings, [*ENDPOINTS, *(each for each in routes.endpoints if each.name not in known)])
    yield app
    await app.database.close()
