"""Rate limits, exact over every worker: the bucket is a row, and one statement takes for many waiting requests."""

import asyncio
import math
from collections import defaultdict

import msgspec

from stoa.db.query import Executor, Query


class Grant(msgspec.Struct):
    granted: float
    remaining: float


TAKE = Query(Grant, "SELECT granted, remaining FROM take_tokens($1, $2, $3, $4, $5)")


class Allowance(msgspec.Struct, frozen=True):
    """What a caller has left after asking."""

    allowed: bool
    remaining: int
    burst: int
    refill: int
    full_in_s: int
    retry_in_s: int

    def headers(self) -> list[tuple[bytes, bytes]]:
        window = math.ceil(self.burst / self.refill)
        return [
            (b"ratelimit-policy", b'"default";q=%d;w=%d' % (self.burst, window)),
            (b"ratelimit", b'"default";r=%d;t=%d' % (self.remaining, self.full_in_s)),
            (b"x-ratelimit-limit", b"%d" % self.burst),
            (b"x-ratelimit-remaining", b"%d" % self.remaining),
            (b"x-ratelimit-reset", b"%d" % self.full_in_s),
        ]


class RateLimiter:
    """Requests that wait for the same bucket at the same time share one statement, so load makes it cheaper."""

    def __init__(self, db: Executor) -> None:
        self._db = db
        self._waiting: dict[tuple[int, int], list[tuple[float, asyncio.Future[Allowance]]]] = defaultdict(list)
        self._running: dict[tuple[int, int], asyncio.Task[None]] = {}

    async def take(self, store_id: int, app_id: int, cost: float, burst: int, refill: int) -> Allowance:
        key = (store_id, app_id)
        answer: asyncio.Future[Allowance] = asyncio.get_running_loop().create_future()
        self._waiting[key].append((cost, answer))
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._serve(key, burst, refill))
        return await answer

    async def _serve(self, key: tuple[int, int], burst: int, refill: int) -> None:
        try:
            while batch := self._waiting.pop(key, None):
                await self._settle(key, batch, burst, refill)
        finally:
            del self._running[key]

    async def _settle(
        self,
        key: tuple[int, int],
        batch: list[tuple[float, asyncio.Future[Allowance]]],
        burst: int,
        refill: int,
    ) -> None:
        wanted = sum(cost for cost, _ in batch)
        try:
            grant = await TAKE.one(self._db, *key, wanted, float(burst), float(refill))
        except Exception as error:  # noqa: BLE001 - each waiting request answers for itself
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        left = grant.granted + grant.remaining
        for cost, answer in batch:
            allowed = cost <= left
            if allowed:
                left -= cost
            if not answer.done():
                answer.set_result(
                    Allowance(
                        allowed,
                        max(0, int(left)),
                        burst,
                        refill,
                        math.ceil((burst - left) / refill),
                        0 if allowed else max(1, math.ceil((cost - left) / refill)),
                    )
                )
