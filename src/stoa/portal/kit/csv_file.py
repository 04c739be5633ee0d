"""CSV files for spreadsheets: cells that are never computed, and a response that is streamed page by page."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from starlette.responses import StreamingResponse

from stoa.rest.csv_rows import quoted
from stoa.rest.headers import CSV

_BOM = b"\xef\xbb\xbf"  # by which spreadsheets recognize UTF-8


def csv_response(name: str, columns: Sequence[str], pages: AsyncIterator[Sequence[Sequence[Any]]]) -> StreamingResponse:
    """Stream the rows of all pages as a file; memory use does not depend on their number."""

    async def content() -> AsyncIterator[bytes]:
        yield _BOM + _csv([columns])
        async for rows in pages:
            yield _csv([[_cell(value) for value in row] for row in rows])

    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return StreamingResponse(content(), media_type=f"{CSV}; charset=utf-8", headers=headers)


def _cell(value: Any) -> str:
    """A cell; text that a spreadsheet would compute is quoted, because it may come from a stranger."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, list):
        return quoted("|".join(map(str, value)))  # pyright: ignore[reportUnknownArgumentType]
    return quoted(str(value))


def _csv(records: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
