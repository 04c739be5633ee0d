"""Page requests, which people make: how many run at once, and how much of the event loop they take from the app API."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Generator, MutableMapping
from types import coroutine
from typing import Any

from stoa.rest.problems import RateLimited, Refusal, ServiceUnavailable
from stoa.rest.request import Receive

_LONGEST_WAIT_S = 1.0
_REFUSED_AFTER_S = 0.5  # a client that repeats its request at once would take the time that the refusal saves
_RETRY_AFTER = [(b"retry-after", b"1")]


class PageRequests:
    """Admits page requests. After each step of a page, the app API has the event loop for as long before another page begins."""

    def __init__(self, limit: int, limit_of_address: int) -> None:
        self.in_flight = 0
        self._limit = limit
        self._limit_of_address = limit_of_address
        self._of_address: Counter[str] = Counter()
        self._next_at = 0.0

    async def admit(self, address: str) -> "PageRequest":
        """Admit a request when it is its turn, or refuse it after a pause."""
        refusal = self._refusal(address)
        if refusal is not None:
            await asyncio.sleep(_REFUSED_AFTER_S)
            raise refusal
        admitted = PageRequest(self, address)
        latest = time.monotonic() + _LONGEST_WAIT_S
        try:
            while (now := time.monotonic()) < min(self._next_at, latest):  # noqa: ASYNC110 - those before move it
                await asyncio.sleep(min(self._next_at, latest) - now)
        except BaseException:
            admitted.leave()
            raise
        return admitted

    def _refusal(self, address: str) -> Refusal | None:
        if self._of_address[address] >= self._limit_of_address:
            return RateLimited(
                f"At most {self._limit_of_address} pages can be requested from one address at the same time.",
                headers=_RETRY_AFTER,
            )
        if self.in_flight >= self._limit:
            refusal = ServiceUnavailable("Too many pages are requested. Retry later.", headers=_RETRY_AFTER)
            refusal.shed = "pages"
            return refusal
        return None

    def count(self, address: str, change: int) -> None:
        self.in_flight += change
        self._of_address[address] += change
        if not self._of_address[address]:
            del self._of_address[address]

    def took(self, seconds: float) -> None:
        """Count time of the event loop that a page took."""
        self._next_at = max(self._next_at, time.monotonic()) + seconds


class PageRequest:
    """An admitted request. It counts until its response begins, except while it waits for its client."""

    def __init__(self, requests: PageRequests, address: str) -> None:
        self._requests = requests
        self._address = address
        self._counted = True
        requests.count(address, 1)

    def leave(self) -> None:
        """The response begins, or there will be none. May be called more than once."""
        if self._counted:
            self._counted = False
            self._requests.count(self._address, -1)

    def receiving(self, receive: Receive) -> Receive:
        """Receive without counting: a slow client must not keep others from their pages."""

        async def received() -> MutableMapping[str, Any]:
            counted, self._counted = self._counted, False
            if not counted:
                return await receive()
            self._requests.count(self._address, -1)
            try:
                return await receive()
            finally:
                self._counted = True
                self._requests.count(self._address, 1)

        return received

    @coroutine
    def run(self, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Run a handler, and measure the time that its steps take on the event loop."""
        steps = work.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            started = time.thread_time()
            try:
                waits_for: Any = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            finally:
                self._requests.took(time.thread_time() - started)
            value = error = None
            try:
                value = yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - such as a cancellation, for the handler
                error = thrown
