"""The line of a connection pool: the task of the oldest request gets the next connection, but a request that has begun goes first.

A request needs a connection for its store, its token, its rate limit and its own statement. In the order of joining, it would
wait behind newer requests for each of them.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

import msgspec

from stoa.db.connection import Connection
from stoa.db.errors import Unavailable, WaitedTooLong

ACQUIRE_TIMEOUT_S = 2.0  # of each wait of work that has begun or belongs to no request
# From its arrival to its own statement, a request waits no longer than this in all. Processor time of other requests counts, too, so
# a burst of large batches must fit into it.
MOST_WAIT_S = 2.0
# A wait at which new work is shed: longer than a slow commit or a burst that the pool works off by itself, and short enough
# that requests that were admitted before get their connections within MOST_WAIT_S.
SHED_AFTER_S = 0.5
FOREVER = float("inf")
Waiter = asyncio.Future[Connection | None]


class Arrival(msgspec.Struct, frozen=True):
    """When the request of a task arrived, and until when it may wait for its first connection. Work that has begun is finished."""

    at: float
    wait_until: float

    @property
    def begun(self) -> bool:
        return self.wait_until == FOREVER

    @property
    def late(self) -> bool:
        """Whether the request has waited too long to begin."""
        return time.monotonic() >= self.wait_until


NO_REQUEST = Arrival(FOREVER, FOREVER)
arrival: ContextVar[Arrival] = ContextVar("arrival", default=NO_REQUEST)


def allow(seconds: float) -> None:
    """Add time in which the request of this task does not wait for the service."""
    mine = arrival.get()
    arrival.set(Arrival(mine.at + seconds, mine.wait_until + seconds))


@contextmanager
def clock_stopped() -> Generator[None]:
    """Time in which a request does not wait for the service: its pictures are read, or its app makes other large writes."""
    started = time.monotonic()
    try:
        yield
    finally:
        allow(time.monotonic() - started)


class WaitingLine:
    """Tasks that wait for a connection, or for None: the place of a closed one, where a new one may be opened."""

    def __init__(self) -> None:
        self.joined: dict[Waiter, float] = {}  # when each task joined, in that order
        self._begun: deque[Waiter] = deque()
        self._by_age: list[tuple[float, int, Waiter]] = []  # a heap
        self._numbers = count()
        # Counted for metrics.
        self.waits = 0
        self.wait_s = 0.0
        self.timeouts = 0

    def __len__(self) -> int:
        return len(self.joined)

    @property
    def too_long(self) -> bool:
        """Whether a task has waited here so long that new work should be shed. A crowd alone is no reason."""
        return bool(self.joined) and time.monotonic() - next(iter(self.joined.values())) >= SHED_AFTER_S

    def join(self) -> Waiter:
        """Join the line. Streams and long polls are older than the limit, and must not pass every request: they join as new."""
        mine = arrival.get()
        self.waits += 1
        if mine.late:
            self.timeouts += 1
            raise WaitedTooLong
        waiter: Waiter = asyncio.get_running_loop().create_future()
        now = self.joined[waiter] = time.monotonic()
        if mine.begun and 0 <= now - mine.at < ACQUIRE_TIMEOUT_S:
            self._begun.append(waiter)
        else:
            since = now if mine.begun else mine.at
            heapq.heappush(self._by_age, (since, next(self._numbers), waiter))
        return waiter

    async def wait(self, waiter: Waiter) -> Connection | None:
        """Wait for a turn. A task that is cancelled leaves the line; if it was served before, the result stays in the waiter."""
        started = self.joined[waiter]
        left = arrival.get().wait_until - started
        try:
            async with asyncio.timeout(min(left, ACQUIRE_TIMEOUT_S)):
                return await waiter
        except TimeoutError as error:
            self.timeouts += 1
            if left < ACQUIRE_TIMEOUT_S:
                raise WaitedTooLong from error
            raise Unavailable("no database connection became free in time") from error
        finally:
            self.joined.pop(waiter, None)
            self.wait_s += time.monotonic() - started

    def serve(self, connection: Connection | None) -> bool:
        """Give a connection to the task whose turn it is. Returns whether a task waited."""
        while self._begun or self._by_age:
            waiter = self._begun.popleft() if self._begun else heapq.heappop(self._by_age)[-1]
            if self.joined.pop(waiter, None) is not None and not waiter.done():
                waiter.set_result(connection)
                return True
        return False
