"""Whether this process can serve requests: it is not about to exit, and the database responds, has the right schema and
accepts writes."""

import time
from typing import Any

import msgspec
import structlog

from stoa.db import migrate, service_facts
from stoa.db.errors import PostgresError, Unavailable, cause
from stoa.db.pool import Database
from stoa.operations.measuring import Queues, problems, read_queues

CACHE_S = 1.0  # callers may ask often, but the database is asked once per second


class ReadinessResponse(msgspec.Struct):
    status: int
    body: dict[str, Any]
    retry_after_s: int = 0


class Readiness:
    """Responds to /ready, and /ready?deep, which also looks at the queues."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written_at = 0.0
        self._measured_at = 0.0
        self._queues: Queues | None = None
        self.stopping = False  # set when this service is about to exit

    async def check(self) -> ReadinessResponse:
        if self.stopping:
            return ReadinessResponse(503, {"status": "stopping"}, 1)
        try:
            version = await migrate.version(self._database)
        except Unavailable as error:
            structlog.get_logger().warning("the database is unavailable", **cause(error))
            return ReadinessResponse(503, {"status": "no database"}, 1)
        if version < migrate.LATEST:
            return ReadinessResponse(503, {"status": "schema is behind", "schema": version, "needs": migrate.LATEST}, 5)
        if not await self._writes():
            return ReadinessResponse(503, {"status": "the database does not accept writes"}, 1)
        return ReadinessResponse(200, {"status": "ready", "schema": version})

    async def check_deeply(self) -> ReadinessResponse:
        response = await self.check()
        if response.status != 200:
            return response
        now = time.monotonic()
        try:
            if self._queues is None or now - self._measured_at >= CACHE_S:
                self._measured_at, self._queues = now, await read_queues(self._database)
        except (PostgresError, Unavailable):
            return ReadinessResponse(503, {"status": "the queues cannot be read"}, 1)
        found = problems(self._queues)
        return ReadinessResponse(503, {"status": "degraded", "problems": found}, 5) if found else response

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
