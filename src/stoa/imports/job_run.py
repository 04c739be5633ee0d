"""One run of a job by the worker that has its lease: reads rows, applies them, and records the results."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog

from stoa.access.definitions import with_definitions
from stoa.access.rules import in_force
from stoa.db.connection import Connection
from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, is_lost, sqlstate
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.imports import queries
from stoa.imports.ending import Ending, end_job
from stoa.imports.importable import Importable, Result, RowKey, Task, failed
from stoa.imports.jobs import header_of, options_of
from stoa.imports.queries import Job
from stoa.imports.reading import Row, read_part
from stoa.rest.problems import AppNotInstalled, Fault, InternalError, Refusal, ValidationFailed

LEASE_S = 5.0
MOST_ATTEMPTS = 3  # to apply rows whose keys another request took in the meantime
FIRST_ANALYZE = 500  # rows after which an empty table is analyzed for the planner


class LeaseLost(Exception):
    """Another worker has taken over the job, or it was cancelled; the current transaction is rolled back."""


class Stopped(Exception):
    """The worker is stopping; another worker continues the job at its next part."""


class JobRun:
    """The state of a running job."""

    def __init__(
        self, database: Database, job: Job, of: Importable, task: Task, owner: str, stopping: Callable[[], bool]
    ) -> None:
        self.database = database
        self.job = job
        self.of = of
        self.task = task
        self._owner = owner
        self._stopping = stopping
        self._seen: dict[str, int] = {}  # every key of the file so far, and its row
        self._seen_parts: dict[str, dict[str, int]] = {}  # keys of parts of a resource, and the row of each part
        self._created = 0  # since the last ANALYZE
        self._header = header = header_of(job)
        options = task.options
        self._sheet = (
            of.columns.read_header(header, options.match_by, ignore_unknown=options.unknown_columns == "ignore")
            if header
            else None
        )

    @classmethod
    async def begin(
        cls, database: Database, job: Job, of: Importable, owner: str, stopping: Callable[[], bool]
    ) -> "JobRun":
        await queries.START.run(database, job.store_id, job.id)
        store = await queries.STORE.one(database, job.store_id)
        options = options_of(job)
        scopes = frozenset(job.scopes) if job.scopes is not None else None
        task = Task(store, job.id, job.app_id, job.request_id, options, scopes, job.account_id)
        return cls(database, job, of, task, owner, stopping)

    async def parts(self, first: int) -> AsyncIterator[tuple[int, list[Row]]]:
        """The parts of the file with their rows, from `first` on. The run can stop between two parts."""
        number = first
        while rows := await self._rows(number):
            if self._stopping():
                raise Stopped
            yield number, rows
            number += 1

    async def _rows(self, number: int) -> list[Row]:
        part = await queries.PART.maybe(self.database, self.job.store_id, self.job.id, number)
        return read_part(part.first_row, part.data, self._sheet, self._header) if part else []

    async def collect_keys(self, parts: int) -> None:
        """Collect the keys of earlier parts, which another worker processed."""
        for number in range(parts):
            if not await queries.RENEW.run(self.database, self.job.store_id, self.job.id, self._owner, LEASE_S):
                raise LeaseLost
            for row in await self._rows(number):
                self._faults_of(row)

    @asynccontextmanager
    async def transaction(self, next_part: int) -> AsyncGenerator[Connection]:
        """A transaction that commits only while this worker has the lease, and sets `next_part`."""
        async with self.database.transaction(self.job.store_id) as db:
            job = self.job
            if not await queries.ADVANCE.run(db, job.store_id, job.id, self._owner, next_part, LEASE_S):
                raise LeaseLost
            store = await with_definitions(db, self.task.store, job.app_id)
            self.task = msgspec.structs.replace(self.task, store=store)
            if job.app_id is not None:
                granted = await queries.GRANTED.maybe(db, job.store_id, job.app_id)
                self.task = msgspec.structs.replace(self.task, scopes=in_force(job.scopes, granted or []))
            if not self.task.may(self.of.scope):
                raise AppNotInstalled(
                    "The app no longer has permission to write to this store. Rows that were already written remain."
                )
            yield db

    # --- rows -------------------------------------------------------------------------------------------------------

    async def apply(self, db: Executor, rows: Sequence[Row], *, write: bool) -> list[Result]:
        """Apply rows together; if that fails, apply each row by itself, so that only faulty rows fail."""
        if self._sheet is not None and self.task.store.definitions:
            for row in rows:
                self.of.read_metadata(row.members, self.task.store.definitions)
        faults = {row.number: found for row in rows if (found := self._faults_of(row))}
        valid = [row for row in rows if row.number not in faults]
        done = await self._apply_at_once(db, valid, write=write)
        if done is None:
            done = [await self._apply_one(db, row, write=write) for row in valid]
        invalid = [
            self._failed(row, ValidationFailed(faults=faults[row.number])) for row in rows if row.number in faults
        ]
        return sorted([*done, *invalid], key=lambda result: result.row)

    async def _apply_at_once(self, db: Executor, rows: Sequence[Row], *, write: bool) -> list[Result] | None:
        """Apply rows in one call, which locks what they name in one order; None if that fails."""
        await db.execute("SAVEPOINT part")
        for _ in range(MOST_ATTEMPTS):
            try:
                return await self.of.apply(db, self.task, rows, write=write) if rows else []
            except Exception as error:
                if _is_transient(error):
                    raise
                await db.execute("ROLLBACK TO SAVEPOINT part")
                if not _lost_race(error):
                    break
        return None

    async def _apply_one(self, db: Executor, row: Row, *, write: bool, attempts_left: int = MOST_ATTEMPTS) -> Result:
        await db.execute("SAVEPOINT row")
        try:
            [result] = await self.of.apply(db, self.task, [row], write=write)
        except Refusal as refusal:
            if attempts_left and _lost_race(refusal):
                await db.execute("ROLLBACK TO SAVEPOINT row")
                return await self._apply_one(db, row, write=write, attempts_left=attempts_left - 1)
            result = self._failed(row, refusal)
        except Exception as error:
            if _is_transient(error):
                raise
            structlog.get_logger().error("import row", error=type(error).__name__, request_id=self.job.request_id)
            result = self._failed(row, InternalError("An internal error occurred while this row was processed."))
        if result.status == "failed":
            await db.execute("ROLLBACK TO SAVEPOINT row")
        return result

    def _failed(self, row: Row, refusal: Refusal) -> Result:
        return failed(row, refusal, self.of.key(row.members, self.task.options.match_by))

    def _faults_of(self, row: Row) -> list[Fault]:
        """The faults of a row that need no lookup: it cannot be parsed, or repeats a key of an earlier row."""
        if row.refusal is not None:
            return row.refusal.faults or [Fault("", row.refusal.code, row.refusal.detail)]
        faults: list[Fault] = []
        for key in self.of.keys(row.members):
            first = self._first_row(key, row.number)
            if first != row.number:
                faults.append(
                    Fault(key.pointer, "duplicate_row", f"is already in row {first} of this file", {"row": first})
                )
        return faults

    def _first_row(self, key: RowKey, number: int) -> int:
        """The first row with this key, or with the same part of it; the row itself if there is none."""
        if key.part is not None and key.value not in self._seen:
            return self._seen_parts.setdefault(key.value, {}).setdefault(key.part, number)
        if key.part is None and key.value in self._seen_parts:
            return min(self._seen_parts[key.value].values())
        return self._seen.setdefault(key.value, number)

    async def record(
        self, db: Executor, results: Sequence[Result], *, checked: int = 0, processed: int | None = None
    ) -> None:
        """Record the results of rows, in the transaction that applied them."""
        job, counts = self.job, Counter(result.status for result in results)
        if results:
            columns: list[tuple[Any, ...]] = [
                (r.row, r.status, r.id, _json(r.key), _json(r.errors) if r.errors else None, r.changes, r.raw)
                for r in results
            ]
            await queries.ADD_ROWS.run(db, job.store_id, job.id, *map(list, zip(*columns, strict=True)))
        done = len(results) if processed is None else processed
        numbers = [counts[name] for name in ("created", "updated", "unchanged")]
        await queries.COUNT.run(db, job.store_id, job.id, checked, done, *numbers, 0, counts["failed"])
        self._created += counts["created"]

    async def retire(self, db: Executor, ids: Sequence[int]) -> None:
        """Archive resources that are not in the file; a dry run only counts them."""
        count = len(ids)
        if self.of.retire is not None and not self.task.options.dry_run:
            count = await self.of.retire(db, self.task, ids)
        await queries.COUNT.run(db, self.job.store_id, self.job.id, 0, 0, 0, 0, 0, count, 0)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def finish(self, db: Executor, failure: Refusal | None = None) -> None:
        """Finish the job and emit its event, in the transaction of the last rows."""
        # A job that was cancelled is no longer in the queue.
        if not await queries.DEQUEUE.run(db, self.job.store_id, self.job.id, self._owner):
            raise LeaseLost
        job = await self.read_job(db)
        status: Ending = "succeeded" if not job.failed and not failure else "partially_succeeded"
        if failure or (job.failed and (self.task.options.on_error == "abort" or job.failed == job.processed)):
            status = "failed"
        fault = Fault("", failure.code, failure.detail) if failure else None
        await end_job(db, self.task.store, job, status, self.task.cause, fault)

    async def read_job(self, db: Executor) -> Job:
        return await queries.GET.one(db, self.job.store_id, self.job.resource, self.job.id)

    async def analyze_tables(self, db: Executor) -> None:
        """Analyze the tables whenever an import has doubled them; otherwise plans for small tables stay in use."""
        if self._created < FIRST_ANALYZE or self._created < await queries.KNOWN_SIZE.one(db, self.of.tables[0]):
            return
        self._created = 0
        await db.execute("SAVEPOINT statistics")
        try:
            # Waiting for another ANALYZE would keep row locks that others need.
            await db.execute(f"ANALYZE (SKIP_LOCKED) {', '.join(self.of.tables)}")
        except PostgresError:  # the rows matter more than the statistics
            await db.execute("ROLLBACK TO SAVEPOINT statistics")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _lost_race(error: BaseException) -> bool:
    """Whether another request took a key of valid rows between reading and writing."""
    return isinstance(error, Refusal) and not error.faults


def _is_transient(error: BaseException) -> bool:
    """Whether the failure is transient, so that the same rows can be retried."""
    return (
        isinstance(error, Unavailable) or sqlstate(error) in RETRYABLE or is_lost(error) or sqlstate(error) == "57014"
    )
