"""Connections held plainly: lent for one read or one transaction, dropped when they break."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from stoa.db.errors import Unavailable, is_busy, is_lost

ACQUIRE_TIMEOUT_S = 2.0
MOST_WAITING = 4  # for each connection, before newcomers are turned away
CONNECT_TIMEOUT_S = 2


class Connection(Protocol):
    """The part of asyncpg's connection that Stoa uses."""

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]: ...
    async def execute(self, sql: str, *args: Any) -> str: ...
    async def prepare(self, sql: str) -> Any: ...
    async def close(self) -> None: ...
    async def copy_records_to_table(
        self, table: str, *, records: Any, columns: Sequence[str], schema_name: str | None = None
    ) -> str: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


async def connect(
    url: str,
    *,
    statement_timeout_ms: int = 5_000,
    lock_timeout_ms: int = 2_000,
    timeout_s: int = CONNECT_TIMEOUT_S,
) -> Connection:
    """Open one connection with the time limits that every statement runs under."""
    opening = asyncpg.connect(  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        url,
        timeout=timeout_s,
        # A server that went silent cannot keep its own limits: a second later we stop waiting.
        command_timeout=statement_timeout_ms / 1000 + 1 if statement_timeout_ms else None,
        statement_cache_size=500,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=0,
        server_settings={
            "application_name": "stoa",
            "timezone": "UTC",
            "jit": "off",
            "statement_timeout": str(statement_timeout_ms),
            "lock_timeout": str(lock_timeout_ms),
            "idle_in_transaction_session_timeout": "10000",
        },
    )
    try:
        return cast("Connection", await opening)
    except Exception as error:
        reason = str(error) or "no answer in time"
        raise Unavailable(f"the database cannot be reached ({reason})") from error


async def _commit(connection: Connection) -> None:
    """Commit; that an error was swallowed on the way, and nothing is kept, shows only in the server's word."""
    if await connection.execute("COMMIT") != "COMMIT":
        raise RuntimeError("an error inside the transaction was not passed on")


class Database:
    """A pool without reset queries: whoever borrows leaves no state behind, or the connection is dropped."""

    def __init__(self, url: str, *, size: int = 10, statement_timeout_ms: int = 5_000) -> None:
        self._url = url
        self._size = size
        self._statement_timeout_ms = statement_timeout_ms
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._open = 0
        self._closed = False
        self._autocommit: Database | None = None

    @property
    def autocommit(self) -> "Database":
        """One connection more, for a single statement beside a transaction: those who hold one may wait for it."""
        if self._autocommit is None:
            self._autocommit = Database(self._url, size=1, statement_timeout_ms=self._statement_timeout_ms)
        return self._autocommit

    @property
    def crowded(self) -> bool:
        """Whether so many wait for a connection that whoever comes now would only keep the others waiting longer."""
        return len(self._waiting) >= MOST_WAITING * self._size

    async def _acquire(self) -> Connection:
        if self._closed:
            raise Unavailable("the database connections are closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._open -= 1
        if self._open < self._size:
            return await self._connect()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT_S):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._wake()  # the turn was given as we left; hand it on
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise Unavailable("no database connection became free in time") from error
            raise
        return await self._acquire()

    async def _connect(self) -> Connection:
        self._open += 1
        try:
            return await connect(self._url, statement_timeout_ms=self._statement_timeout_ms)
        except BaseException:
            self._open -= 1
            self._wake()
            raise

    def _release(self, connection: Connection, *, broken: bool = False) -> None:
        if broken or self._closed or connection.is_closed():
            connection.terminate()
            self._open -= 1
        else:
            self._idle.append(connection)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _failed(self, connection: Connection, error: BaseException) -> Unavailable | None:
        """Settle a connection after an error; what a caller may simply try again comes back as Unavailable."""
        lost = is_lost(error)
        # A cancelled statement may still be running: such a connection is never lent again.
        self._release(connection, broken=lost or not isinstance(error, Exception))
        if lost:
            while self._idle:
                self._release_idle()
            return Unavailable("the database connection was lost")
        return Unavailable("the database is too busy") if is_busy(error) else None

    def _release_idle(self) -> None:
        self._idle.pop().terminate()
        self._open -= 1

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
        """Run one statement that is its own transaction."""
        connection = await self._acquire()
        try:
            word = await connection.execute(sql, *args)
        except BaseException as error:
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)
        return word

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Connection]:
        """Lend a connection for several statements, each its own transaction; whoever takes locks gives them back."""
        connection = await self._acquire()
        try:
            yield connection
        except BaseException as error:
            # What it holds, nobody may know: it ends with the connection.
            self._release(connection, broken=True)
            if is_lost(error):
                raise Unavailable("the database connection was lost") from error
            raise
        self._release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Lend a connection inside one transaction: committed at the end, rolled back on any error."""
        connection = await self._acquire()
        try:
            await connection.execute("BEGIN")
            yield connection
            await _commit(connection)
        except BaseException as error:
            if isinstance(error, Exception) and not is_lost(error) and not connection.is_closed():
                try:
                    await connection.execute("ROLLBACK")
                except BaseException as second:
                    self._release(connection, broken=True)
                    if not isinstance(second, Exception):
                        raise
                    raise Unavailable("the database connection was lost") from error
            unavailable = self._failed(connection, error)
            if unavailable is not None:
                raise unavailable from error
            raise
        self._release(connection)

    async def close(self) -> None:
        """Close what is idle now and what is lent when it comes back; from here on nothing is lent."""
        self._closed = True
        if self._autocommit is not None:
            await self._autocommit.close()
        while self._idle:
            connection = self._idle.pop()
            self._open -= 1
            await connection.close()
