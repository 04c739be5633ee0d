"""A store moves between shards while it is written to: nothing is lost or doubled, and its ids ascend."""

from collections import Counter

import pytest
from tests.support.fleet import Fleet, Writer, writing
from tests.support.shops import Shop

from stoa.cluster.distribution import Step
from stoa.db.connection import connect
from stoa.shards import moving
from stoa.shards.registry import ShardRefused

pytestmark = pytest.mark.timeout(300)


async def stored(fleet: Fleet, shard: str, shop: Shop) -> Counter[str]:
    """The SKUs of the store's variants."""
    async with fleet.connection(shard) as db:
        rows = await db.fetch("SELECT sku FROM variants WHERE store_id = $1 AND deleted_at IS NULL", shop.store_id)
    return Counter(row[0] for row in rows)


@pytest.mark.long
async def test_a_move_loses_and_doubles_no_write(fleet: Fleet) -> None:
    shop = await fleet.open_shop()
    before = await stored(fleet, "", shop)
    writers = [Writer(fleet, shop, f"w{n}") for n in range(3)]
    same: list[bool] = []
    places = [("east", ""), ("west", "east"), ("", "west")]
    async with writing(writers):
        for target, source in places:

            async def compare(step: Step, target: str = target, source: str = source) -> None:
                if step.action == "raised its ids":  # everything is replayed, and the store is closed in both
                    assert await fleet.holders(shop) == []
                    there, here = await fleet.contents(target, shop), await fleet.contents(source, shop)
                    same.append(there == here)
                    assert {name for name in here if here[name] != there[name]} == set()

            assert await moving.move(fleet.ask(shop, target, source), compare) is not None
            assert await fleet.holders(shop) == [target]
    assert same == [True] * len(places)
    acknowledged = Counter(write.sku for writer in writers for write in writer.acknowledged)
    assert await stored(fleet, "", shop) == before + acknowledged
    for writer in writers:
        ids = [write.id for write in writer.acknowledged]
        assert ids == sorted(set(ids))
        assert {write.shard for write in writer.acknowledged} == {"", "east", "west"}
    for shard in ("east", "west"):
        assert not any(count for count, _ in (await fleet.contents(shard, shop)).values()), "rows are left behind"


async def test_positions_of_events_ascend_across_a_move(fleet: Fleet) -> None:
    shop = await fleet.open_shop()
    last = "SELECT max(position) FROM events WHERE store_id = $1"
    before = await fleet.one("", last, shop.store_id)
    await fleet.move(shop, "east")
    assert await fleet.one("east", last, shop.store_id) == before
    writer = Writer(fleet, shop, "later")
    async with writing([writer]):
        pass
    positions = "SELECT min(position) FROM events WHERE store_id = $1 AND data LIKE '%later-0%'"
    assert int(str(await fleet.one("east", positions, shop.store_id))) > int(str(before))


async def test_writers_without_the_fence_lose_writes(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    writers = [Writer(fleet, shop, f"w{n}", fenced=False) for n in range(3)]
    async with writing(writers):
        await fleet.move(shop, "east")
    acknowledged = {write.sku for writer in writers for write in writer.acknowledged}
    assert acknowledged - set(await stored(fleet, "east", shop)), "the test of the fence would not notice its absence"
    db = await connect(fleet.shards[""].url)  # what was written there after the switch
    await db.execute("DELETE FROM products WHERE store_id = $1", shop.store_id)
    await db.close()


async def test_a_move_waits_for_a_transaction_that_writes(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    done: list[str] = []

    async with fleet.connection("") as db:
        await db.execute("BEGIN")
        await db.fetch("SELECT enter_store($1)", shop.store_id)

        async def report(step: Step) -> None:
            done.append(step.action)

        async def release(step: Step) -> None:
            await report(step)
            if step.action == "copied":
                await db.execute(
                    "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'products', 5)", shop.store_id
                )
                await db.execute("COMMIT")

        await moving.move(fleet.ask(shop, "east"), release)
    assert done.index("copied") < done.index("fenced")
    total = "SELECT sum(delta)::bigint FROM row_counts WHERE store_id = $1 AND resource = 'products'"
    assert await fleet.one("east", total, shop.store_id) == 5


async def test_a_store_that_is_there_does_not_move(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    await fleet.move(shop, "east")
    assert await moving.move(fleet.ask(shop, "east", "east")) is None
    assert await moving.plan(fleet.ask(shop, "east", "east")) == []


async def test_a_fence_that_is_lost_before_the_store_is_closed_opens_it_again(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    holder = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
                   AND ((classid::bigint << 32) | objid::bigint) = store_lock($1) AND objsubid = 1"""

    async def lose(step: Step) -> None:
        if step.action == "fenced":
            assert await fleet.one("", holder, shop.store_id)
            while await fleet.one("", holder.replace("pg_terminate_backend(pid)", "count(*)"), shop.store_id):
                pass

    with pytest.raises(ShardRefused, match="the store is served as before"):
        await moving.move(fleet.ask(shop, "east"), lose)
    assert await fleet.holders(shop) == [""]
    await fleet.move(shop, "east")
    assert await fleet.holders(shop) == ["east"]
