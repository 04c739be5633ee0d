"""Following an import to its end, and reading its report: what stands beside the generated calls."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
import msgspec

from stoa.client.answers import Model, read_one
from stoa.client.calling import Flow, Patience, Pause, calling
from stoa.client.connection import AsyncResource, Resource
from stoa.client.errors import Fault, WaitedTooLong
from stoa.client.models import Import
from stoa.client.requests import request
from stoa.client.uploads import CSV, NDJSON


class RowReport(Model):
    """What became of one row of a file."""

    row: int
    key: dict[str, Any]
    status: str
    """created, updated, unchanged or failed."""
    id: int | None
    errors: list[Fault]
    changes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def following(address: str, patience: Patience, within_s: float | None) -> Flow[Import]:
    """Ask how far an import is, less and less often, until it has ended."""
    deadline = None if within_s is None else time.monotonic() + within_s
    pause_s = 0.1
    while True:
        response: httpx.Response = yield from calling(request("GET", address), patience)
        job = read_one(response, Import)
        if job.finished_at is not None:
            return job
        if deadline is not None and time.monotonic() + pause_s > deadline:
            raise WaitedTooLong(f"import {job.id} is {job.status} after {within_s} s; it goes on")
        yield Pause(pause_s)
        pause_s = min(pause_s * 1.5, 2.0)


def _name(job: Import | str) -> str:
    return quote(job if isinstance(job, str) else job.id, safe="")


class ImportJobs(Resource):
    """Imports of one kind of resource."""

    _path: ClassVar[str]

    def wait(self, job: Import | str, *, within_s: float | None = None) -> Import:
        """The job once it has ended, however it ended; raises WaitedTooLong when that takes longer."""
        link = self._connection
        return link.run(following(f"{link.root}{self._path}/{_name(job)}", link.patience, within_s))

    def rows(self, job: Import | str) -> Iterator[RowReport]:
        """What became of every row, as it arrives."""
        for line in self._connection.lines(f"{self._path}/{_name(job)}", NDJSON):
            yield msgspec.json.decode(line, type=RowReport)

    def save_failures(self, job: Import | str, to: str | os.PathLike[str]) -> None:
        """Write the failed rows to a CSV file that says why: mend them there and send the file again."""
        with Path(to).open("wb") as file:
            file.writelines(self._connection.parts(f"{self._path}/{_name(job)}", CSV))


class AsyncImportJobs(AsyncResource):
    """The same for an event loop."""

    _path: ClassVar[str]

    async def wait(self, job: Import | str, *, within_s: float | None = None) -> Import:
        link = self._connection
        return await link.run(following(f"{link.root}{self._path}/{_name(job)}", link.patience, within_s))

    async def rows(self, job: Import | str) -> AsyncIterator[RowReport]:
        async for line in self._connection.lines(f"{self._path}/{_name(job)}", NDJSON):
            yield msgspec.json.decode(line, type=RowReport)

    async def save_failures(self, job: Import | str, to: str | os.PathLike[str]) -> None:
        with Path(to).open("wb") as file:  # noqa: ASYNC230 - a local file, in small parts
            async for part in self._connection.parts(f"{self._path}/{_name(job)}", CSV):
                file.write(part)
