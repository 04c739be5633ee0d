"""Time limits of attempts and bodies, whatever the service sends in the meantime: httpx limits only each single read."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import httpx

SLOWEST_UPLOAD = 100_000  # bytes a second
_SLOWEST_DOWNLOAD = 10_000


def within(until: float, work: Callable[[], httpx.Response]) -> httpx.Response:
    """The response, or ReadTimeout if it is not complete at this time by the monotonic clock.

    The work runs in a thread, because nothing else can end a blocking read of headers that trickle in. If it is late, it
    is left behind, and closes its response.
    """
    seconds = max(0.0, until - time.monotonic())
    future: Future[httpx.Response] = Future()
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


def _settle(future: "Future[httpx.Response]", work: Callable[[], httpx.Response]) -> None:
    try:
        response = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
        with suppress(InvalidStateError):
            future.set_exception(error)
        return
    try:
        future.set_result(response)
    except InvalidStateError:
        response.close()


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
