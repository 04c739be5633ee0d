"""Answers of the last moment: kept briefly, and asked for once however many want them at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class TtlCache(Generic[Key, Value]):
    """A bounded cache in front of `look_up`, which answers a value and how many seconds it may be kept."""

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
        self._kept: dict[Key, tuple[float, Value]] = {}  # oldest first
        self._running: dict[Key, tuple[float, asyncio.Task[tuple[Value, float]]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: Key) -> Value | None:
        """The kept answer, while it is fresh."""
        kept = self._kept.get(key)
        return kept[1] if kept is not None and monotonic() < kept[0] else None

    async def find(self, key: Key) -> Value:
        """Look it up, or join a look-up that has only just begun."""
        now = monotonic()
        running = self._running.get(key)
        # An answer is as old as its question: nobody joins one that was asked too long ago.
        if running is None or now >= running[0]:
            task = asyncio.create_task(self._look_up(key))
            running = self._running[key] = (now + self._seconds, task)
            task.add_done_callback(lambda done: self._keep(key, now, done))
        # One caller who hangs up must not take the answer from the others.
        value, _ = await asyncio.shield(running[1])
        return value

    def _keep(self, key: Key, asked_at: float, task: asyncio.Task[tuple[Value, float]]) -> None:
        running = self._running.get(key)
        if running is not None and running[1] is task:
            del self._running[key]
        if task.cancelled() or task.exception() is not None:
            return
        value, seconds = task.result()
        self._kept.pop(key, None)
        if seconds > 0:
            self._kept[key] = (asked_at + min(seconds, self._seconds), value)
        self._forget_stale()

    def _forget_stale(self) -> None:
        now = monotonic()
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= self._most and self._kept[oldest][0] > now:
                return
            del self._kept[oldest]
