"""Imports that a person starts: a file is checked first, then imported, and failed rows are corrected on a page."""

import csv
import io
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stoa.accounts.contract import Right
from stoa.imports import queries
from stoa.imports.commands import MEDIA
from stoa.imports.contract import CSV, NDJSON, Options
from stoa.imports.csv_rows import REPORT_COLUMNS, Header
from stoa.imports.importable import Importable, Task
from stoa.imports.jobs import new_import_id, start_checked, start_import
from stoa.imports.queries import FailedRow, Job
from stoa.imports.reading import cells_of
from stoa.imports.runner import IMPORTABLE
from stoa.portal.forms import FormError, text
from stoa.portal.imports import find_job, pages, rows_visible, store_import
from stoa.portal.order_forms import Line
from stoa.portal.pages import ROOT, PageResponse, Redirect, View
from stoa.portal.store_writes import REPEATED, Change, OnceForm, carry_out
from stoa.portal.visit import Visit
from stoa.rest.problems import Fault, ValidationFailed
from stoa.rest.request import Call

_MAX_ROWS, _MAX_CELLS, _MAX_COLUMNS = 10, 120, 60


class UploadForm(OnceForm):
    resource: Line = "products"
    match_by: Line = ""
    mode: Line = "upsert"
    on_error: Line = "continue"
    unknown_columns: Line = "refuse"


class RowsForm(OnceForm):
    """Corrected rows: the cells of a CSV file by row, record and column, or the JSON of a row by its number."""

    cells: Annotated[dict[str, str], text("Remove invisible characters.", max_length=200, multiline=True)] = (
        msgspec.field(default_factory=dict[str, str])
    )
    rows: Annotated[dict[str, str], text("Remove invisible characters.", max_length=200)] = msgspec.field(
        default_factory=dict[str, str]
    )
    numbers: list[str] = msgspec.field(default_factory=list[str])


class ShownRow(msgspec.Struct):
    """A failed row to correct: its faults, and its cells or its JSON."""

    number: int
    faults: list[Fault]
    records: list[list[str]]
    raw: str


@pages.page("/stores/{handle}/import", nav="list_stores", right=Right.CHANGE)
async def new_import(visit: Visit) -> View:
    keys = {of.resource: of.match_by for of in IMPORTABLE}
    return View("stores/new_import.html", {"keys": keys})


@pages.form("/stores/{handle}/import", on=new_import, upload=True)
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
    return await _start(
        visit,
        form,
        f"{of.resource}.import_checked",
        lambda call: start_import(call.db, _task(call, options), of, upload.path, media),
        "The file is being checked. Nothing is written.",
    )


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


@pages.form("/stores/{handle}/imports/{import_id}/start", on=store_import)
async def start_checked_import(visit: Visit, form: OnceForm) -> Redirect:
    checked = await find_job(visit)
    options = msgspec.json.decode(checked.options, type=Options)
    if not options.dry_run or checked.account_id is None or checked.finished_at is None:
        raise FormError({"": "This file was not checked here. Upload it again."})
    final = msgspec.structs.replace(options, dry_run=False)
    return await _start(
        visit,
        form,
        f"{checked.resource}.import_started",
        lambda call: start_checked(call.db, _task(call, final), checked),
        "The import is started.",
    )


@pages.page("/stores/{handle}/imports/{import_id}/fix", nav="list_stores", right=Right.CHANGE)
async def fix_import(visit: Visit) -> PageResponse:
    """The failed rows of an import, to correct a few at a time."""
    job = await find_job(visit)
    header = _header(job)
    if job.gone or not _fits(header) or not rows_visible(visit, job):
        return Redirect(f"{_url(visit)}s/{job.id}")
    rows, more = await _failed(visit, job, header)
    context: dict[str, Any] = {
        "job": job,
        "columns": [name for _, name in _columns(header)] if header else [],
        "rows": rows,
        "next": rows[-1].number if rows and more else 0,
    }
    return View("stores/fix_import.html", context)


@pages.form("/stores/{handle}/imports/{import_id}/fix", on=fix_import)
async def import_corrected_rows(visit: Visit, form: RowsForm) -> Redirect:
    job = await find_job(visit)
    header = _header(job)
    numbers = [each for each in dict.fromkeys(form.numbers) if each.isascii() and each.isdigit() and len(each) < 9]
    if not numbers or not _fits(header) or not rows_visible(visit, job):
        raise FormError({"": "There are no rows to import."})
    of = next(each for each in IMPORTABLE if each.resource == job.resource)
    options = msgspec.structs.replace(msgspec.json.decode(job.options, type=Options), dry_run=False, missing="ignore")
    content = _sheet(form, numbers, header) if header else "".join(f"{form.rows.get(each, '{}')}\n" for each in numbers)

    async def work(call: Call) -> Job:
        with tempfile.NamedTemporaryFile(prefix="stoa-rows-") as file:
            file.write(content.encode())
            file.flush()
            return await start_import(call.db, _task(call, options), of, Path(file.name), CSV if header else NDJSON)

    notice = f"{len(numbers)} corrected row{'' if len(numbers) == 1 else 's'} are being imported."
    return await _start(visit, form, f"{job.resource}.import_started", work, notice, corrects=job.id)


async def _start(
    visit: Visit, form: OnceForm, action: str, work: Callable[[Call], Awaitable[Job]], notice: str, **detail: str
) -> Redirect:
    """Start a job in one transaction with its audit entry, and show it."""
    started: list[Job] = []

    async def run(call: Call) -> Job:
        try:
            started[:] = [await work(call)]
        except ValidationFailed as refusal:
            # Faults of a file name columns, which the form does not have.
            faults = "; ".join(f"{each.pointer.lstrip('/')} {each.detail}".strip() for each in refusal.faults[:5])
            raise FormError(file=f"{refusal.detail} {faults}".strip()) from refusal
        return started[0]

    change = Change(action, f"store:{visit.store.id}", detail=detail)
    if not await carry_out(visit, form, change, run):
        return Redirect(f"{_url(visit)}s", REPEATED, "warn")
    return Redirect(f"{_url(visit)}s/{started[0].id}", notice)


def _task(call: Call, options: Options) -> Task:
    return Task(call.store, new_import_id(), None, call.request_id, options, account_id=call.person_id)


def _header(job: Job) -> Header | None:
    return msgspec.json.decode(job.header, type=Header) if job.header else None


def _fits(header: Header | None) -> bool:
    """Whether the rows of a file can be corrected on a page."""
    return header is None or len(header.columns) <= _MAX_COLUMNS


def _columns(header: Header) -> list[tuple[int, str]]:
    """The file's own columns with their indexes, without those of a report."""
    return [(n, name) for n, name in enumerate(header.columns) if name.strip().lower() not in REPORT_COLUMNS]


async def _failed(visit: Visit, job: Job, header: Header | None) -> tuple[list[ShownRow], bool]:
    """The next failed rows, as many as a form can hold, and whether more follow."""
    after = visit.query("after")
    first = int(after) if after.isascii() and after.isdigit() and len(after) < 9 else 0
    found = await queries.FAILED_ROWS.all(visit.db, job.store_id, job.id, first, _MAX_ROWS + 1)
    shown: list[ShownRow] = []
    cells = 0
    for row in found[:_MAX_ROWS]:
        each = _shown(row, header)
        cells += sum(map(len, each.records)) or 1
        if shown and cells > _MAX_CELLS:
            return shown, True
        shown.append(each)
    return shown, len(found) > _MAX_ROWS


def _shown(row: FailedRow, header: Header | None) -> ShownRow:
    faults = msgspec.json.decode(row.errors, type=list[Fault])
    if header is None:
        return ShownRow(row.row, faults, [], row.raw)
    kept = [index for index, _ in _columns(header)]
    records = [[cells[n] if n < len(cells) else "" for n in kept] for cells in cells_of(row.raw, header)]
    return ShownRow(row.row, faults, records, "")


def _sheet(form: RowsForm, numbers: Sequence[str], header: Header) -> str:
    """The corrected cells as a CSV file."""
    columns = [name for _, name in _columns(header)]
    records: dict[tuple[str, str], list[str]] = {}
    for name, value in form.cells.items():
        number, record, column = (*name.split("."), "", "")[:3]
        if number in numbers and column.isascii() and column.isdigit() and int(column[:4]) < len(columns):
            records.setdefault((number, record), [""] * len(columns))[int(column)] = value
    output = io.StringIO()
    writer = csv.writer(output, delimiter=header.delimiter, lineterminator="\r\n")
    writer.writerows([columns, *records.values()])
    return output.getvalue()


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/import"
