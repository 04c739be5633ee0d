"""The lists of subscriptions and deliveries: filters, sort keys and `meta`."""

from typing import get_args

from stoa.rest.filters import Choices, Moment, Number, Text
from stoa.rest.lists import ListOf
from stoa.webhooks.api.contract import MAX_WAIT_S, DeliveryStatus, WebhookStatus

NOT_SENT = {
    "unknown_event": "The event does not exist or has expired.",
    "not_routed": "The event is not routed yet.",
    "before_subscription": "The event is older than the subscription.",
    "not_subscribed": "The subscription does not select this event.",
    "scope_not_granted": "The app does not have the scope that this event needs.",
    "other_app": "The event is about another app, or about metadata that only another app can see.",
    "own_change": "This app made the change, and skip_own is set.",
    "filtered": "The filter of the subscription excludes the event.",
}

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
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                    "scope": {"type": "string", "description": "The scope that the app needs to receive the event."},
                    "granted": {"type": "boolean", "description": "Whether the app has that scope on this store."},
                    "schema": {"type": "string", "description": "The URL of its JSON Schema."},
                    "sample": {"type": "object"},
                },
            },
        }
    },
)

DELIVERIES = ListOf(
    filters={
        "status": Choices(values=get_args(DeliveryStatus), description="One or more of these statuses."),
        "event": Text(description="Deliveries of this type of event.", longest=64),
        "resource_id": Number(description="Deliveries of events about the resource with this id."),
        "since": Moment(description="Deliveries created at or after this time."),
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
                "event_id": {"type": "string"},
                "reason": {"type": "string", "enum": list(NOT_SENT)},
                "detail": {"type": "string"},
            },
        },
    },
)
