"""What the database can refuse, told apart by SQLSTATE so that both PostgreSQL and Citus are understood."""

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

# asyncpg ships no stubs; its errors are reached through this module alone.
PostgresError: type[Exception] = asyncpg.PostgresError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
InterfaceError: type[Exception] = asyncpg.InterfaceError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

# asyncpg lost track of the conversation, as when a server dies in the middle of a word.
InternalClientError: type[Exception] = asyncpg.InternalClientError  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

RETRYABLE = frozenset({"40001", "40P01"})
LOCK_TIMEOUT = "55P03"
UNIQUE_VIOLATION = "23505"
OUT_OF_RANGE = "22003"

# Codes that say "this server cannot serve now": the request may be sent again, the connection may not be used again.
_GONE_CLASSES = ("08", "57P")
_GONE = frozenset({"25006", "53300"})
_BUSY = frozenset({"57014", LOCK_TIMEOUT, "53100", "53200", "53400"})


class Unavailable(Exception):
    """The database cannot be reached, or cannot serve now; trying again later is right."""


def sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_lost(error: BaseException) -> bool:
    """Whether the connection that raised this must not be used again."""
    code = sqlstate(error)
    if code:
        return code.startswith(_GONE_CLASSES) or code in _GONE
    # A wrong argument is an InterfaceError too (and a ValueError): that is our mistake, not a lost connection.
    return isinstance(error, (OSError, InterfaceError, InternalClientError, TimeoutError)) and not isinstance(
        error, ValueError
    )


def is_busy(error: BaseException) -> bool:
    """Whether the server gave up on this statement for want of time or room."""
    return sqlstate(error) in _BUSY


def violates(error: BaseException, constraint: str) -> bool:
    """Whether the error names this constraint; a shard's copy carries a suffix, so the name is a prefix."""
    name = str(getattr(error, "constraint_name", None) or "")
    return name.startswith(constraint) or f'"{constraint}' in str(error)
