"""The request log: a sample of an app's requests, collected in a worker's memory and written with its counts.

Every request is kept up to a rate for each app; above it, the first ones of each interval. Requests that succeeded and
requests that failed have a rate each, so that many of one kind hide none of the other.
"""

import random
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from time import time

import msgspec

from stoa.db.query import Executor
from stoa.rest.problems import Fault
from stoa.rest.request import Observed
from stoa.usage.queries import ADD_REQUESTS, NEWEST_TO_DELETE, TRIM_REQUESTS
from stoa.usage.rules import redact_path, redact_pointer

FLUSH_INTERVAL_S = 3.0  # a killed worker loses the counts and the requests of this interval
MAX_PER_SECOND = 10  # requests of an app that each worker keeps, of those that succeeded and of those that failed
MAX_PER_FLUSH = round(MAX_PER_SECOND * FLUSH_INTERVAL_S)
MAX_PENDING = 5_000  # bounds the memory between two flushes, also while the database is unreachable
MAX_FAULTS = 10
# A worker deletes the oldest requests of an app after it wrote this share of the limit, and not in every flush.
_TRIM_SHARE = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The time of the response, store, app, request id, method, operation, path, status, code, faults and seconds.
_Kept = tuple[float, int, int, str, str, str, str, int, str, Sequence[Fault], float]


class NewRequest(msgspec.Struct):
    """A row of the log that is not written yet."""

    store_id: int
    app_id: int
    id: int
    at: datetime
    request_id: str
    method: str
    operation: str
    path: str
    status: int
    code: str
    faults: str
    duration_us: int


def _is_declared(fault: Fault) -> bool:
    """Whether the API declares the name at the end of the pointer, or one that resembles it: then it is a mistyped one."""
    return fault.code not in ("unknown_field", "unknown_parameter") or "did_you_mean" in (fault.meta or {})


class RequestLog:
    """Keeps the requests of a worker until `write`. `words` are the fixed words of the API's paths."""

    def __init__(self, words: AbstractSet[str], max_rows: int) -> None:
        self._words = words
        self._max_rows = max_rows  # of each app
        self._pending: list[_Kept] = []
        self._succeeded: dict[int, int] = {}  # requests of each app that are kept since the last flush
        self._failed: dict[int, int] = {}
        self._written: dict[int, int] = {}  # requests of each app since its oldest ones were last deleted
        self._last_id = 0
        self._offset = random.randrange(50)  # noqa: S311 - workers rarely assign the same id

    def add(self, seen: Observed, store_id: int, app_id: int) -> None:
        """Keep a request. This runs for every request, so the rest of the work is left to `write`."""
        counts = self._failed if seen.status >= 400 else self._succeeded
        count = counts.get(app_id, 0)
        if count < MAX_PER_FLUSH and len(self._pending) < MAX_PENDING:
            counts[app_id] = count + 1
            self._pending.append(
                (
                    time(),
                    store_id,
                    app_id,
                    seen.request_id,
                    seen.method,
                    seen.operation,
                    seen.path,
                    seen.status,
                    seen.code,
                    seen.faults[:MAX_FAULTS],
                    seen.seconds,
                )
            )

    def take(self) -> list[_Kept]:
        """Return the kept requests, and begin a new interval."""
        taken, self._pending = self._pending, []
        self._succeeded, self._failed = {}, {}
        return taken

    def put_back(self, taken: list[_Kept]) -> None:
        """Keep requests that could not be written for the next flush."""
        self._pending = [*taken, *self._pending][:MAX_PENDING]

    async def write(self, db: Executor, taken: Sequence[_Kept]) -> None:
        """Write the requests in one statement, and delete the oldest ones of apps that have too many."""
        if not taken:
            return
        rows = [self._row(kept) for kept in taken]
        await ADD_REQUESTS.run(db, msgspec.json.encode(rows).decode())
        for row in rows:
            self._written[row.app_id] = self._written.get(row.app_id, 0) + 1
        for app_id in sorted({row.app_id for row in rows}):
            if self._written[app_id] * _TRIM_SHARE >= self._max_rows:
                newest = await NEWEST_TO_DELETE.maybe(db, app_id, self._max_rows)
                if newest is not None:
                    await TRIM_REQUESTS.run(db, app_id, newest)
                del self._written[app_id]

    def _row(self, kept: _Kept) -> NewRequest:
        at, store_id, app_id, request_id, method, operation, path, status, code, faults, seconds = kept
        pointers = [(redact_pointer(fault.pointer, declared=_is_declared(fault)), fault.code) for fault in faults]
        return NewRequest(
            store_id,
            app_id,
            self._new_id(at),
            datetime.fromtimestamp(at, UTC),
            request_id,
            method,
            operation,
            redact_path(path, self._words),
            status,
            code,
            msgspec.json.encode(pointers).decode(),
            int(seconds * 1_000_000),
        )

    def _new_id(self, at: float) -> int:
        """An id that orders requests by time; the last two digits tell requests of one microsecond apart."""
        first = first_id(datetime.fromtimestamp(at, UTC))
        same_moment = first <= self._last_id < first + 99
        self._last_id = self._last_id + 1 if same_moment else first + self._offset
        return self._last_id


def first_id(at: datetime) -> int:
    """The smallest id of a request at a moment."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 100
