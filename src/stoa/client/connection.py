"""The two ways to the service, one for threads and one for an event loop; both do what the flows ask for."""

import asyncio
import platform
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import httpx

from stoa.client.answers import Batch, Lines, Page, read_batch, read_one, read_page
from stoa.client.calling import Authorize, Flow, Outcome, Patience, Send, broken_off, calling
from stoa.client.pages import AsyncPages, Pages
from stoa.client.requests import Request, request
from stoa.client.uploads import Source

T = TypeVar("T")


def _user_agent() -> str:
    try:
        ours = version("stoa")
    except PackageNotFoundError:  # the folder alone was copied somewhere
        ours = "0"
    return f"stoa-python/{ours} python/{platform.python_version()} httpx/{httpx.__version__}"


USER_AGENT = _user_agent()


def _headers(send: Send) -> dict[str, str]:
    bearer = {"authorization": f"Bearer {send.token}"} if send.token else {}
    return {"user-agent": USER_AGENT, **send.request.headers, **bearer}


def _timeout(timeout: httpx.Timeout, wanted: Request) -> httpx.Timeout:
    """A service that was asked to wait may be silent for that long."""
    if not wanted.patience_s or timeout.read is None:
        return timeout
    read = timeout.read + wanted.patience_s
    return httpx.Timeout(connect=timeout.connect, read=read, write=timeout.write, pool=timeout.pool)


class Connection:
    """A store as one app reaches it, from any thread."""

    def __init__(self, http: httpx.Client, root: str, patience: Patience, token: Callable[[str | None], str]) -> None:
        self.http = http
        self.root = root
        self.patience = patience
        self._token = token

    def run(self, flow: Flow[T]) -> T:
        """Do what a flow asks for until it has its result."""
        result: Any = None
        while True:
            try:
                step = flow.send(result)
            except StopIteration as end:
                return end.value
            if isinstance(step, Send):
                result = self._send(step)
            elif isinstance(step, Authorize):
                result = self._token(step.stale)
            else:
                time.sleep(step.seconds)
                result = None

    def _send(self, send: Send) -> Outcome:
        wanted = send.request
        content = wanted.content.parts() if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(send),
            content=content,
            timeout=_timeout(self.http.timeout, wanted),
        )
        try:
            response = self.http.send(built, stream=True, auth=wanted.auth)
            if not wanted.stream or response.status_code >= 300:
                response.read()
        except httpx.RequestError as error:
            return error
        return response

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self.run(calling(request(method, self.root + path, **given), self.patience))

    def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return read_one(self.call(method, path, **given), kind)

    def none(self, method: str, path: str, **given: Any) -> None:
        self.call(method, path, **given)

    def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return read_batch(self.call(method, path, **given), kind)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> Pages[Any]:
        tombstones = bool(query.get("include_deleted"))

        def read(more: Mapping[str, Any]) -> Page[Any]:
            return read_page(self.call("GET", path, query={**query, **more}), kind, tombstones=tombstones)

        return Pages(read)

    def parts(self, path: str, accept: str) -> Iterator[bytes]:
        """A long answer, as it arrives."""
        response = self.call("GET", path, accept=accept, stream=True)
        try:
            yield from response.iter_bytes()
        except httpx.RequestError as error:
            raise broken_off(error) from error
        finally:
            response.close()

    def lines(self, path: str, accept: str) -> Iterator[bytes]:
        """A long answer, line by line."""
        lines = Lines()
        for part in self.parts(path, accept):
            yield from lines.of(part)
        yield from lines.rest()


class AsyncConnection:
    """A store as one app reaches it, from any task of an event loop."""

    def __init__(
        self, http: httpx.AsyncClient, root: str, patience: Patience, token: Callable[[str | None], Any]
    ) -> None:
        self.http = http
        self.root = root
        self.patience = patience
        self._token = token

    async def run(self, flow: Flow[T]) -> T:
        result: Any = None
        while True:
            try:
                step = flow.send(result)
            except StopIteration as end:
                return end.value
            if isinstance(step, Send):
                result = await self._send(step)
            elif isinstance(step, Authorize):
                result = await self._token(step.stale)
            else:
                await asyncio.sleep(step.seconds)
                result = None

    async def _send(self, send: Send) -> Outcome:
        wanted = send.request
        content = _from_thread(wanted.content) if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(send),
            content=content,
            timeout=_timeout(self.http.timeout, wanted),
        )
        try:
            response = await self.http.send(built, stream=True, auth=wanted.auth)
            if not wanted.stream or response.status_code >= 300:
                await response.aread()
        except httpx.RequestError as error:
            return error
        return response

    async def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        return await self.run(calling(request(method, self.root + path, **given), self.patience))

    async def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return read_one(await self.call(method, path, **given), kind)

    async def none(self, method: str, path: str, **given: Any) -> None:
        await self.call(method, path, **given)

    async def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return read_batch(await self.call(method, path, **given), kind)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> AsyncPages[Any]:
        tombstones = bool(query.get("include_deleted"))

        async def read(more: Mapping[str, Any]) -> Page[Any]:
            return read_page(await self.call("GET", path, query={**query, **more}), kind, tombstones=tombstones)

        return AsyncPages(read)

    async def parts(self, path: str, accept: str) -> AsyncIterator[bytes]:
        response = await self.call("GET", path, accept=accept, stream=True)
        try:
            async for part in response.aiter_bytes():
                yield part
        except httpx.RequestError as error:
            raise broken_off(error) from error
        finally:
            await response.aclose()

    async def lines(self, path: str, accept: str) -> AsyncIterator[bytes]:
        lines = Lines()
        async for part in self.parts(path, accept):
            for line in lines.of(part):
                yield line
        for line in lines.rest():
            yield line


async def _from_thread(file: Source) -> AsyncIterator[bytes]:
    """A file's parts, read where that keeps no other task waiting."""
    parts = file.parts()
    while part := await asyncio.to_thread(next, parts, b""):
        yield part


class Resource:
    """A part of the API; the generated calls stand in its subclasses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class AsyncResource:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
