"""Those who come while others are being served are served together, in one go."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Queue(Generic[Item, Answer]):
    """Who waits under one key, and how many groups are being served."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self.groups = 0
        self.late = 0  # of them, those that take so long that others need not wait for them


class Coalescer(Generic[Key, Item, Answer]):
    """Serves those who wait under one key together; nobody waits for company, only for the group before.

    A group that takes longer than `patience_s`, where that is given, is not waited for.
    """

    def __init__(
        self,
        serve: Callable[[Key, Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 1_000,
        patience_s: float | None = None,
    ) -> None:
        self._serve = serve
        self._most = most
        self._patience_s = patience_s
        self._queues: defaultdict[Key, _Queue[Item, Answer]] = defaultdict(_Queue)
        self._tasks: set[asyncio.Task[None]] = set()  # or they might be forgotten while they run

    async def join(self, key: Key, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue = self._queues[key]
        queue.waiting.append((item, answer))
        self._start(key, queue)
        return await answer

    def _start(self, key: Key, queue: _Queue[Item, Answer]) -> None:
        if queue.waiting and queue.groups == queue.late:
            queue.groups += 1
            task = asyncio.create_task(self._run(key, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, key: Key, queue: _Queue[Item, Answer]) -> None:
        late = False

        def give_way() -> None:
            nonlocal late
            late = True
            queue.late += 1
            self._start(key, queue)

        try:
            while queue.waiting and not late:
                group = [queue.waiting.popleft() for _ in range(min(self._most, len(queue.waiting)))]
                patience = self._patience_s
                timer = asyncio.get_running_loop().call_later(patience, give_way) if patience is not None else None
                try:
                    await self._settle(key, group)
                finally:
                    if timer is not None:
                        timer.cancel()
        finally:
            queue.groups -= 1
            queue.late -= late
            if not queue.groups and not queue.waiting:
                del self._queues[key]
            self._start(key, queue)

    async def _settle(self, key: Key, group: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._serve(key, [item for item, _ in group])
        except Exception as error:  # noqa: BLE001 - each who waits answers for itself
            for _, answer in group:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), given in zip(group, answers, strict=True):
            if not answer.done():
                answer.set_result(given)
