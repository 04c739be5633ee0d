"""Sends the deliveries of one leased lane, in parallel as far as its subscription allows, and yields their outcomes."""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
import structlog

from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.webhooks.delivery import retry_policy
from stoa.webhooks.delivery.disabling import report_failing
from stoa.webhooks.delivery.matching import seen_by, why_dropped
from stoa.webhooks.delivery.queries import (
    DATABASE_ERRORS,
    DUE_DELIVERIES,
    DeliveryResult,
    Lane,
    LaneRead,
    LaneState,
    PendingDelivery,
    ResultStatus,
    Subscription,
)
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, HealthChange, SentAttempt
from stoa.webhooks.http import message
from stoa.webhooks.http.client import Response, Sender, Target, failed_response

PAGE = 50
# Parallel requests start low, rise for a fast receiver, and reach the subscription's limit only for a slow one. Requests in
# flight are repeated when a worker dies, so a worker starts no more of them than it needs.
MIN_WINDOW, FAST_WINDOW = 2, 4
FAST_S = 0.02

# Sends a delivery in a span of a trace.
Trace = Callable[[PendingDelivery, Target, Callable[[Target], Awaitable[Response]]], Awaitable[Response]]


class SharedState(msgspec.Struct):
    """The state that the runners of one worker share, set by the lane scheduler."""

    database: Database
    sender: Sender
    config: DeliveryConfig
    observe: Callable[[SentAttempt], None]
    stores_url: str = ""  # followed by a handle, the base URL of a store
    trace: Trace | None = None
    next_send_at: dict[int, float] = {}  # by subscription, for rate limits
    stopping: bool = False
    full: bool = False  # all lane slots are taken
    settling_fails: bool = False  # an outcome that cannot be stored would be sent again: send nothing until it can be
    renewed_at: float = msgspec.field(default_factory=time.monotonic)
    # The database's time minus the monotonic time of this machine, whose wall clock may jump.
    clock_offset: float = msgspec.field(default_factory=lambda: time.time() - time.monotonic())

    def now(self) -> datetime:
        """The database's time, which decides what is due."""
        return datetime.fromtimestamp(time.monotonic() + self.clock_offset, UTC)

    def may_send(self) -> bool:
        blocked = self.stopping or self.settling_fails
        return not blocked and time.monotonic() - self.renewed_at < self.config.stop_after


class LaneReport(msgspec.Struct):
    """The outcomes of some deliveries of a lane, and the state of the lane after them."""

    state: LaneState
    results: list[DeliveryResult]


class LaneRunner:
    """Runs one lane from its lease to its release."""

    def __init__(self, shared: SharedState, lane: Lane, subscription: Subscription, target: Target | None) -> None:
        self.subscription = subscription
        self.state = msgspec.convert(lane, LaneState, from_attributes=True)
        self.finished = False
        self.abandoned = False  # the database refuses its results: the lease expires, and the deliveries are repeated
        self.away = False  # the node of its store is: its results are stored later, and it starts nothing more
        self._shared = shared
        self._limits = shared.sender.limits
        self._config = shared.config
        self._probing = lane.breaker == "open"
        self._lost = False
        self._target = target
        self._host = target.host if target else ""
        self._queue: deque[PendingDelivery] = deque()
        self._unsettled: set[int] = set()  # sequences that were read and are not settled yet
        self._forgotten: set[int] = set()  # of those, the ones to read again before they are sent
        self._all_read = False
        self._results: list[DeliveryResult] = []
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._started_at = time.monotonic()
        self._window = MIN_WINDOW

    @property
    def key(self) -> tuple[int, int]:
        return self.state.store_id, self.state.webhook_id

    def add(self, deliveries: Sequence[PendingDelivery], *, all_read: bool) -> None:
        again = [each for each in deliveries if each.sequence in self._forgotten]
        self._queue.extendleft(reversed(again))
        self._queue.extend(each for each in deliveries if each.sequence not in self._forgotten)
        self._forgotten.difference_update(each.sequence for each in again)
        self._unsettled.update(delivery.sequence for delivery in deliveries)
        self._all_read = all_read

    def lose(self) -> None:
        """Another worker leases the lane: start nothing more."""
        self._lost = True
        self._changed.set()

    @property
    def holds_deliveries(self) -> bool:
        """Whether it has deliveries that are not sent yet, or not settled."""
        return bool(self._unsettled)

    def forget(self, sequence: int) -> None:
        """Read a delivery again before it is sent: its event has changed. A request that has begun goes on."""
        if sequence not in self._unsettled:
            return
        self._forgotten.add(sequence)
        for delivery in [each for each in self._queue if each.sequence == sequence]:
            self._queue.remove(delivery)
            self._read_again(sequence)

    def _read_again(self, sequence: int) -> None:
        self._unsettled.discard(sequence)
        self._all_read = False
        self._changed.set()

    def settled(self, sequences: Iterable[int]) -> None:
        """Note that these results are stored; in an ordered lane the next deliveries of their resources may be due now."""
        self._unsettled.difference_update(sequences)
        if self.subscription.ordered:
            self._all_read = False
            self._changed.set()

    async def run(self) -> AsyncIterator[LaneReport]:
        """Send until the lane is empty or must be released. The caller then calls `finish`."""
        if self._must_wait():
            return
        while not self._lost:
            wait = self._start_requests()
            # The last results of a lane are settled together with its release.
            if self._results and (self._queue or self._running or self.subscription.ordered):
                yield self._report()
            if not self._running and not (self._queue and self._may_continue()) and not await self._read_more():
                if not self._awaits_settlement():
                    return
                await self._wait(self._config.heartbeat)
                continue
            if len(self._queue) < PAGE // 2:
                await self._read_more()
            if self._running or wait:
                await self._wait(wait)

    async def finish(self) -> LaneReport:
        """Wait for the requests in flight and return the last outcomes, with the release of the lane."""
        running: list[Awaitable[None]] = list(self._running)
        await asyncio.gather(*running, return_exceptions=True)
        self.finished = self.state.released = True
        return self._report()

    def _report(self) -> LaneReport:
        report = LaneReport(copy(self.state), self._results)
        self._results = []
        state = self.state
        state.succeeded = state.failed = state.attempts = state.failed_attempts = state.duration_ms = 0
        state.recovered = False
        return report

    def _awaits_settlement(self) -> bool:
        """Whether settling the results may make further deliveries of this lane due."""
        return self.subscription.ordered and bool(self._unsettled) and not self._probing and self._may_continue()

    def _must_wait(self) -> bool:
        """Whether nothing may be sent: paused, disabled, no URL, or a suspended store or app."""
        if self.subscription.ended:
            return False
        if self.subscription.status != "active" or self._target is None:
            self.state.idle = True
            return True
        if self.subscription.suspended:
            self._hold(self._config.suspended_delay)
            return True
        return False

    def _hold(self, seconds: float) -> None:
        self.state.hold_until = self._shared.now() + timedelta(seconds=seconds)

    def _may_continue(self) -> bool:
        hold, shared = self.state.hold_until, self._shared
        return (
            not self._lost
            and not self.state.idle
            and shared.may_send()
            and (self._probing or (self.state.breaker == "closed" and (hold is None or hold <= shared.now())))
            and not (shared.full and time.monotonic() - self._started_at > self._config.max_turn)
            and not self._host_is_full()
        )

    def _host_is_full(self) -> bool:
        """Whether the host has reached its limit; a lane with no request in flight is then released for a while."""
        if self._probing or not self._limits.full(self._host):
            return False
        if not self._running:
            self._hold(self._config.host_full_delay * random.uniform(0.5, 1.5))  # noqa: S311 - only jitter
        return True

    def _start_requests(self) -> float | None:
        """Start as many requests as allowed; returns the wait if only the rate limit prevents the next one."""
        window = 1 if self._probing else min(self._window, self.subscription.max_in_flight)
        while self._queue and len(self._running) < window and self._may_continue():
            if self._drop(self._queue[0]):
                self._queue.popleft()
                continue
            wait = self._rate_limit_wait()
            if wait > 0:
                return wait
            task = asyncio.create_task(self._deliver(self._queue.popleft()))
            self._limits.acquire(self._host)
            self._running.add(task)
            task.add_done_callback(self._request_ended)
        return None

    def _rate_limit_wait(self) -> float:
        rate = self.subscription.rate_per_s
        if rate is None:
            return 0
        now, times, key = time.monotonic(), self._shared.next_send_at, self.subscription.id
        ready = times.get(key, 0)
        if ready <= now:
            times[key] = max(ready, now - 1 / rate) + 1 / rate
        return max(0, ready - now)

    def _drop(self, delivery: PendingDelivery) -> bool:
        """Whether a delivery must not be sent any more; the reason is added to its attempts."""
        dropped = why_dropped(delivery, self.subscription, reachable=self._target is not None)
        if dropped is None:
            return False
        status, reason = dropped
        attempts = retry_policy.append_attempt(
            delivery.attempts, retry_policy.Attempt(self._shared.now(), 0, None, None, reason)
        )
        self._add_result(delivery, status, None, delivery.attempt_count, attempts)
        return True

    async def _read_more(self) -> bool:
        """Read further deliveries unless all were read; returns whether there are any."""
        if self._all_read or self._probing or not self._may_continue():
            return False
        # Results that are settled during the read may still be part of it.
        before = set(self._unsettled)
        limit = PAGE + len(before)
        try:
            read = await DUE_DELIVERIES.all(self._shared.database, json_rows([LaneRead(*self.key, limit, probe=False)]))
        except DATABASE_ERRORS:
            read = []  # the next lease of the lane finds them
        fresh = [each for each in read if each.sequence not in before and each.sequence not in self._unsettled]
        self.add(fresh, all_read=len(read) < limit)
        return bool(fresh)

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _request_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._limits.release(self._host)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            self.lose()  # the outcome is unknown: the lease expires and the delivery is repeated

    async def _deliver(self, delivery: PendingDelivery) -> None:
        shared, subscription, target = self._shared, self.subscription, self._target
        async with self._limits.slots:
            if self._lost or target is None or not shared.may_send():
                self._unsettled.discard(delivery.sequence)
                return
            if delivery.sequence in self._forgotten:
                self._read_again(delivery.sequence)
                return
            started_at = shared.now()
            try:
                event = seen_by(subscription.app_id, subscription.granted_scopes, delivery)
                body = message.body(
                    event,
                    delivery.sequence,
                    _store_of(subscription, shared.stores_url),
                    payload=subscription.payload,
                    fields=subscription.fields,
                )
                if shared.trace is None:
                    response = await shared.sender.send(target, delivery.id, body)
                else:
                    send = partial(shared.sender.send, event_id=delivery.id, body=body)
                    response = await shared.trace(delivery, target, send)
            except Exception as error:  # noqa: BLE001 - an event that cannot be sent is retried like any other
                structlog.get_logger().error("delivery failed", store_id=delivery.store_id, error=type(error).__name__)
                response = failed_response("internal_error")
        change = self._record(delivery, response, started_at)
        if change.opened or change.disable:
            await report_failing(shared.database, *self.key, change, self.state.failing_since)

    def _record(self, delivery: PendingDelivery, response: Response, started_at: datetime) -> HealthChange:
        """Judge a response, and add the result and its consequences to the next report."""
        config, now, state = self._config, self._shared.now(), self.state
        verdict = retry_policy.judge(response.status, response.retry_after)
        first = delivery.attempt_count == 0 and delivery.attempts == "[]"
        latency = max(0.0, (started_at - delivery.created_at).total_seconds()) if first else None
        self._shared.observe(SentAttempt(verdict, response.seconds, latency))
        change = retry_policy.update_health(
            state, verdict, now, config, probe=self._probing, retry_after=response.retry_after
        )
        milliseconds = round(response.seconds * 1000)
        attempt = retry_policy.Attempt(started_at, milliseconds, response.status, response.body, response.error)
        attempts = retry_policy.append_attempt(delivery.attempts, attempt)
        state.attempts += 1
        state.duration_ms += milliseconds
        if verdict == "succeeded":
            state.succeeded += 1
            self._window += response.seconds > FAST_S or self._window < FAST_WINDOW
            state.recovered = state.recovered or change.recovered
            self._add_result(delivery, "succeeded", None, delivery.attempt_count + 1, attempts)
            return change
        state.failed_attempts += 1
        self._window = MIN_WINDOW
        # A receiver that asks for time, or is known to be down, does not use up the attempts of a delivery.
        uncounted = verdict == "put_off" or self._probing
        count = delivery.attempt_count + (0 if uncounted else 1)
        due_at = (state.hold_until or now) if uncounted else retry_policy.next_attempt_at(count, now, config)
        state.failed += due_at is None
        self._add_result(delivery, "failed" if due_at is None else "retrying", due_at, count, attempts)
        state.idle = state.idle or change.disable is not None
        return change

    def _add_result(
        self, delivery: PendingDelivery, status: ResultStatus, due_at: datetime | None, count: int, attempts: str
    ) -> None:
        self._results.append(DeliveryResult(*self.key, delivery.sequence, status, due_at, count, attempts))


def _store_of(subscription: Subscription, stores_url: str) -> message.EventStore:
    """The store as the events of a subscription show it."""
    details = (subscription.store_name, subscription.currency, subscription.timezone, subscription.locale)
    base_url = f"{stores_url}{subscription.store_handle}"
    named = (subscription.store_id, subscription.store_handle, base_url)
    return message.EventStore(*named, *details) if subscription.of_app else message.EventStore(*named)
