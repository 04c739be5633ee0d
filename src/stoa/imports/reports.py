"""Streams the report of a job: all rows as NDJSON, or the failed rows as CSV to correct and upload again."""

import csv
import io
from collections.abc import AsyncIterator, Sequence

import msgspec

from stoa.db.query import Executor
from stoa.imports import queries
from stoa.imports.csv_rows import REPORT_COLUMNS, Header
from stoa.imports.queries import FailedRow, Job
from stoa.imports.reading import cells_of
from stoa.rest.problems import Fault

PAGE = 1_000


async def every_row(db: Executor, job: Job) -> AsyncIterator[bytes]:
    """One line for each processed row, in the order of the file."""
    after = 0
    while rows := await queries.ROWS.all(db, job.store_id, job.id, after, PAGE):
        after = rows[-1].row
        yield b"".join(_line(row) for row in rows)


def _line(row: queries.StoredRow) -> bytes:
    line: dict[str, object] = {
        "row": row.row,
        "key": msgspec.Raw(row.key),
        "status": row.status,
        "id": row.result_id,
        "errors": msgspec.Raw(row.errors or "[]"),
    }
    if row.changes is not None:
        line["changes"] = msgspec.Raw(row.changes)
    return msgspec.json.encode(line) + b"\n"


async def failed_rows(db: Executor, job: Job) -> AsyncIterator[bytes]:
    """The failed rows with their own columns; a row of a JSON file is one cell."""
    header = msgspec.json.decode(job.header, type=Header) if job.header else Header(",", ["row", "json"])
    # A corrected report still has these columns, which are written again here.
    kept = [index for index, name in enumerate(header.columns) if name.strip().lower() not in REPORT_COLUMNS]
    yield _csv([[*(header.columns[index] for index in kept), *REPORT_COLUMNS]])
    after = 0
    while rows := await queries.FAILED_ROWS.all(db, job.store_id, job.id, after, PAGE):
        after = rows[-1].row
        yield _csv([record for row in rows for record in _records(row, job, header, kept)])


def _records(row: FailedRow, job: Job, header: Header, kept: Sequence[int]) -> list[list[str]]:
    faults = msgspec.json.decode(row.errors, type=list[Fault])
    errors = [
        "; ".join(dict.fromkeys(fault.code for fault in faults)),
        "; ".join(f"{fault.pointer}: {fault.detail}" if fault.pointer else fault.detail for fault in faults),
    ]
    if job.header is None:
        return [[str(row.row), row.raw, *errors]]
    records = [
        [cells[index] if index < len(cells) else "" for index in kept] for cells in cells_of(row.raw, header.delimiter)
    ]
    # The errors of a row are in its first record.
    return [[*cells, *(errors if index == 0 else ("", ""))] for index, cells in enumerate(records)]


def _csv(records: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
