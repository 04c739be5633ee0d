"""The databases of the service: the directory, and the shards, whose pools open when they are first used.

Each shard holds all rows of some stores. The directory knows which, and the global tables are written there; logical
replication copies them to the shards, where they are read.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
import structlog

from stoa.db.errors import Unavailable, cause
from stoa.db.pool import Database
from stoa.db.query import Executor, Query

T = TypeVar("T")
DIRECTORY = ""  # the name of the directory's own database, as `stores.shard` has it
DIRECTORY_NAME = "directory"  # what people call it
LOOK_S = 1.0  # how often a process looks for new shards
BEAT_S = 0.25  # how often it measures the age of the copies of global tables
_YOUNG_S = 0.2  # a beat that another process has raised within this time is not raised again
CATCH_UP_S = 5.0  # how long somebody waits for the copies to be as new as their request
_POLL_S = 0.005
_SHARDS = "a shard belongs to no store"


class Shard(msgspec.Struct):
    id: int
    name: str
    url: bytes  # encrypted
    state: str


class Beat(msgspec.Struct):
    beat: int
    age: float  # in seconds


SHARDS = Query(Shard, "SELECT id, name, url, state FROM shards ORDER BY name", unbound=_SHARDS)
# The state of a shard, which stays as it is until the transaction ends. So a store that it gets is committed before the shard is
# drained or removed, or is not created.
HOLD_SHARD = Query(str, "SELECT state FROM shards WHERE name = $1 FOR NO KEY UPDATE", unbound=_SHARDS)
SHARD_OF = Query(str, "SELECT shard FROM stores WHERE id = $1", unbound="the row of the store itself")
# The stores of which a database has rows, though it does not hold them: a move has taken them away, or is copying them here.
ABSENT = Query(int, "SELECT store_id FROM store_residence WHERE NOT here", unbound=_SHARDS)
ARRIVED = Query(int, "SELECT beat FROM directory_beats", unbound=_SHARDS)
BEAT = Query(
    Beat,
    "SELECT beat, extract(epoch FROM clock_timestamp() - beaten_at)::float8 AS age FROM directory_beats",
    unbound=_SHARDS,
)
NEXT_BEAT = Query(
    int,
    """INSERT INTO directory_beats (beat) VALUES (1) ON CONFLICT (id) DO UPDATE
           SET beat = directory_beats.beat + 1, beaten_at = excluded.beaten_at RETURNING beat""",
    unbound=_SHARDS,
)


async def takes_stores(db: Executor, name: str) -> bool:
    """Whether a shard takes stores, until the transaction ends; the directory always does."""
    return name == DIRECTORY or await HOLD_SHARD.maybe(db, name) == "active"


class UnknownShard(Unavailable):
    """The directory names a shard that is not registered, or not yet."""


class Answers(msgspec.Struct, Generic[T]):
    """What several databases answered, by shard, and the shards that did not answer."""

    answers: dict[str, T]
    away: list[str]


class Shards:
    """Gives the database of a store. With the first shard, every pool begins to fence: transactions enter their store."""

    def __init__(
        self,
        directory: Database,
        read_url: Callable[[int, bytes], str],
        *,
        size: int = 10,
        statement_timeout_ms: int = 5_000,
    ) -> None:
        self.directory = directory
        self._read_url = read_url
        self._size = size
        self._statement_timeout_ms = statement_timeout_ms
        self._databases: dict[str, Database] = {}
        self._beats: deque[tuple[int, float]] = deque(maxlen=64)  # of the directory, each with its time
        self._copied_at: dict[str, float] = {}  # by shard: everything before this time has arrived there

    @property
    def databases(self) -> Mapping[str, Database]:
        """Every database by the name of its shard, the directory's first."""
        return {DIRECTORY: self.directory, **self._databases}

    @property
    def copies(self) -> Mapping[str, Database]:
        """The shards, each with copies of the global tables."""
        return self._databases

    def up_to_date(self, within_s: float) -> list[str]:
        """The shards whose copies are younger than this, and that have a connection for one more statement."""
        return [name for name, database in self._databases.items() if self.age(name) < within_s and not database.full]

    async def database(self, name: str) -> Database:
        """The database of a shard."""
        if name == DIRECTORY:
            return self.directory
        if name not in self._databases:
            await self.look()
        if name not in self._databases:
            raise UnknownShard(f"shard {name} is not registered")
        return self._databases[name]

    async def of_store(self, store_id: int) -> Database:
        """The database of a store, which the directory is asked for unless it holds all of them."""
        if not self.directory.fenced:
            return self.directory
        return await self.database(await SHARD_OF.maybe(self.directory, store_id) or DIRECTORY)

    async def urls(self) -> dict[str, str]:
        """The URLs of the shards by name, as the directory has them now."""
        return {shard.name: self._read_url(shard.id, shard.url) for shard in await SHARDS.all(self.directory)}

    async def look(self) -> None:
        """Open a pool for each new shard, close those that are gone, and fence as soon as there is one."""
        urls = await self.urls()
        for name in [name for name, database in self._databases.items() if urls.get(name) != database.url]:
            await self._databases.pop(name).close()  # lent connections close when they are released
        for name, url in urls.items():
            if name not in self._databases:
                self._databases[name] = Database(url, size=self._size, statement_timeout_ms=self._statement_timeout_ms)
        if urls:
            for database in self.databases.values():
                database.fence()

    def age(self, name: str) -> float:
        """How many seconds old the copies of global tables can be at a shard; infinite if that is unknown."""
        if name == DIRECTORY:
            return 0.0
        copied_at = self._copied_at.get(name)
        return math.inf if copied_at is None else time.monotonic() - copied_at

    async def measure(self) -> None:
        """Note how much of what the directory committed has arrived at each shard."""
        asked_at = time.monotonic()
        beat = await BEAT.maybe(self.directory)
        # Of many processes, one writes. A beat of the future says nothing: the clock has stepped back since.
        if beat is None or not 0 <= beat.age <= _YOUNG_S:
            asked_at = time.monotonic()
            beat = Beat(await NEXT_BEAT.one(self.directory), 0.0)
        self._beats.append((beat.beat, asked_at - beat.age))
        arrived = await self.fan_out(ARRIVED.maybe, of=self._databases)
        for name, newest in arrived.answers.items():
            times = [at for number, at in self._beats if newest is not None and number <= newest]
            if times:
                self._copied_at[name] = max(times)

    async def catch_up(self, name: str, within_s: float = CATCH_UP_S) -> None:
        """Wait until a shard has everything that the directory has committed until now, which takes milliseconds."""
        if name == DIRECTORY:
            return
        shard, beat = await self.database(name), await NEXT_BEAT.one(self.directory)
        limit = time.monotonic() + within_s
        while (await ARRIVED.maybe(shard) or 0) < beat:
            if time.monotonic() > limit:
                raise Unavailable(f"the global tables of shard {name} are behind")
            await asyncio.sleep(_POLL_S)

    async def watch(self) -> None:
        """Look for shards and measure their copies until canceled; a service without shards only looks."""
        looked_at = -math.inf
        while True:
            try:
                if time.monotonic() - looked_at >= LOOK_S:
                    looked_at = time.monotonic()
                    await self.look()
                if self._databases:
                    await self.measure()
            except Exception as error:  # noqa: BLE001 - the next look may succeed
                structlog.get_logger().warning("looking for shards failed", **cause(error))
            await asyncio.sleep(BEAT_S if self._databases else LOOK_S)

    async def fan_out(
        self,
        ask: Callable[[Database], Awaitable[T]],
        of: Mapping[str, Database] | None = None,
        seconds: float | None = None,
    ) -> Answers[T]:
        """Ask every database at the same time. A shard that is away, or does not answer within these seconds, is named, and the
        others answer."""
        asked = self.databases if of is None else of

        async def answer(name: str, database: Database) -> T:
            async with asyncio.timeout(seconds if name else None):
                return await ask(database)

        outcomes = await asyncio.gather(*(answer(*each) for each in asked.items()), return_exceptions=True)
        result = Answers[T]({}, [])
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Unavailable | TimeoutError):
                result.away.append(name)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                result.answers[name] = outcome
        return result

    async def close(self) -> None:
        """Close the shards' connections; the directory's belong to its owner."""
        for database in self._databases.values():
            await database.close()


async def run_in_shards(
    shards: Shards,
    stop: asyncio.Event,
    run: Callable[[str, asyncio.Event], Awaitable[None]],
    fence: Callable[[], None],
) -> None:
    """Do the same work in each shard until the stop, also in those that are added meanwhile. `run` gets the URL of a shard, and
    an event that is set when it must end; `fence` is called as soon as there is a shard. Work that fails starts again."""
    running: dict[tuple[str, str], tuple[asyncio.Event, asyncio.Future[None]]] = {}
    while not stop.is_set():
        try:
            wanted = set((await shards.urls()).items())
        except Exception as error:  # noqa: BLE001 - as before, until the directory is back
            structlog.get_logger().warning("looking for shards failed", **cause(error))
            wanted = set(running)
        if wanted:
            fence()
        for key, (ending, task) in list(running.items()):
            if task.done() or key not in wanted:
                ending.set()
                [outcome] = await asyncio.gather(task, return_exceptions=True)
                if isinstance(outcome, Exception):
                    structlog.get_logger().warning("work in a shard failed", shard=key[0], **cause(outcome))
                del running[key]
        for key in wanted - set(running):
            ending = asyncio.Event()
            running[key] = ending, asyncio.ensure_future(run(key[1], ending))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_S)
    for ending, _ in running.values():
        ending.set()
    await asyncio.gather(*(task for _, task in running.values()), return_exceptions=True)
