"""Carries out imports: takes a job from the queue and works through its file, part by part or all at once."""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from stoa.db.errors import RETRYABLE, UNIQUE_VIOLATION, PostgresError, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.imports import queries
from stoa.imports.customers import CUSTOMERS
from stoa.imports.importable import Importable, Result
from stoa.imports.job_run import LEASE_S, JobRun, LeaseLost, Stopped
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Claimed
from stoa.imports.reading import Row
from stoa.rest.problems import InternalError, Refusal, ServiceUnavailable

IMPORTABLE: tuple[Importable, ...] = (PRODUCTS, CUSTOMERS)
MOST_CLAIMS = 5  # of a job whose next part takes every worker down
MOST_TRIES = 10
LONGEST_PAUSE_S = 3.0  # within the lease
LOOKED_AT_ONCE, RETIRED_AT_ONCE = 5_000, 500
# Whoever keeps a copy in step looks back one minute: what is written at once must be visible within it.
LONGEST_TRANSACTION_S = 50.0


class RowsFailed(Exception):
    """Rows failed in a file of which all must be right."""

    def __init__(self, results: Sequence[Result]) -> None:
        super().__init__("rows failed")
        self.results = [result for result in results if result.status == "failed"]


def _never() -> bool:
    return False


async def claim_import(database: Database, owner: str) -> Claimed | None:
    """Take the oldest job that may run now."""
    return await _claim(queries.CLAIM, database, owner, LEASE_S)


async def claim_this(database: Database, owner: str, store_id: int, import_id: str) -> Claimed | None:
    """Take one job, unless another worker has it or it has to wait for its turn."""
    return await _claim(queries.CLAIM_THIS, database, owner, LEASE_S, store_id, import_id)


async def _claim(query: Query[Claimed], *given: Any) -> Claimed | None:
    try:
        return await query.maybe(*given)
    except PostgresError as error:
        if sqlstate(error) == UNIQUE_VIOLATION:  # another worker took this app's last seat in the same moment
            return None
        raise


async def run_pending(database: Database) -> int:
    """Carry out every job that waits, one after the other; says how many there were."""
    count = 0
    while (claimed := await claim_import(database, owner := secrets.token_hex(8))) is not None:
        await run_import(database, claimed, owner)
        count += 1
    return count


async def run_import(database: Database, claimed: Claimed, owner: str, stopping: Callable[[], bool] = _never) -> None:
    """Carry out a claimed job from the part where it stands to its end."""
    for of in IMPORTABLE:
        job = await queries.GET.maybe(database, claimed.store_id, of.resource, claimed.import_id)
        if job is not None:
            work = await JobRun.begin(database, job, of, owner, stopping)
            break
    else:
        raise LookupError(claimed.import_id)
    try:
        await _run(work, claimed)
    except (LeaseLost, Stopped):
        await queries.LET_GO.run(database, claimed.store_id, claimed.import_id, owner)
    except Refusal as refusal:
        await _give_up(work, refusal)


async def _run(work: JobRun, claimed: Claimed) -> None:
    options, database = work.task.options, work.database
    if claimed.tries > MOST_CLAIMS:
        raise InternalError("The file could not be carried out to its end.")
    await work.recall(claimed.next_part)
    at_once = options.on_error == "abort" and not options.dry_run
    reached = claimed.next_part
    async for number, rows in work.parts(reached):
        reached = number + 1
        await _patiently(lambda: _check_part(work, number, rows) if at_once else _run_part(work, number, rows))  # noqa: B023
    if at_once:
        await _patiently(lambda: _write_at_once(work, reached))
        return
    counted: list[int] = []
    if options.missing == "archive" and not (await work.read_job(database)).failed:
        async for ids in _left_out(work, database):
            if options.dry_run:
                counted += ids
            else:
                await _patiently(lambda: _retire(work, reached, ids))  # noqa: B023
    async with work.transaction(reached) as db:
        if counted:
            await work.retire(db, counted)
        await work.finish(db)


async def _run_part(work: JobRun, number: int, rows: list[Row]) -> None:
    """One part, one transaction: whatever crashes, its rows are carried out together and once."""
    async with work.transaction(number + 1) as db:
        await work.record(db, await work.apply(db, rows, write=not work.task.options.dry_run))
        await work.teach_planner(db)


async def _check_part(work: JobRun, number: int, rows: list[Row]) -> None:
    """Look a part over before anything of the file is written; only what is wrong is kept."""
    async with work.transaction(number + 1) as db:
        results = await work.apply(db, rows, write=False)
        await work.record(db, RowsFailed(results).results, checked=len(rows), processed=0)


async def _write_at_once(work: JobRun, reached: int) -> None:
    """All rows of a file in one transaction, or none."""
    try:
        async with work.transaction(reached) as db:
            await _write_all(work, db)
            await work.finish(db)
    except RowsFailed as error:
        async with work.transaction(reached) as db:
            await work.record(db, error.results, processed=work.job.total)
            await work.finish(db)


async def _write_all(work: JobRun, db: Executor) -> None:
    if (await work.read_job(db)).failed:
        raise RowsFailed([])  # they are written down already
    deadline = time.monotonic() + LONGEST_TRANSACTION_S
    async for _, rows in work.parts(0):
        results = await work.apply(db, rows, write=True)
        if any(result.status == "failed" for result in results):
            raise RowsFailed(results)  # somebody was faster between our look and our writing
        await work.record(db, results)
        await work.teach_planner(db)
        if time.monotonic() > deadline:
            raise ServiceUnavailable("The file is too large to be written at once; send less, or on_error=continue.")
    if work.task.options.missing == "archive":
        async for ids in _left_out(work, db):
            await work.retire(db, ids)


async def _left_out(work: JobRun, db: Executor) -> AsyncIterator[list[int]]:
    """Products that the file does not name, some at a time."""
    job = work.job
    named = set(await queries.NAMED.all(db, job.store_id, job.id))
    after = 0
    while found := await queries.UNARCHIVED.all(db, job.store_id, after, job.created_at, LOOKED_AT_ONCE):
        after = found[-1]
        left = [each for each in found if each not in named]
        for start in range(0, len(left), RETIRED_AT_ONCE):
            yield left[start : start + RETIRED_AT_ONCE]


async def _retire(work: JobRun, reached: int, ids: list[int]) -> None:
    async with work.transaction(reached) as db:
        await work.retire(db, ids)


async def _give_up(work: JobRun, refusal: Refusal) -> None:
    async with work.database.transaction() as db:
        await work.finish(db, refusal)


async def _patiently(step: Callable[[], Awaitable[None]]) -> None:
    """Try again what failed for want of luck: a deadlock, a lock that others held too long, a lost connection."""
    for left in reversed(range(MOST_TRIES)):
        try:
            return await step()
        except (PostgresError, Unavailable) as error:
            if not left or (isinstance(error, PostgresError) and sqlstate(error) not in RETRYABLE):
                raise
        # Doubling, so that of two who meet again and again one is through before the other comes back.
        await asyncio.sleep(random.uniform(0.05, min(0.1 * 2 ** (MOST_TRIES - left), LONGEST_PAUSE_S)))  # noqa: S311
    return None
