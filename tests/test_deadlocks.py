"""A test that expects no deadlock shows the statements of one that occurs."""

import asyncio
import os

import pytest

from stoa.db.connection import connect
from tests.support.databases import new_database
from tests.support.deadlocks import LOG, Deadlocks


@pytest.mark.not_on_cluster("the suite does not have the log of the server")
async def test_a_deadlock_is_found_with_its_statements() -> None:
    if LOG not in os.environ:
        pytest.skip("the suite did not start the server")
    url = await new_database(f"deadlocks_{os.getpid()}")
    one, other, watcher = [await connect(url) for _ in range(3)]
    deadlocks = await Deadlocks.since(watcher.fetch)
    assert await deadlocks.found() == []
    for db, key in ((one, 1), (other, 2)):
        await db.execute(f"BEGIN; SELECT pg_advisory_xact_lock({key})")
    ended = await asyncio.gather(
        *(db.execute(f"SELECT pg_advisory_xact_lock({key}) /* {name} */") for db, key, name in ((one, 2, "one"), (other, 1, "other"))),
        return_exceptions=True,
    )  # fmt: skip
    assert sum(isinstance(each, Exception) for each in ended) == 1
    [found] = await deadlocks.found()
    assert "pg_advisory_xact_lock(2) /* one */" in found
    assert "pg_advisory_xact_lock(1) /* other */" in found
    for db in (one, other, watcher):
        await db.close()
