"""Password hashing with argon2id, in threads and a few at a time, so that sign-ins cannot starve the API."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from stoa.db.errors import Unavailable

T = TypeVar("T")
_MAX_RUNNING = 2
_MAX_WAITING = 30
_HASHER = PasswordHasher(time_cost=1, memory_cost=46 * 1024, parallelism=1)
_threads = ThreadPoolExecutor(_MAX_RUNNING, thread_name_prefix="passwords")
_waiting = 0


class PasswordQueueFull(Unavailable):
    """Too many passwords are waiting to be checked; the caller can retry in a few seconds."""


async def hash_password(password: str) -> str:
    return await _in_thread(lambda: _HASHER.hash(_bytes(password)))


async def matches(stored: str | None, password: str) -> bool:
    """Whether the password matches the stored hash; without a hash, return False after the same amount of work."""
    return await _in_thread(lambda: _verify(stored, password))


def needs_rehash(stored: str) -> bool:
    """Whether the hash was made with other cost parameters than the current ones."""
    return _HASHER.check_needs_rehash(stored)


def _verify(stored: str | None, password: str) -> bool:
    dummy = _dummy_hash()
    try:
        return _HASHER.verify(stored or dummy, _bytes(password)) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


@cache
def _dummy_hash() -> str:
    return _HASHER.hash("the password of an account that does not exist")


async def _in_thread(work: Callable[[], T]) -> T:
    global _waiting  # noqa: PLW0603 - one queue for the whole process
    if _waiting >= _MAX_WAITING:
        raise PasswordQueueFull("too many passwords are waiting to be checked")
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, work)
    finally:
        _waiting -= 1
