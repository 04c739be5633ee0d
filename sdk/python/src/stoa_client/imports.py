"""Waits for an import to end and reads its report, in addition to the generated calls."""

import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import httpx
import msgspec

from stoa_client.answers import Model, read_one
from stoa_client.connection import AsyncResource, Resource
from stoa_client.decoding import decode
from stoa_client.errors import Fault, UnexpectedAnswer, WaitedTooLong
from stoa_client.files import complete_file
from stoa_client.flows import Flow, Pause, RetryPolicy, send
from stoa_client.limiter import Limiter
from stoa_client.models import Import
from stoa_client.requests import request, segment
from stoa_client.time_limits import current_deadline
from stoa_client.uploads import CSV, NDJSON


class RowReport(Model):
    """The result of one row of a file."""

    row: int
    key: dict[str, Any]
    status: str
    """created, updated, unchanged or failed."""
    id: int | None
    errors: list[Fault]
    changes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def wait_for(url: str, policy: RetryPolicy, limiter: Limiter, within_s: float | None) -> Flow[Import]:
    """Poll an import with growing pauses until it has ended."""
    until = min(math.inf if within_s is None else time.monotonic() + within_s, current_deadline())
    pause_s = 0.1
    while True:
        response: httpx.Response = yield from send(request("GET", url), policy, limiter)
        job = read_one(response, Import)
        if job.finished_at is not None:
            return job
        if time.monotonic() + pause_s > until:
            raise WaitedTooLong(f"import {job.id} is still {job.status} and continues, but the time to wait is over")
        yield Pause(pause_s)
        pause_s = min(pause_s * 1.5, 2.0)


def _name(job: Import | str) -> str:
    return segment(job if isinstance(job, str) else job.id)


def _row(line: bytes) -> RowReport:
    try:
        return decode(line, RowReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnexpectedAnswer("a line of the report is not a row", 200, line) from error


class ImportJobs(Resource):
    """Imports of one kind of resource."""

    _path: ClassVar[str]

    def wait(self, job: Import | str, *, within_s: float | None = None) -> Import:
        """The job once it has ended, successfully or not; raises WaitedTooLong if that takes longer than `within_s`."""
        connection = self._connection
        url = f"{connection.root}{self._path}/{_name(job)}"
        return connection.run(wait_for(url, connection.policy, connection.limiter, within_s))

    def rows(self, job: Import | str) -> Iterator[RowReport]:
        """The result of every row, as it arrives."""
        for line in self._connection.lines(f"{self._path}/{_name(job)}", NDJSON):
            yield _row(line)

    def save_failures(self, job: Import | str, to: str | os.PathLike[str]) -> None:
        """Write the failed rows with their errors to a CSV file; correct them there and import the file again.

        The file is written or replaced only when it is complete.
        """
        with complete_file(to) as file:
            file.writelines(self._connection.parts(f"{self._path}/{_name(job)}", CSV))


class AsyncImportJobs(AsyncResource):
    """Imports of one kind of resource, for an event loop."""

    _path: ClassVar[str]

    async def wait(self, job: Import | str, *, within_s: float | None = None) -> Import:
        connection = self._connection
        url = f"{connection.root}{self._path}/{_name(job)}"
        return await connection.run(wait_for(url, connection.policy, connection.limiter, within_s))

    async def rows(self, job: Import | str) -> AsyncIterator[RowReport]:
        async for line in self._connection.lines(f"{self._path}/{_name(job)}", NDJSON):
            yield _row(line)

    async def save_failures(self, job: Import | str, to: str | os.PathLike[str]) -> None:
        with complete_file(to) as file:
            async for part in self._connection.parts(f"{self._path}/{_name(job)}", CSV):
                file.write(part)
