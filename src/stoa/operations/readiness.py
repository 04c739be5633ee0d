"""Whether this process can serve requests: it is not about to exit, and the database responds, has the right schema and
accepts writes."""

import time
from typing import Any

import msgspec
import structlog

from stoa.db import migrate, service_facts
from stoa.db.errors import PostgresError, Unavailable, cause
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.operations.measuring import problems, read_queues

CACHE_S = 1.0  # callers may ask often, but the database is asked once per second


class ReadinessResponse(msgspec.Struct):
    status: int
    body: dict[str, Any]
    retry_after_s: int = 0


class Readiness:
    """Responds to /ready, and /ready?deep, which also looks at the queues."""

    def __init__(self, database: Database, shards: Shards | None = None) -> None:
        self._database = database
        self._shards = shards
        self._written_at = 0.0
        self._measured_at = 0.0
        self._problems: dict[str, Any] = {}
        self.stopping = False  # set when this service is about to exit

    async def check(self) -> ReadinessResponse:
        if self.stopping:
            return ReadinessResponse(503, {"status": "stopping"}, 1)
        try:
            version = await migrate.version(self._database)
        except Unavailable as error:
            structlog.get_logger().warning("the database is unavailable", **cause(error))
            return await self._without_directory("no database")
        if version < migrate.LATEST:
            return ReadinessResponse(503, {"status": "schema is behind", "schema": version, "needs": migrate.LATEST}, 5)
        if not await self._writes():
            return await self._without_directory("the database does not accept writes")
        return ReadinessResponse(200, {"status": "ready", "schema": version})

    async def check_deeply(self) -> ReadinessResponse:
        response = await self.check()
        if response.status != 200:
            return response
        now = time.monotonic()
        try:
            if now - self._measured_at >= CACHE_S:
                self._problems = {**problems(await read_queues(self._database)), **await self._problems_of_shards()}
                self._measured_at = now
        except (PostgresError, Unavailable):
            return ReadinessResponse(503, {"status": "the queues cannot be read"}, 1)
        found = self._problems
        return ReadinessResponse(503, {"status": "degraded", "problems": found}, 5) if found else response

    async def _without_directory(self, problem: str) -> ReadinessResponse:
        """While a shard answers, its stores are served, and a proxy must not take this process out."""
        shards = self._databases_of_shards()
        if self._shards is not None and (await self._shards.fan_out(migrate.version, of=shards)).answers:
            return ReadinessResponse(200, {"status": "ready", "directory": problem})
        return ReadinessResponse(503, {"status": problem}, 1)

    def _databases_of_shards(self) -> dict[str, Database]:
        return {name: each for name, each in self._shards.databases.items() if name} if self._shards else {}

    async def _problems_of_shards(self) -> dict[str, Any]:
        """What is wrong with each shard, by its name. A shard that is away costs its stores 503s, and no others."""
        shards = self._databases_of_shards()
        if self._shards is None or not shards:
            return {}
        versions = await self._shards.fan_out(migrate.version, of=shards)
        behind = {name for name, version in versions.answers.items() if version < migrate.LATEST}
        queues = await self._shards.fan_out(read_queues, of={name: shards[name] for name in versions.answers})
        away = {f"shard {name}": "cannot be reached" for name in {*versions.away, *queues.away}}
        old = {f"shard {name}": "schema is behind" for name in behind}
        late = {f"shard {name}": found for name, each in queues.answers.items() if (found := problems(each))}
        return late | old | away

    async def _writes(self) -> bool:
        if time.monotonic() - self._written_at < CACHE_S:
            return True
        try:
            await service_facts.WRITE.run(self._database)
        except (PostgresError, Unavailable) as error:
            structlog.get_logger().warning("the database does not accept writes", **cause(error))
            return False
        self._written_at = time.monotonic()
        return True
