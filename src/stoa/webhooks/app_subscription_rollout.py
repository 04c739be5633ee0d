"""The background duty that brings the declared subscriptions of apps to their stores, a few stores in each transaction."""

import asyncio
import time

from stoa.db.pool import Database
from stoa.db.query import Query

BATCH = 50  # stores in one transaction
RETRY_S = 30.0  # before a store that failed is tried again
APPLY = Query[int | None](
    int,
    "SELECT apply_app_subscriptions($1, make_interval(secs => $2))",
    unbound="an app declares a subscription for all stores that install it",
    over="shards",
)


async def apply_app_subscriptions(database: Database, *, batch: int = BATCH, retry_s: float = RETRY_S) -> int:
    """Bring every declaration to the stores that lack its current revision; returns how many stores were visited.

    After a crash the next run continues behind the last committed batch. Each batch is followed by a pause of its own
    duration, so that deliveries have at least half of the database's time.
    """
    visited = 0
    while True:
        started = time.monotonic()
        found = await APPLY.one(database, batch, retry_s)
        if found is None:
            return visited
        visited += found
        await asyncio.sleep(time.monotonic() - started)
