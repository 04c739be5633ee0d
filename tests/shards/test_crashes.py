"""The mover is killed after each of its steps: the move is repeated and ends, or it is undone, and no row is lost or left over."""

import asyncio
from functools import partial

import pytest
from tests.support.databases import PATIENCE_S
from tests.support.fleet import FENCING, Fleet
from tests.support.sharded import eventually
from tests.support.shops import Shop

from stoa.cluster.distribution import Step
from stoa.db.directory_outbox import collect
from stoa.db.errors import InterfaceError, PostgresError
from stoa.db.pool import Database
from stoa.shards import moving
from stoa.shards.registry import ShardRefused, session
from stoa.shards.requirements import target_faults
from stoa.store_data.store_erasure import ERASED, erase_due_store, receive_erasure

pytestmark = pytest.mark.timeout(300)
BEFORE_THE_SWITCH = (
    "published", "reserved", "prepared", "copied", "fenced", "closed", "replayed", "raised its ids",
)  # fmt: skip
STEPS = (*BEFORE_THE_SWITCH, "switched", "opened", "disconnected", "deleted")
UNDOING = ("stopped", "reopened", "disconnected", "deleted")


class Killed(BaseException):
    """The process of the mover ends here; the sessions that it had end with it."""


def killer(step: str) -> moving.Report:
    async def report(done: Step) -> None:
        if done.action == step:
            raise Killed

    return report


async def kill_after(fleet: Fleet, shop: Shop, step: str) -> None:
    with pytest.raises(Killed):
        await moving.move(fleet.ask(shop, "east"), killer(step))


async def leftovers(fleet: Fleet) -> dict[str, object]:
    """What a move creates for itself, in all databases."""
    counts = {
        "publications": "SELECT count(*) FROM pg_publication WHERE pubname LIKE 'stoa_move%'",
        "subscriptions": """SELECT count(*) FROM pg_subscription WHERE subname LIKE 'stoa_move%'
                               AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())""",
        "slots": """SELECT count(*) FROM pg_replication_slots
                     WHERE slot_name NOT LIKE 'stoa_global%' AND database = current_database()""",
        "markers": "SELECT count(*) FROM move_markers",
    }
    return {
        f"{kind} of {shard}": count
        for shard in fleet.shards
        for kind, sql in counts.items()
        if (count := await fleet.one(shard, sql))
    }


async def let_erase(fleet: Fleet, shard: str) -> None:
    """Run the maintenance of a shard until the rows of due stores are deleted, and then bring its messages to the directory."""
    there, directory = (Database(fleet.shards[name].url, size=1, name=FENCING) for name in (shard, ""))
    try:
        for _ in range(3):
            async with there.transaction() as db:
                await erase_due_store(db, "req_tests")
        if shard:
            await collect(there, directory, {ERASED: receive_erasure})
    finally:
        await there.close()
        await directory.close()


@pytest.mark.parametrize(
    ("source", "target", "step"), [("east", "west", "opened"), ("east", "west", "copied"), ("", "east", "copied")]
)
async def test_a_store_that_is_due_is_erased_when_its_move_has_ended(
    fleet: Fleet, source: str, target: str, step: str
) -> None:
    shop = await fleet.open_shop()
    if source:
        await fleet.move(shop, source)
    with pytest.raises(Killed):
        await moving.move(fleet.ask(shop, target, source), killer(step))
    holder = target if step == "opened" else source
    async with fleet.connection("") as directory:
        await directory.fetch(
            "INSERT INTO store_closures (store_id, suspended, erase_at) VALUES ($1, false, now())", shop.store_id
        )
    async with asyncio.timeout(PATIENCE_S):
        for shard in fleet.shards:
            while not await fleet.one(shard, "SELECT count(*) FROM store_closures WHERE store_id = $1", shop.store_id):
                await asyncio.sleep(0.02)
    known = "SELECT count(*) FROM stores WHERE id = $1"
    await let_erase(fleet, holder)
    assert await fleet.one("", known, shop.store_id) == 1
    await fleet.move(shop, target, source)
    assert await leftovers(fleet) == {}
    await let_erase(fleet, target)
    assert await fleet.one("", known, shop.store_id) == 0
    for shard in fleet.shards:
        assert not any(count for count, _ in (await fleet.contents(shard, shop)).values())


async def test_the_steps_of_a_move_are_known(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    done: list[str] = []

    async def report(step: Step) -> None:
        done.append(step.action)

    await moving.move(fleet.ask(shop, "east"), report)
    assert done == list(STEPS)


async def test_a_move_that_is_killed_after_every_step_ends(fleet: Fleet) -> None:
    shop = await fleet.open_shop()
    before = await fleet.contents("", shop)
    for step in STEPS:
        if step == "opened":
            continue  # the run after the kill opens the store before its first step
        await kill_after(fleet, shop, step)
        if step in BEFORE_THE_SWITCH:
            closed = BEFORE_THE_SWITCH.index(step) >= BEFORE_THE_SWITCH.index("closed")
            assert await fleet.holders(shop) == ([] if closed else [""])
            assert await fleet.contents("", shop) == before
        else:
            assert set(await fleet.holders(shop)) <= {"east"}
            assert await fleet.contents("east", shop) == before
    await fleet.move(shop, "east")
    assert await fleet.holders(shop) == ["east"]
    assert await fleet.contents("east", shop) == before
    assert not any(count for count, _ in (await fleet.contents("", shop)).values())
    assert await leftovers(fleet) == {}


@pytest.mark.parametrize("step", BEFORE_THE_SWITCH)
async def test_a_move_that_was_killed_is_undone(fleet: Fleet, step: str) -> None:
    shop = await fleet.open_shop()
    before = await fleet.contents("", shop)
    await kill_after(fleet, shop, step)
    assert await moving.undo(fleet.ask(shop, "east")) is not None
    assert await fleet.holders(shop) == [""]
    assert await fleet.contents("", shop) == before
    assert not any(count for count, _ in (await fleet.contents("east", shop)).values())
    assert await leftovers(fleet) == {}


async def test_an_undo_that_is_killed_after_every_step_ends(fleet: Fleet) -> None:
    shop = await fleet.open_shop()
    before = await fleet.contents("", shop)
    await kill_after(fleet, shop, "closed")
    for step in UNDOING:
        with pytest.raises(Killed):
            await moving.undo(fleet.ask(shop, "east"), killer(step))
        with pytest.raises(ShardRefused, match="is being undone"):
            await moving.move(fleet.ask(shop, "east"))
    assert await moving.undo(fleet.ask(shop, "east")) is not None
    assert (await fleet.holders(shop), await fleet.contents("", shop)) == ([""], before)
    assert await leftovers(fleet) == {}
    assert await moving.undo(fleet.ask(shop, "east")) is None
    await fleet.move(shop, "east")
    assert (await fleet.holders(shop), await fleet.contents("east", shop)) == (["east"], before)


@pytest.mark.parametrize("step", ["switched", "opened"])
async def test_a_move_that_has_switched_is_not_undone(fleet: Fleet, step: str) -> None:
    shop = await fleet.open_shop(filled=False)
    await kill_after(fleet, shop, step)
    with pytest.raises(ShardRefused, match="is in east already"):
        await moving.undo(fleet.ask(shop, "east"))
    await fleet.move(shop, "east")
    assert await fleet.holders(shop) == ["east"]


async def test_a_store_that_moves_does_not_move_elsewhere(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    await kill_after(fleet, shop, "published")
    with pytest.raises(ShardRefused, match="moves elsewhere already"):
        await moving.move(fleet.ask(shop, "west"))
    await moving.undo(fleet.ask(shop, "east"))


async def test_one_process_at_a_time_moves_a_store(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    refused: list[str] = []

    async def move_again(step: Step) -> None:
        if step.action == "prepared":
            with pytest.raises(ShardRefused) as refusal:
                await moving.move(fleet.ask(shop, "east"))
            refused.append(str(refusal.value))

    await moving.move(fleet.ask(shop, "east"), move_again)
    assert refused == [f"{shop.store.handle} is being moved by another process; wait until it has ended"]


async def test_a_mover_that_has_lost_its_locks_opens_no_store_that_another_one_has_moved(fleet: Fleet) -> None:
    shop = await fleet.open_shop(filled=False)
    sessions = """SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND (
                      (((classid::bigint << 32) | objid::bigint) = store_lock($1) AND objsubid = 1)
                      OR (classid = 7306234 AND objid = ($1 % 2147483647)::oid AND objsubid = 2))"""
    moved: list[str] = []

    async def overtake(step: Step) -> None:
        if step.action == "closed":
            assert await fleet.one("", sessions, shop.store_id) == 2
            await fleet.move(shop, "east")
            moved.extend(await fleet.holders(shop))

    with pytest.raises((PostgresError, InterfaceError, OSError)):
        await moving.move(fleet.ask(shop, "east"), overtake)
    assert moved == await fleet.holders(shop) == ["east"]


async def test_others_subscribe_while_an_undo_waits_for_a_copy_that_has_begun(fleet: Fleet) -> None:
    """The copy waits for a transaction on its server: for one that writes, or even for the undo itself."""
    shop = await fleet.open_shop(filled=False)
    beginning = (
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pg%sync%' AND confirmed_flush_lsn IS NULL"
    )
    dropping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DROP_REPLICATION_SLOT%' AND state = 'active'"
    async with fleet.connection("") as writer, session(fleet.shards["west"].url) as other:

        async def hold_up(step: Step) -> None:
            if step.action == "reserved":
                await writer.execute("BEGIN")
                await writer.fetch("SELECT pg_current_xact_id()::text")
            elif step.action == "prepared":
                await eventually(partial(is_there, fleet, beginning))
                raise Killed

        with pytest.raises(Killed):
            await moving.move(fleet.ask(shop, "east"), hold_up)
        undo = asyncio.create_task(moving.undo(fleet.ask(shop, "east")))
        await eventually(partial(is_there, fleet, dropping))
        assert await target_faults(other, fleet.shards["west"]) == []
        await writer.execute("COMMIT")
        assert await undo is not None
    assert await leftovers(fleet) == {}


async def is_there(fleet: Fleet, counting: str) -> bool:
    return bool(await fleet.one("", counting))
