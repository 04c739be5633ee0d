"""The databases of the service: the directory, and the shards, whose pools open when they are first used.

Each shard holds all rows of some stores. The directory knows which, and the global tables are written there; logical
replication copies them to the shards, where they are read.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import msgspec
import structlog

from stoa.db.errors import PostgresError, Unavailable, cause
from stoa.db.pool import Database
from stoa.db.query import Command, Query

T = TypeVar("T")
DIRECTORY = ""  # the name of the directory's own database, as `stores.shard` has it
LOOK_S = 1.0  # how often a process looks for new shards
BEAT_S = 0.25  # how often it measures the age of the copies of global tables
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
ARRIVED = Query(int, "SELECT beat FROM directory_beats", unbound=_SHARDS)
BEAT = Query(
    Beat,
    "SELECT beat, extract(epoch FROM clock_timestamp() - beaten_at)::float8 AS age FROM directory_beats",
    unbound=_SHARDS,
)
RAISE_BEAT = Command(
    """INSERT INTO directory_beats (beat) VALUES (1) ON CONFLICT (id) DO UPDATE
           SET beat = directory_beats.beat + 1, beaten_at = now()
         WHERE directory_beats.beaten_at < now() - interval '200 milliseconds'""",
    unbound=_SHARDS,
)


class UnknownShard(Unavailable):
    """The directory names a shard that is not registered, or not yet."""


class FanOut(msgspec.Struct, Generic[T]):
    """What several databases answered, by shard, and the shards that did not answer."""

    answers: dict[str, T]
    away: list[str]


class Shards:
    """Gives the database of a store. With the first shard, every pool begins to fence: transactions enter their store."""

    def __init__(self, directory: Database, read_url: Callable[[int, bytes], str], *, size: int = 10) -> None:
        self.directory = directory
        self._read_url = read_url
        self._size = size
        self._databases: dict[str, Database] = {}
        self._beats: deque[tuple[int, float]] = deque(maxlen=64)  # of the directory, each with its time
        self._copied_at: dict[str, float] = {}  # by shard: everything before this time has arrived there

    @property
    def databases(self) -> Mapping[str, Database]:
        """Every database by the name of its shard, the directory's first."""
        return {DIRECTORY: self.directory, **self._databases}

    async def database(self, name: str) -> Database:
        """The database of a shard."""
        if name == DIRECTORY:
            return self.directory
        if name not in self._databases:
            await self.look()
        if name not in self._databases:
            raise UnknownShard(f"shard {name} is not registered")
        return self._databases[name]

    async def look(self) -> None:
        """Read which shards there are, and their URLs."""
        found = await SHARDS.all(self.directory)
        urls = {shard.name: self._read_url(shard.id, shard.url) for shard in found}
        for name in [name for name, database in self._databases.items() if urls.get(name) != database.url]:
            await self._databases.pop(name).close()  # lent connections close when they are released
        for name, url in urls.items():
            if name not in self._databases:
                self._databases[name] = Database(url, size=self._size)
        if found:
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
        await RAISE_BEAT.run(self.directory)
        asked_at = time.monotonic()
        beat = await BEAT.maybe(self.directory)
        if beat is not None:
            self._beats.append((beat.beat, asked_at - beat.age))
        arrived = await self.fan_out(ARRIVED.maybe, of=self._databases)
        for name, newest in arrived.answers.items():
            times = [at for number, at in self._beats if newest is not None and number <= newest]
            if times:
                self._copied_at[name] = max(times)

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
            except (PostgresError, Unavailable) as error:
                structlog.get_logger().warning("looking for shards failed", **cause(error))
            await asyncio.sleep(BEAT_S if self._databases else LOOK_S)

    async def fan_out(
        self, ask: Callable[[Database], Awaitable[T]], of: Mapping[str, Database] | None = None
    ) -> FanOut[T]:
        """Ask every database at the same time. A database that is away is named, and the others answer."""
        asked = self.databases if of is None else of
        outcomes = await asyncio.gather(*(ask(database) for database in asked.values()), return_exceptions=True)
        result = FanOut[T]({}, [])
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Unavailable):
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
