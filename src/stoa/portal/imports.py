"""Files on their way into a store: how far each has come, what was wrong with its rows, and its reports to take home."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from stoa.imports import reports
from stoa.imports.contract import CSV, NDJSON, Options
from stoa.imports.jobs import shown_import
from stoa.imports.queries import GET, Job
from stoa.portal.answering import not_found
from stoa.portal.forms import Wrong
from stoa.portal.listed import ROWS
from stoa.portal.pages import Pages, View
from stoa.portal.queries import APP_NAME, IMPORTS
from stoa.portal.visit import Visit

pages = Pages()
_RESOURCES = ("products", "customers")
_NEWEST = 2**62
_MOST_ERRORS = 20


@pages.page("/stores/{handle}/imports", under="list_stores")
async def store_imports(visit: Visit) -> View:
    rows = await IMPORTS.all(visit.db, visit.store.id, before(visit), ROWS + 1)
    return View("stores/imports.html", {"imports": rows[:ROWS], "next": rows[ROWS - 1].number if rows[ROWS:] else 0})


def before(visit: Visit) -> int:
    """The number below which a list goes on, as its address says; what it says wrongly is left out."""
    said = visit.query("before")
    return int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 18 else _NEWEST


@pages.page("/stores/{handle}/imports/{import_id}", under="list_stores")
async def store_import(visit: Visit) -> View:
    job = await _job(visit)
    shown = await shown_import(visit.db, job)
    # A row of a customer's file names that customer.
    told = visit.may_change() or job.resource == "products"
    context: dict[str, Any] = {
        "job": shown,
        "told": told,
        "running": shown.finished_at is None,
        "gone": job.gone,
        "media": job.media,
        "app_name": await APP_NAME.maybe(visit.db, job.app_id) if job.app_id else None,
        "errors": shown.errors[:_MOST_ERRORS] if told else [],
        "usual": Options(match_by=shown.options.match_by),
    }
    return View("stores/import.html", context)


@pages.form("/stores/{handle}/imports/{import_id}/failed-rows", on=store_import)
async def download_failed_rows(visit: Visit) -> StreamingResponse:
    job = await _kept(visit)
    return _file(reports.failed_rows(visit.db, job), f"{CSV}; charset=utf-8", f"{job.id}-failed.csv")


@pages.form("/stores/{handle}/imports/{import_id}/report", on=store_import)
async def download_report(visit: Visit) -> StreamingResponse:
    job = await _kept(visit)
    return _file(reports.every_row(visit.db, job), NDJSON, f"{job.id}-report.ndjson")


async def _job(visit: Visit) -> Job:
    for resource in _RESOURCES:
        found = await GET.maybe(visit.db, visit.store.id, resource, visit.place("import_id"))
        if found is not None:
            return found
    raise not_found()


async def _kept(visit: Visit) -> Job:
    job = await _job(visit)
    if job.gone:
        raise Wrong({"": "Reports are kept for 30 days; this one is gone."})
    return job


def _file(content: AsyncIterator[bytes], media: str, name: str) -> StreamingResponse:
    return StreamingResponse(
        content, media_type=media, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
