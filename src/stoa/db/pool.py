"""A connection pool: a connection is lent for one read or one transaction, and closed when it breaks."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakSet

from stoa.db import waiting
from stoa.db.connection import APPLICATION_NAME, Connection, connect, path_to_server, session_settings
from stoa.db.errors import (
    RETRYABLE,
    CommitUnknown,
    NodeAway,
    PostgresError,
    StoreElsewhere,
    Unavailable,
    error_class,
    is_away,
    is_busy,
    is_crowded,
    is_elsewhere,
    is_lost,
    is_repeatable,
    sqlstate,
)
from stoa.db.waiting import FOREVER, Arrival, WaitingLine, arrival

T = TypeVar("T")
TRIES = 4  # of a transaction, in all
PAUSE_S = (0.005, 0.05)  # before another try, times the number of failed tries: two transactions must not collide again
GROW_AGAIN_S = 5.0  # how long a pool stays smaller after the server refused it a further connection
_CONSTRAINT = "23"
# Ends the name of sessions whose transactions enter their store. A move waits until all other sessions have ended.
FENCING = " fencing"


async def _commit(connection: Connection) -> None:
    """Commit. If an error was swallowed, the server rolls back instead, and only the command tag shows it."""
    try:
        tag = await connection.execute("COMMIT")
    except PostgresError as error:
        code = sqlstate(error)
        if code in RETRYABLE or code.startswith(_CONSTRAINT) or is_lost(error):
            raise
        raise CommitUnknown("a node of the database failed while it committed") from error
    if tag != "COMMIT":
        raise RuntimeError("the transaction was rolled back, because an error inside it was swallowed")


def arrive() -> None:
    """Start the clock by which the request of this task waits for a connection."""
    now = time.monotonic()
    arrival.set(Arrival(now, now + waiting.MOST_WAIT_S))


def begin_work() -> None:
    """Let the rest of a task wait as long as it must. Lookups for a request run in tasks of their own, which begin nothing for it."""
    mine = arrival.get()
    if mine.wait_until != FOREVER:
        arrival.set(Arrival(mine.at, FOREVER))


class Database:
    """A pool without reset queries: a borrower leaves no session state behind, or the connection is closed."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        statement_timeout_ms: int = 5_000,
        lock_timeout_ms: int = 2_000,
        name: str = APPLICATION_NAME,
    ) -> None:
        self.url = url
        self._size = size
        self._name = name  # as pg_stat_activity shows it
        self.fenced = False  # whether stores can move to another shard, so that transactions must enter their store
        self._fencing: WeakSet[Connection] = WeakSet()  # the connections that were opened since
        self._full_until = 0.0
        self._statement_timeout_ms = statement_timeout_ms
        self._lock_timeout_ms = lock_timeout_ms
        self._begin = "BEGIN"
        self._idle: deque[Connection] = deque()
        self.line = WaitingLine()
        self._waiting = self.line.joined  # usually empty
        self._open = 0
        self._closed = False
        self._autocommit: Database | None = None
        self.errors: Counter[str] = Counter()  # by class of SQLSTATE, for metrics

    @property
    def size(self) -> int:
        return self._size

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def in_use(self) -> int:
        return self._open - len(self._idle)

    @property
    def autocommit(self) -> "Database":
        """One extra connection for single statements, which a task may use while it holds a transaction."""
        if self._autocommit is None:
            self._autocommit = Database(
                self.url, size=1, statement_timeout_ms=self._statement_timeout_ms, name=self._name
            )
            self._autocommit.fenced = self.fenced
        return self._autocommit

    @property
    def saturated(self) -> bool:
        """Whether new work should be shed, because a task has waited too long for a connection."""
        return bool(self._waiting) and self.line.too_long

    @property
    def full(self) -> bool:
        """Whether a task would have to wait for a connection."""
        return not self._idle and (self._open >= self._size or time.monotonic() < self._full_until)

    def fence(self) -> None:
        """Let every transaction enter its store from now on, on connections whose name says so."""
        if self.fenced:
            return
        self.fenced = True
        self._name += FENCING
        self._close_idle()
        if self._autocommit is not None:
            self._autocommit.fence()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()
            self._open -= 1

    async def _acquire(self) -> Connection:
        if self._closed:
            raise Unavailable("the database connections are closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                begin_work()
                return connection
            self._open -= 1
        connection = await self._further_connection()
        begin_work()
        return connection

    async def _further_connection(self) -> Connection:
        """A new connection, or the next one that somebody returns."""
        if self._open < self._size and (not self._open or time.monotonic() >= self._full_until):
            try:
                return await self._connect()
            except Unavailable as error:
                if not self._open or not is_crowded(error):
                    raise
                self._full_until = time.monotonic() + GROW_AGAIN_S  # until then, the open connections must do
        connection = await self._wait()
        if connection is not None:
            if not connection.is_closed():
                return connection
            self._open -= 1
        return await self._acquire()

    async def _wait(self) -> Connection | None:
        waiter = self.line.join()
        try:
            return await self.line.wait(waiter)
        except BaseException:
            if waiter.done() and not waiter.cancelled():  # served and cancelled at the same time: serve the next one
                self._release(waiter.result())
            raise

    async def _connect(self) -> Connection:
        self._open += 1
        try:
            statement_ms, lock_ms, name = self._statement_timeout_ms, self._lock_timeout_ms, self._name
            connection = await connect(self.url, statement_timeout_ms=statement_ms, lock_timeout_ms=lock_ms, name=name)
            path = await path_to_server(self.url)
            self._begin = path.begin(session_settings(statement_ms, lock_ms))
            if name == self._name and self.fenced:
                self._fencing.add(connection)
            return connection
        except BaseException as error:
            self._open -= 1
            self._release(None)
            self._count(error.__cause__ or error)
            raise

    def _count(self, error: BaseException) -> None:
        if (kind := error_class(error)) is not None:
            self.errors[kind] += 1

    def _release(self, connection: Connection | None, *, broken: bool = False) -> None:
        """Hand a connection, or the place of one, to the next task in the line, so that no later task takes it."""
        if self.fenced and connection is not None and connection not in self._fencing:
            broken = True  # its name says that it does not fence
        if connection is not None and (broken or self._closed or connection.is_closed()):
            connection.terminate()
            self._open -= 1
            connection = None
        if self._waiting and self.line.serve(connection):
            return
        if connection is not None:
            self._idle.append(connection)

    def _failed(self, connection: Connection, error: BaseException) -> Unavailable | None:
        """Release a connection after an error. Returns Unavailable if the caller may retry."""
        lost = is_lost(error)
        self._count(error)
        # After a cancellation the statement may still be running, so the connection is closed.
        self._release(connection, broken=lost or not isinstance(error, Exception))
        if lost:
            self._close_idle()
            return Unavailable("the database connection was lost")
        if is_away(error):
            return NodeAway("a node of the database cannot be reached")
        if is_elsewhere(error):
            return StoreElsewhere()
        return Unavailable("the database is too busy") if is_busy(error) else None

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        """Run one read outside any transaction."""
        connection = await self._acquire()
        try:
            rows = await connection.fetch(sql, *args)
        except BaseException as error:
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)
        return rows

    async def execute(self, sql: str, *args: Any) -> str:
        """Run one statement in its own transaction, and return its command tag."""
        connection = await self._acquire()
        try:
            tag = await connection.execute(sql, *args)
        except BaseException as error:
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)
        return tag

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Connection]:
        """Lend a connection for several reads outside any transaction."""
        connection = await self._acquire()
        try:
            yield connection
        except BaseException as error:
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)

    @asynccontextmanager
    async def transaction(self, store_id: int | None = None) -> AsyncGenerator[Connection]:
        """Lend a connection inside one transaction, which commits at the end and rolls back on any error.

        A transaction that writes a store names it: once stores can move, it raises StoreElsewhere if the store is not here,
        and otherwise no move ends before it does.
        """
        connection = await self._acquire()
        try:
            entering = self.fenced and store_id is not None
            await connection.execute(f"{self._begin}; SELECT enter_store({store_id:d})" if entering else self._begin)
            yield connection
            await _commit(connection)
        except BaseException as error:
            if isinstance(error, Exception) and not is_lost(error) and not connection.is_closed():
                try:
                    await connection.execute("ROLLBACK")
                except BaseException as rollback_error:
                    self._release(connection, broken=True)
                    if not isinstance(rollback_error, Exception):
                        raise
                    raise Unavailable("the database connection was lost") from error
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)

    async def in_transaction(self, work: Callable[[Connection], Awaitable[T]], store_id: int | None = None) -> T:
        """Do work in one transaction. If that loses against a concurrent one, the work is done again in another."""
        for tries_left in reversed(range(TRIES)):
            try:
                async with self.transaction(store_id) as connection:
                    return await work(connection)
            except Exception as error:
                if not tries_left or not is_repeatable(error):
                    raise
            await asyncio.sleep(random.uniform(*PAUSE_S) * (TRIES - tries_left))  # noqa: S311 - jitter
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Close idle connections now and lent ones when they are released, and lend no more."""
        self._closed = True
        if self._autocommit is not None:
            await self._autocommit.close()
        while self._idle:
            connection = self._idle.pop()
            self._open -= 1
            await connection.close()
