"""Counts and logs requests in a worker's memory, and writes both to the database every few seconds, off the request path."""

import asyncio
import contextlib
import random
from datetime import UTC, date, datetime

import msgspec
import structlog

from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, cause, sqlstate
from stoa.db.pool import Database
from stoa.rest.dispatch import Observed
from stoa.usage.queries import ADD_DAYS
from stoa.usage.request_log import FLUSH_INTERVAL_S, RequestLog
from stoa.usage.rules import COUNTERS, REQUESTS, TOTAL_US, bucket_of, error_counter

MAX_KEYS = 20_000  # bounds the memory for counters between two flushes

_Key = tuple[int, int, str]  # store, app, operation


class Recorder:
    """Counts and logs each request it is called with; `flush` writes the counts and the log."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._counts: dict[_Key, list[float]] = {}  # the total time is in seconds until `_collect`
        self._since = _today()
        # Counts by day that are not written yet, for example while the database is unreachable.
        self._pending: dict[tuple[date, *_Key], list[int]] = {}
        self._flush_lock = asyncio.Lock()

    def __call__(self, seen: Observed) -> None:
        store_id, app_id, seconds = seen.store_id, seen.app_id, seen.seconds
        if app_id is None or store_id is None:
            return
        key = (store_id, app_id, seen.operation)
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= MAX_KEYS:
                return
            counts = self._counts[key] = [0] * len(COUNTERS)
        counts[REQUESTS] += 1
        counts[TOTAL_US] += seconds
        counts[bucket_of(seconds)] += 1
        if seen.status >= 400:
            counts[error_counter(seen.status)] += 1
        self._log.add(seen, store_id, app_id)

    async def flush(self, database: Database) -> None:
        """Write all counts and the log; after a temporary failure they stay in memory for the next flush."""
        async with self._flush_lock:
            self._collect()
            requests = self._log.take()
            if not self._pending and not requests:
                return
            try:
                async with database.transaction() as db:
                    if self._pending:
                        await ADD_DAYS.run(db, _day_rows(self._pending))
                    await self._log.write(db, requests)
            except (PostgresError, Unavailable) as error:
                if isinstance(error, Unavailable) or sqlstate(error) in RETRYABLE:
                    self._log.put_back(requests)
                else:
                    self._pending = {}  # a retry would fail in the same way
                raise
            self._pending = {}

    def _collect(self) -> None:
        """Move the counts to `_pending`, under the day on which counting began."""
        counted, self._counts = self._counts, {}
        since, self._since = self._since, _today()
        for key, measured in counted.items():
            counts = [int(count) for count in measured]
            counts[TOTAL_US] = int(measured[TOTAL_US] * 1_000_000)
            earlier = self._pending.get((since, *key))
            if earlier is not None:
                self._pending[since, *key] = [a + b for a, b in zip(earlier, counts, strict=True)]
            elif len(self._pending) < MAX_KEYS:
                self._pending[since, *key] = counts

    async def flush_forever(self, database: Database, interval_s: float = FLUSH_INTERVAL_S) -> None:
        while True:
            await asyncio.sleep(interval_s * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                # Cancellation must not interrupt a flush, or it would be unknown whether it committed.
                await asyncio.shield(asyncio.ensure_future(self.flush(database)))
            except (PostgresError, Unavailable) as error:
                structlog.get_logger().warning("writing usage counts failed", **cause(error))

    async def finish(self, database: Database) -> None:
        """Flush one last time before the worker stops."""
        with contextlib.suppress(PostgresError, Unavailable):
            await self.flush(database)


def _today() -> date:
    return datetime.now(UTC).date()


def _day_rows(pending: dict[tuple[date, *_Key], list[int]]) -> str:
    names = ("day", "store_id", "app_id", "operation", *COUNTERS)
    rows = [dict(zip(names, (*key, *counts), strict=True)) for key, counts in pending.items()]
    return msgspec.json.encode(rows).decode()
