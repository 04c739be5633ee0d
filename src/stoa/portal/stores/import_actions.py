"""Imports that a person starts: a file is checked first, then imported."""

import csv
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.responses import Response

from stoa.accounts.contract import Right
from stoa.events.outbox import Cause
from stoa.imports.contract import Gone, Options
from stoa.imports.ending import cancel_import
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import new_import_id, options_of, start_checked, start_import
from stoa.imports.queries import Job
from stoa.imports.reading import MEDIA
from stoa.imports.runner import IMPORTABLE
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.pages import ROOT, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.import_columns import TEMPLATES, in_words
from stoa.portal.stores.imports import find_job, pages, store_import
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.writes import REPEATED, Change, carry_out
from stoa.rest.call import Call
from stoa.rest.headers import CSV
from stoa.rest.problems import ValidationFailed


class _FileGone(Exception):
    """Another tab continued with the file, or it was deleted; the transaction is rolled back."""


class UploadForm(OnceForm):
    resource: Line = "products"
    match_by: Line = ""
    mode: Line = "upsert"
    on_error: Line = "continue"
    unknown_columns: Line = "refuse"


class TemplateForm(msgspec.Struct):
    template: Line = "products"


@pages.page("/stores/{handle}/import", nav="list_stores", right=Right.CHANGE)
async def new_import(visit: Visit) -> View:
    keys = {of.resource: of.match_by for of in IMPORTABLE}
    return View("stores/new_import.html", {"keys": keys})


@pages.form("/stores/{handle}/import", on=new_import, upload=True, in_shard=True)
async def upload_import(visit: Visit, form: UploadForm) -> Redirect:
    of = next((each for each in IMPORTABLE if each.resource == form.resource), None)
    if of is None:
        raise FormError(resource="Select products or customers.")
    upload = visit.upload
    if upload is None or upload.empty:
        raise FormError(file="Select a file.")
    media = MEDIA.get(Path(upload.name).suffix.lower())
    if media is None:
        raise FormError(file=f"The name of the file must end in {', '.join(MEDIA)}.")
    options = _options(form, of)
    return await start_job(
        visit,
        form,
        f"{of.resource}.import_checked",
        lambda call: start_import(call.db, task_of(call, options), of, upload.path, media),
        "The file is being checked. Nothing is written.",
    )


@pages.form("/stores/{handle}/import/template", on=new_import, in_shard=True, while_closed=True)
async def download_template(visit: Visit, form: TemplateForm) -> Response:
    """A file to begin with: the usual columns, and an example."""
    if form.template not in TEMPLATES:
        raise FormError(template="Select products or customers.")
    output = io.StringIO()
    csv.writer(output).writerows(TEMPLATES[form.template])
    name = {"Content-Disposition": f'attachment; filename="{form.template}.csv"'}
    return Response(output.getvalue().encode("utf-8-sig"), media_type=f"{CSV}; charset=utf-8", headers=name)


def _options(form: UploadForm, of: Importable) -> Options:
    """The options of a dry run of the file."""
    match_by = form.match_by or of.match_by[0]
    if match_by not in of.match_by:
        raise FormError(match_by=f"Rows of {of.resource} are matched by {', '.join(of.match_by)}.")
    given = {"mode": form.mode, "on_error": form.on_error, "unknown_columns": form.unknown_columns}
    try:
        return msgspec.convert({**given, "match_by": match_by, "dry_run": True}, Options)
    except msgspec.ValidationError as error:
        raise FormError({"": "Select one of the options."}) from error


@pages.form("/stores/{handle}/imports/{import_id}/start", on=store_import, in_shard=True)
async def start_checked_import(visit: Visit, form: OnceForm) -> Redirect:
    checked = await find_job(visit)
    options = options_of(checked)
    if not options.dry_run or checked.account_id is None or checked.finished_at is None:
        raise FormError({"": "This file was not checked here. Upload it again."})
    final = msgspec.structs.replace(options, dry_run=False)
    return await start_job(
        visit,
        form,
        f"{checked.resource}.import_started",
        lambda call: start_checked(call.db, task_of(call, final), checked),
        "The import is started.",
    )


@pages.form("/stores/{handle}/imports/{import_id}/cancel", on=store_import, in_shard=True)
async def cancel_running_import(visit: Visit, form: OnceForm) -> Redirect:
    job = await find_job(visit)

    async def cancel(call: Call) -> None:
        if not await cancel_import(call.db, call.store, job, Cause(None, call.request_id, call.person_id)):
            raise FormError({"": "The import has already finished."})

    change = Change(f"{job.resource}.import_cancelled", f"store:{visit.store.id}", detail={"import_id": job.id})
    if not await carry_out(visit, form, change, cancel):
        return Redirect(f"{imports_url(visit)}/{job.id}", REPEATED, "warn")
    return Redirect(f"{imports_url(visit)}/{job.id}", "The import is cancelled. Rows that were already written stay.")


async def start_job(
    visit: Visit, form: OnceForm, action: str, work: Callable[[Call], Awaitable[Job]], notice: str, **detail: str
) -> Redirect:
    """Start a job in one transaction with its audit entry, and show it."""
    started: list[Job] = []

    async def run(call: Call) -> Job:
        try:
            started[:] = [await work(call)]
        except Gone as refusal:
            raise _FileGone(refusal.detail) from refusal
        except ValidationFailed as refusal:
            # Faults of a file name columns, which the form does not have.
            faults = " ".join(in_words(each) for each in refusal.faults[:5])
            raise FormError(file=f"{refusal.detail} {faults}".strip()) from refusal
        return started[0]

    change = Change(action, f"store:{visit.store.id}", detail=detail)
    try:
        if not await carry_out(visit, form, change, run):
            return Redirect(imports_url(visit), REPEATED, "warn")
    except _FileGone as gone:
        # The page of the import no longer has the form, and says what became of the file.
        return Redirect(f"{imports_url(visit)}/{visit.path_param('import_id')}", str(gone), "warn")
    return Redirect(f"{imports_url(visit)}/{started[0].id}", notice)


def task_of(call: Call, options: Options) -> Task:
    """The context of a new import by the person of a call."""
    return Task(call.store, new_import_id(), None, call.request_id, options, account_id=call.person_id)


def imports_url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/imports"
