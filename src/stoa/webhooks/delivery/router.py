"""Routes events from the outbox to the lanes of the subscriptions that receive them, bucket by bucket and in order."""

import asyncio
import contextlib
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import structlog

from stoa.access.contract import AppUninstalled
from stoa.db.errors import cause, sqlstate
from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.events.outbox import ERASED_CHANGES
from stoa.webhooks.delivery import maintenance, queries
from stoa.webhooks.delivery.lane_scheduler import LaneScheduler
from stoa.webhooks.delivery.matching import STORE_BYTES, match
from stoa.webhooks.delivery.queries import (
    BUCKETS,
    DATABASE_ERRORS,
    NO_LEASE,
    Lease,
    LeasedLanes,
    PendingDelivery,
    RoutedDelivery,
    RoutedEvent,
    RoutedLane,
    Subscription,
)
from stoa.webhooks.delivery.retry_policy import DeliveryConfig
from stoa.webhooks.http.message import Event

BATCH, BATCH_BYTES = 500, 4_000_000
APART_PAUSE = (
    2  # between two turns: this many times the duration of the last one, which leaves the others most of the process
)
APART_S = 5.0  # a store that exceeded its share is routed apart for this time, also when it has caught up
BUCKET_LEASE_S = DeliveryConfig().takeover_after
SKIP_BATCH = 1000
_RETRY_S = 0.5
_UNSUBSCRIBED_TTL_S = 1.0
_MAX_UNSUBSCRIBED = 10_000
_NO_PARTITION = "23514"
_tokens = itertools.count(1)


class Routed(msgspec.Struct):
    """The result of one batch: the number of events, stores without subscriptions, the lanes that were leased with their
    first deliveries, the buckets of lanes that were not leased, stores that exceeded their share, and whether there may be
    more events."""

    events: int = 0
    unsubscribed: frozenset[int] = frozenset()
    leased: LeasedLanes = LeasedLanes()
    waiting: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()
    more: bool = False


class Router:
    """Routes notified buckets immediately, and polls for all others."""

    def __init__(
        self, database: Database, relaxed: Database, scheduler: LaneScheduler, poll_s: float, lease_s: float
    ) -> None:
        self._database = database
        self._relaxed = relaxed  # for statements that do not wait for the disk
        self._scheduler = scheduler
        self._poll_s = poll_s
        self._lease_s = lease_s
        self._buckets: set[int] = set()  # to be routed
        # Stores whose events take longer than their share of a batch: they have turns, beside the batches of all others.
        self._apart: dict[int, None] = {}
        self._apart_until: dict[int, float] = {}  # when each may return to the batches
        self._turn: asyncio.Task[None] | None = None
        self._occupied: int | None = None  # the bucket of the store whose turn it is
        self._next_turn_at = 0.0
        self._unsubscribed: dict[int, float] = {}  # stores without subscriptions, and when that was read
        self._wake = asyncio.Event()

    def notified(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        """Events were committed in the stores that a notification names. Those of stores without subscriptions wait for the
        next poll, which skips many events in one statement."""
        stores = (int(word) for word in payload.split(",") if word.isdigit())
        expired = time.monotonic() - _UNSUBSCRIBED_TTL_S
        if buckets := {store % BUCKETS for store in stores if self._unsubscribed.get(store, 0) < expired}:
            self._buckets |= buckets
            self._wake.set()

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._turn is not None:
                self._turn.cancel()

    async def _run(self) -> None:
        polled_at = 0.0
        while True:
            try:
                if time.monotonic() - polled_at >= self._poll_s:
                    polled_at = time.monotonic() if await self._poll() else 0.0
                if self._free_buckets():
                    await self._route()
                self._start_turn()
            except Exception as error:  # noqa: BLE001 - routing must go on, whatever one event causes
                structlog.get_logger().error("routing failed", **cause(error))
                await self.release()
                if sqlstate(error) == _NO_PARTITION:
                    with contextlib.suppress(*DATABASE_ERRORS):
                        await maintenance.create_partitions(self._database)
                await asyncio.sleep(_RETRY_S)
            if not self._free_buckets():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.001, polled_at + self._poll_s - time.monotonic())):
                        await self._wake.wait()
            self._wake.clear()

    async def release(self) -> None:
        """Release the buckets of a batch that was not finished; others take them over after the lease in any case."""
        with contextlib.suppress(*DATABASE_ERRORS):
            await queries.RELEASE_BUCKETS.run(self._database, self._scheduler.owner)

    async def _poll(self) -> bool:
        """Find unrouted events and skip those of stores without subscriptions; returns whether all were seen."""
        found = await queries.SKIP_UNSUBSCRIBED.all(self._relaxed, SKIP_BATCH)
        self._buckets |= {each.store_id % BUCKETS for each in found if each.subscribed}
        unsubscribed = {each.store_id for each in found if not each.subscribed}
        self._note_unsubscribed(unsubscribed)
        return not unsubscribed or sum(each.count for each in found) < SKIP_BATCH

    def _note_unsubscribed(self, stores: Iterable[int]) -> None:
        if len(self._unsubscribed) > _MAX_UNSUBSCRIBED:
            self._unsubscribed.clear()
        self._unsubscribed.update(dict.fromkeys(stores, time.monotonic()))

    def _free_buckets(self) -> set[int]:
        return self._buckets - {self._occupied}

    async def _route(self) -> None:
        """Route one batch of the notified buckets; notifications that arrive meanwhile form the next batch."""
        buckets = self._free_buckets()
        self._buckets -= buckets
        now = time.monotonic()
        self._apart_until = {store: until for store, until in self._apart_until.items() if until > now}
        self._apart.update(dict.fromkeys(store for store in self._apart_until if store % BUCKETS in buckets))
        shuffled = random.sample(sorted(buckets), len(buckets))
        left_out = [*dict.fromkeys((*self._apart, *self._apart_until))]
        with self._scheduler.reserve(BATCH) as lease:
            routed = await self._route_batch(shuffled, lease, StoreChoice(left_out, only=False))
        self._set_apart(routed.apart)
        if routed.more:
            self._buckets |= buckets

    def _set_apart(self, stores: Iterable[int]) -> None:
        until = time.monotonic() + APART_S
        for store in stores:
            self._apart[store] = None
            self._apart_until[store] = until

    def _start_turn(self) -> None:
        """Give the next store that is routed apart its turn. No other batch has its bucket, which one token leases."""
        if self._occupied is None and self._apart and time.monotonic() >= self._next_turn_at:
            store_id = next(iter(self._apart))
            del self._apart[store_id]
            self._occupied = store_id % BUCKETS
            self._turn = asyncio.create_task(self._route_apart(store_id))

    async def _route_apart(self, store_id: int) -> None:
        """Route some events of one store."""
        started = time.monotonic()
        try:
            routed = await self._route_batch([store_id % BUCKETS], NO_LEASE, StoreChoice([store_id], only=True))
            self._set_apart(routed.apart)
            if routed.more:
                self._apart[store_id] = None
        except Exception as error:  # noqa: BLE001 - the next poll finds its events
            structlog.get_logger().error("routing failed", **cause(error))
            await asyncio.sleep(_RETRY_S)
        finally:
            self._occupied = None
            pause = APART_PAUSE * (time.monotonic() - started)
            self._next_turn_at = time.monotonic() + pause
            self._wake.set()  # for the other stores of its bucket
            asyncio.get_running_loop().call_later(pause, self._wake.set)

    async def _route_batch(self, buckets: Sequence[int], lease: Lease, choice: "StoreChoice") -> Routed:
        scheduler = self._scheduler
        routed = await route_events(
            self._database,
            buckets,
            lease,
            holder=scheduler.owner,
            lease_s=self._lease_s,
            choice=choice,
            now=scheduler.shared.now,
        )
        self._scheduler.start(routed.leased)
        self._note_unsubscribed(routed.unsubscribed)
        if routed.waiting:
            self._scheduler.wake(routed.waiting)
        return routed


class StoreChoice(msgspec.Struct, frozen=True):
    """The only stores of a batch, or those that it leaves out."""

    stores: Sequence[int] = ()
    only: bool = False


ALL_STORES = StoreChoice()


def own_time() -> datetime:
    return datetime.now(UTC)


async def route_events(
    database: Database,
    buckets: Iterable[int],
    lease: Lease = NO_LEASE,
    *,
    holder: str = "",
    lease_s: float = BUCKET_LEASE_S,
    batch: int = BATCH,
    choice: StoreChoice = ALL_STORES,
    now: Callable[[], datetime] = own_time,
) -> Routed:
    """Route the next events of these buckets, except buckets that another router leases. A store that exceeds its share
    keeps the rest of its events. `now` is the database's time, as for deliveries that are read from it."""
    holder, token = holder or secrets.token_hex(8), next(_tokens)
    max_bytes = STORE_BYTES if choice.only else BATCH_BYTES
    taken = await queries.TAKE_EVENTS.all(
        database, list(buckets), batch, max_bytes, holder, token, lease_s, list(choice.stores), choice.only
    )
    if not taken:
        return Routed()
    subscribed = {event.store_id for event in taken if event.data}
    # Read after the events: a subscription that was created before an event was committed is seen here.
    subscriptions = await queries.SUBSCRIPTIONS_OF_STORES.all(database, list(subscribed)) if subscribed else []
    matched = await match(taken, subscriptions)
    events, pairs = matched.events, matched.pairs
    lanes, deliveries = _plan(pairs)
    arguments = (
        holder,
        token,
        lease.owner,
        lease.takeover_s,
        lease.lease_s,
        json_rows([RoutedEvent(event.store_id, event.id, event.changes == ERASED_CHANGES) for event in events]),
        json_rows(list(lanes.values())),
        json_rows(deliveries),
    )
    if uninstalls := [event for event in events if event.type == AppUninstalled.name]:
        async with database.transaction() as db:
            leased = await queries.ROUTE_EVENTS.all(db, *arguments)
            for event in uninstalls:
                await queries.END_SUBSCRIPTIONS.run(db, event.store_id, event.resource_id, event.created_at)
    else:
        leased = await queries.ROUTE_EVENTS.all(database, *arguments)
    starts = {lane.webhook_id: lane.next_sequence - lanes[lane.webhook_id].deliveries for lane in leased}
    routed_at = now()
    first = [
        PendingDelivery(
            *(getattr(event, name) for name in Event.__struct_fields__),  # without the audience
            webhook_id=row.webhook_id,
            sequence=start + row.sequence_offset,
            attempt_count=0,
            attempts="[]",
            routed_at=routed_at,
        )
        for (event, _), row in zip(pairs, deliveries, strict=True)
        if not row.blocked and (start := starts.get(row.webhook_id)) is not None
    ]
    return Routed(
        len(events),
        frozenset({event.store_id for event in events} - {event.store_id for event in events if event.data}),
        LeasedLanes(leased, subscriptions, first),
        frozenset(lane.store_id % BUCKETS for lane in lanes.values() if lane.webhook_id not in starts),
        frozenset(matched.apart),
        more=len(taken) == batch or sum(each.size for each in taken) > max_bytes,
    )


def _plan(pairs: Sequence[tuple[Event, Subscription]]) -> tuple[dict[int, RoutedLane], list[RoutedDelivery]]:
    """The rows to store. In an ordered lane, a delivery is blocked by an earlier one of the same resource."""
    lanes: dict[int, RoutedLane] = {}
    deliveries: list[RoutedDelivery] = []
    seen: set[tuple[int, str]] = set()
    for event, subscription in pairs:
        lane = lanes.get(subscription.id)
        if lane is None:
            sends = subscription.status == "active" and subscription.url is not None
            lane = lanes[subscription.id] = RoutedLane(event.store_id, subscription.id, 0, sends)
        ordered_by = f"{event.resource_type}:{event.resource_id}" if subscription.ordered else None
        blocked = ordered_by is not None and (subscription.id, ordered_by) in seen
        if ordered_by is not None:
            seen.add((subscription.id, ordered_by))
        deliveries.append(
            RoutedDelivery(event.store_id, subscription.id, lane.deliveries, event.id, event.type, event.resource_type,
                           event.resource_id, event.resource_version, ordered_by, blocked)
        )  # fmt: skip
        lane.deliveries += 1
    return lanes, deliveries
