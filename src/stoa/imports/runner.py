"""Runs imports: claims a job from the queue and applies its file, part by part or in one transaction."""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from stoa.db.errors import RETRYABLE, UNIQUE_VIOLATION, PostgresError, StoreElsewhere, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.imports import queries
from stoa.imports.customers import CUSTOMERS
from stoa.imports.importable import Importable, Result
from stoa.imports.job_run import LEASE_S, JobRun, LeaseLost, Stopped
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import Claimed
from stoa.imports.reading import Row
from stoa.rest.problems import InternalError, Refusal, ServiceUnavailable

IMPORTABLE: tuple[Importable, ...] = (PRODUCTS, CUSTOMERS)
MOST_CLAIMS = 5  # of one part; a part that crashes every worker then fails the job
MOST_ATTEMPTS = 10
LONGEST_PAUSE_S = 3.0  # shorter than the lease
PAGE, RETIRED_AT_ONCE = 5_000, 500
# Apps that synchronize by updated_since look back one minute: a transaction must commit within it.
LONGEST_TRANSACTION_S = 50.0


class RowsFailed(Exception):
    """Rows failed in a file that must be written completely or not at all."""

    def __init__(self, results: Sequence[Result]) -> None:
        super().__init__("rows failed")
        self.results = [result for result in results if result.status == "failed"]


def _never() -> bool:
    return False


async def claim_import(database: Database, owner: str) -> Claimed | None:
    """Claim the oldest job that may run now."""
    for job in await queries.OLDEST_WAITING.all(database):
        if (claimed := await claim_this(database, owner, job.store_id, job.import_id)) is not None:
            return claimed
    return None


async def claim_this(database: Database, owner: str, store_id: int, import_id: str) -> Claimed | None:
    """Claim one job, unless another worker has it or both slots of its app are in use."""
    try:
        return await queries.CLAIM.maybe(database, store_id, import_id, owner, LEASE_S)
    except PostgresError as error:
        if sqlstate(error) == UNIQUE_VIOLATION:  # another worker took the last slot of this app at the same time
            return None
        raise


async def run_pending(database: Database) -> int:
    """Run all waiting jobs, one after the other, and return their number."""
    count = 0
    while (claimed := await claim_import(database, owner := secrets.token_hex(8))) is not None:
        await run_import(database, claimed, owner)
        count += 1
    return count


async def run_import(database: Database, claimed: Claimed, owner: str, stopping: Callable[[], bool] = _never) -> None:
    """Run a claimed job from its next part to its end."""
    for of in IMPORTABLE:
        job = await queries.GET.maybe(database, claimed.store_id, of.resource, claimed.import_id)
        if job is not None:
            run = await JobRun.begin(database, job, of, owner, stopping)
            break
    else:
        raise LookupError(claimed.import_id)
    try:
        await _run_or_fail(run, claimed)
    except (LeaseLost, Stopped, StoreElsewhere):  # the next owner continues, where the store is
        await queries.RELEASE.run(database, claimed.store_id, claimed.import_id, owner)


async def _run_or_fail(run: JobRun, claimed: Claimed) -> None:
    try:
        await _run(run, claimed)
    except Refusal as refusal:
        async with run.database.transaction(claimed.store_id) as db:
            await run.finish(db, refusal)


async def _run(run: JobRun, claimed: Claimed) -> None:
    options, database = run.task.options, run.database
    if claimed.tries > MOST_CLAIMS:
        raise InternalError("The import failed repeatedly at the same part.")
    await run.collect_keys(claimed.next_part)
    all_at_once = options.on_error == "abort" and not options.dry_run
    reached = claimed.next_part
    async for number, rows in run.parts(reached):
        reached = number + 1
        await _with_retries(lambda: _check_part(run, number, rows) if all_at_once else _run_part(run, number, rows))  # noqa: B023
    if all_at_once:
        await _with_retries(lambda: _write_at_once(run, reached))
        return
    counted: list[int] = []
    if options.missing == "archive" and not (await run.read_job(database)).failed:
        async for ids in _left_out(run, database):
            if options.dry_run:
                counted += ids
            else:
                await _with_retries(lambda: _retire(run, reached, ids))  # noqa: B023
    async with run.transaction(reached) as db:
        if counted:
            await run.retire(db, counted)
        await run.finish(db)


async def _run_part(run: JobRun, number: int, rows: list[Row]) -> None:
    """Apply one part in one transaction, so that its rows are applied exactly once even after a crash."""
    async with run.transaction(number + 1) as db:
        await run.record(db, await run.apply(db, rows, write=not run.task.options.dry_run))
        await run.analyze_tables(db)


async def _check_part(run: JobRun, number: int, rows: list[Row]) -> None:
    """Check a part before anything is written, and store its failed rows."""
    async with run.transaction(number + 1) as db:
        results = await run.apply(db, rows, write=False)
        await run.record(db, RowsFailed(results).results, checked=len(rows), processed=0)


async def _write_at_once(run: JobRun, reached: int) -> None:
    """Write all rows of a file in one transaction, or none."""
    try:
        async with run.transaction(reached) as db:
            await _write_all(run, db)
            await run.finish(db)
    except RowsFailed as error:
        async with run.transaction(reached) as db:
            await run.record(db, error.results, processed=run.job.total)
            await run.finish(db)


async def _write_all(run: JobRun, db: Executor) -> None:
    if (await run.read_job(db)).failed:
        raise RowsFailed([])  # already recorded
    deadline = time.monotonic() + LONGEST_TRANSACTION_S
    async for _, rows in run.parts(0):
        results = await run.apply(db, rows, write=True)
        if any(result.status == "failed" for result in results):
            raise RowsFailed(results)  # another request wrote between the check and now
        await run.record(db, results)
        await run.analyze_tables(db)
        if time.monotonic() > deadline:
            raise ServiceUnavailable(
                "The file is too large for one transaction. Send a smaller file, or use on_error=continue."
            )
    if run.task.options.missing == "archive":
        async for ids in _left_out(run, db):
            await run.retire(db, ids)


async def _left_out(run: JobRun, db: Executor) -> AsyncIterator[list[int]]:
    """Products that are not in the file, in batches."""
    job = run.job
    imported = set(await queries.RESULT_IDS.all(db, job.store_id, job.id))
    after = 0
    while found := await queries.UNARCHIVED.all(db, job.store_id, after, job.created_at, PAGE):
        after = found[-1]
        left = [each for each in found if each not in imported]
        for start in range(0, len(left), RETIRED_AT_ONCE):
            yield left[start : start + RETIRED_AT_ONCE]


async def _retire(run: JobRun, reached: int, ids: list[int]) -> None:
    async with run.transaction(reached) as db:
        await run.retire(db, ids)


async def _with_retries(step: Callable[[], Awaitable[None]]) -> None:
    """Retry after a transient failure: a deadlock, a lock timeout or a lost connection."""
    for left in reversed(range(MOST_ATTEMPTS)):
        try:
            return await step()
        except StoreElsewhere:
            raise
        except (PostgresError, Unavailable) as error:
            if not left or (isinstance(error, PostgresError) and sqlstate(error) not in RETRYABLE):
                raise
        # Exponential backoff with jitter, so that two jobs stop colliding.
        await asyncio.sleep(random.uniform(0.05, min(0.1 * 2 ** (MOST_ATTEMPTS - left), LONGEST_PAUSE_S)))  # noqa: S311
    return None
