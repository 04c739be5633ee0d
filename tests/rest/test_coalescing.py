"""Coalescer: waiting items are served as a group, no item waits for more items, and groups do not affect each other."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.clocks import Clock

from stoa.db.errors import WaitedTooLong
from stoa.db.pool import arrive
from stoa.db.waiting import Arrival, arrival
from stoa.rest.coalescing import Coalescer


class Server:
    """Serves groups and records them; a group waits until the server is open."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, list[int]]] = []
        self.open = asyncio.Event()

    async def serve(self, key: str, items: Sequence[int]) -> list[int]:
        self.groups.append((key, list(items)))
        await self.open.wait()
        if 13 in items:
            raise ValueError("thirteen")
        return [10 * item for item in items]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_first_item_is_served_at_once_and_the_rest_as_a_group() -> None:
    server = Server()
    coalescer = Coalescer(server.serve)
    first = asyncio.create_task(coalescer.submit("a", 1))
    await settle()
    rest = [asyncio.create_task(coalescer.submit("a", item)) for item in (2, 3, 4)]
    await settle()
    assert server.groups == [("a", [1])]
    server.open.set()
    assert await asyncio.gather(first, *rest) == [10, 20, 30, 40]
    assert server.groups == [("a", [1]), ("a", [2, 3, 4])]


async def test_keys_do_not_wait_for_one_another() -> None:
    server = Server()
    coalescer = Coalescer(server.serve)
    asked = [asyncio.create_task(coalescer.submit(key, 1)) for key in "ab"]
    await settle()
    assert server.groups == [("a", [1]), ("b", [1])]
    server.open.set()
    assert await asyncio.gather(*asked) == [10, 10]


async def test_a_group_has_at_most_max_items() -> None:
    server = Server()
    server.open.set()
    coalescer = Coalescer(server.serve, max_items=2)
    assert await asyncio.gather(*(coalescer.submit("a", item) for item in range(5))) == [0, 10, 20, 30, 40]
    assert [items for _, items in server.groups] == [[0, 1], [2, 3], [4]]


async def test_a_group_weighs_at_most_max_weight() -> None:
    server = Server()
    server.open.set()
    coalescer = Coalescer(server.serve, weigh=lambda item: item, max_weight=5)
    assert await asyncio.gather(*(coalescer.submit("a", item) for item in (2, 3, 1, 9, 1))) == [20, 30, 10, 90, 10]
    assert [items for _, items in server.groups] == [[2, 3], [1], [9], [1]]


async def test_an_error_reaches_its_group_only() -> None:
    server = Server()
    coalescer = Coalescer(server.serve, max_items=2)
    asked = [asyncio.create_task(coalescer.submit("a", item)) for item in (12, 13, 14, 15)]
    server.open.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers[:2]] == [ValueError, ValueError]
    assert answers[2:] == [140, 150]


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    server = Server()
    coalescer = Coalescer(server.serve)
    asked = [asyncio.create_task(coalescer.submit("a", item)) for item in (1, 2, 3)]
    await settle()
    asked[0].cancel()
    await settle()
    server.open.set()
    assert await asyncio.gather(*asked[1:]) == [20, 30]
    with pytest.raises(asyncio.CancelledError):
        await asked[0]
    assert await coalescer.submit("a", 4) == 40


async def test_the_next_group_does_not_wait_for_an_overdue_one() -> None:
    server = Server()
    coalescer = Coalescer(server.serve, patience_s=0.01)
    slow = asyncio.create_task(coalescer.submit("a", 1))
    await settle()
    waiting = [asyncio.create_task(coalescer.submit("a", item)) for item in (2, 3)]
    while len(server.groups) < 2:
        await asyncio.sleep(0.005)
    late = asyncio.create_task(coalescer.submit("a", 4))
    while len(server.groups) < 3:
        await asyncio.sleep(0.005)
    assert [items for _, items in server.groups] == [[1], [2, 3], [4]]
    server.open.set()
    assert await asyncio.gather(slow, *waiting, late) == [10, 20, 30, 40]
    assert await coalescer.submit("a", 5) == 50


async def test_an_item_is_refused_if_its_request_is_late_when_the_group_before_ends(clock: Clock) -> None:
    server = Server()
    coalescer = Coalescer(server.serve)
    first = asyncio.create_task(coalescer.submit("a", 1))
    await settle()
    arrive()
    late = asyncio.create_task(coalescer.submit("a", 2))
    await settle()
    clock.now += 3600
    arrive()
    new = asyncio.create_task(coalescer.submit("a", 3))
    await settle()
    server.open.set()
    assert await asyncio.gather(first, new) == [10, 30]
    with pytest.raises(WaitedTooLong):
        await late
    assert await coalescer.submit("a", 4) == 40
    assert [items for _, items in server.groups] == [[1], [3], [4]]


async def test_a_late_item_is_served_if_no_group_is_before_it(clock: Clock) -> None:
    server = Server()
    server.open.set()
    arrive()
    clock.now += 3600
    assert await Coalescer(server.serve).submit("a", 1) == 10


async def test_a_group_waits_as_its_oldest_request_and_as_long_as_its_newest(clock: Clock) -> None:
    waiting: list[Arrival] = []

    async def serve(_: str, items: Sequence[int]) -> Sequence[int]:
        waiting.append(arrival.get())
        return items

    async def submit(item: int) -> None:
        arrive()
        clock.now += 1
        await coalescer.submit("a", item)

    coalescer = Coalescer(serve)
    began = clock.now
    await asyncio.gather(*(submit(item) for item in range(3)))
    arrive()
    newest = arrival.get().wait_until - 1
    await coalescer.submit("a", 4)
    assert waiting == [Arrival(began, newest), Arrival(began + 3, newest + 1)]
