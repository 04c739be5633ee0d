"""A whole list, read in short statements: its rows as lines of JSON or records of a CSV file, and the cursor after them."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from stoa.rest.call import Call
from stoa.rest.csv_files import CsvFile
from stoa.rest.cursors import encode_cursor
from stoa.rest.endpoint import Endpoint
from stoa.rest.headers import CSV
from stoa.rest.lists import ListQuery, Page
from stoa.rest.problems import Fault, InvalidParameter
from stoa.rest.response import lines_of

FIRST_ROWS = 250
ROWS = (1_000, 500, 250, 100, 50, 10, 1)  # that one statement reads, by their size
PART_BYTES = 1_500_000  # that it is expected to return at most
_OF_PAGES = ("limit", "page", "per_page")


class ListReader:
    """Reads one list from its start or a cursor: the place that it has reached, and the file that it writes."""

    def __init__(self, endpoint: Endpoint, call: Call, values: Mapping[str, Any]) -> None:
        self.is_csv = call.accepted == CSV
        self._endpoint = endpoint
        self._call = call
        self._query = _whole(values["query"], endpoint, csv=self.is_csv)
        self._values = {name: value for name, value in values.items() if name != "query"}
        self._last = self._query.after  # the sort keys of the last row that was taken
        self._file: CsvFile | None = None
        call.include = self._query.include

    async def read(self) -> Page[Any]:
        """The next rows."""
        return await self._endpoint.handler(self._call, **self._values, query=self._query)

    def move_on(self, page: Page[Any], size: int) -> None:
        """Read on after this page: as many rows as make a part, so that a statement costs little beside its rows, and a part
        little memory."""
        self._last = page.last or self._last
        if page.next_cursor is not None:
            rows = next((rows for rows in ROWS if size * rows <= PART_BYTES * len(page.ids)), 1)
            self._query = msgspec.structs.replace(self._query.continued(page.last), limit=rows)

    @property
    def cursor(self) -> str | None:
        """The place after the rows that were taken."""
        query = self._query
        return encode_cursor(query.of_list, query.given, list(self._last), backwards=False) if self._last else None

    async def lines(self, page: Page[Any]) -> tuple[bytes, int]:
        """The lines of a page, and the number of its rows. The first page of a file has its header."""
        if not self.is_csv:
            lines = lines_of(page.docs, self._call.fields)
            return lines, lines.count(b"\n")
        docs = [doc for text in page.docs for doc in text.split(b"\n")]
        parts: list[bytes] = []
        if self._file is None:
            spec, query = self._endpoint.lists, self._query
            if spec is None or spec.columns is None:
                raise TypeError(f"{self._endpoint.name} has no columns")
            omitted = frozenset(spec.includes) - query.include
            make = partial(CsvFile, spec.columns, docs, query.fields, omitted, deleted=query.shape.deleted)
            self._file = await asyncio.to_thread(make)  # which decodes all documents
            parts.append(self._file.header())
        for piece in self._file.pieces(docs):
            parts.append(piece)
            await asyncio.sleep(0)
        return b"".join(parts), len(docs)


def _whole(query: ListQuery, endpoint: Endpoint, *, csv: bool) -> ListQuery:
    """The query of all rows, which has no pages and runs forward. A file also has the members of each resource."""
    sent = [name for name in _OF_PAGES if name in query.sent]
    if sent:
        faults = [Fault(name, "invalid_parameter", "must not be sent: a stream has no pages") for name in sent]
        raise InvalidParameter("A stream returns every row.", faults=faults)
    if query.shape.backwards:
        fault = Fault("cursor", "invalid_parameter", "must be the next_cursor of a page, or the cursor of a stream")
        raise InvalidParameter("A stream cannot run backwards.", faults=[fault])
    given = {name: value for name, value in query.given.items() if name not in _OF_PAGES}
    columns = endpoint.lists.columns if endpoint.lists and csv else None
    include = query.include
    if columns and columns.members and (query.fields is None or columns.members in query.fields):
        include |= {columns.members}
    return msgspec.structs.replace(query, given=given, include=include, limit=FIRST_ROWS, streamed=True)
