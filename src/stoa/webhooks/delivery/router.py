"""From the outbox to the lanes: which subscriptions hear of an event, decided once, bucket by bucket and in order."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import structlog

from stoa.access.contract import AppUninstalled
from stoa.access.rules import expanded
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query
from stoa.events.outbox import Actor
from stoa.events.outbox import Event as Announced
from stoa.webhooks.api.filters import matches
from stoa.webhooks.delivery.envelope import Event
from stoa.webhooks.delivery.queries import BUCKETS, Head, Lane
from stoa.webhooks.delivery.subscribers import Subscriber, Subscription

AT_ONCE = 500
LOOKED_OVER = 1000
_ALL_STORES = "the router goes over the stores of a bucket"


class Waiting(msgspec.Struct):
    """Events of a store that waited; where nobody listens, they wait no longer."""

    store_id: int
    heard: bool
    count: int


class Taken(msgspec.Struct):
    """An event that waits to be routed, or one of those who listen in the stores of the events before it."""

    event: Sequence[Any] | None
    listener: Sequence[Any] | None


LOOK_OVER = Query(Waiting, "SELECT store_id, heard, count FROM look_over_events(current_date, $1)", unbound=_ALL_STORES)
TAKE = Query(Taken, "SELECT event, listener FROM take_events($1::text[]::smallint[], $2)", unbound=_ALL_STORES)
SUBSCRIPTIONS_OF = Query(
    Subscription,
    """SELECT w.store_id, w.id, w.app_id, w.events, w.filter, w.skip_own, w.ordering = 'resource' AS ordered,
              i.scopes AS granted
         FROM webhooks w LEFT JOIN installations i ON i.store_id = $1 AND i.app_id = w.app_id
        WHERE w.store_id = $1 AND w.ended_at IS NULL ORDER BY w.id""",
)
ROUTE = Query(
    Lane,
    """SELECT * FROM route_events(current_date, $1, make_interval(secs => $2), make_interval(secs => $3),
                                  $4::text[]::bigint[], $5, $6, $7, $8::text[]::bigint[], $9::text[]::integer[],
                                  $10::text[]::integer[], $11::text[]::bigint[], $12::text[]::boolean[],
                                  $13::text[]::boolean[])""",
    unbound=_ALL_STORES,
)
GIVE_BACK = Query(bool, "SELECT pg_advisory_unlock_all() IS NULL", unbound="locks are of no store")
# Those made after the app had gone belong to its next installation.
END_SUBSCRIPTIONS = Command(
    """UPDATE webhooks SET ended_at = now(), updated_at = now(), version = version + 1
        WHERE store_id = $1 AND app_id = $2 AND created_at <= $3 AND ended_at IS NULL""",
)


class Taker(msgspec.Struct, frozen=True):
    """Who takes a lane in which nothing waited as it is filled, and for how long; nobody, unless there is an owner."""

    owner: str = ""
    beat_s: float = 0
    lease_s: float = 0


NOBODY = Taker()


class Routed(msgspec.Struct):
    """What one go brought: how many events were taken, and where nobody listens; the lanes that the taker has now, with
    who listens there and what comes first; and the buckets in which others wait to be taken."""

    events: int = 0
    unheard: frozenset[int] = frozenset()
    lanes: Sequence[Lane] = ()
    subscribers: Sequence[Subscriber] = ()
    heads: Sequence[Head] = ()
    waiting: frozenset[int] = frozenset()


async def route_events(
    database: Database, buckets: Iterable[int], taker: Taker = NOBODY, *, at_once: int = AT_ONCE
) -> Routed:
    """Route the next events of these buckets, but none of one that another worker is at, and give the buckets back."""
    async with database.session() as db:
        routed = await route_on(db, buckets, taker, at_once=at_once)
        await GIVE_BACK.one(db)
    return routed


async def route_on(db: Executor, buckets: Iterable[int], taker: Taker, *, at_once: int = AT_ONCE) -> Routed:
    """The same on a session that keeps the buckets until its next go, so that nobody waits for their being given back."""
    found = await TAKE.all(db, [str(bucket) for bucket in buckets], at_once)
    events = [Event(*taken.event) for taken in found if taken.event is not None]
    listeners = [Subscriber(*taken.listener) for taken in found if taken.listener is not None]
    return await _route(db, taker, events, listeners) if events else Routed()


async def _route(db: Executor, taker: Taker, events: Sequence[Event], listeners: Sequence[Subscriber]) -> Routed:
    pairs = match(events, listeners)
    ends = [event for event in events if event.type == AppUninstalled.name]
    if ends:
        await db.execute("BEGIN")
    taken = await _store(db, taker, events, pairs)
    for event in ends:
        await END_SUBSCRIPTIONS.run(db, event.store_id, event.resource_id, event.created_at)
    if ends:
        await db.execute("COMMIT")
    ours = {lane.webhook_id for lane in taken}
    return Routed(
        len(events),
        frozenset({event.store_id for event in events} - {event.store_id for event in events if event.data}),
        taken,
        listeners,
        _heads(events, pairs, taken),
        frozenset(each.store_id % BUCKETS for _, each in pairs if each.id not in ours),
    )


def _heads(events: Sequence[Event], pairs: Sequence[tuple[int, Subscriber]], taken: Sequence[Lane]) -> list[Head]:
    """What comes first in the lanes that were taken: all that was put there, but where order is kept one of a resource."""
    numbers = Counter(each.id for _, each in pairs)
    following = {lane.webhook_id: lane.next_sequence - numbers[lane.webhook_id] for lane in taken}
    begun: set[tuple[int, str, int]] = set()
    heads: list[Head] = []
    for place, each in pairs:
        if each.id not in following:
            continue
        event, sequence = events[place - 1], following[each.id]
        following[each.id] += 1
        resource = (each.id, event.resource_type, event.resource_id)
        if not each.ordered or resource not in begun:
            begun.add(resource)
            heads.append(Head.first(each.id, sequence, event))
    return heads


def match(events: Sequence[Event], found: Sequence[Subscriber]) -> list[tuple[int, Subscriber]]:
    """Who hears what: the place of an event, from 1, and a subscription."""
    by_store: dict[int, list[Subscriber]] = {}
    for subscription in found:
        by_store.setdefault(subscription.store_id, []).append(subscription)
    pairs: list[tuple[int, Subscriber]] = []
    for place, event in enumerate(events, 1):
        # An event that came without its data was taken when nobody listened: who does since is owed only what follows.
        there = by_store.get(event.store_id, ()) if event.data else ()
        owners = {each.id: each.app_id for each in there} if event.resource_type == "webhook" else {}
        pairs += [(place, each) for each in there if why_not(each, event, owners) is None]
    return pairs


def why_not(subscription: Subscription, event: Event, owners: Mapping[int, int]) -> str | None:
    """Why a subscription does not hear of an event; None when it does. `owners` tells the app of each subscription."""
    if not _named(event.type, subscription.events):
        return "not_subscribed"
    kind = Announced.known.get(event.type)
    if event.resource_type == "app" and event.resource_id != subscription.app_id:
        return "other_app"
    if event.resource_type == "webhook" and owners.get(event.resource_id) != subscription.app_id:
        return "other_app"
    if not may_hear(event.type, kind.scope if kind else "", subscription.granted):
        return "scope_not_granted"
    if subscription.skip_own and msgspec.json.decode(event.actor, type=Actor).app_id == subscription.app_id:
        return "own_change"
    wanted = _filter(subscription.filter)
    if wanted and not _passes(wanted, event):
        return "filtered"
    return None


def _passes(wanted: Mapping[str, str], event: Event) -> bool:
    try:
        return matches(wanted, _document(event.data))
    except Exception as error:  # noqa: BLE001 - a filter that cannot be read must not stop all others' events
        structlog.get_logger().error("webhook filter", store_id=event.store_id, error=type(error).__name__)
        return True


def may_hear(type: str, scope: str, granted: Sequence[str] | None) -> bool:
    """Whether the scopes that the store grants now let an app hear of this; of its own going it always may."""
    return type == AppUninstalled.name or scope in _expanded(tuple(granted or ()))


@lru_cache(maxsize=1024)
def _expanded(granted: tuple[str, ...]) -> frozenset[str]:
    return expanded(granted)


def _named(type: str, patterns: Sequence[str]) -> bool:
    return type in patterns or "*" in patterns or f"{type.partition('.')[0]}.*" in patterns


@lru_cache(maxsize=1024)
def _filter(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])


@lru_cache(maxsize=8)
def _document(data: str) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


async def _store(
    db: Executor, taker: Taker, events: Sequence[Event], pairs: Sequence[tuple[int, Subscriber]]
) -> list[Lane]:
    return await ROUTE.all(
        db,
        taker.owner,
        taker.beat_s,
        taker.lease_s,
        [str(event.store_id) for event in events],
        [event.id for event in events],
        [event.type for event in events],
        [event.resource_type for event in events],
        [str(event.resource_id) for event in events],
        [str(event.resource_version) for event in events],
        [str(place) for place, _ in pairs],
        [str(each.id) for _, each in pairs],
        [str(each.ordered) for _, each in pairs],
        [str(each.wakes) for _, each in pairs],
    )
