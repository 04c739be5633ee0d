"""Time limits of attempts and bodies, whatever the service sends in the meantime: httpx limits only each single read."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

import httpx

SLOWEST_UPLOAD = 100_000  # bytes a second
_SLOWEST_DOWNLOAD = 10_000
T = TypeVar("T")


_current: ContextVar[float] = ContextVar("stoa_client_deadline", default=math.inf)


@contextmanager
def deadline(seconds: float) -> Generator[None]:
    """Let every call in a `with` block end within this time: calls, iterations, exports, feeds and waits.

    A call that was not sent raises DeadlineExceeded, and one that was sent ConnectionFailed. A deadline inside another one can
    only be earlier. It applies to the thread or the task that enters the block.
    """
    if not seconds > 0:  # false for NaN
        raise ValueError("a deadline must be more than 0 seconds")
    token = _current.set(min(_current.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _current.reset(token)


def current_deadline() -> float:
    """When calls of this thread or task must have ended, by the monotonic clock; infinity without a deadline."""
    return _current.get()


def in_time(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of a body, or ReadTimeout at the current deadline."""
    while True:
        until = current_deadline()
        read = partial(next, parts, b"")
        part = read() if until == math.inf else within(until, read)
        if not part:
            return
        yield part


async def in_time_async(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        until = current_deadline()
        seconds = None if until == math.inf else max(0.0, until - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                part = await anext(parts, b"")
        except TimeoutError:
            raise late(seconds or 0.0) from None
        if not part:
            return
        yield part


def within(until: float, work: Callable[[], T]) -> T:
    """The result of reading, or ReadTimeout if it is not complete at this time by the monotonic clock.

    The work runs in a thread, because nothing else can end a blocking read of headers that trickle in. If it is late, it
    is left behind, and closes its response.
    """
    seconds = max(0.0, until - time.monotonic())
    future: Future[T] = Future()
    thread = threading.Thread(target=copy_context().run, args=(_settle, future, work), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, or has no threads
        return work()
    try:
        wait([future], seconds)
    except BaseException:  # the caller was interrupted
        future.cancel()
        raise
    if future.cancel():
        raise late(seconds)
    return future.result()


def _settle(future: "Future[T]", work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
        with suppress(InvalidStateError):
            future.set_exception(error)
        return
    try:
        future.set_result(result)
    except InvalidStateError:
        if isinstance(result, httpx.Response):
            result.close()


def late(seconds: float) -> httpx.ReadTimeout:
    return httpx.ReadTimeout(f"no complete response within {seconds:.3g} s")


class Steady(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that must arrive at a bearable pace; the time that its reader takes for each part does not count."""

    def __init__(self, body: Any, patience_s: float) -> None:
        self._body = body
        self._patience_s = self._left_s = patience_s

    def __iter__(self) -> Iterator[bytes]:
        asked_at = time.monotonic()
        for part in self._body:
            self._count(part, asked_at)
            yield part
            asked_at = time.monotonic()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        asked_at = time.monotonic()
        async for part in self._body:
            self._count(part, asked_at)
            yield part
            asked_at = time.monotonic()

    def _count(self, part: bytes, asked_at: float) -> None:
        self._left_s += len(part) / _SLOWEST_DOWNLOAD - (time.monotonic() - asked_at)
        if self._left_s < 0:
            raise httpx.ReadTimeout(f"less than {_SLOWEST_DOWNLOAD:,} bytes a second arrived")
        self._left_s = min(self._left_s, self._patience_s)

    def close(self) -> None:
        self._body.close()

    async def aclose(self) -> None:
        await self._body.aclose()
