"""Counting requests in a worker's memory and adding the counts to the database every few seconds, off their path."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.rest.dispatch import Observed
from stoa.usage.queries import ADD_DAYS, ADD_FAILURES, ADD_HOURS, RING, TRIM_FAILURES
from stoa.usage.rules import FIGURES, REQUESTS, TOTAL_US, class_of, error_of, kept_pointer

EVERY_S = 3.0  # what a worker that is killed takes with it
MOST_KINDS = 20_000  # of (store, app, operation) between two flushes: memory stays bounded whoever calls

MOST_PAIRS = 500  # of (store, app) whose refusals are noted between two flushes

_Kind = tuple[int, int, str]


class Refused(msgspec.Struct):
    """What is kept of a refusal until it is written."""

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
    """Counts what it is told of; `flush` writes it down."""

    def __init__(self) -> None:
        self._counts: dict[_Kind, list[float]] = {}  # the time in seconds, until it is taken
        self._refusals: dict[tuple[int, int], deque[Refused]] = {}
        self._since = _hour()
        # Counts whose time is known but which are not yet written, as when the database is away.
        self._waiting: dict[tuple[datetime, *_Kind], list[int]] = {}
        self._turn = asyncio.Lock()

    def __call__(self, seen: Observed) -> None:
        store_id, app_id, seconds = seen.store_id, seen.app_id, seen.seconds
        if app_id is None or store_id is None:
            return
        kind = (store_id, app_id, seen.operation)
        counts = self._counts.get(kind)
        if counts is None:
            if len(self._counts) >= MOST_KINDS:
                return
            counts = self._counts[kind] = [0] * len(FIGURES)
        counts[REQUESTS] += 1
        counts[TOTAL_US] += seconds
        counts[class_of(seconds)] += 1
        if seen.status >= 400:
            counts[error_of(seen.status)] += 1
            self._note(seen, store_id, app_id)

    def _note(self, seen: Observed, store_id: int, app_id: int) -> None:
        ring = self._refusals.get((store_id, app_id))
        if ring is None:
            if len(self._refusals) >= MOST_PAIRS:
                return
            ring = self._refusals[store_id, app_id] = deque(maxlen=RING)
        ring.append(
            Refused(
                store_id,
                app_id,
                datetime.now(UTC),
                seen.request_id,
                seen.method,
                seen.operation,
                seen.status,
                seen.code,
                kept_pointer(seen.fault.pointer) if seen.fault else "",
                seen.fault.code if seen.fault else "",
                int(seen.seconds * 1_000_000),
            )
        )

    async def flush(self, database: Database) -> None:
        """Add everything counted so far; what cannot be written now waits for the next time."""
        async with self._turn:
            self._take()
            refusals, self._refusals = self._refusals, {}
            if not self._waiting and not refusals:
                return
            try:
                async with database.transaction() as db:
                    if self._waiting:
                        await ADD_DAYS.run(db, _days(self._waiting))
                        await ADD_HOURS.run(db, _hours(self._waiting))
                    if refusals:
                        await ADD_FAILURES.run(db, _json([each for ring in refusals.values() for each in ring]))
                        for pair in sorted(refusals):
                            await TRIM_FAILURES.run(db, *pair)
            except (PostgresError, Unavailable) as error:
                if isinstance(error, Unavailable) or sqlstate(error) in RETRYABLE:
                    for pair, ring in refusals.items():
                        self._refusals[pair] = deque((*ring, *self._refusals.get(pair, ())), maxlen=RING)
                else:
                    self._waiting = {}  # it would be refused for ever
                raise
            self._waiting = {}

    def _take(self) -> None:
        """Settle what was counted under the hour in which the counting began."""
        counted, self._counts = self._counts, {}
        since, self._since = self._since, _hour()
        for kind, measured in counted.items():
            counts = [int(count) for count in measured]
            counts[TOTAL_US] = int(measured[TOTAL_US] * 1_000_000)
            before = self._waiting.get((since, *kind))
            if before is not None:
                self._waiting[since, *kind] = [a + b for a, b in zip(before, counts, strict=True)]
            elif len(self._waiting) < MOST_KINDS:
                self._waiting[since, *kind] = counts

    async def flush_for_ever(self, database: Database, every_s: float = EVERY_S) -> None:
        while True:
            await asyncio.sleep(every_s * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                # Whoever stops us stops only the waiting: a flush that has begun must know whether it was kept.
                await asyncio.shield(asyncio.ensure_future(self.flush(database)))
            except (PostgresError, Unavailable) as error:
                structlog.get_logger().warning("usage", error=type(error).__name__)

    async def finish(self, database: Database) -> None:
        """The last flush of a worker that was told to stop."""
        with contextlib.suppress(PostgresError, Unavailable):
            await self.flush(database)


def _hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def _json(rows: Sequence[Any]) -> str:
    return msgspec.json.encode(rows).decode()


def _days(waiting: dict[tuple[datetime, *_Kind], list[int]]) -> str:
    sums: dict[tuple[Any, ...], list[int]] = {}
    for (hour, store_id, app_id, operation), counts in waiting.items():
        _grow(sums, (store_id, app_id, hour.date(), operation), counts)
    return _rows(("store_id", "app_id", "day", "operation"), sums)


def _hours(waiting: dict[tuple[datetime, *_Kind], list[int]]) -> str:
    sums: dict[tuple[Any, ...], list[int]] = {}
    for (hour, store_id, app_id, _), counts in waiting.items():
        _grow(sums, (store_id, app_id, hour), counts)
    return _rows(("store_id", "app_id", "hour"), sums)


def _grow(sums: dict[tuple[Any, ...], list[int]], key: tuple[Any, ...], counts: list[int]) -> None:
    before = sums.get(key)
    sums[key] = counts if before is None else [a + b for a, b in zip(before, counts, strict=True)]


def _rows(names: tuple[str, ...], sums: dict[tuple[Any, ...], list[int]]) -> str:
    return _json([dict(zip((*names, *FIGURES), (*key, *counts), strict=True)) for key, counts in sums.items()])
