"""Counts requests in a worker's memory and writes the counts to the database every few seconds, off the request path."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import structlog

from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, cause, sqlstate
from stoa.db.pool import Database
from stoa.rest.dispatch import Observed
from stoa.usage.queries import ADD_DAYS, ADD_FAILURES, MAX_FAILURES, TRIM_FAILURES
from stoa.usage.rules import COUNTERS, REQUESTS, TOTAL_US, bucket_of, error_counter, redact_pointer

FLUSH_INTERVAL_S = 3.0  # a killed worker loses the counts of this interval
MAX_KEYS = 20_000  # bounds the memory for counters between two flushes
MAX_FAILING_APPS = 500  # (store, app) pairs whose failures are kept between two flushes

_Key = tuple[int, int, str]  # store, app, operation


class NewFailedRequest(msgspec.Struct):
    """A failed request that is not written yet."""

    store_id: int
    app_id: int
    at: datetime
    request_id: str
    method: str
    operation: str
    status: int
    code: str
    fault_pointer: str
    fault_code: str
    duration_us: int


class Recorder:
    """Counts each request it is called with; `flush` writes the counts."""

    def __init__(self) -> None:
        self._counts: dict[_Key, list[float]] = {}  # the total time is in seconds until `_collect`
        self._failures: dict[tuple[int, int], deque[NewFailedRequest]] = {}
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
            self._add_failure(seen, store_id, app_id)

    def _add_failure(self, seen: Observed, store_id: int, app_id: int) -> None:
        failures = self._failures.get((store_id, app_id))
        if failures is None:
            if len(self._failures) >= MAX_FAILING_APPS:
                return
            failures = self._failures[store_id, app_id] = deque(maxlen=MAX_FAILURES)
        failures.append(
            NewFailedRequest(
                store_id,
                app_id,
                datetime.now(UTC),
                seen.request_id,
                seen.method,
                seen.operation,
                seen.status,
                seen.code,
                redact_pointer(seen.fault.pointer) if seen.fault else "",
                seen.fault.code if seen.fault else "",
                int(seen.seconds * 1_000_000),
            )
        )

    async def flush(self, database: Database) -> None:
        """Write all counts; after a temporary failure they stay in memory for the next flush."""
        async with self._flush_lock:
            self._collect()
            failures, self._failures = self._failures, {}
            if not self._pending and not failures:
                return
            try:
                async with database.transaction() as db:
                    if self._pending:
                        await ADD_DAYS.run(db, _day_rows(self._pending))
                    if failures:
                        await ADD_FAILURES.run(db, _json([each for rows in failures.values() for each in rows]))
                        for pair in sorted(failures):
                            await TRIM_FAILURES.run(db, *pair)
            except (PostgresError, Unavailable) as error:
                if isinstance(error, Unavailable) or sqlstate(error) in RETRYABLE:
                    for pair, rows in failures.items():
                        self._failures[pair] = deque((*rows, *self._failures.get(pair, ())), maxlen=MAX_FAILURES)
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


def _json(rows: Sequence[Any]) -> str:
    return msgspec.json.encode(rows).decode()


def _day_rows(pending: dict[tuple[date, *_Key], list[int]]) -> str:
    names = ("day", "store_id", "app_id", "operation", *COUNTERS)
    return _json([dict(zip(names, (*key, *counts), strict=True)) for key, counts in pending.items()])
