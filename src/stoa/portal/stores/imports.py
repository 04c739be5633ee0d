"""Import pages: the list, and one import with its progress, failed rows and reports to download."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from stoa.accounts.queries import GET_ACCOUNT
from stoa.imports import reports
from stoa.imports.jobs import header_of, options_of, shown_import, wrote_nothing
from stoa.imports.queries import GET, HAS_PARTS, Job
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.list_view import PAGE_SIZE, before
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.import_columns import line_of, place_of
from stoa.portal.stores.queries import APP_NAME, IMPORTS
from stoa.rest.headers import CSV, NDJSON

pages = Pages()
_RESOURCES = ("products", "customers")
_MAX_ERRORS, _MAX_COLUMNS = 20, 60


@pages.page("/stores/{handle}/imports", nav="list_stores")
async def store_imports(visit: Visit) -> View:
    rows = await IMPORTS.all(visit.db, visit.store.id, before(visit), PAGE_SIZE + 1)
    next_number = rows[PAGE_SIZE - 1].number if rows[PAGE_SIZE:] else 0
    return View("stores/imports.html", {"imports": rows[:PAGE_SIZE], "next": next_number})


@pages.page("/stores/{handle}/imports/{import_id}", nav="list_stores")
async def store_import(visit: Visit) -> View:
    job = await find_job(visit)
    shown = await shown_import(visit.db, job, with_rows=rows_visible(visit, job))
    running = shown.finished_at is None
    continued_by, header = await _continued_by(visit, job), header_of(job)
    context: dict[str, Any] = {
        "job": shown,
        "rows_visible": rows_visible(visit, job),
        "of_app": job.app_id is not None,
        "running": running,
        "expired": job.gone,
        "media": job.media,
        "started_by": await _started_by(visit, job),
        "checked_here": shown.options.dry_run and job.account_id is not None,
        "wrote_nothing": not running and wrote_nothing(shown.options, shown.status),
        "file_kept": await HAS_PARTS.one(visit.db, visit.store.id, job.id),
        "correctable": await correctable(visit, job),
        "continued_by": continued_by,
        "corrected": continued_by is not None and options_of(continued_by).dry_run,
        "errors": shown.errors[:_MAX_ERRORS],
        "place_of": place_of if header else None,
        "lines_before": line_of(0, header),
    }
    return View("stores/import.html", context)


@pages.form("/stores/{handle}/imports/{import_id}/failed-rows", on=store_import, in_shard=True, while_closed=True)
async def download_failed_rows(visit: Visit) -> StreamingResponse:
    job = await _job_with_report(visit)
    return _file(reports.failed_rows(visit.db, job), f"{CSV}; charset=utf-8", f"{job.id}-failed.csv")


@pages.form("/stores/{handle}/imports/{import_id}/report", on=store_import, in_shard=True, while_closed=True)
async def download_report(visit: Visit) -> StreamingResponse:
    job = await _job_with_report(visit)
    return _file(reports.every_row(visit.db, job), NDJSON, f"{job.id}-report.ndjson")


async def _started_by(visit: Visit, job: Job) -> str:
    if job.app_id is not None:
        return await APP_NAME.maybe(visit.db, job.app_id) or ""
    account = await GET_ACCOUNT.maybe(visit.db, job.account_id) if job.account_id is not None else None
    return account.name if account else ""


async def find_job(visit: Visit) -> Job:
    """The import in the path."""
    for resource in _RESOURCES:
        found = await GET.maybe(visit.db, visit.store.id, resource, visit.path_param("import_id"))
        if found is not None:
            return found
    raise not_found()


async def correctable(visit: Visit, job: Job) -> bool:
    """Whether failed rows can be corrected on a page: if nothing was written, only together with the other rows."""
    header = header_of(job)
    if not rows_visible(visit, job) or not job.failed or job.finished_at is None or job.gone:
        return False
    if len(header.columns if header else ()) > _MAX_COLUMNS:
        return False
    file_needed = wrote_nothing(options_of(job), job.status)
    return not file_needed or await HAS_PARTS.one(visit.db, visit.store.id, job.id)


async def _continued_by(visit: Visit, job: Job) -> Job | None:
    """The import that took over the file: its next check, or its import."""
    return await GET.maybe(visit.db, visit.store.id, job.resource, job.continued_by) if job.continued_by else None


def rows_visible(visit: Visit, job: Job) -> bool:
    """Whether a page shows rows: those of customers contain personal data, and an app's also its private metadata."""
    return job.resource == "products" or (visit.may_change() and job.app_id is None)


async def _job_with_report(visit: Visit) -> Job:
    job = await find_job(visit)
    if not rows_visible(visit, job):
        raise FormError({"": "Only the app that made this import can read its rows."})
    if job.gone:
        raise FormError({"": "This report has expired. Reports are kept for 30 days."})
    return job


def _file(content: AsyncIterator[bytes], media: str, name: str) -> StreamingResponse:
    return StreamingResponse(
        content, media_type=media, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
