"""Opens a connection to the database, directly or through a pooler, with time limits for its statements and locks."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from stoa.db.errors import Unavailable
from stoa.db.hosts import open_connection
from stoa.db.pooler import Path, path_of
from stoa.settings import WrongSetting

APPLICATION_NAME = "stoa"
CONNECT_TIMEOUT_S = 2
connected: list[Callable[[Any], None]] = []  # called with each new connection, for tracing
NEEDS_SESSION = (
    "STOA_DATABASE_URL leads through a connection pooler, and this work needs a session of its own: set "
    "STOA_DATABASE_DIRECT_URL to the URL of the server itself"
)


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


def session_settings(statement_timeout_ms: int, lock_timeout_ms: int = 2_000) -> dict[str, str]:
    """The settings of a session; through a pooler, of each transaction."""
    return {
        "jit": "off",
        "statement_timeout": str(statement_timeout_ms),
        "lock_timeout": str(lock_timeout_ms),
        "idle_in_transaction_session_timeout": "10000",
    }


async def path_to_server(url: str, timeout_s: int = CONNECT_TIMEOUT_S, name: str = APPLICATION_NAME) -> Path:
    """Whether a connection pooler is between this process and the server, and what it can do."""
    try:
        return await path_of(url, timeout_s, name)
    except Exception as error:
        raise _unreachable(error) from error


async def connect(
    url: str,
    *,
    statement_timeout_ms: int = 5_000,
    lock_timeout_ms: int = 2_000,
    timeout_s: int = CONNECT_TIMEOUT_S,
    name: str = APPLICATION_NAME,
    session: bool = False,
) -> Connection:
    """Open one connection, with time limits for its statements and locks. Through a pooler, the client limits the time of a
    statement, and a pool sends the other settings with each transaction. A caller that needs a session is refused there."""
    path = await path_to_server(url, timeout_s, name)
    if session and path.pooled:
        raise WrongSetting(NEEDS_SESSION)
    try:
        limits = {} if path.pooled else session_settings(statement_timeout_ms, lock_timeout_ms)
        opening = open_connection(
            url,
            timeout=timeout_s,
            # An unreachable server cannot enforce its own limit, so the client stops waiting a second later.
            command_timeout=statement_timeout_ms / 1000 + 1 if statement_timeout_ms else None,
            statement_cache_size=path.statements,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings={"application_name": name, "timezone": "UTC", **limits},
        )
        connection = cast("Connection", await opening)
    except Exception as error:
        raise _unreachable(error) from error
    for notify in connected:
        notify(connection)
    return connection


def _unreachable(error: Exception) -> Unavailable:
    return Unavailable(f"the database cannot be reached ({str(error) or 'no response in time'})")
