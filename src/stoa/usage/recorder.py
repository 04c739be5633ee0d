"""Counts and logs requests in a worker's memory, and writes both to the database every few seconds, off the request path."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import structlog

from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, cause, sqlstate
from stoa.db.pool import Database
from stoa.db.shards import DIRECTORY, Shards
from stoa.rest.request import Observed
from stoa.usage.load import ADD_TRAFFIC
from stoa.usage.queries import ADD_DAYS, ADD_HOURS
from stoa.usage.request_log import FLUSH_INTERVAL_S, RequestLog
from stoa.usage.rules import COUNTERS, REQUESTS, TOTAL_US, bucket_of, error_counter

MAX_KEYS = 20_000  # bounds the memory for counters between two flushes

_Key = tuple[int, int, str]  # store, app, operation
# The same for requests that name no store, or no app: they count for the service only.
_AnyKey = tuple[int | None, int | None, str]


class Recorder:
    """Counts and logs each request it is called with; `flush` writes the counts and the log."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._counts: dict[_AnyKey, list[float]] = {}  # the total time is in seconds until `_collect`
        self._since = _this_hour()
        # Counts by hour that are not written yet, for example while the database is unreachable.
        self._pending: dict[tuple[datetime, *_Key], list[int]] = {}
        self._of_service = [0] * len(COUNTERS)
        self._flush_lock = asyncio.Lock()

    def __call__(self, seen: Observed) -> None:
        store_id, app_id, seconds = seen.store_id, seen.app_id, seen.seconds
        if not seen.of_api:
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
        if app_id is not None and store_id is not None:
            self._log.add(seen, store_id, app_id)

    async def flush(self, database: Database) -> None:
        """Write all counts and the log; after a temporary failure they stay in memory for the next flush."""
        async with self._flush_lock:
            self._collect()
            requests = self._log.take()
            if not self._pending and not requests and not self._of_service[REQUESTS]:
                return
            try:
                async with database.transaction() as db:
                    if self._pending:
                        await ADD_DAYS.run(db, _rows("day", _by_day(self._pending)))
                        await ADD_HOURS.run(db, _rows("hour", self._pending))
                    await self._log.write(db, requests)
                    await ADD_TRAFFIC.run(db, _json(dict(zip(COUNTERS, self._of_service, strict=True))))
            except (PostgresError, Unavailable) as error:
                if isinstance(error, Unavailable) or sqlstate(error) in RETRYABLE:
                    self._log.put_back(requests)
                else:
                    self._forget()  # a retry would fail in the same way
                raise
            self._forget()

    def _forget(self) -> None:
        self._pending, self._of_service = {}, [0] * len(COUNTERS)

    def _collect(self) -> None:
        """Move the counts to `_pending`, under the hour in which counting began, and add up those of the service."""
        counted, self._counts = self._counts, {}
        since, self._since = self._since, _this_hour()
        for (store_id, app_id, operation), measured in counted.items():
            counts = [int(count) for count in measured]
            counts[TOTAL_US] = int(measured[TOTAL_US] * 1_000_000)
            self._of_service = _added(self._of_service, counts)
            if store_id is None or app_id is None:
                continue
            key = (store_id, app_id, operation)
            earlier = self._pending.get((since, *key))
            if earlier is not None:
                self._pending[since, *key] = _added(earlier, counts)
            elif len(self._pending) < MAX_KEYS:
                self._pending[since, *key] = counts


class Recorders:
    """One recorder for each shard, which writes the counts and the log of its stores there."""

    def __init__(self, new: Callable[[], Recorder]) -> None:
        self._new = new
        self._of = {DIRECTORY: new()}

    @property
    def directory(self) -> Recorder:
        return self._of[DIRECTORY]

    def __call__(self, seen: Observed) -> None:
        recorder = self._of.get(seen.shard)
        if recorder is None:
            recorder = self._of[seen.shard] = self._new()
        recorder(seen)

    async def flush(self, shards: Shards) -> None:
        """Write what every recorder has. A shard that is away delays only its own counts."""
        await asyncio.gather(*(self._flush(recorder, shards, name) for name, recorder in self._of.items()))

    async def _flush(self, recorder: Recorder, shards: Shards, name: str) -> None:
        try:
            await recorder.flush(await shards.database(name))
        except (PostgresError, Unavailable) as error:
            structlog.get_logger().warning("writing usage counts failed", shard=name, **cause(error))

    async def flush_forever(self, shards: Shards, interval_s: float = FLUSH_INTERVAL_S) -> None:
        while True:
            await asyncio.sleep(interval_s * random.uniform(0.8, 1.2))  # noqa: S311
            # Cancellation must not interrupt a flush, or it would be unknown whether it committed.
            await asyncio.shield(asyncio.ensure_future(self.flush(shards)))


def _this_hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def _by_day(pending: Mapping[tuple[datetime, *_Key], list[int]]) -> dict[tuple[date, *_Key], list[int]]:
    days: dict[tuple[date, *_Key], list[int]] = {}
    for (hour, store_id, app_id, operation), counts in pending.items():
        day = (hour.date(), store_id, app_id, operation)
        days[day] = _added(days[day], counts) if day in days else counts
    return days


def _rows(period: str, pending: Mapping[Any, Sequence[int]]) -> str:
    names = (period, "store_id", "app_id", "operation", *COUNTERS)
    return _json([dict(zip(names, (*key, *counts), strict=True)) for key, counts in pending.items()])


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
