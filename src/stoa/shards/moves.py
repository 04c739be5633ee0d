"""The moves of stores as the directory records them: each has a state, and a store has one move at a time."""

from datetime import datetime

import msgspec

from stoa.access.app_changes import APP_CHANGED, AppChange
from stoa.db.query import Command, Executor, Query
from stoa.db.shard_outbox import send_to_store
from stoa.shards.registry import DIRECTORY, ShardRefused

_OPERATOR = "an operator names the store by its handle"
_MOVES = "a move is known by its own id"


class Move(msgspec.Struct):
    """A move of a store from the shard `source` to the shard `target`."""

    id: int
    store_id: int
    source: str
    target: str
    state: str

    @property
    def name(self) -> str:
        """The name of its publication and of its subscription."""
        return f"stoa_move_{self.id}"


class MoveStatus(msgspec.Struct):
    """A move as an operator sees it."""

    store: str
    source: str
    target: str
    state: str
    pause_ms: int | None
    created_at: datetime
    ended_at: datetime | None


class Ends(msgspec.Struct):
    """A move that has not ended, by the handle of its store."""

    store: str
    source: str
    target: str


class Residence(msgspec.Struct):
    """A store, and the shard that holds it."""

    id: int
    shard: str
    erasing: bool


_SHOWN = f"coalesce(nullif(%s, ''), '{DIRECTORY}')"
FIND_STORE = Query(
    Residence,
    """SELECT s.id, s.shard, EXISTS (
                  SELECT FROM store_closures c WHERE c.store_id = s.id AND c.erase_at <= now()) AS erasing
         FROM stores s WHERE s.handle = $1""",
    unbound=_OPERATOR,
)
OPEN_MOVE = Query(
    Move,
    "SELECT id, store_id, source, target, state FROM store_moves WHERE store_id = $1 AND ended_at IS NULL",
    unbound=_MOVES,
)
KNOWS_MOVES = Query(bool, "SELECT to_regclass('store_moves') IS NOT NULL", unbound=_MOVES)
# Moves that can still bring rows to their target; those that are being undone cannot.
MOVES_UNDER_WAY = Query(
    Ends,
    """SELECT s.handle AS store, m.source, m.target FROM store_moves m JOIN stores s ON s.id = m.store_id
        WHERE m.ended_at IS NULL AND m.state <> 'undoing' ORDER BY m.id""",
    unbound=_MOVES,
)
OPEN_MOVES_OF = Query(
    Ends,
    """SELECT s.handle AS store, m.source, m.target FROM store_moves m JOIN stores s ON s.id = m.store_id
        WHERE m.ended_at IS NULL AND $1 IN (m.source, m.target) ORDER BY m.id""",
    unbound=_MOVES,
)
# Without a row if a move of the store has not ended, or the store is not at the source any more.
BEGIN = Query(
    Move,
    """INSERT INTO store_moves (store_id, source, target)
       SELECT s.id, s.shard, $3 FROM stores s WHERE s.id = $1 AND s.shard = $2
           ON CONFLICT (store_id) WHERE ended_at IS NULL DO NOTHING
       RETURNING id, store_id, source, target, state""",
    unbound=_MOVES,
)
# A step of a move counts only in the state that it follows, so a mover that was given up on cannot go on.
ADVANCE = Command("UPDATE store_moves SET state = $3 WHERE id = $1 AND state = ANY ($2::text[])", unbound=_MOVES)
# The moment of the switch: from here on the store belongs to the target, and the move can only go on. Without a row if the store
# was erased, or the move was undone. A message lets the store follow what its apps changed during the move.
SWITCH = Query(
    int,
    f"""WITH waiting AS MATERIALIZED (
           SELECT store_id, source, target FROM store_moves WHERE id = $1 AND state = 'switching' FOR UPDATE),
       moved AS (
           UPDATE stores s SET shard = w.target FROM waiting w WHERE s.id = w.store_id AND s.shard = w.source RETURNING s.id),
       told AS (
           INSERT INTO shard_outbox (store_id, kind, content) SELECT id, '{APP_CHANGED}', '{{}}' FROM moved)
       UPDATE store_moves m SET state = 'switched', switched_at = now() FROM moved WHERE m.id = $1 RETURNING m.store_id""",
    unbound=_MOVES,
)
HAS_SWITCHED = Query(bool, "SELECT switched_at IS NOT NULL FROM store_moves WHERE id = $1", unbound=_MOVES)
NOTE_PAUSE = Command("UPDATE store_moves SET pause_ms = $2 WHERE id = $1", unbound=_MOVES)
END = Command("UPDATE store_moves SET state = $2, ended_at = now() WHERE id = $1 AND ended_at IS NULL", unbound=_MOVES)
SECONDS_SINCE_SWITCH = Query(
    float,
    "SELECT extract(epoch FROM clock_timestamp() - switched_at)::float8 FROM store_moves WHERE id = $1",
    unbound=_MOVES,
)
RECENT = Query(
    MoveStatus,
    f"""SELECT s.handle AS store, {_SHOWN % "m.source"} AS source, {_SHOWN % "m.target"} AS target, m.state, m.pause_ms,
               m.created_at, m.ended_at
          FROM store_moves m JOIN stores s ON s.id = m.store_id
         WHERE m.ended_at IS NULL OR m.ended_at > now() - interval '1 day'
         ORDER BY m.id DESC LIMIT 100""",
    unbound=_MOVES,
)
# The state of a move is recorded at each step; a move of a large store copies for hours, but a switch takes seconds.
MOVES_LEFT = Query(
    int,
    """SELECT count(*) FROM store_moves m WHERE m.ended_at IS NULL AND NOT EXISTS (
           SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 7306234 AND l.objsubid = 2
              AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND l.objid = (m.store_id % 2147483647)::oid)""",
    unbound=_MOVES,
)


async def find_store(directory: Executor, handle: str) -> Residence:
    store = await FIND_STORE.maybe(directory, handle)
    if store is None:
        raise ShardRefused(f'there is no store "{handle}"; list the stores to see their handles')
    return store


async def follow_apps(directory: Executor, store_id: int) -> None:
    """Let a store that was closed for a while follow what its apps changed meanwhile."""
    await send_to_store(directory, store_id, APP_CHANGED, AppChange())


async def advance(directory: Executor, move: Move, *after: str, state: str) -> None:
    """Record the next state of a move. If another process has ended or undone it, this one stops."""
    if not await ADVANCE.run(directory, move.id, [*after, state], state):
        raise ShardRefused("another process has ended or undone this move; run it again")
    move.state = state
