"""Rate limits, exact across all workers: each token bucket is a row, and one statement serves many waiting requests."""

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

import msgspec

from stoa.db.errors import PostgresError, Unavailable
from stoa.db.query import Executor, Query
from stoa.db.replica import POSITION, Fence
from stoa.db.waiting import clock_stopped
from stoa.rest.coalescing import Coalescer
from stoa.rest.problems import RateLimited


class Grant(msgspec.Struct):
    granted: float
    remaining: float


class FencedGrant(Grant):
    """A grant, with the position of the primary's log after the request arrived."""

    timeline: str
    position: int


TAKE = Query(Grant, "SELECT granted, remaining FROM take_tokens($1, $2, 'requests', $3, $4, $5)")
TAKE_FENCED = Query(
    FencedGrant, f"SELECT granted, remaining, {POSITION} FROM take_tokens($1, $2, 'requests', $3, $4, $5)"
)

# Work that is done costs what it costs: the tokens may fall below 0, by one burst at most.
CHARGE = Query(
    float,
    """WITH charged AS (
           UPDATE rate_buckets SET tokens = greatest(tokens - $3, -$4::float8)
            WHERE store_id = $1 AND app_id = $2 AND purpose = 'requests'
           RETURNING tokens, refilled_at)
       SELECT least($4, tokens + $5::float8 * greatest(0, extract(epoch FROM clock_timestamp() - refilled_at))) FROM charged""",
)
DOCUMENT_BYTES = 16 * 1024  # a write costs one further request for each of these in a document that it writes


class Allowance(msgspec.Struct, frozen=True):
    """The state of a caller's bucket after a request."""

    allowed: bool
    remaining: int
    burst: int
    refill: int
    full_in_s: int
    retry_in_s: int
    fence: Fence | None = None  # of the statement that took the tokens; none if they were prefetched

    def check(self) -> None:
        """Refuse the request if its tokens were not granted."""
        if not self.allowed:
            raise RateLimited(
                f"The rate limit is {self.refill} requests a second, with bursts of {self.burst}.",
                headers=[(b"retry-after", b"%d" % self.retry_in_s)],
            )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The fields of the IETF draft 11, which are lists of one quota policy, and those that clients read before it."""
        window = math.ceil(self.burst / self.refill)
        # Of a refused request, `t` and Retry-After name the same time.
        seconds = self.full_in_s if self.allowed else self.retry_in_s
        return [
            (b"ratelimit-policy", b'"default";q=%d;w=%d' % (self.burst, window)),
            (b"ratelimit", b'"default";r=%d;t=%d' % (self.remaining, seconds)),
            (b"x-ratelimit-limit", b"%d" % self.burst),
            (b"x-ratelimit-remaining", b"%d" % self.remaining),
            (b"x-ratelimit-reset", b"%d" % self.full_in_s),
        ]


PREFETCH_SHARE, MOST_PREFETCHED, PREFETCH_S = 1 / 1024, 100, 1.0


class Prefetch(msgspec.Struct):
    """Tokens that a worker took in advance from a bucket with many, and the tokens that the bucket had left."""

    tokens: float
    remaining: float
    return_timer: asyncio.TimerHandle


class Demand(msgspec.Struct, frozen=True):
    """The tokens that one request needs, and the limits of its bucket."""

    cost: float
    burst: int
    refill: int


class RateLimiter:
    """Takes tokens for requests. Concurrent requests share one statement, which may prefetch tokens for later requests."""

    def __init__(self, db: Executor, *, fenced: bool = False) -> None:
        self._db = db
        self._take: Query[FencedGrant] | Query[Grant] = TAKE_FENCED if fenced else TAKE
        self._coalescer = Coalescer[tuple[int, int], Demand, Allowance](self._grant)
        self._prefetched: dict[tuple[int, int], Prefetch] = {}
        self._returning: set[asyncio.Task[None]] = set()
        self._empty: dict[tuple[int, int], float] = {}  # the time at which an empty bucket has one token again

    async def take(self, store_id: int, app_id: int, cost: float, burst: int, refill: int) -> Allowance:
        key = (store_id, app_id)
        prefetch = self._prefetched.get(key)
        if prefetch is not None and prefetch.tokens >= cost:
            prefetch.tokens -= cost
            return _allowance(cost, prefetch.tokens + prefetch.remaining, burst, refill, allowed=True)
        loop = asyncio.get_running_loop()
        if cost >= 1 and key in self._empty:
            left = 1 - (self._empty[key] - loop.time()) * refill
            return _allowance(cost, min(left, 0.99), burst, refill, allowed=False)
        return await self._coalescer.submit(key, Demand(cost, burst, refill))

    async def charge(self, store_id: int, app_id: int, cost: float, burst: int, refill: int) -> Allowance | None:
        """Take tokens for work that is done, also if that leaves the bucket in debt, which the refill pays back."""
        key = (store_id, app_id)
        left = await CHARGE.maybe(self._db, *key, cost, float(burst), float(refill))
        if left is None:
            return None
        if (prefetch := self._prefetched.get(key)) is not None:
            prefetch.remaining -= cost
            left = min(left + prefetch.tokens, burst)
        self._refuse_while_empty(key, left, refill)
        return _allowance(cost, left, burst, refill, allowed=True)

    async def _grant(self, key: tuple[int, int], demands: Sequence[Demand]) -> list[Allowance]:
        burst, refill = demands[0].burst, demands[0].refill
        previous = self._prefetched.pop(key, None)
        if previous is not None:
            previous.return_timer.cancel()
        wanted = sum(demand.cost for demand in demands) + (_prefetch_size(previous.remaining) if previous else 0)
        grant = await self._take.one(self._db, *key, wanted, float(burst), float(refill))
        fence = Fence(grant.timeline, grant.position) if isinstance(grant, FencedGrant) else None
        tokens = grant.granted + (previous.tokens if previous else 0)
        allowances: list[Allowance] = []
        for demand in demands:
            allowed = demand.cost <= tokens
            if allowed:
                tokens -= demand.cost
            remaining = tokens + grant.remaining
            allowances.append(_allowance(demand.cost, remaining, burst, refill, allowed=allowed, fence=fence))
        self._refuse_while_empty(key, tokens + grant.remaining, refill)
        if tokens or _prefetch_size(grant.remaining):
            keep_s = PREFETCH_S if grant.granted == wanted else 0
            self._keep(key, tokens, grant.remaining, burst, refill, keep_s)
        return allowances

    def deposit(self, key: tuple[int, int], grant: Grant, burst: int, refill: int) -> None:
        """Keep tokens that another statement took for requests that follow at once."""
        self._keep(key, grant.granted, grant.remaining, burst, refill, PREFETCH_S)

    def _keep(
        self, key: tuple[int, int], tokens: float, remaining: float, burst: int, refill: int, keep_s: float
    ) -> None:
        previous = self._prefetched.pop(key, None)
        if previous is not None:
            previous.return_timer.cancel()
            tokens += previous.tokens
        timer = asyncio.get_running_loop().call_later(keep_s, self._return_unused, key, burst, refill)
        self._prefetched[key] = Prefetch(tokens, remaining, timer)

    def _refuse_while_empty(self, key: tuple[int, int], left: float, refill: int) -> None:
        """Refuse without a statement until a token is refilled: a flood of refusals costs nothing."""
        if left < 1:
            loop = asyncio.get_running_loop()
            until = self._empty[key] = loop.time() + (1 - left) / refill
            loop.call_at(until, self._end_refusals, key, until)

    def _end_refusals(self, key: tuple[int, int], until: float) -> None:
        if self._empty.get(key) == until:  # otherwise a charge has extended it
            del self._empty[key]

    def _return_unused(self, key: tuple[int, int], burst: int, refill: int) -> None:
        """Return unused tokens to the bucket, so that other workers can take them."""
        prefetch = self._prefetched.pop(key)
        if not prefetch.tokens:
            return
        task = asyncio.create_task(self._put_back(key, prefetch.tokens, burst, refill))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _put_back(self, key: tuple[int, int], tokens: float, burst: int, refill: int) -> None:
        with suppress(PostgresError, Unavailable):  # the refill replaces tokens that are lost here
            await TAKE.one(self._db, *key, -tokens, float(burst), float(refill))


LARGE_COST = 4  # from here on, a write is large: 64 KiB of documents
LARGE_S = 5.0  # an app that made a large write takes turns for this time
MOST_REST_S = 0.25


class LargeWrites:
    """An app whose writes are large takes turns with itself on each store: one write at a time in each worker, then a rest.

    A large write occupies a processor here and one in the database for tens of milliseconds. Without turns, the twenty requests
    that an app may have in flight would delay those of all other stores.
    """

    def __init__(self) -> None:
        self._turns: dict[tuple[int, int], _Turn] = {}

    def turn(self, store_id: int, app_id: int) -> AbstractAsyncContextManager[None]:
        turn = self._turns.get((store_id, app_id))
        return turn if turn is not None and turn.until > time.monotonic() else _AT_ONCE

    def note(self, store_id: int, app_id: int, cost: int) -> None:
        """Note what the documents of a write cost."""
        if cost < LARGE_COST:
            return
        now, key = time.monotonic(), (store_id, app_id)
        turn = self._turns.get(key) or _Turn()
        turn.until = now + LARGE_S
        self._turns = {each: other for each, other in self._turns.items() if other.until > now or other.locked()}
        self._turns[key] = turn


class _Turn(AbstractAsyncContextManager[None]):
    """The turn of one app on one store. The next write begins after a rest as long as the write took, so that other stores have at
    least half of the time; the response does not wait for the rest."""

    def __init__(self) -> None:
        self.until = 0.0
        self._lock = asyncio.Lock()
        self._since = 0.0

    def locked(self) -> bool:
        return self._lock.locked()

    async def __aenter__(self) -> None:
        with clock_stopped():
            await self._lock.acquire()
        self._since = time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        rest = min(time.monotonic() - self._since, MOST_REST_S)
        asyncio.get_running_loop().call_later(rest, self._lock.release)


_AT_ONCE: AbstractAsyncContextManager[None] = nullcontext()


def _prefetch_size(remaining: float) -> int:
    return max(0, min(MOST_PREFETCHED, int(remaining * PREFETCH_SHARE)))


def _allowance(
    cost: float, left: float, burst: int, refill: int, *, allowed: bool, fence: Fence | None = None
) -> Allowance:
    retry = 0 if allowed else max(1, math.ceil((cost - left) / refill))
    full = max(0, math.ceil((burst - left) / refill))
    return Allowance(allowed, max(0, int(left)), burst, refill, full, retry, fence)
