"""A server that a store moves from or to is lost: the store is served where the directory has it, and the move ends without it."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
from tests.shards.test_crashes import Killed, kill_after, leftovers
from tests.support.fleet import Fleet, copied_database, unused
from tests.support.sharded import eventually
from tests.support.shops import Shop

from stoa.db.shards import ABSENT
from stoa.shards import membership, moving
from stoa.shards.moves import OPEN_MOVE
from stoa.shards.registry import Shard, ShardRefused, shards_of

pytestmark = pytest.mark.timeout(300)
COPYING = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pg%sync%' AND database = current_database()"
NAME = "SELECT current_database()"


@pytest.fixture
async def pair(fleet: Fleet, replicating: str) -> AsyncIterator[Fleet]:
    """The directory of the fleet with a shard that a test may lose."""
    name = unused("lost").replace("_", "-")
    shard = Shard(name, await copied_database(replicating, name))
    async with fleet.operator() as by:
        await membership.add(by, shard.url, name)
        yield Fleet(fleet.settings, fleet.directory.url, {name: shard.url})
        await let(fleet, name, come_back=True)
        if name in [each.name for each in await shards_of(by.db, by.key)]:
            await membership.remove(by, name)


async def let(fleet: Fleet, database: object, *, come_back: bool) -> None:
    """Let a database be away, or come back."""
    async with fleet.connection("") as db:
        await db.execute(f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS {str(come_back).lower()}')
        if not come_back:
            gone = partial(_ended, fleet, database)
            await eventually(gone)


async def _ended(fleet: Fleet, database: object) -> bool:
    return not await fleet.one(
        "", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", database
    )


def shard_of(pair: Fleet) -> str:
    [_, name] = pair.shards
    return name


def rest(pair: Fleet, name: str) -> Fleet:
    """The fleet without this shard."""
    return Fleet(
        pair.settings, pair.directory.url, {key: each.url for key, each in pair.shards.items() if key not in ("", name)}
    )


async def lose_target(pair: Fleet, step: str) -> Shop:
    """A store whose move has lost its target after a step; before the switch, a table cannot be copied."""
    shop, name = await pair.open_shop(), shard_of(pair)
    row = f"INSERT INTO store_inbox (store_id, id) VALUES ({shop.store_id}, 'twice')"
    if step == "prepared":
        async with pair.connection("") as db:
            await db.execute(row)

    async def obstruct(done: object) -> None:
        if getattr(done, "action", "") == "published" and step == "prepared":
            async with pair.connection(name) as db:
                await db.execute(row)
        if getattr(done, "action", "") == step:
            raise Killed

    with pytest.raises(Killed):
        await moving.move(pair.ask(shop, name), obstruct)
    if step == "prepared":
        await eventually(partial(_copies, pair))
    await let(pair, name, come_back=False)
    return shop


async def _copies(pair: Fleet) -> bool:
    return await pair.one("", COPYING) == 1  # the other tables are copied


@pytest.mark.parametrize("step", ["published", "prepared", "closed", "raised its ids"])
async def test_a_store_is_served_at_its_source_after_the_target_was_lost(pair: Fleet, step: str) -> None:
    shop, name = await lose_target(pair, step), shard_of(pair)
    before = await pair.contents("", shop)
    with pytest.raises(ShardRefused, match=f"is served by directory. {name} does not answer"):
        await moving.undo(pair.ask(shop, name))
    assert await rest(pair, name).holders(shop) == [""]
    assert await leftovers(rest(pair, name)) == {}
    await let(pair, name, come_back=True)
    assert await pair.holders(shop) == [""]
    async with pair.connection(name) as db:
        assert shop.store_id in await ABSENT.all(db)
    with pytest.raises(ShardRefused, match="is being undone"):
        await moving.move(pair.ask(shop, name))
    assert await moving.undo(pair.ask(shop, name)) is not None
    assert (await pair.holders(shop), await pair.contents("", shop)) == ([""], before)
    assert not any(count for count, _ in (await pair.contents(name, shop)).values())
    assert await leftovers(pair) == {}


@pytest.mark.parametrize("step", ["prepared", "closed"])
async def test_a_lost_target_is_removed_with_its_moves(fleet: Fleet, pair: Fleet, step: str) -> None:
    shop, name = await lose_target(pair, step), shard_of(pair)
    async with pair.operator() as by:
        with pytest.raises(ShardRefused, match="a move from or to"):
            await membership.remove(by, name)
        await membership.remove(by, name, lost=True)
        assert await OPEN_MOVE.maybe(by.db, shop.store_id) is None
    assert await fleet.holders(shop) == [""]
    assert await leftovers(fleet) == {}
    await let(pair, name, come_back=True)
    assert await pair.holders(shop) == [""]
    await fleet.move(shop, "east")
    assert await fleet.holders(shop) == ["east"]
    async with fleet.operator() as by:
        with pytest.raises(ShardRefused, match="must be empty"):
            await membership.plan_to_add(by, pair.shards[name].url, name)


async def test_a_store_is_served_at_its_target_after_the_source_was_lost(fleet: Fleet, pair: Fleet) -> None:
    shop, name = await fleet.open_shop(), shard_of(pair)
    await pair.move(shop, name)
    both = Fleet(fleet.settings, fleet.directory.url, {name: pair.shards[name].url, "east": fleet.shards["east"].url})
    before = await both.contents(name, shop)

    async def kill(step: object) -> None:
        if getattr(step, "action", "") == "switched":
            raise Killed

    with pytest.raises(Killed):
        await moving.move(both.ask(shop, "east", name), kill)
    await let(pair, name, come_back=False)
    with pytest.raises(ShardRefused, match=f"is served by east. {name} does not answer"):
        await moving.move(both.ask(shop, "east", name))
    assert await fleet.holders(shop) == ["east"]
    assert await fleet.contents("east", shop) == before
    async with fleet.operator() as by:
        await membership.remove(by, name, lost=True)
        assert await OPEN_MOVE.maybe(by.db, shop.store_id) is None
    assert await leftovers(fleet) == {}
    await let(pair, name, come_back=True)
    assert await both.holders(shop) == ["east"]


async def test_a_move_is_not_undone_by_the_name_of_another_target(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    await kill_after(fleet, shop, "reserved")
    with pytest.raises(ShardRefused, match="moves elsewhere"):
        await moving.undo(fleet.ask(shop, "west"))
    assert await moving.undo(fleet.ask(shop, "east")) is not None
    assert await leftovers(fleet) == {}
