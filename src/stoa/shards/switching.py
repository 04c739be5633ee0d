"""The moment in which a store changes its shard: its writes wait, the last ones are replayed, and the directory decides.

Writers hold the lock of the store shared, and look whether the store is here. The mover takes the lock exclusively, so that running
writes end and new ones wait. It closes the store at the source before it waits for the last row, so nothing is written there
even if the lock is lost. The store is open in at most one shard at any moment.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from stoa.db.connection import APPLICATION_NAME, Connection
from stoa.db.errors import LOCK_TIMEOUT, InterfaceError, PostgresError, sqlstate
from stoa.db.pool import FENCING
from stoa.db.query import Command, Executor, Query
from stoa.events.notify import NOTIFIER_NAME
from stoa.shards import subscriptions
from stoa.shards.moves import HAS_SWITCHED, NOTE_PAUSE, SWITCH, Move, follow_apps
from stoa.shards.registry import SESSION_NAME, ShardRefused
from stoa.shards.tables import raise_ids
from stoa.webhooks.delivery.queries import LISTENER_NAME

_NEAR_S = 0.3  # a change arrives at the target within this time before the store is fenced
_AWAY_S = 60.0  # without a subscriber, until an operator has to look
_LOCK_MS = 600  # writes queue behind a lock that waits
_REPLAY_S = 1.5  # of one look whether the target catches up, while nobody waits for it
# From the beginning of a pause until the last write is replayed. Otherwise the store is opened again, and another try follows. The
# rest of the switch takes a few round trips, so no pause is longer than a second.
_MOST_S = 0.8
_TRIES = 20
_PAUSE_S = (0.5, 2.0)
_POLL_S = 0.002
_MOVES = "a move is known by its own id"

LOCK = Query(str, "SELECT pg_advisory_xact_lock(store_lock($1))::text", unbound=_MOVES)
IS_HERE = Query(bool, "SELECT store_is_here($1)", unbound=_MOVES)
_SET_RESIDENCE = Command(
    """INSERT INTO store_residence (store_id, here) VALUES ($1, $2)
           ON CONFLICT (store_id) DO UPDATE SET here = excluded.here""",
    unbound=_MOVES,
)
# The marker is written with the note that closes the store, so no write of the store can follow it.
_CLOSE = Query(
    int,
    """WITH closed AS (
           INSERT INTO store_residence (store_id, here) VALUES ($1, false)
               ON CONFLICT (store_id) DO UPDATE SET here = false)
       INSERT INTO move_markers AS m (move_id, token) VALUES ($2, 1)
           ON CONFLICT (move_id) DO UPDATE SET token = m.token + 1
       RETURNING token""",
    unbound=_MOVES,
)
# After the store was closed, and before it is open elsewhere: a read of a worker that knew the store to be here finds another number.
COUNT_CLOSING = Query(int, "SELECT nextval('store_closings')", unbound=_MOVES)
_MARK = Query(
    int,
    """INSERT INTO move_markers AS m (move_id, token) VALUES ($1, 1)
           ON CONFLICT (move_id) DO UPDATE SET token = m.token + 1
       RETURNING token""",
    unbound=_MOVES,
)
# Sessions of Stoa at the source that may write the store without entering it.
_UNFENCED = Query(
    int,
    f"""SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND application_name LIKE '{APPLICATION_NAME}%'
           AND application_name NOT LIKE '%{FENCING}' AND application_name <> ALL ($1::text[])""",
    unbound=_MOVES,
)
_WRITE_NO_STORE = [SESSION_NAME, NOTIFIER_NAME, LISTENER_NAME]
_REPLAYED = Query(int, "SELECT token FROM move_markers WHERE move_id = $1", unbound=_MOVES)

Did = Callable[[str], Awaitable[None]]


class Sides(msgspec.Struct):
    """The connections of a move. `fence` leads to the source and holds the lock, in a transaction of its own."""

    directory: Connection
    source: Connection
    target: Connection
    fence: Connection


async def is_here(db: Executor, store_id: int) -> bool:
    return await IS_HERE.one(db, store_id)


async def set_residence(db: Executor, store_id: int, *, here: bool) -> None:
    await _SET_RESIDENCE.run(db, store_id, here)


async def switch(sides: Sides, move: Move, slot: str, meanwhile: Callable[[], Awaitable[None]], did: Did) -> None:
    """Switch the store to the target, in as many tries as it takes to keep each pause short."""
    await _wait_for_fencing(sides)
    for _ in range(_TRIES):
        await _catch_up(sides, move, slot, meanwhile)
        if await _try_to_switch(sides, move, did):
            return
        await asyncio.sleep(random.uniform(*_PAUSE_S))  # noqa: S311 - jitter
    raise ShardRefused(
        f"the store could not be fenced in {_TRIES} tries, because its transactions run for more than half a second, or "
        "the target replays too slowly; it is served as before. Run this again"
    )


async def _wait_for_fencing(sides: Sides) -> None:
    """Wait until every process that serves the source enters the store; running ones learn of the first shard within seconds."""
    limit = time.monotonic() + _AWAY_S
    while sessions := await _UNFENCED.one(sides.source, _WRITE_NO_STORE):
        if time.monotonic() > limit:
            raise ShardRefused(
                f"{sessions} sessions at the source belong to processes that do not fence their writes: stop commands that "
                "run there, and services of an earlier release. Then run this again"
            )
        await asyncio.sleep(0.2)


async def _catch_up(sides: Sides, move: Move, slot: str, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Wait until a change arrives at the target at once, before anybody has to wait for it."""
    connected = time.monotonic()
    while True:
        token, marked = await _MARK.one(sides.source, move.id), time.monotonic()
        while not await _replayed(sides.target, move, token, _REPLAY_S):
            await meanwhile()
            lag = await subscriptions.lag(sides.source, slot)
            if lag is None:
                raise ShardRefused("the replication slot of this move is lost; undo the move, and begin again")
            connected = time.monotonic() if lag.connected else connected
            if time.monotonic() - connected > _AWAY_S:
                raise ShardRefused(
                    "the target does not fetch the changes; the log of its server says why. Then run this again"
                )
        if time.monotonic() - marked < _NEAR_S:
            return


async def _try_to_switch(sides: Sides, move: Move, did: Did) -> bool:
    started = time.monotonic()
    await sides.fence.execute(f"BEGIN; SET LOCAL lock_timeout = {_LOCK_MS}")
    try:
        await LOCK.one(sides.fence, move.store_id)
    except PostgresError as error:
        await sides.fence.execute("ROLLBACK")
        if sqlstate(error) == LOCK_TIMEOUT:
            return False
        raise
    await did("fenced")
    token = await _CLOSE.one(sides.source, move.store_id, move.id)
    await COUNT_CLOSING.one(sides.source)
    if not await _holds(sides.fence):
        await reopen(sides.directory, sides.source, move)
        raise ShardRefused("the session that fenced the store is lost; the store is served as before. Run this again")
    await did("closed")
    if not await _replayed(sides.target, move, token, started + _MOST_S - time.monotonic()):
        await _open(sides.directory, sides.fence, move)
        return False
    await did("replayed")
    await raise_ids(sides.source, sides.target, move.store_id)
    await did("raised its ids")
    if await SWITCH.maybe(sides.directory, move.id) is None:
        raise ShardRefused("the store was erased, or another process has undone this move; undo it, or run it again")
    move.state = "switched"
    await did("switched")
    await set_residence(sides.target, move.store_id, here=True)
    await _release(sides.fence)  # writers go on, and find the store in its new shard
    await NOTE_PAUSE.run(sides.directory, move.id, round(1000 * (time.monotonic() - started)))
    await did("opened")
    return True


async def _holds(fence: Connection) -> bool:
    """Whether the lock was held until the store was closed; otherwise a write could have begun before and ended after that."""
    try:
        await fence.execute("SELECT 1")
    except (PostgresError, InterfaceError, OSError):
        return False
    return True


async def _release(fence: Connection) -> None:
    """Let writers go on. The lock may be lost by now, which does no harm: the store is closed by then."""
    with suppress(PostgresError, InterfaceError, OSError):
        await fence.execute("ROLLBACK")


async def _replayed(target: Executor, move: Move, token: int, within_s: float) -> bool:
    """Whether the target shows the marker, and so everything that was committed before it."""
    limit = time.monotonic() + within_s
    while await _REPLAYED.maybe(target, move.id) != token:
        if time.monotonic() > limit:
            return False
        await asyncio.sleep(_POLL_S)
    return True


async def reopen(directory: Connection, source: Connection, move: Move) -> None:
    """Serve the store at the source again, after the last process that fenced it is gone, unless that one has switched the store."""
    await source.execute("BEGIN")
    await LOCK.one(source, move.store_id)
    if await HAS_SWITCHED.one(directory, move.id):
        await source.execute("ROLLBACK")
        raise ShardRefused("another process has switched the store meanwhile; run this again")
    await _open(directory, source, move)


async def _open(directory: Connection, fence: Connection, move: Move) -> None:
    """Serve the store at the source again, by the transaction that holds its lock: if that is lost, another process may have switched
    the store. What its apps changed while it was closed follows."""
    await set_residence(fence, move.store_id, here=True)
    await fence.execute("COMMIT")
    await follow_apps(directory, move.store_id)
