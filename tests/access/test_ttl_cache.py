"""Answers are kept for a moment only, and asked for once by however many want them."""

import asyncio

from stoa.access.recent import Recent


class Source:
    """Something slow to ask, which knows how often it was asked."""

    def __init__(self, seconds: float = 1) -> None:
        self.asked = 0
        self.answered = asyncio.Event()
        self.seconds = seconds

    async def look_up(self, key: str) -> tuple[str, float]:
        self.asked += 1
        number = self.asked
        await self.answered.wait()
        return f"{key}{number}", self.seconds


async def test_many_who_ask_at_the_same_time_share_one_look_up() -> None:
    source = Source()
    recent: Recent[str, str] = Recent(source.look_up, seconds=1)
    waiting = [asyncio.create_task(recent.find("a")) for _ in range(50)]
    await asyncio.sleep(0)
    source.answered.set()
    assert set(await asyncio.gather(*waiting)) == {"a1"}
    assert recent.recall("a") == "a1"


async def test_one_who_hangs_up_does_not_take_the_answer_from_the_others() -> None:
    source = Source()
    recent: Recent[str, str] = Recent(source.look_up, seconds=1)
    first, second = asyncio.create_task(recent.find("a")), asyncio.create_task(recent.find("a"))
    await asyncio.sleep(0)
    first.cancel()
    source.answered.set()
    assert await second == "a1"


async def test_nobody_joins_a_look_up_that_was_begun_too_long_ago() -> None:
    source = Source()
    recent: Recent[str, str] = Recent(source.look_up, seconds=0.05)
    early = asyncio.create_task(recent.find("a"))
    await asyncio.sleep(0.06)
    late = asyncio.create_task(recent.find("a"))
    await asyncio.sleep(0)
    source.answered.set()
    assert (await early, await late) == ("a1", "a2")


async def test_an_answer_ages_from_when_it_was_asked_for() -> None:
    source = Source()
    recent: Recent[str, str] = Recent(source.look_up, seconds=0.05)
    slow = asyncio.create_task(recent.find("a"))
    await asyncio.sleep(0.06)
    source.answered.set()
    assert await slow == "a1"
    assert recent.recall("a") is None


async def test_a_failed_look_up_fails_all_who_wait_and_is_not_kept() -> None:
    async def fail(key: str) -> tuple[str, float]:
        await asyncio.sleep(0)
        raise RuntimeError(key)

    recent: Recent[str, str] = Recent(fail, seconds=1)
    both = await asyncio.gather(recent.find("a"), recent.find("a"), return_exceptions=True)
    assert [type(each) for each in both] == [RuntimeError, RuntimeError]
    assert recent.recall("a") is None


async def test_the_cache_stays_bounded_and_forgets_what_is_stale() -> None:
    source = Source()
    source.answered.set()
    recent: Recent[str, str] = Recent(source.look_up, seconds=0.05, most=10)
    for number in range(100):
        await recent.find(str(number))
    assert len(recent) <= 10
    await asyncio.sleep(0.06)
    await recent.find("last")
    assert len(recent) == 1


async def test_an_answer_that_may_not_be_kept_is_asked_for_again() -> None:
    source = Source(seconds=0)
    source.answered.set()
    recent: Recent[str, str] = Recent(source.look_up, seconds=1)
    assert (await recent.find("a"), await recent.find("a")) == ("a1", "a2")
