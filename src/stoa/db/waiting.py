"""The line of a connection pool: the task of the oldest request gets the next connection.

A request needs a connection for its store, its token, its rate limit and its own statement. In the order of joining, it would
wait behind newer requests for each of them.
"""

import asyncio
import heapq
import time
from contextvars import ContextVar
from itertools import count

from stoa.db.connection import Connection
from stoa.db.errors import Unavailable

ACQUIRE_TIMEOUT_S = 2.0
# A wait at which new work is shed: longer than a slow commit or a burst that the pool works off by itself, and short enough
# that a request that was admitted before gets its connection within ACQUIRE_TIMEOUT_S.
SHED_AFTER_S = 0.5
arrived_at: ContextVar[float] = ContextVar("arrived_at", default=0.0)  # when the request of this task arrived
Waiter = asyncio.Future[Connection | None]


class WaitingLine:
    """Tasks that wait for a connection, or for None: the place of a closed one, where a new one may be opened."""

    def __init__(self) -> None:
        self.joined: dict[Waiter, float] = {}  # when each task joined, in that order
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
        """Whether a task has waited so long that new work should be shed. A crowd alone is no reason."""
        return bool(self.joined) and time.monotonic() - next(iter(self.joined.values())) >= SHED_AFTER_S

    def join(self) -> Waiter:
        """Join the line. Streams and long polls are older than the limit, and must not pass every request: they join as new."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        now = self.joined[waiter] = time.monotonic()
        arrived = arrived_at.get()
        self.waits += 1
        heapq.heappush(
            self._by_age, (arrived if now - arrived < ACQUIRE_TIMEOUT_S else now, next(self._numbers), waiter)
        )
        return waiter

    async def wait(self, waiter: Waiter) -> Connection | None:
        """Wait for a turn. A task that is cancelled leaves the line; if it was served before, the result stays in the waiter."""
        started = self.joined[waiter]
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT_S):
                return await waiter
        except TimeoutError as error:
            self.timeouts += 1
            raise Unavailable("no database connection became free in time") from error
        finally:
            self.joined.pop(waiter, None)
            self.wait_s += time.monotonic() - started

    def serve(self, connection: Connection | None) -> bool:
        """Give a connection to the task whose request is oldest. Returns whether a task waited."""
        while self._by_age:
            waiter = heapq.heappop(self._by_age)[-1]
            if self.joined.pop(waiter, None) is not None and not waiter.done():
                waiter.set_result(connection)
                return True
        return False
