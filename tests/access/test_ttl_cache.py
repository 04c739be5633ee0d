"""Values are cached for a short time, and concurrent callers share one lookup."""

import asyncio

from stoa.access.admission import TtlCache


class Source:
    """A slow source that counts its lookups."""

    def __init__(self, seconds: float = 1) -> None:
        self.lookups = 0
        self.answered = asyncio.Event()
        self.seconds = seconds

    async def look_up(self, key: str) -> tuple[str, float]:
        self.lookups += 1
        number = self.lookups
        await self.answered.wait()
        return f"{key}{number}", self.seconds


async def test_concurrent_callers_share_one_lookup() -> None:
    source = Source()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=1)
    waiting = [asyncio.create_task(cache.find("a")) for _ in range(50)]
    await asyncio.sleep(0)
    source.answered.set()
    assert set(await asyncio.gather(*waiting)) == {"a1"}
    assert cache.cached("a") == "a1"


async def test_a_cancelled_caller_does_not_cancel_the_lookup_for_the_others() -> None:
    source = Source()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=1)
    first, second = asyncio.create_task(cache.find("a")), asyncio.create_task(cache.find("a"))
    await asyncio.sleep(0)
    first.cancel()
    source.answered.set()
    assert await second == "a1"


async def test_a_lookup_that_began_a_ttl_ago_is_not_joined() -> None:
    source = Source()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=0.05)
    early = asyncio.create_task(cache.find("a"))
    await asyncio.sleep(0.06)
    late = asyncio.create_task(cache.find("a"))
    await asyncio.sleep(0)
    source.answered.set()
    assert (await early, await late) == ("a1", "a2")


async def test_a_value_ages_from_the_start_of_its_lookup() -> None:
    source = Source()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=0.05)
    slow = asyncio.create_task(cache.find("a"))
    await asyncio.sleep(0.06)
    source.answered.set()
    assert await slow == "a1"
    assert cache.cached("a") is None


async def test_a_failed_lookup_fails_all_its_callers_and_is_not_cached() -> None:
    async def fail(key: str) -> tuple[str, float]:
        await asyncio.sleep(0)
        raise RuntimeError(key)

    cache: TtlCache[str, str] = TtlCache(fail, seconds=1)
    both = await asyncio.gather(cache.find("a"), cache.find("a"), return_exceptions=True)
    assert [type(each) for each in both] == [RuntimeError, RuntimeError]
    assert cache.cached("a") is None


async def test_the_cache_stays_bounded_and_evicts_expired_values() -> None:
    source = Source()
    source.answered.set()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=0.05, most=10)
    for number in range(100):
        await cache.find(str(number))
    assert len(cache) <= 10
    await asyncio.sleep(0.06)
    await cache.find("last")
    assert len(cache) == 1


async def test_a_value_that_must_not_be_cached_is_looked_up_again() -> None:
    source = Source(seconds=0)
    source.answered.set()
    cache: TtlCache[str, str] = TtlCache(source.look_up, seconds=1)
    assert (await cache.find("a"), await cache.find("a")) == ("a1", "a2")
