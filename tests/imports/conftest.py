"""Jobs that other tests have left in the queue are carried out first, so that each test meets its own."""

import pytest

from stoa.db.pool import Database
from stoa.imports.runner import run_pending


@pytest.fixture(autouse=True)
async def an_empty_queue(db: Database) -> None:
    await run_pending(db)
