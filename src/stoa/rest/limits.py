"""Rate limits, exact over every worker: the bucket is a row, and one statement takes for many waiting requests."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.query import Executor, Query
from stoa.rest.coalescing import Coalescer


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


AHEAD_SHARE, MOST_AHEAD, AHEAD_S = 1 / 1024, 100, 1.0


class Ahead(msgspec.Struct):
    """Tokens that were taken from a rich bucket before they were needed, and what the bucket held after that."""

    tokens: float
    remaining: float
    return_later: asyncio.TimerHandle


class Wish(msgspec.Struct, frozen=True):
    """What one request wants of a bucket."""

    cost: float
    burst: int
    refill: int


class RateLimiter:
    """Requests that wait for the same bucket share one statement; from a rich bucket it takes for the next ones too."""

    def __init__(self, db: Executor) -> None:
        self._db = db
        self._coalescer = Coalescer[tuple[int, int], Wish, Allowance](self._grant)
        self._ahead: dict[tuple[int, int], Ahead] = {}
        self._returning: set[asyncio.Task[None]] = set()
        self._empty: dict[tuple[int, int], float] = {}  # until when a bucket has no whole token, whoever asks

    async def take(self, store_id: int, app_id: int, cost: float, burst: int, refill: int) -> Allowance:
        key = (store_id, app_id)
        ahead = self._ahead.get(key)
        if ahead is not None and ahead.tokens >= cost:
            ahead.tokens -= cost
            return _allowance(cost, ahead.tokens + ahead.remaining, burst, refill, allowed=True)
        loop = asyncio.get_running_loop()
        if cost >= 1 and key in self._empty:
            left = max(0.0, 1 - (self._empty[key] - loop.time()) * refill)
            return _allowance(cost, min(left, 0.99), burst, refill, allowed=False)
        return await self._coalescer.submit(key, Wish(cost, burst, refill))

    async def _grant(self, key: tuple[int, int], wishes: Sequence[Wish]) -> list[Allowance]:
        burst, refill = wishes[0].burst, wishes[0].refill
        before = self._ahead.pop(key, None)
        if before is not None:
            before.return_later.cancel()
        wanted = sum(wish.cost for wish in wishes) + (_spare(before.remaining) if before else 0)
        grant = await TAKE.one(self._db, *key, wanted, float(burst), float(refill))
        taken = grant.granted + (before.tokens if before else 0)
        answers: list[Allowance] = []
        for wish in wishes:
            allowed = wish.cost <= taken
            if allowed:
                taken -= wish.cost
            answers.append(_allowance(wish.cost, taken + grant.remaining, burst, refill, allowed=allowed))
        left = taken + grant.remaining
        if left < 1:  # so nobody need ask again before one came back: a flood of refusals costs the database nothing
            loop = asyncio.get_running_loop()
            self._empty[key] = loop.time() + (1 - left) / refill
            loop.call_at(self._empty[key], self._empty.pop, key, None)
        if taken or _spare(grant.remaining):
            keep_s = AHEAD_S if grant.granted == wanted else 0
            later = asyncio.get_running_loop().call_later(keep_s, self._return, key, burst, refill)
            self._ahead[key] = Ahead(taken, grant.remaining, later)
        return answers

    def _return(self, key: tuple[int, int], burst: int, refill: int) -> None:
        """What was not needed within a moment goes back, so that other workers may have it."""
        ahead = self._ahead.pop(key)
        if not ahead.tokens:
            return
        task = asyncio.create_task(self._give_back(key, ahead.tokens, burst, refill))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _give_back(self, key: tuple[int, int], tokens: float, burst: int, refill: int) -> None:
        with suppress(PostgresError, Unavailable):  # then the refill brings them
            await TAKE.one(self._db, *key, -tokens, float(burst), float(refill))


def _spare(remaining: float) -> int:
    return min(MOST_AHEAD, int(remaining * AHEAD_SHARE))


def _allowance(cost: float, left: float, burst: int, refill: int, *, allowed: bool) -> Allowance:
    retry = 0 if allowed else max(1, math.ceil((cost - left) / refill))
    return Allowance(allowed, max(0, int(left)), burst, refill, max(0, math.ceil((burst - left) / refill)), retry)
