"""Decides which subscriptions receive an event, and which deliveries are still sent: pattern, scope, own changes, filter."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, TypeVar, cast

import msgspec
import structlog

from stoa import terms
from stoa.access.contract import AppUninstalled
from stoa.access.rules import expanded
from stoa.events.outbox import Actor
from stoa.events.outbox import Event as EventType
from stoa.rest.checks import parse_time
from stoa.webhooks.delivery.queries import EventSelection, PendingDelivery, ResultStatus, Subscription
from stoa.webhooks.http.message import AddressedEvent, Event, replaced, select

E = TypeVar("E", bound=Event)
_CASELESS = frozenset({"tag", "tags", "brand", "category"})  # compared without case, as in lists
RANGES = {"gte": ge, "gt": gt, "lte": le, "lt": lt}
NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)
_KEY = re.compile(r"([a-z0-9_]{1,64}(?:\.[a-z0-9_]{1,64}){0,3})(?:\[([^\[\]]{1,64})\])?", re.ASCII)


def match(
    events: Sequence[AddressedEvent], subscriptions: Sequence[Subscription]
) -> list[tuple[AddressedEvent, Subscription]]:
    """Each event with each subscription that receives it, in the order of the events."""
    by_store: dict[int, list[Subscription]] = {}
    for subscription in subscriptions:
        by_store.setdefault(subscription.store_id, []).append(subscription)
    pairs: list[tuple[AddressedEvent, Subscription]] = []
    for event in events:
        # Events without data were read when their store had no subscriptions; a newer subscription must not receive them.
        candidates = by_store.get(event.store_id, ()) if event.data else ()
        owners = {each.id: each.app_id for each in candidates} if event.resource_type == "webhook" else {}
        pairs += [(event, each) for each in candidates if why_not(each, event, owners) is None]
    return pairs


def why_not(subscription: EventSelection, event: AddressedEvent, owners: Mapping[int, int]) -> str | None:
    """Why a subscription does not receive an event; None if it does. `owners` maps subscriptions to their apps."""
    if not _selects(subscription.events, event.type):
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
    conditions = _decode_filter(subscription.filter)
    if conditions and not _passes(conditions, seen_by(subscription.app_id, subscription.granted_scopes, event)):
        return "filtered"
    return None


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


def _selects(patterns: Sequence[str], type: str) -> bool:
    return type in patterns or "*" in patterns or f"{type.partition('.')[0]}.*" in patterns


@lru_cache(maxsize=1024)
def _expanded(scopes: tuple[str, ...]) -> frozenset[str]:
    return expanded(scopes)


# --- filters ----------------------------------------------------------------------------------------------------------


def _passes(conditions: Mapping[str, str], event: Event) -> bool:
    try:
        return matches(conditions, _decode_document(event.data))
    except Exception as error:  # noqa: BLE001 - one unreadable filter must not stop the events of all others
        structlog.get_logger().error("webhook filter failed", store_id=event.store_id, error=type(error).__name__)
        return True


@lru_cache(maxsize=1024)
def _decode_filter(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])


@lru_cache(maxsize=8)
def _decode_document(data: str) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


def matches(filter: Mapping[str, str], document: Mapping[str, Any]) -> bool:
    """Whether a document meets every condition. A missing field meets none."""
    return all(_meets(key, text, document) for key, text in filter.items())


def _meets(key: str, text: str, document: Mapping[str, Any]) -> bool:
    parsed = parse_key(key)
    if parsed is None:
        return False
    path, bracket = parsed
    caseless = path[-1] in _CASELESS
    if caseless:
        text = terms.caseless(text)
    for value in _values(document, path):
        if bracket is None:
            if _equals(terms.caseless(value) if caseless and isinstance(value, str) else value, text):
                return True
        elif isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            if bracket in entries and _equals(entries[bracket], text):
                return True
        elif bracket in RANGES and _compares(value, bracket, text):
            return True
    return False


@lru_cache(maxsize=4096)
def parse_key(key: str) -> tuple[tuple[str, ...], str | None] | None:
    """The path of a filter key and the text in its brackets: an operator, or a member as in `metadata[tier]`."""
    found = _KEY.fullmatch(key)
    return (tuple(found[1].split(".")), found[2]) if found else None


def _values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Every value at a path. A list yields each of its items, and `tag` also finds each of `tags`."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _values(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        name = path[0] if path[0] in members else plural(path[0])
        if name in members:
            yield from _values(members[name], path[1:])


def plural(name: str) -> str:
    return f"{name}s"


def _equals(value: Any, text: str) -> bool:
    return _is(value, text) or ("," in text and any(_is(value, word) for word in text.split(",")))


def _is(value: Any, text: str) -> bool:
    if isinstance(value, str):
        return value == text or _same_moment(value, text)
    if value is None or isinstance(value, bool):
        return text == {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float | Decimal):
        return NUMBER.fullmatch(text) is not None and Decimal(str(value)) == Decimal(text)
    return False


def _same_moment(value: str, text: str) -> bool:
    known = parse_time(value)
    return known is not None and known == parse_time(text)


def _compares(value: Any, operator: str, text: str) -> bool:
    actual, bound = _comparable(value), _comparable(text)
    if actual is None or bound is None or type(actual) is not type(bound):
        return False
    return RANGES[operator](actual, bound)


def _comparable(value: Any) -> Decimal | datetime | None:
    """A number, an amount or a time as a comparable value."""
    if isinstance(value, bool) or value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return Decimal(text) if NUMBER.fullmatch(text) else parse_time(text)
