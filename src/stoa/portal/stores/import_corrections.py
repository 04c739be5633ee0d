"""Failed rows of an import, corrected on a page and checked again: with the whole file if nothing of it was written."""

import csv
import io
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stoa.accounts.contract import Right
from stoa.imports import queries
from stoa.imports.jobs import check_again, header_of, options_of, start_import, wrote_nothing
from stoa.imports.queries import FailedRow, Job
from stoa.imports.reading import cells_of
from stoa.imports.runner import IMPORTABLE
from stoa.portal.kit.forms import FormError, OnceForm, text
from stoa.portal.kit.pages import PageResponse, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.import_actions import imports_url, start_job, task_of
from stoa.portal.stores.import_columns import in_words, line_of, marked_cells
from stoa.portal.stores.imports import correctable, find_job, pages
from stoa.rest.call import Call
from stoa.rest.csv_rows import REPORT_COLUMNS, Header, quoted
from stoa.rest.headers import CSV, NDJSON
from stoa.rest.problems import Fault

_MAX_ROWS, _MAX_CELLS, _MAX_CHARACTERS = 10, 120, 10_000
_FIELDS = text("Remove invisible characters.", max_length=200, multiline=True)


class RowsForm(OnceForm):
    """Corrected rows: the cells of a CSV file by row, record and column, or the JSON of a row by its number."""

    cells: Annotated[dict[str, str], _FIELDS] = msgspec.field(default_factory=dict[str, str])
    rows: Annotated[dict[str, str], _FIELDS] = msgspec.field(default_factory=dict[str, str])
    numbers: list[str] = msgspec.field(default_factory=list[str])


class ShownRow(msgspec.Struct):
    """A failed row to correct: its faults, and its cells or its JSON."""

    number: int
    faults: list[Fault]
    records: list[list[str]]
    raw: str
    line: int = 0
    marked: dict[str, str] = {}  # what is wrong with a cell, by its record and position


@pages.page("/stores/{handle}/imports/{import_id}/fix", nav="list_stores", right=Right.CHANGE)
async def fix_import(visit: Visit) -> PageResponse:
    """The failed rows of an import, to correct a few at a time."""
    job = await find_job(visit)
    if not await correctable(visit, job):
        return Redirect(f"{imports_url(visit)}/{job.id}")
    header = header_of(job)
    columns = [name for _, name in _columns(header)] if header else []
    failed = await _failed_rows(visit, job, header)
    context: dict[str, Any] = {
        "job": job,
        "whole_file": wrote_nothing(options_of(job), job.status),
        "columns": columns,
        "in_words": in_words,
        **_order(failed["rows"], len(columns)),
        **failed,
    }
    return View("stores/fix_import.html", context)


def _order(rows: list[ShownRow], columns: int) -> dict[str, Any]:
    """The columns as a screen shows them: the first, which names the row, then those with wrong cells, then the others; and
    the cell that gets the focus."""
    wrong: list[tuple[int, int, int]] = []  # row, record and column
    for row in rows:
        for place in row.marked:
            record, _, column = place.partition(".")
            wrong.append((row.number, int(record), int(column)))
    marked = {column for _, _, column in wrong}
    order = sorted(range(columns), key=lambda column: (column > 0, column not in marked, column))
    first = min(wrong, key=lambda each: (*each[:2], order.index(each[2])), default=None)
    return {"order": order, "first_wrong": first}


@pages.form("/stores/{handle}/imports/{import_id}/fix", on=fix_import, in_shard=True)
async def check_corrected_rows(visit: Visit, form: RowsForm) -> Redirect:
    job = await find_job(visit)
    if not await correctable(visit, job):
        raise FormError({"": "The rows of this import can no longer be corrected. Upload a corrected file."})
    header, options = header_of(job), options_of(job)
    corrected = await _corrected(visit, job, form, header)
    if not corrected:
        raise FormError({"": "There are no rows to check."})
    of = next(each for each in IMPORTABLE if each.resource == job.resource)
    check = msgspec.structs.replace(options, dry_run=True)

    async def check_file(call: Call) -> Job:
        return await check_again(call.db, task_of(call, check), of, job, corrected)

    async def check_rows(call: Call) -> Job:
        task = task_of(call, msgspec.structs.replace(check, missing="ignore"))
        with tempfile.NamedTemporaryFile(prefix="stoa-rows-") as file:
            file.write("".join([_records([header.columns], header) if header else "", *corrected.values()]).encode())
            file.flush()
            return await start_import(call.db, task, of, Path(file.name), CSV if header else NDJSON)

    work = check_file if wrote_nothing(options, job.status) else check_rows
    notice = "The corrected rows are being checked. Nothing is written."
    return await start_job(visit, form, f"{job.resource}.import_checked", work, notice, corrects=job.id)


async def _failed_rows(visit: Visit, job: Job, header: Header | None) -> dict[str, Any]:
    """The next failed rows, as many as a page can hold, the number of rows that it cannot, and where to continue."""
    after = _row_number(visit.query("after"))
    found = await queries.FAILED_ROWS.all(visit.db, job.store_id, job.id, after, _MAX_ROWS + 1)
    rows: list[ShownRow] = []
    large = cells = size = 0
    for row in found[:_MAX_ROWS]:
        shown = _shown(row, header) if len(row.raw) <= _MAX_CHARACTERS else None
        needed = (sum(map(len, shown.records)) or 1) if shown else 0
        if shown is None or needed > _MAX_CELLS:
            large += 1
        elif cells + needed > _MAX_CELLS or size + len(row.raw) > _MAX_CHARACTERS:
            break
        elif row.raw:  # an erased row has no text
            rows.append(shown)
            cells, size = cells + needed, size + len(row.raw)
        after = row.row
    return {"rows": rows, "large": large, "next": after if found and after < found[-1].row else 0}


def _shown(row: FailedRow, header: Header | None) -> ShownRow:
    faults = msgspec.json.decode(row.errors, type=list[Fault])
    if header is None:
        return ShownRow(row.row, faults, [], row.raw, row.row)
    kept = [index for index, _ in _columns(header)]
    marked = marked_cells(faults, [name for _, name in _columns(header)])
    records = [[cells[n] if n < len(cells) else "" for n in kept] for cells in cells_of(row.raw, header)]
    return ShownRow(row.row, faults, records, "", line_of(row.row, header), marked)


async def _corrected(visit: Visit, job: Job, form: RowsForm, header: Header | None) -> dict[int, str]:
    """The text of each corrected row, with as many records as before, so that all rows keep their numbers."""
    numbers = {number for each in form.numbers if (number := _row_number(each))}
    first = min(numbers, default=0)
    found = await queries.FAILED_ROWS.all(visit.db, job.store_id, job.id, first - 1, _MAX_ROWS) if numbers else []
    failed = [row for row in found if row.row in numbers and row.raw]
    if header is None:
        # JSON strings contain no unescaped line breaks.
        return {row.row: form.rows.get(str(row.row), "{}").replace("\n", " ") + "\n" for row in failed}
    columns = _columns(header)
    corrected: dict[int, str] = {}
    for row in failed:
        records = [[""] * len(header.columns) for _ in cells_of(row.raw, header)]
        for number, cells in enumerate(records):
            for position, (index, _) in enumerate(columns):
                cells[index] = form.cells.get(f"{row.row}.{number}.{position}", "")
        corrected[row.row] = _records(records, header)
    return corrected


def _records(records: list[list[str]], header: Header) -> str:
    """Records in the format of the file."""
    output = io.StringIO()
    writer = csv.writer(output, delimiter=header.delimiter, lineterminator="\n")
    writer.writerows([quoted(cell) for cell in cells] if header.is_ours else cells for cells in records)
    return output.getvalue()


def _columns(header: Header) -> list[tuple[int, str]]:
    """The file's own columns with their indexes, without those of a report."""
    return [(n, name) for n, name in enumerate(header.columns) if name.strip().lower() not in REPORT_COLUMNS]


def _row_number(value: str) -> int:
    """A number of a row; 0 if the value is none."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0
