"""A TTL cache with single-flight lookups: concurrent callers of one key share one lookup."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """A bounded cache in front of `look_up`, which returns a value and how many seconds it may be cached."""

    def __init__(
        self,
        look_up: Callable[[Key], Coroutine[Any, Any, tuple[Value, float]]],
        *,
        seconds: float,
        most: int = 10_000,
    ) -> None:
        self._look_up = look_up
        self._seconds = seconds
        self._most = most
        self._entries: dict[Key, tuple[float, Value]] = {}  # with their expiry, oldest first
        self._running: dict[Key, tuple[float, asyncio.Task[tuple[Value, float]]]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def cached(self, key: Key) -> Value | None:
        """The cached value, unless it has expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and monotonic() < entry[0] else None

    async def find(self, key: Key) -> Value:
        """Look the value up, or join a recent lookup that is still running."""
        now = monotonic()
        running = self._running.get(key)
        # A value is as old as its lookup: a lookup that began a TTL ago is too old to join.
        if running is None or now >= running[0]:
            task = asyncio.create_task(self._look_up(key))
            running = self._running[key] = (now + self._seconds, task)
            task.add_done_callback(lambda done: self._store(key, now, done))
        # A caller that is cancelled must not cancel the lookup for the others.
        value, _ = await asyncio.shield(running[1])
        return value

    def _store(self, key: Key, started_at: float, task: asyncio.Task[tuple[Value, float]]) -> None:
        running = self._running.get(key)
        if running is not None and running[1] is task:
            del self._running[key]
        if task.cancelled() or task.exception() is not None:
            return
        value, seconds = task.result()
        self._entries.pop(key, None)
        if seconds > 0:
            self._entries[key] = (started_at + min(seconds, self._seconds), value)
        self._evict()

    def _evict(self) -> None:
        now = monotonic()
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) <= self._most and self._entries[oldest][0] > now:
                return
            del self._entries[oldest]
