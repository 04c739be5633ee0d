"""How subscriptions and deliveries are listed: filters, sort keys, and what stands in `meta` besides."""

from typing import get_args

from stoa.rest.filters import Choices, Moment, Number, Text
from stoa.rest.lists import ListOf
from stoa.webhooks.api.contract import LONGEST_WAIT_S, DeliveryStatus, WebhookStatus

NOT_SENT = {
    "unknown_event": "There is no such event, or it is no longer kept.",
    "not_routed": "It is on its way.",
    "before_subscription": "It happened before there was this subscription.",
    "not_subscribed": "The subscription's events do not mean this one.",
    "scope_not_granted": "The store does not grant the app the scope that this event needs.",
    "other_app": "It concerns another app.",
    "own_change": "This app made the change itself, and skip_own is set.",
    "filtered": "The subscription's filter does not let it through.",
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
                    "scope": {"type": "string", "description": "What the app needs to hear it."},
                    "granted": {"type": "boolean", "description": "Whether the app has that scope here, now."},
                    "schema": {"type": "string", "description": "Where its JSON Schema is served."},
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
        "resource_id": Number(description="Deliveries that tell of the resource with this id."),
        "since": Moment(description="Deliveries of events that were routed at or after this time."),
        "event_id": Text(description="Deliveries of this event; `meta.not_sent` says why there are none.", longest=64),
    },
    options={
        "after": Number(description="Makes the list a feed: what came after this sequence, oldest first."),
        "wait": Number(description=f"With `after`: wait so many seconds, at most {LONGEST_WAIT_S}, for something new."),
    },
    sorts={"id": int},
    default_sort=("-id",),
    includes=("payload",),
    meta={
        "after": {"type": "integer", "description": "Of a feed: what to send as `after` next time."},
        "not_sent": {
            "type": "object",
            "description": "Why the event that `event_id` names was not sent to this subscription.",
            "required": ["event_id", "reason", "detail"],
            "properties": {
                "event_id": {"type": "string"},
                "reason": {"type": "string", "enum": list(NOT_SENT)},
                "detail": {"type": "string"},
            },
        },
    },
)
