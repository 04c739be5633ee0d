"""Turns an upload into a queued job, and a job into its public form."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stoa.db.query import Executor
from stoa.ids import new_id
from stoa.imports import queries
from stoa.imports.contract import (
    MOST_ERRORS,
    MOST_RUNNING,
    MOST_WAITING,
    Counts,
    Gone,
    Import,
    Options,
    RowError,
    TooManyImports,
)
from stoa.imports.importable import Importable, Task
from stoa.imports.queries import FailedRow, Job
from stoa.imports.reading import cut, with_rows
from stoa.rest.csv_rows import Header
from stoa.rest.problems import Fault, InvalidParameter

_RETRY_AFTER = [(b"retry-after", b"10")]


async def start_import(db: Executor, task: Task, of: Importable, file: Path, media: str) -> Job:
    """Store a file and enqueue its job, in the caller's transaction."""
    if task.options.mode == "create" and task.options.match_by == "id":
        raise InvalidParameter("mode=create cannot be combined with match_by=id, because the store assigns the ids.")
    store_id, app_id = task.store.id, task.app_id
    await _check_queue(db, store_id, app_id)
    total = number = 0
    with file.open("rb") as source:
        header, parts = await asyncio.to_thread(cut, source, media, of.columns, task.options)
        await _create(db, task, of.resource, media, msgspec.json.encode(header).decode() if header else None)
        # Reading and compressing run in a thread, so that the event loop keeps serving.
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            await queries.ADD_PART.run(db, store_id, task.import_id, number, part.first_row, part.data)
            total += part.rows
            number += 1
    return await _enqueue(db, task, of.resource, total)


async def start_checked(db: Executor, task: Task, checked: Job) -> Job:
    """Enqueue the import of a file that a dry run has checked, in the caller's transaction."""
    await _take_over(db, task, checked)
    return await _enqueue(db, task, checked.resource, checked.total)


async def check_again(db: Executor, task: Task, of: Importable, job: Job, corrected: Mapping[int, str]) -> Job:
    """Enqueue another check of a whole file of which nothing was written, with the text of some rows replaced."""
    await _take_over(db, task, job)
    header = header_of(job)
    ignore = task.options.unknown_columns == "ignore"
    sheet = of.columns.read_header(header, task.options.match_by, ignore_unknown=ignore) if header else None
    total = job.total
    for part in await queries.PARTS_WITH_ROWS.all(db, job.store_id, task.import_id, sorted(corrected)):
        data, more = await asyncio.to_thread(with_rows, part.first_row, part.data, sheet, header, corrected)
        await queries.REPLACE_PART.run(db, job.store_id, task.import_id, part.part, data)
        total += more
    return await _enqueue(db, task, job.resource, total)


def options_of(job: Job) -> Options:
    return msgspec.json.decode(job.options, type=Options)


def header_of(job: Job) -> Header | None:
    """The header of a CSV file; None for JSON."""
    return msgspec.json.decode(job.header, type=Header) if job.header else None


def wrote_nothing(options: Options, status: str) -> bool:
    """Whether no row of a finished import was written, so that its corrected rows need the others."""
    return options.dry_run or (options.on_error == "abort" and status == "failed")


async def _take_over(db: Executor, task: Task, job: Job) -> None:
    """Create the import that continues with the file of another; only one can."""
    await _check_queue(db, task.store.id, task.app_id)
    await _create(db, task, job.resource, job.media, job.header)
    if not await queries.CONTINUE.run(db, task.store.id, job.id, task.import_id):
        raise Gone("This file was already imported or corrected in another tab. Open its latest import.")
    if not await queries.MOVE_PARTS.run(db, task.store.id, job.id, task.import_id):
        raise Gone("The file is kept for one day. Upload it again.")


async def _create(db: Executor, task: Task, resource: str, media: str, header: str | None) -> None:
    await queries.CREATE.run(
        db,
        task.store.id,
        task.import_id,
        resource,
        msgspec.json.encode(task.options).decode(),
        media,
        header,
        task.app_id,
        task.account_id,
        sorted(task.scopes) if task.scopes is not None else None,
        task.request_id,
    )


async def _enqueue(db: Executor, task: Task, resource: str, total: int) -> Job:
    store_id, app_id = task.store.id, task.app_id
    await queries.SET_TOTAL.run(db, store_id, task.import_id, total)
    await queries.LOCK_INSTALLATION.maybe(db, store_id, app_id)
    await _check_queue(db, store_id, app_id)
    await queries.ENQUEUE.run(db, store_id, task.import_id, app_id)
    return await queries.GET.one(db, store_id, resource, task.import_id)


def new_import_id() -> str:
    return new_id("imp")


async def _check_queue(db: Executor, store_id: int, app_id: int | None) -> None:
    if await queries.UNFINISHED.one(db, store_id, app_id) >= MOST_RUNNING + MOST_WAITING:
        raise TooManyImports(
            f"{MOST_RUNNING} imports can run at the same time and {MOST_WAITING} more can wait. Retry later.",
            headers=_RETRY_AFTER,
        )


async def shown_import(db: Executor, job: Job, *, with_rows: bool = True) -> Import:
    """The public form of a job, with its first errors; without rows, only with those of the whole job."""
    rows: list[FailedRow] = []
    if job.failed and with_rows:
        rows = await queries.FAILED_ROWS.all(db, job.store_id, job.id, 0, MOST_ERRORS)
    errors = [RowError(None, {}, "", fault.code, fault.detail) for fault in _faults(job.failure)]
    for row in rows:
        key = msgspec.json.decode(row.key)
        errors += [RowError(row.row, key, fault.pointer, fault.code, fault.detail) for fault in _faults(row.errors)]
    options = options_of(job)
    passes = 2 if options.on_error == "abort" and not options.dry_run else 1
    ended = job.finished_at is not None and job.status != "cancelled"
    done = ended or (job.checked + job.processed) == passes * job.total
    return Import(
        id=job.id,
        resource=job.resource,
        status=job.status,  # pyright: ignore[reportArgumentType] - a constraint allows only these values
        options=options,
        counts=Counts(job.total, job.processed, job.created, job.updated, job.unchanged, job.archived, job.failed),
        progress=1.0 if done else round((job.checked + job.processed) / (passes * job.total), 4),
        errors=errors[:MOST_ERRORS],
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        report_expires_at=job.report_expires_at,
        request_id=job.request_id,
        version=job.version,
    )


def _faults(errors: str | None) -> list[Fault]:
    return msgspec.json.decode(errors, type=list[Fault]) if errors else []


async def document_for(app_id: int, db: Executor, job: Job) -> bytes:
    """The job as an app sees it: only the app that made it sees rows, which can contain its private metadata."""
    return msgspec.json.encode(await shown_import(db, job, with_rows=job.app_id == app_id))
