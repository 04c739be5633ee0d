"""A job's report while it is sent: every row as NDJSON, or the failed rows as a CSV file to mend and post again."""

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
    """One line for each row that was carried out, in the order of the file."""
    after = 0
    while rows := await queries.ROWS.all(db, job.store_id, job.id, after, PAGE):
        after = rows[-1].row
        yield b"".join(_line(row) for row in rows)


def _line(row: queries.StoredRow) -> bytes:
    told: dict[str, object] = {
        "row": row.row,
        "key": msgspec.Raw(row.key),
        "status": row.status,
        "id": row.result_id,
        "errors": msgspec.Raw(row.errors or "[]"),
    }
    if row.changes is not None:
        told["changes"] = msgspec.Raw(row.changes)
    return msgspec.json.encode(told) + b"\n"


async def failed_rows(db: Executor, job: Job) -> AsyncIterator[bytes]:
    """The failed rows with their own columns; of a file that had none, each row is one cell of JSON."""
    header = msgspec.json.decode(job.header, type=Header) if job.header else Header(",", ["row", "json"])
    # A report that is sent in again brings columns that are made anew here.
    kept = [place for place, name in enumerate(header.columns) if name.strip().lower() not in REPORT_COLUMNS]
    yield _csv([[*(header.columns[place] for place in kept), *REPORT_COLUMNS]])
    after = 0
    while rows := await queries.FAILED_ROWS.all(db, job.store_id, job.id, after, PAGE):
        after = rows[-1].row
        yield _csv([record for row in rows for record in _records(row, job, header, kept)])


def _records(row: FailedRow, job: Job, header: Header, kept: Sequence[int]) -> list[list[str]]:
    faults = msgspec.json.decode(row.errors, type=list[Fault])
    told = [
        "; ".join(dict.fromkeys(fault.code for fault in faults)),
        "; ".join(f"{fault.pointer}: {fault.detail}" if fault.pointer else fault.detail for fault in faults),
    ]
    if job.header is None:
        return [[str(row.row), row.raw, *told]]
    records = [
        [cells[place] if place < len(cells) else "" for place in kept] for cells in cells_of(row.raw, header.delimiter)
    ]
    # What belongs together is told once, at its first record.
    return [[*cells, *(told if place == 0 else ("", ""))] for place, cells in enumerate(records)]


def _csv(records: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
