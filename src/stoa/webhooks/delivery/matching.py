"""Decides which subscriptions receive an event, and which deliveries are still sent: pattern, scope, own changes, changed
fields, filter."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
import structlog

from stoa.access.contract import AppUninstalled
from stoa.access.rules import expanded
from stoa.events.outbox import Actor
from stoa.events.outbox import Event as EventType
from stoa.webhooks.delivery.changes import Changes
from stoa.webhooks.delivery.conditions import Document, TooManyValues, compiled
from stoa.webhooks.delivery.queries import EventSelection, PendingDelivery, ResultStatus, Subscription
from stoa.webhooks.http.message import AddressedEvent, Event, replaced, select

E = TypeVar("E", bound=Event)
# The share that a store has in each batch, so that its subscriptions delay nobody else; its other events follow later.
STORE_SECONDS, STORE_DELIVERIES, STORE_BYTES = 0.02, 1000, 250_000
SLICE_S = 0.002  # then other tasks of the process have their turn


class Matched(msgspec.Struct):
    """The events that were matched, each with every subscription that receives it, and stores that exceeded their share."""

    events: list[AddressedEvent] = []
    pairs: list[tuple[AddressedEvent, Subscription]] = []
    apart: set[int] = set()


async def match(events: Sequence[AddressedEvent], subscriptions: Sequence[Subscription]) -> Matched:
    """Match the events of each store in their order, at least one, until the store exceeds its share."""
    of_store: dict[int, list[AddressedEvent]] = {}
    for event in events:
        of_store.setdefault(event.store_id, []).append(event)
    subscribed: dict[int, list[Subscription]] = {}
    for subscription in subscriptions:
        subscribed.setdefault(subscription.store_id, []).append(subscription)
    matched, turn = Matched(), _Turn()
    for store_id, own in of_store.items():
        spent, size, before = 0.0, 0, len(matched.pairs)
        for event in own:
            if spent > STORE_SECONDS or size > STORE_BYTES or len(matched.pairs) - before > STORE_DELIVERIES:
                matched.apart.add(store_id)
                break
            # Events without data were read when their store had no subscriptions; a newer subscription must not receive them.
            candidates = subscribed.get(store_id, ()) if event.data else ()
            spent += await _match_event(event, candidates, matched.pairs, turn)
            size += event.size  # the database copies it to the partition of its day
            matched.events.append(event)
    return matched


async def _match_event(
    event: AddressedEvent,
    candidates: Sequence[Subscription],
    pairs: list[tuple[AddressedEvent, Subscription]],
    turn: "_Turn",
) -> float:
    """Add the subscriptions that receive an event; returns the seconds that this took."""
    owners = {each.id: each.app_id for each in candidates} if event.resource_type == "webhook" else {}
    views, spent, started = Views(), 0.0, time.perf_counter()
    for each in candidates:
        if why_not(each, event, owners, views) is None:
            pairs.append((event, each))
        if turn.is_over():
            spent += time.perf_counter() - started
            await turn.pass_on()
            started = time.perf_counter()
    return spent + time.perf_counter() - started


class _Turn:
    """Lets other tasks run between two subscriptions, so that matching never blocks the event loop."""

    def __init__(self) -> None:
        self._ends_at = time.perf_counter() + SLICE_S

    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends_at

    async def pass_on(self) -> None:
        await asyncio.sleep(0)
        self._ends_at = time.perf_counter() + SLICE_S


class Views:
    """One event as each app sees it, for the filters and watched fields of all its subscriptions."""

    def __init__(self) -> None:
        self._documents: dict[tuple[int, tuple[str, ...]], Document] = {}
        self._changes: dict[int | None, Changes] = {}

    def of(self, subscription: EventSelection, event: Event) -> Document:
        key = subscription.app_id, tuple(subscription.granted_scopes or ())
        if key not in self._documents:
            self._documents[key] = Document(seen_by(*key, event).data)
        return self._documents[key]

    def changes(self, subscription: EventSelection, event: Event) -> Changes:
        app_id = subscription.app_id if event.app_views is not None else None  # the same for all others
        if app_id not in self._changes:
            seen = seen_by(subscription.app_id, subscription.granted_scopes, event)
            self._changes[app_id] = Changes(event.type, seen.changes)
        return self._changes[app_id]


def why_not(subscription: EventSelection, event: AddressedEvent, owners: Mapping[int, int], views: Views) -> str | None:
    """Why a subscription does not receive an event; None if it does. `owners` maps subscriptions to their apps."""
    if not selects(subscription.events, event.type):
        return "not_subscribed"
    kind = EventType.known.get(event.type)
    if event.audience is not None and event.audience != subscription.app_id:
        return "other_app"
    if event.resource_type == "app" and event.resource_id != subscription.app_id:
        return "other_app"
    if event.resource_type == "webhook" and owners.get(event.resource_id) != subscription.app_id:
        return "other_app"
    if kind is not None and kind.app_only and not subscription.of_app:
        return "not_subscribed"
    if not may_receive(event.type, subscription.granted_scopes, of_app=subscription.of_app):
        return "scope_not_granted"
    if subscription.skip_own and msgspec.json.decode(event.actor, type=Actor).app_id == subscription.app_id:
        return "own_change"
    if subscription.changed and not _changed(subscription, event, views):
        return "unchanged"
    return None if subscription.filter == "{}" or _passes(subscription, event, views) else "filtered"


def _changed(subscription: EventSelection, event: Event, views: Views) -> bool:
    try:
        return views.changes(subscription, event).include(subscription.changed)
    except Exception as error:  # noqa: BLE001 - changes that cannot be read must not stop the events of all others
        structlog.get_logger().error("reading changes failed", store_id=event.store_id, error=type(error).__name__)
        return True


def _passes(subscription: EventSelection, event: Event, views: Views) -> bool:
    try:
        return compiled(subscription.filter).matches(views.of(subscription, event))
    except TooManyValues:
        return True  # the receiver can filter the few documents that are too large
    except Exception as error:  # noqa: BLE001 - one unreadable filter must not stop the events of all others
        structlog.get_logger().error("webhook filter failed", store_id=event.store_id, error=type(error).__name__)
        return True


def may_receive(type: str, granted_scopes: Sequence[str] | None, *, of_app: bool = False) -> bool:
    """Whether the granted scopes let an app receive this event. An app always receives its own `app.uninstalled`.

    Its own endpoint receives every event about the app, and the others while the app is installed: they need no scope.
    """
    kind = EventType.known.get(type)
    if type == AppUninstalled.name or (of_app and kind is not None and kind.resource_type == "app"):
        return True
    if of_app:
        return granted_scopes is not None
    return (kind.scope if kind else "") in _expanded(tuple(granted_scopes or ()))


def seen_by(app_id: int, granted_scopes: Sequence[str] | None, event: E) -> E:
    """The event as an app with these scopes sees it: with its own view, and of some types only basic fields without a
    second scope."""
    if event.app_views is not None:
        view = msgspec.json.decode(event.app_views, type=dict[int, _View]).get(app_id, _View())
        data, changes = replaced(event.data, view.data), replaced(event.changes, view.changes)
        event = msgspec.structs.replace(event, data=data, changes=changes, app_views=None)
    kind = EventType.known.get(event.type)
    if kind is None or not kind.full_scope or kind.full_scope in _expanded(tuple(granted_scopes or ())):
        return event
    return msgspec.structs.replace(event, data=select(event.data, kind.basic_fields))


class _View(msgspec.Struct):
    """A stored `AppView`, whose values are sent as they are."""

    data: dict[str, msgspec.Raw] = {}
    changes: dict[str, msgspec.Raw] = {}


def why_dropped(
    delivery: PendingDelivery, subscription: Subscription, *, reachable: bool
) -> tuple[ResultStatus, str] | None:
    """The final status of a delivery that must not be sent any more, and the reason; None if it is sent."""
    if subscription.ended and (delivery.type != AppUninstalled.name or not reachable):
        return "cancelled", "unsubscribed"
    if not delivery.data:
        return "cancelled", "event_expired"
    if subscription.skip_before is not None and delivery.routed_at < subscription.skip_before:
        return "skipped", "skipped_on_resume"
    if not may_receive(delivery.type, subscription.granted_scopes, of_app=subscription.of_app):
        return "skipped", "scope_not_granted"
    return None


def selects(patterns: Sequence[str], type: str) -> bool:
    return type in patterns or "*" in patterns or f"{type.partition('.')[0]}.*" in patterns


@lru_cache(maxsize=1024)
def _expanded(scopes: tuple[str, ...]) -> frozenset[str]:
    return expanded(scopes)
