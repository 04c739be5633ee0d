"""Reads from a standby that has replayed everything that was committed before the request; otherwise from the primary."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import structlog

from stoa.db.connection import Connection, path_to_server
from stoa.db.errors import Unavailable, cause, is_lost
from stoa.db.placement import HAS_CITUS
from stoa.db.pool import Database
from stoa.db.query import Executor, Query

PATIENCE_S = 0.01  # how long a read waits for the standby; a standby further behind costs more than it saves
POLL_S = 0.001
BEHIND_S = 0.1  # how long reads go to the primary after one has waited in vain
AWAY_S = 1.0  # how often a lost standby is tried again, by no request
STATEMENT_MS, LOCK_MS = 2_000, 200  # a statement that takes longer, or meets a replayed lock, runs on the primary
_SERVERS = "positions in the log belong to no store"
# A commit is visible only after its record is flushed, so whatever a caller can have seen is at or before this position.
# Commits that do not wait for their flush are an exception: only delivery workers make them (`primary=True` of an endpoint).
POSITION = """left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) AS timeline,
              (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint AS position"""


class Fence(msgspec.Struct, frozen=True):
    """A position in the log of the primary. A standby that has replayed it shows everything committed before."""

    timeline: str  # changes with each promotion: the log of another timeline may have other contents
    position: int


class Primary(msgspec.Struct):
    system: int
    durable: bool


class Standby(msgspec.Struct):
    system: int
    timeline: str
    replayed: int


FENCE = Query(Fence, f"SELECT {POSITION}", unbound=_SERVERS)
PRIMARY = Query(
    Primary,
    """SELECT system_identifier AS system, current_setting('synchronous_commit') <> 'off' AS durable
         FROM pg_control_system()""",
    unbound=_SERVERS,
)
# The control file names a new timeline later than the receiver does, which only some roles may ask.
STANDBY = Query(
    Standby,
    """SELECT s.system_identifier AS system,
              lpad(upper(to_hex(greatest(r.min_recovery_end_timeline, c.timeline_id,
                                         (SELECT w.received_tli FROM pg_stat_wal_receiver w)))), 8, '0') AS timeline,
              (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint AS replayed
         FROM pg_control_system() s, pg_control_recovery() r, pg_control_checkpoint() c
        WHERE pg_is_in_recovery() AND pg_last_wal_replay_lsn() IS NOT NULL""",
    unbound=_SERVERS,
)
REPLAYED = Query(
    int,
    "SELECT (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint WHERE pg_is_in_recovery()",
    unbound=_SERVERS,
)


class Unusable(Exception):
    """The server cannot serve reads; the message says why."""


class _Behind(Exception):
    """The standby has not replayed a fence in time."""


class Replica:
    """A standby with its own pool. A lost one is tried again in the background; no request fails because of it."""

    def __init__(self, url: str, primary: Database, *, size: int) -> None:
        self.database = Database(url, size=size, statement_timeout_ms=STATEMENT_MS, lock_timeout_ms=LOCK_MS)
        self._url = url
        self._primary = primary
        self._system: int | None = None  # of the primary
        # The position of a server only grows while a connection to it lives; a restart may set it back.
        self._seen: WeakKeyDictionary[Connection, Standby] = WeakKeyDictionary()
        self._away = True
        self._retry_at = 0.0
        self._behind_until = 0.0
        self._retrying: asyncio.Task[float | None] | None = None
        self._next_fence: asyncio.Task[Fence] | None = None
        self._asking = asyncio.Lock()
        self._unreplayed: list[tuple[float, Fence]] = []  # with the time at which each was read
        # Counted for metrics.
        self.reads: Counter[str] = Counter()  # by server
        self.fallbacks: Counter[str] = Counter()  # by reason

    async def reader(self, fence: Fence | None) -> Executor:
        """What runs the reads of one request. `fence` was read after the request arrived; None reads it now."""
        reason = self._reason()
        if reason:
            self.fallbacks[reason] += 1
            return FencedReader(self, self._primary, None)
        return FencedReader(self, self._primary, fence or await self.fence())

    def _reason(self) -> str:
        """Why the standby is not asked now; empty if it is."""
        now = time.monotonic()
        if self._away:
            if now >= self._retry_at and self._retrying is None:
                self._retrying = asyncio.create_task(self.lag())
                self._retrying.add_done_callback(self._retried)
            return "away"
        if now < self._behind_until:
            return "behind"
        return "busy" if self.database.full else ""

    def _retried(self, _: object) -> None:
        self._retrying = None

    async def fence(self) -> Fence:
        """The position of the primary. Concurrent callers share a statement that begins after each of them has asked."""
        if self._next_fence is None:
            self._next_fence = asyncio.create_task(self._read_fence())
        return await asyncio.shield(self._next_fence)

    async def _read_fence(self) -> Fence:
        async with self._asking:
            self._next_fence = None
            return await FENCE.one(self._primary)

    async def fetch(self, fence: Fence, sql: str, *args: Any) -> Sequence[Sequence[Any]] | None:
        """Run one read on the standby; None if the primary must run it."""
        try:
            async with self.database.lend() as connection:
                await self._catch_up(connection, fence)
                rows = await connection.fetch(sql, *args)
        except Exception as error:  # noqa: BLE001 - the primary answers, or fails with the same error
            self._give_up(error)
            return None
        self.reads["replica"] += 1
        return rows

    async def _catch_up(self, connection: Connection, fence: Fence) -> None:
        standby = self._seen.get(connection)
        if standby is None or standby.timeline != fence.timeline:
            standby = self._seen[connection] = await self.examine(connection, fence)
        give_up_at = time.monotonic() + PATIENCE_S
        while standby.replayed < fence.position:
            replayed = await REPLAYED.maybe(connection)
            if replayed is None:
                raise Unusable("it is not a standby")
            standby.replayed = replayed
            if replayed < fence.position:
                if time.monotonic() >= give_up_at:
                    raise _Behind
                await asyncio.sleep(POLL_S)

    async def examine(self, connection: Connection, fence: Fence) -> Standby:
        """Refuse a server whose positions cannot be compared with those of the primary."""
        if (await path_to_server(self._url)).pooled:
            raise Unusable("a connection pooler leads to it, and may change the server")
        if self._system is None:
            if await HAS_CITUS.one(self._primary):
                raise Unusable("the database is a cluster, whose nodes have positions of their own")
            primary = await PRIMARY.one(self._primary)
            if not primary.durable:
                raise Unusable(
                    "synchronous_commit of the primary is off, so commits are visible before they have a position"
                )
            self._system = primary.system
        standby = await STANDBY.maybe(connection)
        if standby is None:
            raise Unusable("it is not a standby")
        if standby.system != self._system:
            raise Unusable("it is not a copy of the primary")
        if standby.timeline != fence.timeline:
            raise Unusable("it does not follow the promoted primary yet")
        return standby

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, _Behind):
            self.fallbacks["behind"] += 1
            self._behind_until = time.monotonic() + BEHIND_S
        elif isinstance(error, Unusable) or (isinstance(error, Unavailable) and is_lost(error.__cause__ or error)):
            self.fallbacks["away"] += 1
            self._lose(error)
        else:
            self.fallbacks["failed"] += 1

    def _lose(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + AWAY_S
        if not self._away:
            self._away = True
            structlog.get_logger().warning("the replica is away", **cause(error))

    async def lag(self) -> float | None:
        """How many seconds the standby is behind; None while it is away. A standby that answers serves reads again."""
        try:
            now, fence = time.monotonic(), await self.fence()
            async with self.database.lend() as connection:
                standby = self._seen[connection] = await self.examine(connection, fence)
        except Exception as error:  # noqa: BLE001 - whatever it is, the primary serves
            self._lose(error)
            return None
        if self._away:
            self._away = False
            structlog.get_logger().info("the replica serves reads")
        self._unreplayed.append((now, fence))
        self._unreplayed = [each for each in self._unreplayed if each[1].position > standby.replayed]
        return now - self._unreplayed[0][0] if self._unreplayed else 0.0

    async def close(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
        await self.database.close()


class FencedReader:
    """Runs the reads of one request on the standby; from the first one that it cannot run, on the primary."""

    __slots__ = ("_fence", "_primary", "_replica")

    def __init__(self, replica: Replica, primary: Database, fence: Fence | None) -> None:
        self._replica = replica
        self._primary = primary
        self._fence = fence

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        if self._fence is not None:
            rows = await self._replica.fetch(self._fence, sql, *args)
            if rows is not None:
                return rows
            self._fence = None  # what follows must not be older than what the primary shows
        self._replica.reads["primary"] += 1
        return await self._primary.fetch(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        return await self._primary.execute(sql, *args)


async def problem_of(url: str, primary: Database) -> str | None:
    """Why this server cannot serve reads now; None if it can."""
    replica = Replica(url, primary, size=1)
    try:
        fence = await replica.fence()
        async with replica.database.lend() as connection:
            await replica.examine(connection, fence)
    except (Unusable, Unavailable) as error:
        return str(error)
    finally:
        await replica.close()
    return None
