"""Whole lists as streams, which resume by themselves after a broken connection."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from stoa_client.answers import as_row
from stoa_client.decoding import decode
from stoa_client.errors import ApiError, ConnectionFailed, StoaError, Unauthorized, refusal
from stoa_client.files import complete_file
from stoa_client.time_limits import current_deadline

T = TypeVar("T")
L = TypeVar("L")
P = TypeVar("P")
NDJSON, CSV = "application/x-ndjson", "text/csv"
_META, _FAILED = b'{"meta":', b'"complete":false'
_LONGEST_PAUSE_S = 8.0


class _Meta(msgspec.Struct):
    cursor: str | None
    total: int | None = None
    complete: bool = False


class _End(msgspec.Struct):
    meta: _Meta


class Progress:
    """What is known of a stream: where it resumes, and whether it is complete."""

    def __init__(self, retries: int, cursor: str | None) -> None:
        self.cursor = cursor
        self.total: int | None = None
        self.complete = False
        self.problem: Mapping[str, Any] | None = None  # that ended the stream
        self._retries = retries
        self._failures = 0
        self._held: list[bytes] = []  # the rows after the last cursor; they come again if the connection breaks

    def take(self, line: bytes) -> Iterator[bytes]:
        """The rows that a line makes final; the cursor moves when the caller has taken all of them."""
        if line.startswith(_META):
            try:
                meta = decode(line, _End).meta
            except msgspec.DecodeError as error:  # the connection ended in this line
                raise ConnectionFailed("the stream ended without its last line") from error
            self.total, self.complete = meta.total if meta.total is not None else self.total, meta.complete
            yield from self._settled(meta.cursor)
        elif _FAILED in line and (problem := _problem(line)) is not None:
            self.problem = problem
            yield from self._settled(problem.get("cursor"))
        else:
            self._held.append(line)

    def _settled(self, cursor: str | None) -> Iterator[bytes]:
        rows, self._held = self._held, []
        if rows:
            self._failures = 0
        yield from rows
        self.cursor = cursor or self.cursor

    def check(self) -> None:
        """Raise if the stream ended without its end."""
        problem, self.problem = self.problem, None
        if problem is not None:
            raise refusal(int(problem["status"]), msgspec.json.encode(problem), None)
        if not self.complete:
            raise ConnectionFailed("the stream ended without its last line")

    def pause_s(self, error: StoaError) -> float:
        """How long to wait before the stream resumes; raises the error if it should not."""
        self._held = []
        self._failures += 1
        transient = isinstance(error, (ConnectionFailed, Unauthorized)) or (
            isinstance(error, ApiError) and error.retryable
        )
        seconds = min(0.5 * 2 ** (self._failures - 1), _LONGEST_PAUSE_S)
        if not transient or self._failures > self._retries or time.monotonic() + seconds >= current_deadline():
            raise error
        return seconds


def _problem(line: bytes) -> dict[str, Any] | None:
    try:
        members: Any = decode(line, Any)
    except msgspec.DecodeError:
        return None
    if not isinstance(members, dict):
        return None
    found = cast("dict[str, Any]", members)
    return found if found.get("complete") is False and {"code", "status", "cursor"} <= found.keys() else None


class _Stream(Generic[T, L, P]):
    """What is the same for threads and for an event loop; `L` opens the lines after a cursor, and `P` the parts of a file."""

    def __init__(self, lines: L, parts: P, kind: Any, query: Mapping[str, Any], retries: int) -> None:
        self._lines = lines
        self._parts = parts
        self._kind = kind
        self._tombstones = bool(query.get("include_deleted"))
        self._new_progress = partial(Progress, retries, query.get("cursor"))
        self._progress = self._new_progress()

    def _begin(self) -> Progress:
        """Each iteration reads the whole list."""
        self._progress = self._new_progress()
        return self._progress

    @property
    def cursor(self) -> str | None:
        """Where a later export goes on; it moves when you have got all resources of a batch, at most 1,000.

        An export that goes on where another one was interrupted repeats the resources of its last batch.
        """
        return self._progress.cursor

    @property
    def total(self) -> int | None:
        """The number of resources in the list when the stream began; None until it has ended."""
        return self._progress.total

    def _resource(self, row: bytes) -> T:
        return as_row(row, self._kind, tombstones=self._tombstones)


class Export(_Stream[T, Callable[[Mapping[str, Any]], Iterator[bytes]], Callable[[str], Iterator[bytes]]]):
    """All resources of a list, read as a stream. It resumes after a broken connection, and raises if it cannot be completed.

    Each iteration and each file begins again. Pass `cursor` to a later export to go on there.
    """

    def rows(self) -> Iterator[bytes]:
        """The resources as JSON."""
        progress = self._begin()
        while not progress.complete:
            try:
                for line in self._lines({"cursor": progress.cursor}):
                    yield from progress.take(line)
                progress.check()
            except StoaError as error:
                time.sleep(progress.pause_s(error))

    def __iter__(self) -> Iterator[T]:
        for row in self.rows():
            yield self._resource(row)

    def to_file(self, path: str | Path, format: Literal["ndjson", "csv"] = "ndjson") -> int:
        """Write all resources to a file, which exists only when it is complete; returns its size in bytes."""
        with complete_file(path) as file:
            if format == "csv":
                for part in self._parts(CSV):
                    file.write(part)
            else:
                for row in self.rows():
                    file.write(row + b"\n")
            return file.tell()


class AsyncExport(
    _Stream[T, Callable[[Mapping[str, Any]], AsyncIterator[bytes]], Callable[[str], AsyncIterator[bytes]]]
):
    """All resources of a list, read as a stream with `async for`."""

    async def rows(self) -> AsyncIterator[bytes]:
        progress = self._begin()
        while not progress.complete:
            try:
                async for line in self._lines({"cursor": progress.cursor}):
                    for row in progress.take(line):
                        yield row
                progress.check()
            except StoaError as error:
                await asyncio.sleep(progress.pause_s(error))

    async def __aiter__(self) -> AsyncIterator[T]:
        async for row in self.rows():
            yield self._resource(row)

    async def to_file(self, path: str | Path, format: Literal["ndjson", "csv"] = "ndjson") -> int:
        with complete_file(path) as file:
            if format == "csv":
                async for part in self._parts(CSV):
                    file.write(part)
            else:
                async for row in self.rows():
                    file.write(row + b"\n")
            return file.tell()
