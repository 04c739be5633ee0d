"""Runs jobs that other tests left in the queue, so that each test finds only its own."""

import pytest

from stoa.db.pool import Database
from stoa.imports.runner import run_pending


@pytest.fixture(autouse=True)
async def empty_queue(db: Database) -> None:
    await run_pending(db)
