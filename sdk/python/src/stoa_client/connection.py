"""The connections to the service, one for threads and one for an event loop; both carry out flows."""

import asyncio
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import httpx

from stoa_client.answers import Batch, Lines, Page, check_media, read_batch, read_one, read_page, refuse_body
from stoa_client.flows import Authorize, Enter, Flow, Outcome, RetryPolicy, Send, interrupted, send
from stoa_client.limiter import Limiter
from stoa_client.pages import AsyncPages, Pages
from stoa_client.requests import Request, request
from stoa_client.uploads import Source

T = TypeVar("T")
CONCURRENCY = 16  # below the number of requests that a worker of the service runs for one app


def _user_agent() -> str:
    try:
        release = version("stoa-client")
    except PackageNotFoundError:  # the package is not installed, but its folder was copied
        release = "0"
    return f"stoa-python/{release} python/{platform.python_version()} httpx/{httpx.__version__}"


USER_AGENT = _user_agent()


def _headers(step: Send) -> dict[str, str]:
    bearer = {"authorization": f"Bearer {step.token}"} if step.token else {}
    return {"user-agent": USER_AGENT, **step.request.headers, **bearer}


def _timeout(timeout: httpx.Timeout, request: Request) -> httpx.Timeout:
    """The read timeout, extended by the time that the service was asked to wait."""
    if not request.wait_s or timeout.read is None:
        return timeout
    read = timeout.read + request.wait_s
    return httpx.Timeout(connect=timeout.connect, read=read, write=timeout.write, pool=timeout.pool)


class Connection:
    """One app's connection to a store, for any thread."""

    def __init__(self, http: httpx.Client, root: str, policy: RetryPolicy, token: Callable[[str | None], str]) -> None:
        self.http = http
        self.root = root
        self.policy = policy
        self._token = token
        self._slots = threading.Semaphore(CONCURRENCY)
        self.limiter = Limiter(self._slots)

    def run(self, flow: Flow[T]) -> T:
        """Carry out the steps of a flow and return its result."""
        result: Any = None
        with closing(flow):  # an interrupted flow returns its slot
            while True:
                try:
                    step = flow.send(result)
                except StopIteration as end:
                    return end.value
                result = None
                if isinstance(step, Send):
                    result = self._send(step)
                elif isinstance(step, Authorize):
                    result = self._token(step.stale)
                elif isinstance(step, Enter):
                    self._slots.acquire()
                    self.limiter.entered()
                else:
                    time.sleep(step.seconds)

    def _send(self, step: Send) -> Outcome:
        wanted = step.request
        content = wanted.content.parts() if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(step),
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
        return self.run(send(request(method, self.root + path, **given), self.policy, self.limiter))

    def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return read_one(self.call(method, path, **given), kind)

    def none(self, method: str, path: str, **given: Any) -> None:
        refuse_body(self.call(method, path, **given))

    def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return read_batch(self.call(method, path, **given), kind)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> Pages[Any]:
        tombstones = bool(query.get("include_deleted"))

        def read(changes: Mapping[str, Any]) -> Page[Any]:
            return read_page(self.call("GET", path, query={**query, **changes}), kind, tombstones=tombstones)

        return Pages(read)

    def parts(self, path: str, accept: str) -> Iterator[bytes]:
        """The body of a long response, as it arrives."""
        response = self.call("GET", path, accept=accept, stream=True)
        try:
            check_media(response, accept)
            yield from response.iter_bytes()
        except httpx.RequestError as error:
            raise interrupted(error) from error
        finally:
            response.close()

    def lines(self, path: str, accept: str) -> Iterator[bytes]:
        """The lines of a long response, as they arrive."""
        lines = Lines()
        for part in self.parts(path, accept):
            yield from lines.feed(part)
        yield from lines.rest()


class AsyncConnection:
    """One app's connection to a store, for any task of an event loop."""

    def __init__(
        self, http: httpx.AsyncClient, root: str, policy: RetryPolicy, token: Callable[[str | None], Any]
    ) -> None:
        self.http = http
        self.root = root
        self.policy = policy
        self._token = token
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self.limiter = Limiter(self._slots)

    async def run(self, flow: Flow[T]) -> T:
        result: Any = None
        with closing(flow):
            while True:
                try:
                    step = flow.send(result)
                except StopIteration as end:
                    return end.value
                result = None
                if isinstance(step, Send):
                    result = await self._send(step)
                elif isinstance(step, Authorize):
                    result = await self._token(step.stale)
                elif isinstance(step, Enter):
                    await self._slots.acquire()
                    self.limiter.entered()
                else:
                    await asyncio.sleep(step.seconds)

    async def _send(self, step: Send) -> Outcome:
        wanted = step.request
        content = _from_thread(wanted.content) if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(step),
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
        return await self.run(send(request(method, self.root + path, **given), self.policy, self.limiter))

    async def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return read_one(await self.call(method, path, **given), kind)

    async def none(self, method: str, path: str, **given: Any) -> None:
        refuse_body(await self.call(method, path, **given))

    async def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return read_batch(await self.call(method, path, **given), kind)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> AsyncPages[Any]:
        tombstones = bool(query.get("include_deleted"))

        async def read(changes: Mapping[str, Any]) -> Page[Any]:
            return read_page(await self.call("GET", path, query={**query, **changes}), kind, tombstones=tombstones)

        return AsyncPages(read)

    async def parts(self, path: str, accept: str) -> AsyncIterator[bytes]:
        response = await self.call("GET", path, accept=accept, stream=True)
        try:
            check_media(response, accept)
            async for part in response.aiter_bytes():
                yield part
        except httpx.RequestError as error:
            raise interrupted(error) from error
        finally:
            await response.aclose()

    async def lines(self, path: str, accept: str) -> AsyncIterator[bytes]:
        lines = Lines()
        async for part in self.parts(path, accept):
            for line in lines.feed(part):
                yield line
        for line in lines.rest():
            yield line


async def _from_thread(file: Source) -> AsyncIterator[bytes]:
    """The parts of a file, read in a thread so that no other task waits."""
    parts = file.parts()
    while part := await asyncio.to_thread(next, parts, b""):
        yield part


class Resource:
    """A part of the API; the generated calls are in its subclasses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class AsyncResource:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
