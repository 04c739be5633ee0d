"""The connections to the service, one for threads and one for an event loop; both carry out flows."""

import asyncio
import platform
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from functools import partial
from typing import Any, TypeVar

import httpx

from stoa_client import logs
from stoa_client.answers import Batch, Lines, Page, check_media, read_batch, read_one, read_page, refuse_body
from stoa_client.errors import DeadlineExceeded, StoaError
from stoa_client.exports import NDJSON, AsyncExport, Export
from stoa_client.flows import Authorize, Enter, Flow, Outcome, RetryPolicy, Send, interrupted, send
from stoa_client.hooks import NO_HOOKS, Hooks
from stoa_client.limiter import Limiter
from stoa_client.pages import AsyncPages, Pages
from stoa_client.requests import Request, request
from stoa_client.time_limits import Steady, in_time, in_time_async, late, within
from stoa_client.uploads import Source
from stoa_client.version import __version__

T = TypeVar("T")
CONCURRENCY = 16  # below the number of requests that a worker of the service runs for one app


USER_AGENT = f"stoa-python/{__version__} python/{platform.python_version()} httpx/{httpx.__version__}"
logs.protect()


def _headers(step: Send) -> dict[str, str]:
    bearer = {"authorization": f"Bearer {step.token}"} if step.token else {}
    return {"user-agent": USER_AGENT, **step.request.headers, **bearer}


def _timeout(timeout: httpx.Timeout, request: Request) -> httpx.Timeout:
    """The read timeout, extended by the time that the service was asked to wait."""
    if not request.wait_s or timeout.read is None:
        return timeout
    read = timeout.read + request.wait_s
    return httpx.Timeout(connect=timeout.connect, read=read, write=timeout.write, pool=timeout.pool)


@contextmanager
def _keyed(request: Request) -> Generator[None]:
    """Each error of a write carries its idempotency key, so that the caller can repeat it safely."""
    try:
        yield
    except StoaError as error:
        error.idempotency_key = request.headers.get("idempotency-key")
        raise


def _same(response: httpx.Response) -> httpx.Response:
    return response


class Connection:
    """One app's connection to a store, for any thread."""

    def __init__(
        self,
        http: httpx.Client,
        root: str,
        policy: RetryPolicy,
        token: Callable[[str | None, float], str],
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self.http = http
        self._hooks = hooks
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
                    result = self._token(step.stale, step.until)
                elif isinstance(step, Enter):
                    result = self._slots.acquire(timeout=max(0.0, step.until - time.monotonic()))
                    if result:
                        self.limiter.entered()
                else:
                    time.sleep(step.seconds)

    def _send(self, step: Send) -> Outcome:
        with self._hooks.observe(step.request, step.attempt, self.root) as observed:
            observed.result = outcome = self._exchange(step)
            return outcome

    def _exchange(self, step: Send) -> Outcome:
        wanted = step.request
        content = wanted.content.parts() if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(step),
            content=content,
            timeout=_timeout(self.http.timeout, wanted),
        )

        def exchange() -> httpx.Response:
            response = self.http.send(built, stream=True, auth=wanted.auth)
            response.stream = Steady(response.stream, self.policy.timeout_s)
            if not wanted.stream or response.status_code >= 300:
                with closing(response):
                    response.read()
            return response

        try:
            return within(step.until, exchange)
        except httpx.RequestError as error:
            return error

    def call(self, method: str, path: str, read: Callable[[httpx.Response], Any] = _same, **given: Any) -> Any:
        """Send a request, and read its response."""
        wanted = request(method, self.root + path, **given)
        with _keyed(wanted):
            return read(self.run(send(wanted, self.policy, self.limiter)))

    def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return self.call(method, path, partial(read_one, kind=kind), **given)

    def none(self, method: str, path: str, **given: Any) -> None:
        self.call(method, path, refuse_body, **given)

    def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return self.call(method, path, partial(read_batch, kind=kind), **given)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> Pages[Any]:
        tombstones = bool(query.get("include_deleted"))

        def read(changes: Mapping[str, Any]) -> Page[Any]:
            reading = partial(read_page, kind=kind, tombstones=tombstones)
            return self.call("GET", path, reading, query={**query, **changes})

        return Pages(read)

    def export(self, kind: Any, path: str, query: Mapping[str, Any]) -> Export[Any]:
        def lines(changes: Mapping[str, Any]) -> Iterator[bytes]:
            return self.lines(path, NDJSON, query={**query, **changes}, checkpoints=True)

        return Export(lines, partial(self.parts, path, query=query), kind, query, self.policy.retries)

    def parts(self, path: str, accept: str, **given: Any) -> Iterator[bytes]:
        """The body of a long response, as it arrives."""
        response = self.call("GET", path, accept=accept, stream=True, **given)
        try:
            check_media(response, accept)
            yield from in_time(response.iter_bytes())
        except httpx.RequestError as error:
            raise interrupted(error) from error
        finally:
            response.close()

    def lines(self, path: str, accept: str, **given: Any) -> Iterator[bytes]:
        """The lines of a long response, as they arrive."""
        lines = Lines()
        for part in self.parts(path, accept, **given):
            yield from lines.feed(part)
        yield from lines.rest()


class AsyncConnection:
    """One app's connection to a store, for any task of an event loop."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        root: str,
        policy: RetryPolicy,
        token: Callable[[str | None, float], Awaitable[str]],
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self.http = http
        self._hooks = hooks
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
                    result = await self._authorize(step)
                elif isinstance(step, Enter):
                    result = await self._enter(step)
                else:
                    await asyncio.sleep(step.seconds)

    async def _authorize(self, step: Authorize) -> str:
        try:
            async with asyncio.timeout(max(0.0, step.until - time.monotonic())):
                return await self._token(step.stale, step.until)
        except TimeoutError as error:
            raise DeadlineExceeded("no token came before the deadline of the call") from error

    async def _enter(self, step: Enter) -> bool:
        try:
            async with asyncio.timeout(max(0.0, step.until - time.monotonic())):
                await self._slots.acquire()
        except TimeoutError:
            return False
        self.limiter.entered()
        return True

    async def _send(self, step: Send) -> Outcome:
        with self._hooks.observe(step.request, step.attempt, self.root) as observed:
            observed.result = outcome = await self._exchange(step)
            return outcome

    async def _exchange(self, step: Send) -> Outcome:
        wanted = step.request
        content = _from_thread(wanted.content) if isinstance(wanted.content, Source) else wanted.content
        built = self.http.build_request(
            wanted.method,
            wanted.url,
            headers=_headers(step),
            content=content,
            timeout=_timeout(self.http.timeout, wanted),
        )
        seconds = max(0.0, step.until - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                response = await self.http.send(built, stream=True, auth=wanted.auth)
                response.stream = Steady(response.stream, self.policy.timeout_s)
                if not wanted.stream or response.status_code >= 300:
                    async with aclosing(response):
                        await response.aread()
                return response
        except TimeoutError:
            return late(seconds)
        except httpx.RequestError as error:
            return error

    async def call(self, method: str, path: str, read: Callable[[httpx.Response], Any] = _same, **given: Any) -> Any:
        wanted = request(method, self.root + path, **given)
        with _keyed(wanted):
            return read(await self.run(send(wanted, self.policy, self.limiter)))

    async def one(self, kind: type[T], method: str, path: str, **given: Any) -> T:
        return await self.call(method, path, partial(read_one, kind=kind), **given)

    async def none(self, method: str, path: str, **given: Any) -> None:
        await self.call(method, path, refuse_body, **given)

    async def batch(self, kind: type[T], method: str, path: str, **given: Any) -> Batch[T]:
        return await self.call(method, path, partial(read_batch, kind=kind), **given)

    def pages(self, kind: Any, path: str, query: Mapping[str, Any]) -> AsyncPages[Any]:
        tombstones = bool(query.get("include_deleted"))

        async def read(changes: Mapping[str, Any]) -> Page[Any]:
            reading = partial(read_page, kind=kind, tombstones=tombstones)
            return await self.call("GET", path, reading, query={**query, **changes})

        return AsyncPages(read)

    def export(self, kind: Any, path: str, query: Mapping[str, Any]) -> AsyncExport[Any]:
        def lines(changes: Mapping[str, Any]) -> AsyncIterator[bytes]:
            return self.lines(path, NDJSON, query={**query, **changes}, checkpoints=True)

        return AsyncExport(lines, partial(self.parts, path, query=query), kind, query, self.policy.retries)

    async def parts(self, path: str, accept: str, **given: Any) -> AsyncIterator[bytes]:
        response = await self.call("GET", path, accept=accept, stream=True, **given)
        try:
            check_media(response, accept)
            async for part in in_time_async(response.aiter_bytes()):
                yield part
        except httpx.RequestError as error:
            raise interrupted(error) from error
        finally:
            await response.aclose()

    async def lines(self, path: str, accept: str, **given: Any) -> AsyncIterator[bytes]:
        lines = Lines()
        async for part in self.parts(path, accept, **given):
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
