"""Classifies database errors by SQLSTATE, which PostgreSQL and Citus share."""

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

# asyncpg has no type stubs; only this module imports its errors.
PostgresError: type[Exception] = asyncpg.PostgresError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
InterfaceError: type[Exception] = asyncpg.InterfaceError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

# The protocol state is broken, for example because the server died while it sent a message.
InternalClientError: type[Exception] = asyncpg.InternalClientError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

RETRYABLE = frozenset({"40001", "40P01"})  # a serialization failure, a deadlock
LOCK_TIMEOUT = "55P03"
UNIQUE_VIOLATION = "23505"
OUT_OF_RANGE = "22003"
_STORE_ELSEWHERE = "ST001"  # raised by enter_store

# The server is going away or cannot serve: the request may be retried, but not on the same connection.
_GONE_CLASSES = ("08", "57P")
_GONE = frozenset({"25006", "53300"})
_BUSY = frozenset({"57014", LOCK_TIMEOUT, "53100", "53200", "53400"})
_TOO_MANY_CONNECTIONS = "53300"
# The coordinator of a cluster reports these as internal errors and I/O errors if another node is lost during a statement.
_AWAY = frozenset({"XX000", "58030"})
_AWAY_MESSAGES = (
    "server closed the connection unexpectedly",
    "failure on connection marked as essential",
    "failed to COPY to shard",
    "connection not open",
)
_NO_SQLSTATE = "none"  # the connection failed, or the client stopped waiting


class Unavailable(Exception):
    """The database is unreachable or overloaded; the request may be retried later."""


class WaitedTooLong(Unavailable):
    """No connection became free while the request could wait; it has not begun."""


class NodeAway(Unavailable):
    """Another node of a cluster is unreachable, and with it the stores that live there."""


class CommitUnknown(Unavailable):
    """A COMMIT failed on a cluster, where the node of the store may have committed before."""


class StoreElsewhere(Unavailable):
    """The database does not hold the store: it is in another shard, and nothing was written."""


class StaleTransaction(Exception):
    """Raised inside a transaction: a concurrent change made its decisions stale; it is rolled back and runs again."""


def sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_elsewhere(error: BaseException) -> bool:
    """Whether enter_store refused the transaction, because the store is in another shard."""
    return sqlstate(error) == _STORE_ELSEWHERE


def is_repeatable(error: BaseException) -> bool:
    """Whether the transaction lost against a concurrent one, so that it may succeed if it runs again. After a lost connection
    it must not run again, because it may be committed."""
    return isinstance(error, StaleTransaction) or sqlstate(error) in RETRYABLE


def is_lost(error: BaseException) -> bool:
    """Whether the connection that raised this error must not be used again."""
    code = sqlstate(error)
    if code:
        return (code.startswith(_GONE_CLASSES) and not is_away(error)) or code in _GONE
    # A wrong argument is an InterfaceError and a ValueError: a bug in Stoa, not a lost connection.
    return isinstance(error, (OSError, InterfaceError, InternalClientError, TimeoutError)) and not isinstance(
        error, ValueError
    )


def is_away(error: BaseException) -> bool:
    """Whether the coordinator of a cluster cannot reach another node. That ends the statement, not this connection."""
    if getattr(error, "severity_en", None) != "ERROR":
        return False
    code = sqlstate(error)
    return code.startswith(_GONE_CLASSES) or (code in _AWAY and str(error).startswith(_AWAY_MESSAGES))


def is_busy(error: BaseException) -> bool:
    """Whether the server cancelled the statement for lack of time, memory or disk space."""
    return sqlstate(error) in _BUSY


def is_crowded(error: BaseException) -> bool:
    """Whether the server refused a connection because it, the database or the role has reached its limit."""
    return _TOO_MANY_CONNECTIONS in (sqlstate(error), sqlstate(error.__cause__ or error))


def error_class(error: BaseException) -> str | None:
    """The class of the SQLSTATE, such as 23; None if the error does not come from the database."""
    code = sqlstate(error)
    return code[:2] or None if code else (_NO_SQLSTATE if is_lost(error) else None)


def cause(error: BaseException) -> dict[str, str]:
    """The type of an error, the type of its cause and the SQLSTATE, for log lines; never a message or a value."""
    origin = error.__cause__
    found = {"error": type(error).__name__}
    if origin is not None:
        found["cause"] = type(origin).__name__
    if code := sqlstate(error) or (sqlstate(origin) if origin is not None else ""):
        found["sqlstate"] = code
    return found


def violates(error: BaseException, constraint: str) -> bool:
    """Whether the error names this constraint. On a shard the name has a suffix, so it is compared as a prefix."""
    name = str(getattr(error, "constraint_name", None) or "")
    return name.startswith(constraint) or f'"{constraint}' in str(error)
