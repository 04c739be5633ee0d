"""Browsers and people of each test's own."""

from collections.abc import AsyncIterator

import pytest

from stoa.access.operator import Operator
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import Somebody, Visitor, as_operator, browser, somebody


@pytest.fixture
def operator(db: Database, settings: Settings) -> Operator:
    return as_operator(db, settings)


@pytest.fixture
async def visitor(application: Application) -> AsyncIterator[Visitor]:
    """Somebody who is not signed in."""
    async with browser(application) as client:
        yield Visitor(client)


@pytest.fixture
async def maria(application: Application, db: Database) -> AsyncIterator[Somebody]:
    """A person who is signed in and owns nothing yet."""
    person = await somebody(application, db)
    yield person
    await person.client.aclose()


@pytest.fixture
async def zeno(application: Application, db: Database) -> AsyncIterator[Somebody]:
    """Another person, to whom the first one's things mean nothing."""
    person = await somebody(application, db, name="Zeno")
    yield person
    await person.client.aclose()
