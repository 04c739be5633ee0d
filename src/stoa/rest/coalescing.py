"""Coalesces calls: those that arrive while others of the same key are served form the next group."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

import msgspec

from stoa.db.errors import WaitedTooLong
from stoa.db.waiting import Arrival, arrival

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Entry(msgspec.Struct, Generic[Item, Result]):
    """An item that waits, the future of its result, the arrival of its request, and whether a group runs before it."""

    item: Item
    result: asyncio.Future[Result]
    arrival: Arrival
    behind: bool


class _Queue(Generic[Item, Result]):
    """The items that wait under one key, and the number of groups that run."""

    def __init__(self) -> None:
        self.waiting: deque[_Entry[Item, Result]] = deque()
        self.running = 0
        self.overdue = 0  # running groups that newcomers no longer wait for


class Coalescer(Generic[Key, Item, Result]):
    """Serves the items that wait under one key as a group. An item never waits for more items, only for the group before, and is
    refused instead of served if its request has waited too long when that one ends.

    A group holds at most `max_items` items of at most `max_weight` together; an item that weighs more is a group of one.
    The next group starts without waiting for a group that takes longer than `patience_s`.
    """

    def __init__(
        self,
        serve: Callable[[Key, Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int = 1_000,
        weigh: Callable[[Item], int] = lambda _: 0,
        max_weight: int = 0,
        patience_s: float | None = None,
    ) -> None:
        self._serve = serve
        self._max_items = max_items
        self._weigh = weigh
        self._max_weight = max_weight
        self._patience_s = patience_s
        self._queues: defaultdict[Key, _Queue[Item, Result]] = defaultdict(_Queue)
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references

    async def submit(self, key: Key, item: Item) -> Result:
        """Queue an item and wait for its result."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        queue = self._queues[key]
        queue.waiting.append(_Entry(item, result, arrival.get(), queue.running > queue.overdue))
        self._start(key, queue)
        return await result

    def _start(self, key: Key, queue: _Queue[Item, Result]) -> None:
        if queue.waiting and queue.running == queue.overdue:
            queue.running += 1
            task = asyncio.create_task(self._run(key, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, key: Key, queue: _Queue[Item, Result]) -> None:
        overdue = False

        def give_way() -> None:
            nonlocal overdue
            overdue = True
            queue.overdue += 1
            self._start(key, queue)

        try:
            while queue.waiting and not overdue:
                group = self._next_group(queue)
                if not group:
                    break
                patience = self._patience_s
                timer = asyncio.get_running_loop().call_later(patience, give_way) if patience is not None else None
                try:
                    await self._settle(key, group)
                finally:
                    if timer is not None:
                        timer.cancel()
        finally:
            queue.running -= 1
            queue.overdue -= overdue
            if not queue.running and not queue.waiting:
                del self._queues[key]
            self._start(key, queue)

    def _next_group(self, queue: _Queue[Item, Result]) -> list[_Entry[Item, Result]]:
        """The next items; none if all requests have waited too long."""
        group: list[_Entry[Item, Result]] = []
        weight = 0
        while queue.waiting and len(group) < self._max_items:
            first = queue.waiting[0]
            if first.behind and first.arrival.late:
                queue.waiting.popleft()
                if not first.result.done():
                    first.result.set_exception(WaitedTooLong())
                continue
            weight += self._weigh(first.item)
            if group and weight > self._max_weight:
                break
            group.append(queue.waiting.popleft())
        return group

    async def _settle(self, key: Key, group: Sequence[_Entry[Item, Result]]) -> None:
        arrival.set(_arrival_of(group))
        try:
            results = await self._serve(key, [each.item for each in group])
        except Exception as error:  # noqa: BLE001 - every caller gets it
            for each in group:
                if not each.result.done():
                    each.result.set_exception(error)
            return
        for each, result in zip(group, results, strict=True):
            if not each.result.done():
                each.result.set_result(result)


def _arrival_of(group: Sequence[_Entry[Item, Result]]) -> Arrival:
    """The arrival of requests that are served together: as old as the oldest, and as patient as the most patient."""
    return Arrival(min(each.arrival.at for each in group), max(each.arrival.wait_until for each in group))
