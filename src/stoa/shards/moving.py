"""Moves a store to another shard while it is served, as steps that can be repeated after a crash and undone until the switch.

The rows are copied by logical replication with a row filter, and changes follow until the store is fenced for a moment
(`switching.py`). Nothing is tidied up when a step fails: the next run continues, or `undo` goes back.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec

from stoa.access import audit
from stoa.cluster.distribution import Step
from stoa.db import migrate
from stoa.db.connection import Connection
from stoa.db.query import Command, Executor, Query
from stoa.db.shards import takes_stores
from stoa.shards import subscriptions, switching
from stoa.shards.global_tables import Progress, no_progress, wait_for_copy
from stoa.shards.moves import (
    BEGIN,
    END,
    OPEN_MOVE,
    SECONDS_SINCE_SWITCH,
    Move,
    Residence,
    advance,
    find_store,
)
from stoa.shards.registry import Shard, ShardRefused, session, take_lock, transaction
from stoa.shards.requirements import check_same_text, check_schema, refuse, source_faults, target_faults
from stoa.shards.switching import Sides
from stoa.shards.tables import erasing_steps, filtered, identify_rows, make_days, moved_tables
from stoa.store_data.store_erasure import BATCH, delete_rows

GRACE_S = 10.0  # a read that began before the switch has ended before its rows are deleted
_PATIENCE_S = 30.0  # for the row of a new store to reach its shard
_POLL_S = 0.1
_MOVES = "a move is known by its own id"
# One process at a time works on the move of a store; the lock ends with its session.
_TRY_LOCK = Query(bool, "SELECT pg_try_advisory_lock(7306234, ($1::bigint % 2147483647)::integer)", unbound=_MOVES)
_KNOWS_STORE = Query(bool, "SELECT EXISTS (SELECT FROM stores WHERE id = $1)", unbound=_MOVES)
_KNOWS_SHARD = Query(bool, "SELECT EXISTS (SELECT FROM stores WHERE id = $1 AND shard = $2)", unbound=_MOVES)
_FORGET_MARKER = Command("DELETE FROM move_markers WHERE move_id = $1", unbound=_MOVES)
_FORGET_RESIDENCE = Command("DELETE FROM store_residence WHERE store_id = $1", unbound=_MOVES)

Report = Callable[[Step], Awaitable[None]]


async def no_report(_: Step) -> None:
    return None


class Ask(msgspec.Struct):
    """What is asked: a store by its handle, the shard that it is in, and the shard that it moves to."""

    store: str
    source: Shard
    target: Shard
    directory: Shard
    actor: str
    request_id: str
    grace_s: float


async def plan(ask: Ask) -> list[Step]:
    """The steps that `move` would take; refuses what it would refuse, and is empty if the store is there already."""
    async with session(ask.directory.url) as directory:
        store = await find_store(directory, ask.store)
        if store.shard == ask.target.name and await OPEN_MOVE.maybe(directory, store.id) is None:
            return []
        async with session(ask.source.url) as source, session(ask.target.url) as target:
            await _check(directory, source, target, ask, store)
            tables = len(await moved_tables(source))
    return [
        Step(f"store {ask.store}", action)
        for action in (
            f"copy {tables} tables from {ask.source.shown} to {ask.target.shown}, while it is served",
            "catch up with its changes",
            "let its writes wait, and switch",
            f"delete its rows in {ask.source.shown}",
        )
    ]


@asynccontextmanager
async def _held(ask: Ask) -> AsyncGenerator[tuple[Connection, Residence]]:
    """The directory, and the lock that keeps every other process from the move."""
    async with session(ask.directory.url) as directory:
        store = await find_store(directory, ask.store)
        if not await take_lock(_TRY_LOCK, directory, store.id):
            raise ShardRefused(f"{ask.store} is being moved by another process; wait until it has ended")
        yield directory, store


@asynccontextmanager
async def _answering(shard: Shard, *, lost: bool) -> AsyncGenerator[Connection | None]:
    """A connection to a shard; None if it is lost, or does not answer."""
    async with AsyncExitStack() as stack:
        db: Connection | None = None
        if not lost:
            with suppress(ShardRefused):
                db = await stack.enter_async_context(session(shard.url))
        yield db


async def move(
    ask: Ask, report: Report = no_report, progress: Progress = no_progress, *, source_is_lost: bool = False
) -> Move | None:
    """Move a store, or continue its move; returns None if it is there already. After the switch, the move can end without its source
    if that is lost."""
    async with _held(ask) as (directory, store):
        found = await OPEN_MOVE.maybe(directory, store.id)
        if found is not None and found.state == "switched" and _is_asked(found, ask):
            async with (
                session(ask.target.url) as target,
                _answering(ask.source, lost=source_is_lost) as source,
            ):
                await _finish(ask, found, directory, source, target, report, source_is_lost=source_is_lost)
            return found
        if source_is_lost:
            return None
        async with (
            session(ask.source.url) as source,
            session(ask.target.url) as target,
            session(ask.source.url) as fence,
        ):
            if found is None:
                if store.shard == ask.target.name:
                    return None
                await _check(directory, source, target, ask, store)
                found = await _begin(directory, source, target, ask, store)
            if found is None or not _is_asked(found, ask):
                raise ShardRefused(f"{ask.store} moves elsewhere already; `stoa shard list` shows its move")
            if found.state == "undoing":
                raise ShardRefused(f"the move of {ask.store} is being undone; finish that with --undo first")
            await _Mover(ask, Sides(directory, source, target, fence), found, report, progress).run()
            await _finish(ask, found, directory, source, target, report)
        return found


def _is_asked(found: Move, ask: Ask) -> bool:
    return (found.source, found.target) == (ask.source.name, ask.target.name)


async def undo(ask: Ask, report: Report = no_report, *, target_is_lost: bool = False) -> Move | None:
    """Give a move up: the store stays in its shard. Returns None if it does not move.

    The source serves the store again, and forgets the target, also if that does not answer. Only the rest waits for the target, unless it
    is lost: only a switch opens the store there, so a server that comes back does not serve it.
    """
    async with _held(ask) as (directory, store), session(ask.source.url) as source:
        found = await OPEN_MOVE.maybe(directory, store.id)
        if found is None:
            return None
        if not _is_asked(found, ask):
            raise ShardRefused(f"{ask.store} moves elsewhere; `stoa shard list` shows its move")
        if found.state == "switched":
            raise ShardRefused(
                f"{ask.store} is in {ask.target.shown} already, and the move only has to end: run it again without --undo, "
                f"and then move the store back"
            )
        did = _reporter(ask, report)
        if found.state != "undoing":
            async with transaction(directory):
                await advance(directory, found, "preparing", "copying", "switching", state="undoing")
                await _note(directory, ask, "store.move_undone")
        await did("stopped")
        await switching.reopen(directory, source, found)
        await did("reopened")
        async with _answering(ask.target, lost=target_is_lost) as target:
            await _disconnect(found, source, target)
            await did("disconnected")
            if target is not None:
                await _delete_rows(target, found)
                await did("deleted")
            elif not target_is_lost:
                raise _waits_for(ask, ask.source, ask.target)
            await _forget_residence(found, found.source, source, target)
        await END.run(directory, found.id, "undone")
        return found


def _waits_for(ask: Ask, holder: Shard, away: Shard) -> ShardRefused:
    return ShardRefused(
        f"{ask.store} is served by {holder.shown}. {away.shown} does not answer, so its rows there are not deleted yet: run this "
        f"again when it is back; if it is lost for good, run `stoa shard remove {away.shown} --lost`"
    )


async def _begin(
    directory: Connection, source: Connection, target: Connection, ask: Ask, store: Residence
) -> Move | None:
    """Record the move; None if another move of the store has not ended. From here on, nothing changes the tables."""
    async with transaction(directory):
        if not await migrate.may_begin(directory):
            raise ShardRefused("the databases are being migrated; run this again when that has ended")
        await _check_schemas(source, target, ask)
        if not await takes_stores(directory, ask.target.name):
            raise ShardRefused(f"{ask.target.shown} is being drained or removed; choose another shard")
        begun = await BEGIN.maybe(directory, store.id, ask.source.name, ask.target.name)
        if begun is not None:
            await _note(directory, ask, "store.move_begun")
    return begun


async def _note(directory: Connection, ask: Ask, action: str) -> None:
    await audit.record(
        directory,
        audit.SERVICE,
        action,
        actor=ask.actor,
        subject=f"store:{ask.store}",
        detail={"source": ask.source.shown, "target": ask.target.shown},
        request_id=ask.request_id,
    )


async def _check(directory: Executor, source: Connection, target: Connection, ask: Ask, store: Residence) -> None:
    """Refuse a move that cannot work."""
    if store.shard != ask.source.name:
        raise ShardRefused(f"{ask.store} is not in {ask.source.shown} any more; run it again")
    if store.erasing:
        raise ShardRefused(f"{ask.store} is being erased; it does not move")
    if ask.target.state != "active":
        raise ShardRefused(f"{ask.target.shown} is being drained; choose another shard")
    await _check_schemas(source, target, ask)
    for db, shard in ((source, ask.source), (target, ask.target)):
        await check_same_text(directory, db, shard)
    refuse(*await source_faults(source, ask.source), *await target_faults(target, ask.target))


async def _check_schemas(source: Executor, target: Executor, ask: Ask) -> None:
    for db, shard in ((source, ask.source), (target, ask.target)):
        await check_schema(db, shard)


class _Mover:
    """One run of a move, from the state in which it is."""

    def __init__(self, ask: Ask, sides: Sides, move: Move, report: Report, progress: Progress) -> None:
        self._ask = ask
        self._sides = sides
        self._move = move
        self._did = _reporter(ask, report)
        self._progress = progress

    async def run(self) -> None:
        move, sides = self._move, self._sides
        if move.state == "preparing":
            await self._prepare()
            await advance(sides.directory, move, "preparing", state="copying")
            await self._did("prepared")
        if move.state == "copying":
            await wait_for_copy(sides.target, move.name, self._progress, self._make_days)
            # A target without statistics would choose wrong plans from the first request on.
            await sides.target.execute(f"ANALYZE {', '.join(each.name for each in await moved_tables(sides.target))}")
            await advance(sides.directory, move, "copying", state="switching")
            await self._did("copied")
        if move.state == "switching":
            await switching.switch(sides, move, await _slot_of(move, sides.source), self._make_days, self._did)

    async def _make_days(self) -> None:
        await make_days(self._sides.source, self._sides.target)

    async def _prepare(self) -> None:
        move, sides, name = self._move, self._sides, self._move.name
        # From now on the target's workers leave the rows of the store alone.
        await switching.set_residence(sides.target, move.store_id, here=False)
        await self._wait_for_store()
        if not await subscriptions.has_subscription(sides.target, name):
            await _delete_rows(sides.target, move)  # of an earlier move
        tables = await moved_tables(sides.source)
        await identify_rows(sides.source, tables)
        await self._make_days()
        await subscriptions.publish(sides.source, name, filtered(tables, move.store_id, move.id))
        await self._did("published")
        await subscriptions.create_slot(sides.source, await _slot_of(move, sides.source))
        await self._did("reserved")
        slot = await _slot_of(move, sides.source)
        await subscriptions.subscribe(sides.target, self._ask.source.url, name, slot, enabled=False)
        await subscriptions.enable(sides.source, sides.target, name)

    async def _wait_for_store(self) -> None:
        """The rows refer to the store, so its shard must know it first."""
        for _ in range(int(_PATIENCE_S / _POLL_S)):
            if await _KNOWS_STORE.one(self._sides.target, self._move.store_id):
                return
            await asyncio.sleep(_POLL_S)
        raise ShardRefused(
            f"{self._ask.target.shown} does not know the store yet; `stoa shard list` shows what keeps its global tables"
        )


def _reporter(ask: Ask, report: Report) -> Callable[[str], Awaitable[None]]:
    async def did(what: str) -> None:
        await report(Step(f"store {ask.store}", what))

    return did


async def _slot_of(move: Move, source: Executor) -> str:
    """Slots are known to the whole server, so the name contains the database."""
    return f"{move.name}_{await subscriptions.DATABASE_ID.one(source)}"


async def _finish(
    ask: Ask,
    move: Move,
    directory: Connection,
    source: Connection | None,
    target: Connection,
    report: Report,
    *,
    source_is_lost: bool = False,
) -> None:
    """After the switch: open the store if that is missing, end the replication, and delete what the source has."""
    did = _reporter(ask, report)
    await switching.set_residence(target, move.store_id, here=True)
    await _disconnect(move, source, target)
    await did("disconnected")
    if source is not None:
        await asyncio.sleep(max(0.0, ask.grace_s - await SECONDS_SINCE_SWITCH.one(directory, move.id)))
        await _delete_rows(source, move)
        await did("deleted")
    elif not source_is_lost:
        raise _waits_for(ask, ask.target, ask.source)
    await _forget_residence(move, move.target, source, target)
    await END.run(directory, move.id, "done")


async def _disconnect(move: Move, source: Connection | None, target: Connection | None) -> None:
    """End the replication, at both ends or at the one that is left."""
    if target is not None:
        await subscriptions.unsubscribe(target, move.name)
        await _FORGET_MARKER.run(target, move.id)
    if source is not None:
        await subscriptions.drop_slot(source, await _slot_of(move, source))
        await subscriptions.unpublish(source, move.name)
        await _FORGET_MARKER.run(source, move.id)


async def _forget_residence(move: Move, shard: str, *ends: Connection | None) -> None:
    """Where replication has brought the shard of the store, the note that overrides it is not needed any more."""
    for db in ends:
        if db is not None and await _KNOWS_SHARD.one(db, move.store_id, shard):
            await _FORGET_RESIDENCE.run(db, move.store_id)


async def _delete_rows(db: Connection, move: Move) -> None:
    """Delete the rows of the store in a database that does not hold it, in batches."""
    if await switching.is_here(db, move.store_id):
        raise AssertionError("a database that holds the store keeps its rows")
    steps = await erasing_steps(db)
    while await delete_rows(db, move.store_id, BATCH, steps):
        pass
