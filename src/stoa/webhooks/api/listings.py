"""The lists of subscriptions and deliveries: filters, sort keys and `meta`."""

from typing import Any, get_args

from stoa.events.outbox import Event
from stoa.rest.filters import LARGEST_SET, Choices, Filter, InvalidValue, Moment, Number, StoreContext, Text
from stoa.rest.lists import ListOf
from stoa.rest.problems import did_you_mean, printable
from stoa.webhooks.api.contract import WebhookStatus
from stoa.webhooks.api.delivery_contract import MAX_WAIT_S, DeliveryStatus
from stoa.webhooks.api.rules import selected_events, valid_patterns

NOT_SENT = {
    "unknown_event": "The event does not exist or has expired.",
    "not_routed": "The event is not routed yet.",
    "before_subscription": "The event is older than the subscription.",
    "not_subscribed": "The subscription does not select this event.",
    "scope_not_granted": "The app, the token, or the token that set up the subscription lacks the scope that this event needs.",
    "other_app": "The event is about another app, or about metadata that only another app can see.",
    "own_change": "This app made the change, and skip_own is set.",
    "unchanged": "None of the fields in changed of the subscription changed.",
    "filtered": "The filter of the subscription excludes the event.",
}


class EventTypes(Filter, frozen=True, kw_only=True):
    """Event names and wildcards such as `order.*`, separated by commas. Read as the names that they select."""

    several = True

    def read(self, text: str, store: StoreContext) -> list[str]:
        patterns = text.split(",")
        if len(patterns) > LARGEST_SET:
            raise InvalidValue(f"may have at most {LARGEST_SET} values")
        for pattern in patterns:
            if pattern not in valid_patterns(Event.known):
                close = (did_you_mean(pattern, valid_patterns(Event.known)) or {}).get("did_you_mean")
                words = f", such as {close}" if close else ""
                raise InvalidValue(f'must be an event name or a wildcard{words}, not "{printable(pattern)}"')
        return [event.name for event in selected_events(patterns, Event.known)]

    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "enum": list(valid_patterns(Event.known))}
        return {"type": "array", "minItems": 1, "maxItems": LARGEST_SET, "items": items}


class ResourceTypes(Filter, frozen=True, kw_only=True):
    """One or more types of resources that events are about, separated by commas."""

    several = True

    def read(self, text: str, store: StoreContext) -> list[str]:
        return self._choices().read(text, store)

    def schema(self) -> dict[str, Any]:
        return self._choices().schema()

    @staticmethod
    def _choices() -> Choices:
        # The slices declare their events when they are imported, later than this module.
        return Choices(values=tuple(dict.fromkeys(event.resource_type for event in Event.known.values())))


WEBHOOKS = ListOf(
    filters={
        "status": Choices(values=get_args(WebhookStatus), description="One or more of these statuses."),
        "updated_since": Moment(description="Changed at or after this time."),
    },
    sorts={"id": int},
    meta={
        "available_events": {
            "type": "array",
            "description": "Every event that can be subscribed to.",
            "items": {
                "type": "object",
                "required": ["name", "description", "scope", "granted", "schema", "sample"],
                "properties": {
                    "name": {"type": "string", "description": "The name of the event, such as `order.created`."},
                    "description": {"type": "string", "description": "When Stoa sends the event."},
                    "scope": {"type": "string", "description": "The scope that the app needs to receive the event."},
                    "granted": {"type": "boolean", "description": "Whether the app has that scope on this store."},
                    "schema": {"type": "string", "description": "The URL of its JSON Schema."},
                    "sample": {
                        "type": "object",
                        "description": "The event as a subscription receives it, with made-up data.",
                    },
                },
            },
        }
    },
)

DELIVERIES = ListOf(
    filters={
        "status": Choices(values=get_args(DeliveryStatus), description="One or more of these statuses."),
        "event_type": EventTypes(
            description="Deliveries of these types of events; `order.*` selects all of a resource."
        ),
        "event": EventTypes(description="An alias of `event_type`."),
        "resource_type": ResourceTypes(description="Deliveries of events about resources of these types."),
        "resource_id": Number(description="Deliveries of events about the resource with this id."),
        "since": Moment(description="Deliveries created at or after this time."),
        "until": Moment(description="Deliveries created before this time."),
        "event_id": Text(
            description="Deliveries of this event. If there are none, `meta.not_sent` explains why.", longest=64
        ),
    },
    options={
        "after": Number(description="Turns the list into a feed: deliveries after this sequence, oldest first."),
        "wait": Number(
            description=f"With `after`: the number of seconds to wait for a new event, at most {MAX_WAIT_S}.",
            most=MAX_WAIT_S,
        ),
    },
    sorts={"id": int},
    default_sort=("-id",),
    includes=("payload",),
    meta={
        "after": {"type": "integer", "description": "In a feed: the value of `after` for the next request."},
        "not_sent": {
            "type": "object",
            "description": "Why the event with this `event_id` was not sent to this subscription.",
            "required": ["event_id", "reason", "detail"],
            "properties": {
                "event_id": {"type": "string", "description": "The id of the event that you asked for."},
                "reason": {"type": "string", "enum": list(NOT_SENT), "description": "The reason, for programs."},
                "detail": {"type": "string", "description": "The reason, for people."},
            },
        },
    },
)
