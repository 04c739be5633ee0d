"""Streams the report of a job: all rows as NDJSON, or the failed rows as CSV to correct and upload again."""

import csv
import io
from collections.abc import AsyncGenerator, Sequence

import msgspec

from stoa.db.query import Executor
from stoa.imports import queries
from stoa.imports.jobs import header_of
from stoa.imports.queries import FailedRow, Job
from stoa.imports.reading import cells_of
from stoa.rest.csv_rows import REPORT_COLUMNS, Header, quoted
from stoa.rest.problems import Fault

PAGE = 1_000
_BOM = b"\xef\xbb\xbf"


async def every_row(db: Executor, job: Job) -> AsyncGenerator[bytes]:
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


async def failed_rows(db: Executor, job: Job) -> AsyncGenerator[bytes]:
    """The failed rows, to correct and upload again."""
    header = header_of(job)
    yield report_header(header)
    after = 0
    while rows := await queries.FAILED_ROWS.all(db, job.store_id, job.id, after, PAGE):
        after = rows[-1].row
        yield report_rows(rows, header)


# A row of a JSON file is one cell.
_OF_JSON = Header(",", ["row", "json"])


def report_header(header: Header | None) -> bytes:
    """The first record, which has the columns of the uploaded file, its delimiter and its byte order mark."""
    written = header or _OF_JSON
    columns = [*(written.columns[index] for index in _kept(written)), *REPORT_COLUMNS]
    return (_BOM if written.marked else b"") + _csv([columns], written.delimiter)


def report_rows(rows: Sequence[FailedRow], header: Header | None) -> bytes:
    """The records of failed rows."""
    if header is None:
        return _csv([[str(row.row), row.raw, *_errors(row)] for row in rows], _OF_JSON.delimiter)
    kept = _kept(header)
    return _csv([record for row in rows for record in _records(row, header, kept)], header.delimiter)


def _kept(header: Header) -> list[int]:
    """The indexes of the file's own columns. A corrected report still has those that are written again here."""
    return [index for index, name in enumerate(header.columns) if name.strip().lower() not in REPORT_COLUMNS]


def _records(row: FailedRow, header: Header, kept: Sequence[int]) -> list[list[str]]:
    records = [[cells[index] if index < len(cells) else "" for index in kept] for cells in cells_of(row.raw, header)]
    # The errors of a row are in its first record.
    return [[*cells, *(_errors(row) if index == 0 else ("", ""))] for index, cells in enumerate(records)]


def _errors(row: FailedRow) -> list[str]:
    faults = msgspec.json.decode(row.errors, type=list[Fault])
    return [
        "; ".join(dict.fromkeys(fault.code for fault in faults)),
        "; ".join(f"{fault.pointer}: {fault.detail}" if fault.pointer else fault.detail for fault in faults),
    ]


def _csv(records: Sequence[Sequence[str]], delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
    writer.writerows([quoted(cell) for cell in record] for record in records)
    return text.getvalue().encode()
