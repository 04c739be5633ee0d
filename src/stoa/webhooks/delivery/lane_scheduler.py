"""The dispatcher: takes lanes that are due, keeps them while it works, and gives them back with what became of each."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import UTC, datetime

import structlog

from stoa.access.sealing import Sealer
from stoa.db.errors import RETRYABLE, PostgresError, Unavailable, sqlstate
from stoa.db.pool import Database
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.disabling import tell
from stoa.webhooks.delivery.host_limits import Places
from stoa.webhooks.delivery.lane_runner import PAGE, Held, Sent
from stoa.webhooks.delivery.queries import Head, Lane
from stoa.webhooks.delivery.retry_policy import Clock, Outcome
from stoa.webhooks.delivery.router import NOBODY, Routed, Taker
from stoa.webhooks.delivery.settling import add_up, columns_of, hand_over, texts
from stoa.webhooks.delivery.subscribers import SUBSCRIBERS, Subscriber, target_of
from stoa.webhooks.http.client import Sender

MOST_LANES = 1000
CLAIMED_AT_ONCE = 100
_AGAIN_S = 0.2

Fault = (PostgresError, Unavailable, OSError)


def _unseen(_: Sent) -> None:
    return None


class Dispatcher:
    """Everything that one process has in hand; any number of such processes work side by side."""

    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        sender: Sender,
        clock: Clock,
        *,
        observe: Callable[[Sent], None] = _unseen,
    ) -> None:
        self.clock = clock
        self.sender = sender
        self.observe = observe
        self.places = Places()
        self.paces: dict[int, float] = {}
        self.owner = secrets.token_hex(8)
        self._database = database
        self._sealer = sealer
        self._held: dict[tuple[int, int], Held] = {}
        self._dirty: dict[tuple[int, int], Held] = {}
        self._promised = 0  # seats for lanes that are being filled
        self._driving: set[asyncio.Task[None]] = set()
        self._hinted: set[int] = set()
        self._hint = asyncio.Event()
        self._settling = asyncio.Event()
        self._emptied = asyncio.Event()
        self._stopping = False
        self._mute = False  # what cannot be recorded would be sent again: until it can be, nothing more is sent
        self._beat_at = time.monotonic()
        self._ahead = 0.0  # of our clock, the database's

    # --- what the lanes in hand ask for -------------------------------------------------------------------------

    def now(self) -> datetime:
        """The database's time, which decides when anything is due."""
        return datetime.fromtimestamp(time.time() + self._ahead, UTC)

    def may_send(self) -> bool:
        return not (self._stopping or self._mute) and time.monotonic() - self._beat_at < self.clock.stop_after

    def crowded(self) -> bool:
        return len(self._held) >= MOST_LANES

    def settle(self, held: Held) -> None:
        self._dirty[held.key] = held
        self._settling.set()

    async def read(self, held: Held, limit: int) -> list[Head]:
        try:
            return await self._heads([held.lane], [limit])
        except Fault:
            return []  # whoever looks next finds it

    async def tell(self, held: Held, outcome: Outcome) -> None:
        try:
            await tell(
                self._database, held.subscriber.store_id, held.subscriber.id, outcome, held.standing.failing_since
            )
        except Fault as error:
            structlog.get_logger().warning("webhook", store_id=held.subscriber.store_id, error=type(error).__name__)

    # --- its own life -------------------------------------------------------------------------------------------

    def look_at(self, buckets: Iterable[int]) -> None:
        """Something became due in these buckets."""
        self._hinted.update(buckets)
        self._hint.set()

    @contextlib.contextmanager
    def taker(self, most: int) -> Generator[Taker]:
        """Who takes lanes while they are filled, so many at most; nobody, where there are no seats for them."""
        if not self.may_send() or len(self._held) + self._promised + most > MOST_LANES:
            yield NOBODY
            return
        self._promised += most
        try:
            yield Taker(self.owner, self.clock.claim_after, self.clock.lease)
        finally:
            self._promised -= most
            self._emptied.set()

    def take_over(self, routed: Routed) -> None:
        """Lanes that were taken while they were filled, with what comes first in them."""
        self._hold(routed.lanes, routed.subscribers, routed.heads)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish what is in flight and give every lane back."""
        await self._set_clock()
        tasks = [
            asyncio.create_task(work()) for work in (self._beat_for_ever, self._settle_for_ever, self._claim_for_ever)
        ]
        try:
            await stop.wait()
        finally:
            self._stopping = True
            self._hint.set()
            await self._wind_up()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wind_up(self) -> None:
        """Wait for what is in flight; each lane lets itself go when it has nothing more to wait for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.clock.request + 2):
                while self._held or self._promised:
                    self._emptied.clear()
                    await self._emptied.wait()

    async def _set_clock(self) -> None:
        try:
            before = time.time()
            moment = await queries.NOW.one(self._database)
            self._ahead = moment.timestamp() - (before + time.time()) / 2
        except Fault:
            return

    async def _beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.clock.beat)
            try:
                await self._beat()
            except Exception as error:  # noqa: BLE001 - to stop beating is to lose every lane
                structlog.get_logger().warning("lanes not kept", error=type(error).__name__)

    async def _beat(self) -> None:
        began, held = time.monotonic(), sorted(self._held.values(), key=lambda each: each.key)
        ours = await queries.RENEW.one(
            self._database,
            self.owner,
            self.clock.claim_after,
            *texts([(*each.key, each.lane.epoch) for each in held], 3),
        )
        self._beat_at = began
        for each, kept in zip(held, ours, strict=True):
            if not kept and not each.letting_go:
                each.lose()
        await self._set_clock()

    # --- taking lanes -------------------------------------------------------------------------------------------

    async def _claim_for_ever(self) -> None:
        looked = 0.0
        while not self._stopping:
            try:
                due = time.monotonic() - looked >= self.clock.poll
                if due:
                    looked = time.monotonic()
                    self._hinted.update(await queries.DUE_BUCKETS.all(self._database))
                if self._hinted and await self._claim():
                    continue
            except Exception as error:  # noqa: BLE001 - to stop looking is to stop delivering
                structlog.get_logger().warning("no lanes to be had", error=type(error).__name__)
                await asyncio.sleep(_AGAIN_S)
            try:
                async with asyncio.timeout(max(0.001, looked + self.clock.poll - time.monotonic())):
                    await self._hint.wait()
            except TimeoutError:
                continue
            self._hint.clear()

    async def _claim(self) -> bool:
        """Take lanes of the buckets that were pointed out; says whether there may be more."""
        seats = min(MOST_LANES - len(self._held) - self._promised, CLAIMED_AT_ONCE)
        if seats <= 0 or not self.may_send():
            return False
        buckets, self._hinted = self._hinted, set()
        shuffled = random.sample([str(bucket) for bucket in buckets], len(buckets))  # so that none always comes last
        found = await queries.CLAIM.all(
            self._database, shuffled, self.owner, seats, self.clock.claim_after, self.clock.lease
        )
        if found:
            await self._take(found)
        if len(found) == seats:
            self._hinted |= buckets
        return len(found) == seats

    async def _take(self, found: Sequence[Lane]) -> None:
        limits = [1 if lane.breaker == "open" else PAGE for lane in found]
        stores, webhooks = texts([(lane.store_id, lane.webhook_id) for lane in found], 2)
        subscribers, heads = await asyncio.gather(
            SUBSCRIBERS.all(self._database, stores, webhooks), self._heads(found, limits)
        )
        self._hold(found, subscribers, heads)

    def _hold(self, found: Sequence[Lane], subscribers: Sequence[Subscriber], heads: Sequence[Head]) -> None:
        by_id = {subscriber.id: subscriber for subscriber in subscribers}
        rows: dict[int, list[Head]] = {}
        for head in heads:
            rows.setdefault(head.webhook_id, []).append(head)
        for lane in found:
            subscriber = by_id.get(lane.webhook_id)
            if subscriber is None:
                continue  # removed meanwhile, and its lane with it
            held = Held(self, lane, subscriber, target_of(subscriber, self._sealer))
            mine = rows.get(lane.webhook_id, [])
            held.add(mine, exhausted=len(mine) < PAGE)
            self._held[held.key] = held
            task = asyncio.create_task(held.drive())
            self._driving.add(task)
            task.add_done_callback(self._driving.discard)

    async def _heads(self, found: Sequence[Lane], limits: Sequence[int]) -> list[Head]:
        rows = [
            (lane.bucket, lane.webhook_id, limit, lane.breaker == "open")
            for lane, limit in zip(found, limits, strict=True)
        ]
        return await queries.HEADS.all(self._database, *texts(rows, 4))

    # --- giving back --------------------------------------------------------------------------------------------

    async def _settle_for_ever(self) -> None:
        while True:
            await self._settling.wait()
            self._settling.clear()
            batch = sorted(self._dirty.values(), key=lambda each: each.key)
            self._dirty.clear()
            if not batch:
                continue
            try:
                await self._settle(batch)
            except Exception as error:  # noqa: BLE001 - to stop recording is to send everything twice
                structlog.get_logger().warning("deliveries not recorded", error=type(error).__name__)
                await asyncio.sleep(_AGAIN_S)

    async def _settle(self, batch: Sequence[Held]) -> None:
        """Record all of it at once; what cannot be recorded for its own sake is given up to whoever comes next."""
        taken = [(held, held.letting_go, *hand_over(held)) for held in batch]
        try:
            states = await queries.SETTLE.one(
                self._database, self.owner, self.clock.lease, self.clock.claim_after, *columns_of(taken)
            )
        except Fault as error:
            for held, _, results, tally, drain in taken:
                held.results[:0] = results
                held.tally = add_up(held.tally, tally)
                held.drain = held.drain or drain
            if isinstance(error, PostgresError) and sqlstate(error) not in RETRYABLE:
                if len(batch) == 1:
                    structlog.get_logger().error("deliveries not recorded", error=type(error).__name__)
                    self._drop(batch[0])
                    return
                for held in self._keep(batch):
                    await self._settle([self._dirty.pop(held.key, held)])
                return
            self._mute = True
            self._keep(batch)
            raise
        self._mute = False
        again: set[int] = set()
        for (held, released, results, *_), state in zip(taken, states, strict=True):
            held.settled(result.sequence for result in results)
            if released:
                self._drop(held)
                if state == queries.DUE:
                    again.add(held.lane.bucket)
            elif state == queries.LOST:
                held.lose()
        if again and not self._stopping:
            self.look_at(again)

    def _keep(self, batch: Sequence[Held]) -> Sequence[Held]:
        """What is not recorded yet is tried again, whatever comes between."""
        for held in batch:
            self.settle(held)
        return batch

    def _drop(self, held: Held) -> None:
        held.lose()
        if self._held.get(held.key) is held:
            del self._held[held.key]
        self._emptied.set()
