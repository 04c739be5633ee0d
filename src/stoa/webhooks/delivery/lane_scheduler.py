"""Leases the lanes that are due, runs them, and settles the outcomes of all lanes in one statement."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

import structlog

from stoa.access.encryption import Cipher
from stoa.db.errors import RETRYABLE, NodeAway, PostgresError, cause, sqlstate
from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.decryption import decrypt
from stoa.webhooks.delivery.lane_runner import PAGE, LaneReport, LaneRunner, SharedState
from stoa.webhooks.delivery.queries import (
    BUCKETS,
    DATABASE_ERRORS,
    NO_LEASE,
    ErasedDelivery,
    Lane,
    LaneHeld,
    LaneLease,
    LaneRead,
    Lease,
    LeasedLanes,
    PendingDelivery,
    Subscription,
)
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, SentAttempt
from stoa.webhooks.http.client import Sender, Target

MAX_LANES = 1000
LEASE_BATCH = 100
# How the name of a worker begins that can sign for managed subscriptions; `lease_lanes` and `route_events` look at it.
SENDS_MANAGED = "managed-"
_MAX_TARGETS = 10_000
_RETRY_S = 0.2
_AWAY_RETRY_S = 0.5


class LaneScheduler:
    """All lanes that one process leases; any number of such processes work in parallel."""

    def __init__(
        self,
        database: Database,
        cipher: Cipher,
        sender: Sender,
        config: DeliveryConfig,
        observe: Callable[[SentAttempt], None],
        stores_url: str = "",
    ) -> None:
        self.shared = SharedState(database, sender, config, observe, stores_url)
        # Receivers by subscription, each with the values that it was decrypted from. Every heartbeat forgets all of them.
        self.targets: dict[tuple[int, int], tuple[Sequence[object], Target]] = {}
        self._cipher = cipher
        self.owner = f"{SENDS_MANAGED}{secrets.token_hex(8)}"
        self._config = config
        self._database = database
        self._runners: dict[tuple[int, int], LaneRunner] = {}
        self._reports: dict[LaneRunner, LaneReport] = {}  # to be settled
        self._put_off: dict[LaneRunner, LaneReport] = {}  # to be settled when the node of their store is back
        self._reserved = 0  # slots for lanes that the router may lease
        self._tasks: set[asyncio.Task[None]] = set()
        self._due_buckets: set[int] = set()
        self._due = asyncio.Event()
        self._reported = asyncio.Event()
        self._slot_freed = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish the requests in flight and release every lane."""
        await self._synchronize_clock()
        loops = (self._renew_forever, self._settle_forever, self._settle_put_off_forever, self._lease_forever)
        tasks = [asyncio.create_task(loop()) for loop in loops]
        try:
            await stop.wait()
        finally:
            self.shared.stopping = True
            self._due.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.request_timeout + 2):
                    while self._runners or self._reserved:
                        self._slot_freed.clear()
                        await self._slot_freed.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, buckets: Iterable[int]) -> None:
        """Lanes in these buckets are due."""
        self._due_buckets.update(buckets)
        self._due.set()

    # --- leasing ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reserve(self, lanes: int) -> Generator[Lease]:
        """Reserve slots for lanes that the router leases as it fills them; without free slots there is no lease."""
        if not self.shared.may_send() or self._free_slots() < lanes:
            yield NO_LEASE
            return
        self._reserved += lanes
        try:
            yield Lease(self.owner, self._config.takeover_after, self._config.lease)
        finally:
            self._reserved -= lanes
            self._slot_freed.set()

    def start(self, leased: LeasedLanes) -> None:
        """Start a runner for each leased lane."""
        subscriptions = {each.id: each for each in leased.subscriptions}
        deliveries: dict[int, list[PendingDelivery]] = {}
        for each in leased.deliveries:
            deliveries.setdefault(each.webhook_id, []).append(each)
        for lane in leased.lanes:
            subscription = subscriptions.get(lane.webhook_id)
            if subscription is None:
                continue  # deleted meanwhile, together with its lane
            runner = LaneRunner(self.shared, lane, subscription, self._target(subscription))
            first = deliveries.get(lane.webhook_id, [])
            runner.add(first, all_read=len(first) < PAGE)
            self._runners[runner.key] = runner
            self.shared.full = len(self._runners) >= MAX_LANES
            task = asyncio.create_task(self._run_lane(runner))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _target(self, subscription: Subscription) -> Target | None:
        """The receiver of a subscription, decrypted again if it has changed."""
        key = subscription.store_id, subscription.id
        encrypted = (
            subscription.url,
            subscription.sealed_secret,
            subscription.sealed_old_secret,
            subscription.sealed_headers,
        )
        known = self.targets.pop(key, None)
        target = known[1] if known is not None and known[0] == encrypted else decrypt(self._cipher, subscription)
        if target is not None and len(self.targets) < _MAX_TARGETS:
            self.targets[key] = encrypted, target
        return target

    async def _run_lane(self, runner: LaneRunner) -> None:
        try:
            async for report in runner.run():
                self._settle_soon(runner, report)
        finally:
            self._settle_soon(runner, await runner.finish())

    def _free_slots(self) -> int:
        return MAX_LANES - len(self._runners) - self._reserved

    async def _lease_forever(self) -> None:
        polled_at = 0.0
        while not self.shared.stopping:
            try:
                if time.monotonic() - polled_at >= self._config.poll:
                    polled_at = time.monotonic()
                    self._due_buckets.update(await queries.DUE_BUCKETS.all(self._database))
                if self._due_buckets and await self._lease():
                    continue
            except Exception as error:  # noqa: BLE001 - without this loop nothing is delivered
                structlog.get_logger().warning("leasing lanes failed", **cause(error))
                await asyncio.sleep(_RETRY_S)
            try:
                async with asyncio.timeout(max(0.001, polled_at + self._config.poll - time.monotonic())):
                    await self._due.wait()
            except TimeoutError:
                continue
            self._due.clear()

    async def _lease(self) -> bool:
        """Lease and start lanes of the due buckets; returns whether there may be more."""
        limit = min(self._free_slots(), LEASE_BATCH)
        if limit <= 0 or not self.shared.may_send():
            return False
        buckets, self._due_buckets = self._due_buckets, set()
        shuffled = random.sample(sorted(buckets), len(buckets))  # so that no bucket always comes last
        intervals = (self._config.takeover_after, self._config.lease)
        lanes = await queries.LEASE_LANES.all(self._database, shuffled, self.owner, limit, *intervals)
        if lanes:
            await self._settle_put_off({(lane.store_id, lane.webhook_id) for lane in lanes})
            stores, webhooks = [lane.store_id for lane in lanes], [lane.webhook_id for lane in lanes]
            reads = [_first_read(lane) for lane in lanes]
            subscriptions, deliveries = await asyncio.gather(
                queries.SUBSCRIPTIONS_OF_LANES.all(self._database, stores, webhooks),
                queries.DUE_DELIVERIES.all(self._database, json_rows(reads)),
            )
            self.start(LeasedLanes(lanes, subscriptions, deliveries))
        if len(lanes) == limit:
            self._due_buckets |= buckets
        return len(lanes) == limit

    # --- heartbeats ---------------------------------------------------------------------------------------------

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._config.heartbeat)
            self.targets.clear()  # so that no secret in clear outlives its rotation, expiry or subscription
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001 - without heartbeats every lease is lost
                structlog.get_logger().warning("renewing leases failed", **cause(error))

    async def _renew(self) -> None:
        started, runners = time.monotonic(), list(self._runners.values())
        rows = [LaneLease(*runner.key, runner.state.epoch) for runner in runners]
        try:
            leased = await self._renew_leases(rows)
        except NodeAway:
            leased = await self._renew_store_by_store(rows)
        await self._forget_erased(runners)
        self.shared.renewed_at = started
        lost = {runner.subscription.id for runner in runners}.difference(leased)
        for runner in runners:
            if runner.subscription.id in lost and not runner.finished:
                runner.lose()
        await self._synchronize_clock()

    async def _renew_leases(self, rows: Sequence[LaneLease]) -> list[int]:
        return await queries.RENEW_LEASES.all(self._database, self.owner, self._config.takeover_after, json_rows(rows))

    async def _renew_store_by_store(self, rows: Sequence[LaneLease]) -> list[int]:
        """The leases of stores whose node is away are lost, because they cannot be renewed."""
        leased: list[int] = []
        for store_id in {row.store_id for row in rows}:
            with contextlib.suppress(NodeAway):
                leased += await self._renew_leases([row for row in rows if row.store_id == store_id])
        return leased

    async def _forget_erased(self, runners: Sequence[LaneRunner]) -> None:
        """Let the deliveries that wait here be read again, if a person was erased from their events."""
        holding = {runner.subscription.id: runner for runner in runners if runner.holds_deliveries}
        rows = [LaneHeld(*runner.key) for runner in holding.values()]
        if not rows:
            return
        try:
            found = await queries.ERASED_DELIVERIES.all(self._database, json_rows(rows))
        except NodeAway:
            found = list[ErasedDelivery]()
            for row in rows:
                with contextlib.suppress(NodeAway):
                    found += await queries.ERASED_DELIVERIES.all(self._database, json_rows([row]))
        for each in found:
            holding[each.webhook_id].forget(each.sequence)

    async def _synchronize_clock(self) -> None:
        with contextlib.suppress(*DATABASE_ERRORS):
            before = time.monotonic()
            moment = await queries.NOW.one(self._database)
            self.shared.clock_offset = moment.timestamp() - (before + time.monotonic()) / 2

    # --- settling -----------------------------------------------------------------------------------------------

    def _settle_soon(self, runner: LaneRunner, report: LaneReport) -> None:
        if runner.abandoned:
            return
        reports = self._put_off if runner.away else self._reports
        earlier = reports.get(runner)
        reports[runner] = report if earlier is None else _merge(earlier, report)
        self._reported.set()

    async def _settle_forever(self) -> None:
        while True:
            await self._reported.wait()
            self._reported.clear()
            batch = self._take_batch()
            if not batch:
                continue
            try:
                await self._settle(batch)
            except Exception as error:  # noqa: BLE001 - without this loop every delivery is repeated
                structlog.get_logger().warning("settling deliveries failed", **cause(error))
                await asyncio.sleep(_RETRY_S)

    def _take_batch(self) -> dict[LaneRunner, LaneReport]:
        """The reports to settle, at most one for each lane: a lane that was lost may be leased by this worker again."""
        chosen = {runner.key: runner for runner in reversed(self._reports)}
        batch = {runner: self._reports.pop(runner) for runner in chosen.values()}
        if self._reports:
            self._reported.set()
        return batch

    async def _settle(self, batch: Mapping[LaneRunner, LaneReport]) -> None:
        """Store all reports in one statement. A report that the database refuses by itself is dropped with its lane, and one
        whose node is away is put off."""
        for number, report in enumerate(batch.values(), 1):
            report.state.lane = number
            for result in report.results:
                result.lane = number
        try:
            settled = await queries.SETTLE.all(
                self._database,
                self.owner,
                self._config.lease,
                self._config.takeover_after,
                json_rows([report.state for report in batch.values()]),
                json_rows([result for report in batch.values() for result in report.results]),
            )
        except DATABASE_ERRORS as error:
            if isinstance(error, NodeAway) or (isinstance(error, PostgresError) and sqlstate(error) not in RETRYABLE):
                if len(batch) == 1:
                    for runner, report in batch.items():
                        if not runner.away:
                            structlog.get_logger().error("settling a lane failed", **cause(error))
                        runner.away = isinstance(error, NodeAway)
                        runner.abandoned = not runner.away
                        self._keep(runner, report)
                        self._drop(runner)
                    return
                await self._settle_one_by_one(batch)
                return
            self.shared.settling_fails = True
            for runner, report in batch.items():
                self._keep(runner, report)
            raise
        self.shared.settling_fails = False
        states = {each.lane: each.state for each in settled}
        due: set[int] = set()
        for runner, report in batch.items():
            state = states.get(report.state.lane)
            runner.settled(result.sequence for result in report.results)
            if report.state.released:
                self._drop(runner)
                if state == "due":
                    due.add(report.state.store_id % BUCKETS)
            elif state is None:
                runner.lose()
        if due and not self.shared.stopping:
            self.wake(due)

    async def _settle_one_by_one(self, batch: Mapping[LaneRunner, LaneReport]) -> None:
        left = dict(batch)
        try:
            for runner in batch:
                await self._settle({runner: left.pop(runner)})
        finally:
            for runner, report in left.items():
                self._keep(runner, report)

    async def _settle_put_off_forever(self) -> None:
        while True:
            await asyncio.sleep(_AWAY_RETRY_S)
            try:
                while self._put_off:
                    oldest = next(iter(self._put_off))
                    await self._settle_put_off({oldest.key})
                    if oldest in self._put_off:
                        break
            except Exception as error:  # noqa: BLE001 - the next attempt may succeed
                structlog.get_logger().warning("settling deliveries failed", **cause(error))

    async def _settle_put_off(self, lanes: Collection[tuple[int, int]]) -> None:
        """Settle the postponed reports of these lanes, so that their deliveries are not sent again."""
        for runner in [runner for runner in self._put_off if runner.key in lanes]:
            if (report := self._put_off.pop(runner, None)) is not None:
                await self._settle({runner: report})

    def _keep(self, runner: LaneRunner, report: LaneReport) -> None:
        """Settle a report again, before what was reported since."""
        later = self._reports.pop(runner, None) or self._put_off.pop(runner, None)
        self._settle_soon(runner, report if later is None else _merge(report, later))

    def _drop(self, runner: LaneRunner) -> None:
        runner.lose()
        if self._runners.get(runner.key) is runner:
            del self._runners[runner.key]
        self.shared.full = len(self._runners) >= MAX_LANES
        self._slot_freed.set()


def _first_read(lane: Lane) -> LaneRead:
    probe = lane.breaker == "open"
    return LaneRead(lane.store_id, lane.webhook_id, 1 if probe else PAGE, probe)


def _merge(earlier: LaneReport, later: LaneReport) -> LaneReport:
    for name in ("succeeded", "failed", "attempts", "failed_attempts", "duration_ms"):
        setattr(later.state, name, getattr(earlier.state, name) + getattr(later.state, name))
    later.state.recovered = earlier.state.recovered or later.state.recovered
    return LaneReport(later.state, earlier.results + later.results)
