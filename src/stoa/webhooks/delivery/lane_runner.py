"""A lane in hand: its deliveries sent side by side as far as its subscriber allows, and what became of them noted."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec
import structlog

from stoa.events.outbox import Event as Announced
from stoa.webhooks.delivery import envelope, retry_policy
from stoa.webhooks.delivery.host_limits import Places
from stoa.webhooks.delivery.queries import Head, Lane
from stoa.webhooks.delivery.retry_policy import Clock, Outcome, Verdict
from stoa.webhooks.delivery.router import may_hear
from stoa.webhooks.delivery.subscribers import Subscriber
from stoa.webhooks.http.client import Answer, Sender, Target, unanswered

PAGE = 50
# Requests at once: few at first, some to a receiver that is quick, and as many as it allows to one that takes its time.
# What is in flight when a worker dies is sent again, so no more are begun than are of use.
CAUTIOUS, BRISK = 2, 4
QUICK_S = 0.02
MOST_NOTED = 20  # attempts of one delivery that are kept


class Attempt(msgspec.Struct):
    """One try, as the log shows it."""

    at: datetime
    duration_ms: int
    response_status: int | None
    response_body: str | None
    error: str | None


class Result(msgspec.Struct):
    """What became of a delivery for now; `retrying` is not the end of it."""

    sequence: int
    status: str
    due_at: datetime | None
    count: int
    attempts: str


class Tally(msgspec.Struct):
    """What is added to the hour's figures."""

    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    duration_ms: int = 0


class Sent(msgspec.Struct):
    """One attempt, for those who count them."""

    outcome: Verdict
    seconds: float
    latency: float | None  # from the event to the first byte sent, of a first attempt


class Hands(Protocol):
    """What a lane needs of whoever holds it."""

    clock: Clock
    sender: Sender
    places: Places
    paces: dict[int, float]
    observe: Callable[[Sent], None]

    def now(self) -> datetime: ...
    def may_send(self) -> bool: ...
    def crowded(self) -> bool: ...
    def settle(self, held: "Held") -> None: ...
    async def read(self, held: "Held", limit: int) -> list[Head]: ...
    async def tell(self, held: "Held", outcome: Outcome) -> None: ...


class Held:
    """What is known of a lane from the moment it is taken until it is let go."""

    def __init__(self, hands: Hands, lane: Lane, subscriber: Subscriber, target: Target | None) -> None:
        self.lane = lane
        self.subscriber = subscriber
        self.standing = lane.standing()
        self.probing = lane.breaker == "open"
        self.results: list[Result] = []
        self.tally = Tally()
        self.drain = False
        self.letting_go = False
        self.idle = False  # let go with nothing to come back for
        self.lost = False
        self.known: set[int] = set()  # read, and not yet settled
        self._hands = hands
        self._target = target
        self._host = target.host if target else ""
        self._rows: deque[Head] = deque()
        self._exhausted = False
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._since = time.monotonic()
        self._window = CAUTIOUS

    @property
    def key(self) -> tuple[int, int]:
        return self.lane.bucket, self.lane.webhook_id

    def lose(self) -> None:
        """Another has the lane now: begin nothing more."""
        self.lost = True
        self._changed.set()

    def add(self, heads: list[Head], *, exhausted: bool) -> None:
        self._rows.extend(heads)
        self.known.update(head.sequence for head in heads)
        self._exhausted = exhausted

    async def drive(self) -> None:
        """Send what is there until nothing is, or the lane is needed no longer; then let it go."""
        try:
            if self._hold_back():
                return
            while not self.lost:
                wait = self._start_some()
                if not self._running and not (self._rows and self._may_go_on()) and not await self._refill():
                    if not self._may_follow():
                        return
                    await self._change(self._hands.clock.beat)
                    continue
                if len(self._rows) < PAGE // 2:
                    await self._refill()
                if self._running or wait:
                    await self._change(wait)
        finally:
            await self._finish()

    def settled(self, sequences: Iterable[int]) -> None:
        """These results are recorded; where order is kept, what waited for them may go now."""
        self.known.difference_update(sequences)
        if self.subscriber.ordered:
            self._exhausted = False
            self._changed.set()

    def _may_follow(self) -> bool:
        """Whether something may come up once what was sent is recorded."""
        return self.subscriber.ordered and bool(self.known) and not self.probing and self._may_go_on()

    def _hold_back(self) -> bool:
        """Whether nothing may be sent now: paused, disabled, without an address, or of a store or app in suspension."""
        subscriber, standing = self.subscriber, self.standing
        if subscriber.ended:
            return False
        if subscriber.status != "active" or self._target is None:
            self.idle = True
            return True
        if subscriber.suspended:
            standing.hold_until = self._hands.now() + timedelta(seconds=self._hands.clock.hold)
            return True
        return False

    def _may_go_on(self) -> bool:
        hold = self.standing.hold_until
        return (
            not self.lost
            and not self.idle
            and self._hands.may_send()
            and (self.probing or (self.standing.breaker == "closed" and (hold is None or hold <= self._hands.now())))
            and not (self._hands.crowded() and time.monotonic() - self._since > self._hands.clock.turn)
            and not self._stands_aside()
        )

    def _stands_aside(self) -> bool:
        """Whether the host has as much to answer as it may; a lane that waits for nothing else is let go for a while."""
        if self.probing or not self._hands.places.full(self._host):
            return False
        if not self._running:
            aside = self._hands.clock.aside * random.uniform(0.5, 1.5)  # noqa: S311 - not to come back all at once
            self.standing.hold_until = self._hands.now() + timedelta(seconds=aside)
        return True

    def _start_some(self) -> float | None:
        """Begin as many requests as may run; says how long to wait where only the pace forbids more."""
        most = 1 if self.probing else min(self._window, self.subscriber.max_in_flight)
        while self._rows and len(self._running) < most and self._may_go_on():
            if self._set_aside(self._rows[0]):
                self._rows.popleft()
                continue
            wait = self._pace()
            if wait > 0:
                return wait
            task = asyncio.create_task(self._deliver(self._rows.popleft()))
            self._hands.places.take(self._host)
            self._running.add(task)
            task.add_done_callback(self._ended)
        return None

    def _pace(self) -> float:
        rate = self.subscriber.rate_per_s
        if rate is None:
            return 0
        now, paces, key = time.monotonic(), self._hands.paces, self.lane.webhook_id
        ready = paces.get(key, 0)
        if ready <= now:
            paces[key] = max(ready, now - 1 / rate) + 1 / rate
        return max(0, ready - now)

    def _set_aside(self, head: Head) -> bool:
        """Whether a delivery is not to be sent after all; it is noted why."""
        subscriber = self.subscriber
        kind = Announced.known.get(head.type)
        if subscriber.ended and (head.type != "app.uninstalled" or self._target is None):
            status, why = "cancelled", "unsubscribed"
        elif head.data is None:
            status, why = "cancelled", "event_expired"
        elif subscriber.skip_before is not None and head.routed_at < subscriber.skip_before:
            status, why = "skipped", "skipped_on_resume"
        elif not may_hear(head.type, kind.scope if kind else "", subscriber.granted):
            status, why = "skipped", "scope_not_granted"
        else:
            return False
        noted = _noted(head.attempts, Attempt(self._hands.now(), 0, None, None, why))
        self.results.append(Result(head.sequence, status, None, head.attempt_count, noted))
        self._hands.settle(self)
        return True

    async def _refill(self) -> bool:
        """Read further unless all was read; says whether there is more to send."""
        if self._exhausted or self.probing or not self._may_go_on():
            return False
        # What is settled while the answer is on its way may still be in it.
        before = set(self.known)
        heads = await self._hands.read(self, PAGE + len(before))
        fresh = [head for head in heads if head.sequence not in before and head.sequence not in self.known]
        self.add(fresh, exhausted=len(heads) < PAGE + len(before))
        return bool(fresh)

    async def _change(self, wait: float | None) -> None:
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._hands.places.give_back(self._host)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            self.lose()  # nothing is known of that delivery; the lease runs out and it is tried again

    async def _deliver(self, head: Head) -> None:
        hands, target = self._hands, self._target
        async with hands.places.slots:
            if self.lost or target is None or not hands.may_send():
                self.known.discard(head.sequence)
                return
            began = hands.now()
            try:
                event = head.event()
                settings = self.subscriber
                body = envelope.body(event, head.sequence, payload=settings.payload, fields=settings.fields)
                answer = await hands.sender.send(target, head.id, body)
            except Exception as error:  # noqa: BLE001 - an event that we cannot send is tried again like any other
                structlog.get_logger().error("delivery", store_id=head.store_id, error=type(error).__name__)
                answer = unanswered("internal_error")
        first = head.attempt_count == 0 and head.attempts == "[]"
        latency = max(0.0, (began - head.created_at).total_seconds()) if first and head.created_at else None
        outcome = self._note(head, answer, began, latency)
        # The last of a lane is recorded as the lane is let go.
        if self._rows or len(self._running) > 1 or self.subscriber.ordered:
            hands.settle(self)
        if outcome.opened or outcome.disable:
            await hands.tell(self, outcome)

    def _note(self, head: Head, answer: Answer, began: datetime, latency: float | None) -> Outcome:
        """Judge an answer, and write down what follows from it."""
        clock, now, standing = self._hands.clock, self._hands.now(), self.standing
        verdict = retry_policy.judge(answer.status, answer.retry_after)
        self._hands.observe(Sent(verdict, answer.seconds, latency))
        outcome = retry_policy.after(standing, verdict, now, clock, probe=self.probing, retry_after=answer.retry_after)
        milliseconds = round(answer.seconds * 1000)
        attempt = Attempt(began, milliseconds, answer.status, answer.body, answer.error)
        noted = _noted(head.attempts, attempt)
        self.tally.attempts += 1
        self.tally.duration_ms += milliseconds
        if verdict == "succeeded":
            self.tally.succeeded += 1
            self._window += answer.seconds > QUICK_S or self._window < BRISK
            self.drain = self.drain or outcome.recovered
            self.results.append(Result(head.sequence, "succeeded", None, head.attempt_count + 1, noted))
            return outcome
        self.tally.failed_attempts += 1
        self._window = CAUTIOUS
        # A receiver that asks for time, or is known to be down, does not use up the tries of an event.
        spared = verdict == "put_off" or self.probing
        count = head.attempt_count + (0 if spared else 1)
        due = standing.hold_until or now if spared else retry_policy.next_try(count, now, clock)
        if due is None:
            self.tally.failed += 1
        self.results.append(Result(head.sequence, "failed" if due is None else "retrying", due, count, noted))
        self.idle = self.idle or outcome.disable is not None
        return outcome

    async def _finish(self) -> None:
        running: list[Awaitable[None]] = list(self._running)
        await asyncio.gather(*running, return_exceptions=True)
        self.letting_go = True
        self._hands.settle(self)


def _noted(before: str, attempt: Attempt) -> str:
    """The attempts so far and one more; of very many, the first ones and the last."""
    new = msgspec.json.encode(attempt).decode()
    if before == "[]":
        return f"[{new}]"
    kept: list[Any] = msgspec.json.decode(before, type=list[msgspec.Raw])
    if len(kept) >= MOST_NOTED:
        del kept[MOST_NOTED // 2]
    return msgspec.json.encode([*kept, msgspec.Raw(new.encode())]).decode()
