"""Coalescer: who waits is served together, nobody waits for company, and nobody pays for another."""

import asyncio
from collections.abc import Sequence

import pytest

from stoa.rest.coalescing import Coalescer


class Desk:
    """Serves groups and notes them; a group waits until it is let go."""

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


async def test_the_first_is_served_at_once_and_the_rest_together() -> None:
    desk = Desk()
    coalescer = Coalescer(desk.serve)
    first = asyncio.create_task(coalescer.submit("a", 1))
    await settle()
    rest = [asyncio.create_task(coalescer.submit("a", item)) for item in (2, 3, 4)]
    await settle()
    assert desk.groups == [("a", [1])]
    desk.open.set()
    assert await asyncio.gather(first, *rest) == [10, 20, 30, 40]
    assert desk.groups == [("a", [1]), ("a", [2, 3, 4])]


async def test_keys_do_not_wait_for_one_another() -> None:
    desk = Desk()
    coalescer = Coalescer(desk.serve)
    asked = [asyncio.create_task(coalescer.submit(key, 1)) for key in "ab"]
    await settle()
    assert desk.groups == [("a", [1]), ("b", [1])]
    desk.open.set()
    assert await asyncio.gather(*asked) == [10, 10]


async def test_a_group_is_no_larger_than_it_may_be() -> None:
    desk = Desk()
    desk.open.set()
    coalescer = Coalescer(desk.serve, max_items=2)
    assert await asyncio.gather(*(coalescer.submit("a", item) for item in range(5))) == [0, 10, 20, 30, 40]
    assert [items for _, items in desk.groups] == [[0, 1], [2, 3], [4]]


async def test_what_goes_wrong_is_told_to_its_group_and_to_nobody_else() -> None:
    desk = Desk()
    coalescer = Coalescer(desk.serve, max_items=2)
    asked = [asyncio.create_task(coalescer.submit("a", item)) for item in (12, 13, 14, 15)]
    desk.open.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers[:2]] == [ValueError, ValueError]
    assert answers[2:] == [140, 150]


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    desk = Desk()
    coalescer = Coalescer(desk.serve)
    asked = [asyncio.create_task(coalescer.submit("a", item)) for item in (1, 2, 3)]
    await settle()
    asked[0].cancel()
    await settle()
    desk.open.set()
    assert await asyncio.gather(*asked[1:]) == [20, 30]
    with pytest.raises(asyncio.CancelledError):
        await asked[0]
    assert await coalescer.submit("a", 4) == 40


async def test_a_group_that_takes_long_is_not_waited_for() -> None:
    desk = Desk()
    coalescer = Coalescer(desk.serve, patience_s=0.01)
    slow = asyncio.create_task(coalescer.submit("a", 1))
    await settle()
    waiting = [asyncio.create_task(coalescer.submit("a", item)) for item in (2, 3)]
    while len(desk.groups) < 2:
        await asyncio.sleep(0.005)
    late = asyncio.create_task(coalescer.submit("a", 4))
    while len(desk.groups) < 3:
        await asyncio.sleep(0.005)
    assert [items for _, items in desk.groups] == [[1], [2, 3], [4]]
    desk.open.set()
    assert await asyncio.gather(slow, *waiting, late) == [10, 20, 30, 40]
    assert await coalescer.submit("a", 5) == 50
