"""Documents that are kept ready to send. A missing one is made in a thread, so that the event loop goes on meanwhile."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

maker = ThreadPoolExecutor(1, thread_name_prefix="documents")


class Kept(Generic[P, T]):
    """The results of a function for the arguments that were used last; concurrent callers share one call."""

    def __init__(self, most: int, make: Callable[P, T]) -> None:
        self._most = most
        self._make = make
        self._results: dict[object, T] = {}  # the least recently used first
        self._running: dict[object, Future[T]] = {}

    async def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        key = (arguments, *named.items())
        if key in self._results:
            self._results[key] = result = self._results.pop(key)
            return result
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = Future[T]()
            running.add_done_callback(lambda _: self._running.pop(key, None))
            maker.submit(_make, running, lambda: self._make(*arguments, **named))
        self._results[key] = result = await asyncio.shield(asyncio.wrap_future(running))
        if len(self._results) > self._most:
            del self._results[next(iter(self._results))]
        return result


def kept(most: int) -> Callable[[Callable[P, T]], Kept[P, T]]:
    """Keep the results of a function for this many arguments."""
    return lambda make: Kept(most, make)


def _make(future: Future[T], make: Callable[[], T]) -> None:
    """Make a document, then rest as long: the thread and the event loop share one interpreter."""
    started = time.thread_time()
    try:
        future.set_result(make())
    except BaseException as error:  # noqa: BLE001 - for the caller
        future.set_exception(error)
    time.sleep(time.thread_time() - started)
