"""Ends a job: stores its outcome, deletes its file, and tells apps and people, in one transaction. Cancels one on request."""

from typing import Literal

import msgspec

from stoa.db.query import Executor, json_of
from stoa.events.outbox import AppView, Cause, Event, emit
from stoa.imports import queries
from stoa.imports.contract import CustomerImportFinished, ProductImportFinished
from stoa.imports.jobs import options_of, shown_import, wrote_nothing
from stoa.imports.queries import Job
from stoa.notifications.news import import_finished
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of
from stoa.rest.call import Store
from stoa.rest.problems import Fault

Ending = Literal["succeeded", "partially_succeeded", "failed", "cancelled"]
FINISHED: dict[str, type[Event]] = {"products": ProductImportFinished, "customers": CustomerImportFinished}


async def end_job(
    db: Executor, store: Store, job: Job, status: Ending, cause: Cause, failure: Fault | None = None
) -> None:
    """End a job that the caller took out of the queue. Rows that were applied stay, and the report lists them."""
    options = options_of(job)
    faults = msgspec.json.encode([failure]).decode() if failure else None
    await queries.FINISH.run(db, job.store_id, job.id, status, faults)
    # A person continues with a file of which nothing was written; maintenance deletes it after a day.
    if job.account_id is None or failure or status == "cancelled" or not wrote_nothing(options, status):
        await queries.DROP_PARTS.run(db, job.store_id, job.id)
    job = await queries.GET.one(db, job.store_id, job.resource, job.id)
    if options.send_events:
        everyone, maker = await shown_import(db, job, with_rows=False), await shown_import(db, job)
        views = {job.app_id: AppView({"errors": maker.errors})} if job.app_id is not None and maker.errors else {}
        event = FINISHED[job.resource](job.number, job.version, json_of(everyone), {}, views)
        await emit(db, job.store_id, event, actor=cause.actor, request_id=cause.request_id)
    if options.dry_run and job.account_id is not None:
        return  # the person waits for the result on its page
    news = import_finished(
        store.name, store.handle, job.id, job.app_id, (job.resource, job.status, job.processed, job.failed)
    )
    await notify(db, await people_of(db, store_id=job.store_id), news)


async def cancel_import(db: Executor, store: Store, job: Job, cause: Cause) -> bool:
    """Cancel a job that waits or runs, in the caller's transaction; returns False if it has finished.

    A worker that applies a part of the file has locked the job in the queue, so this waits until that part is committed. The
    worker then no longer finds the job, and stops.
    """
    if not await queries.CANCEL.run(db, store.id, job.id):
        return False
    await end_job(db, store, await queries.GET.one(db, store.id, job.resource, job.id), "cancelled", cause)
    return True
