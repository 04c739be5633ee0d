"""Passwords: hashed with argon2id in a thread, a few at a time, so that signing in cannot starve the rest."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from stoa.db.errors import Unavailable

T = TypeVar("T")
_AT_ONCE = 2
_MOST_WAITING = 30
_HASHER = PasswordHasher(time_cost=1, memory_cost=46 * 1024, parallelism=1)
_turns = asyncio.Semaphore(_AT_ONCE)
_waiting = 0


class Crowded(Unavailable):
    """More passwords wait to be checked than can be in a moment; a little later there is room."""


async def hashed(password: str) -> str:
    """What is stored in place of a password."""
    return await _in_turn(lambda: _HASHER.hash(_bytes(password)))


async def matches(stored: str | None, password: str) -> bool:
    """Whether this is the password; without a stored one it takes as long, and is not."""
    return await _in_turn(lambda: _check(stored, password))


def outdated(stored: str) -> bool:
    """Whether the hash was made with other costs than we use now."""
    return _HASHER.check_needs_rehash(stored)


def _check(stored: str | None, password: str) -> bool:
    nobody = _nobody()
    try:
        return _HASHER.verify(stored or nobody, _bytes(password)) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


@cache
def _nobody() -> str:
    return _HASHER.hash("the password of somebody who does not exist")


async def _in_turn(work: Callable[[], T]) -> T:
    global _waiting  # noqa: PLW0603 - one queue for the process, as there is one processor
    if _waiting >= _MOST_WAITING:
        raise Crowded("too many people sign in at once")
    _waiting += 1
    try:
        async with _turns:
            return await asyncio.to_thread(work)
    finally:
        _waiting -= 1
