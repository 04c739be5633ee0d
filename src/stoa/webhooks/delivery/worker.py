"""A delivery worker: the ear for news, the router, the dispatcher and the chores, until it is told to stop."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, cast

import structlog

from stoa.access.sealing import Sealer
from stoa.db.errors import PostgresError, Unavailable, sqlstate
from stoa.db.pool import Database, connect
from stoa.events.notify import CHANNEL
from stoa.settings import Settings, secret_key
from stoa.webhooks.delivery import maintenance, queries
from stoa.webhooks.delivery.lane_runner import Sent
from stoa.webhooks.delivery.lane_scheduler import Dispatcher
from stoa.webhooks.delivery.queries import BUCKETS, Backlog
from stoa.webhooks.delivery.redelivery import redeliver_some
from stoa.webhooks.delivery.retry_policy import Clock
from stoa.webhooks.delivery.router import AT_ONCE, GIVE_BACK, LOOK_OVER, LOOKED_OVER, route_on
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender

_AGAIN_S = 0.5
_BACKLOG_S = 5.0
_STATEMENT_MS = 30_000
_UNHEARD_S = 1.0  # for which a store in which nobody listened is taken for one in which nobody does
_MOST_UNHEARD = 10_000
_NO_PARTITION = "23514"
_Fault = (PostgresError, Unavailable, OSError)


def _uncounted(_: Sent) -> None:
    return None


def _unmeasured(_: Backlog) -> None:
    return None


def _set(event: asyncio.Event, _: Any) -> None:
    event.set()


class Courier:
    """One process's worth of delivery; `observe` hears of each attempt, `measure` of what waits."""

    def __init__(
        self,
        url: str,
        settings: Settings,
        clock: Clock | None = None,
        *,
        observe: Callable[[Sent], None] = _uncounted,
        measure: Callable[[Backlog], None] = _unmeasured,
    ) -> None:
        self.clock = clock or Clock()
        self._url = url
        self._measure = measure
        # The same few statements all day long: to plan them anew each time took longer than to run them.
        planned = f"{url}{'&' if '?' in url else '?'}plan_cache_mode=force_generic_plan"
        # What is routed must survive; what was delivered may be forgotten in a crash: it is sent again, never lost.
        self._routing = Database(planned, size=3, statement_timeout_ms=_STATEMENT_MS)
        # Holds buckets by its session: of a worker that stands still the database ends it, and others go on.
        silence = f"{planned}&idle_session_timeout={self.clock.claim_after * 1000:.0f}"
        self._router = Database(silence, size=1, statement_timeout_ms=_STATEMENT_MS)
        self._working = Database(f"{planned}&synchronous_commit=off", size=8, statement_timeout_ms=_STATEMENT_MS)
        self._sender = Sender(Allowed.parse(settings.webhook_allow), self.clock)
        sealer = Sealer(secret_key(settings))
        self.dispatcher = Dispatcher(self._working, sealer, self._sender, self.clock, observe=observe)
        self._nudged: set[int] = set()
        self._unheard: dict[int, float] = {}
        self._news = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        await self._patiently(lambda: maintenance.make_days(self._routing), stop)
        works = (
            self._listen,
            self._route_for_ever,
            self._stay_for_ever,
            self._redeliver_for_ever,
            self._tidy_for_ever,
            self._measure_for_ever,
        )
        tasks = [asyncio.create_task(work()) for work in works]
        try:
            await self.dispatcher.run(stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._sender.close()
            await self._router.close()
            await self._routing.close()
            await self._working.close()

    async def _patiently(self, work: Callable[[], Awaitable[Any]], stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await work()
            except _Fault as error:
                structlog.get_logger().warning("delivery", error=type(error).__name__)
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    # --- news ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Hear which stores have news; while that fails, looking now and then has to do."""
        while True:
            with contextlib.suppress(*_Fault):
                connection = cast("Any", await connect(self._url, statement_timeout_ms=0))
                gone = asyncio.Event()
                connection.add_termination_listener(partial(_set, gone))
                try:
                    await connection.add_listener(CHANNEL, self._heard)
                    await gone.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_AGAIN_S)

    def _heard(self, _connection: Any, _pid: int, _channel: str, words: str) -> None:
        """Where nobody listens, events wait for the next look, to be passed over many at once."""
        recent = time.monotonic() - _UNHEARD_S
        stores = [int(word) for word in words.split(",") if word.isdigit()]
        if news := {store % BUCKETS for store in stores if self._unheard.get(store, 0) < recent}:
            self._nudged |= news
            self._news.set()

    # --- routing ------------------------------------------------------------------------------------------------

    async def _route_for_ever(self) -> None:
        looked = 0.0
        while True:
            try:
                if time.monotonic() - looked >= self.clock.poll:
                    looked = time.monotonic() if await self._look_over() else 0.0
                if self._nudged:
                    await self._route()
            except Exception as error:  # noqa: BLE001 - events must go on being routed, whatever one of them brings
                structlog.get_logger().error("routing", error=type(error).__name__)
                if sqlstate(error) == _NO_PARTITION:
                    with contextlib.suppress(*_Fault):
                        await maintenance.make_days(self._routing)
                await asyncio.sleep(_AGAIN_S)
            if not self._nudged:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.001, looked + self.clock.poll - time.monotonic())):
                        await self._news.wait()
            self._news.clear()

    async def _look_over(self) -> bool:
        """Look at what waits, and pass over what nobody hears; says whether that was all of it."""
        # Should a crash undo it, they are only passed over again: no commit waits for the disk.
        found = await LOOK_OVER.all(self._working, LOOKED_OVER)
        self._nudged |= {waiting.store_id % BUCKETS for waiting in found if waiting.heard}
        unheard = {waiting.store_id for waiting in found if not waiting.heard}
        self._note_unheard(unheard)
        return not unheard or sum(waiting.count for waiting in found) < LOOKED_OVER

    def _note_unheard(self, stores: Iterable[int]) -> None:
        if len(self._unheard) > _MOST_UNHEARD:
            self._unheard.clear()
        self._unheard.update(dict.fromkeys(stores, time.monotonic()))

    async def _route(self) -> None:
        """Route what waits in the buckets that were named; meanwhile others gather, to be routed together."""
        buckets, self._nudged = self._nudged, set()
        shuffled = random.sample(sorted(buckets), len(buckets))
        with self.dispatcher.taker(AT_ONCE) as taker:
            async with self._router.session() as db:
                routed = await route_on(db, shuffled, taker)
            self.dispatcher.take_over(routed)
        self._note_unheard(routed.unheard)
        if routed.waiting:
            self.dispatcher.look_at(routed.waiting)
        if routed.events == AT_ONCE:
            self._nudged |= buckets
        if not self._nudged:
            await GIVE_BACK.one(self._router)

    async def _stay_for_ever(self) -> None:
        """Let the database know that the router is there, however little happens."""
        await self._now_and_then(lambda: GIVE_BACK.one(self._router), self.clock.beat)

    # --- chores -------------------------------------------------------------------------------------------------

    async def _redeliver_for_ever(self) -> None:
        await self._now_and_then(self._redeliver, 4 * self.clock.poll)

    async def _redeliver(self) -> None:
        while (bucket := await redeliver_some(self._routing)) is not None:
            self.dispatcher.look_at([bucket])

    async def _tidy_for_ever(self) -> None:
        await self._now_and_then(lambda: maintenance.tidy(self._routing, self.clock), self.clock.sweep)

    async def _measure_for_ever(self) -> None:
        async def look() -> None:
            self._measure(await queries.BACKLOG.one(self._routing))

        await self._now_and_then(look, _BACKLOG_S)

    async def _now_and_then(self, work: Callable[[], Awaitable[Any]], every_s: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the next round may fare better
                structlog.get_logger().warning("delivery chore", error=type(error).__name__)
            await asyncio.sleep(every_s)
