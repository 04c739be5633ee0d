"""A sample of every event, as a subscription receives it."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from stoa.access.addresses import base_url
from stoa.db.query import json_of
from stoa.events.outbox import Actor, Event
from stoa.openapi_examples import collected
from stoa.openapi_examples.fixtures import APP_ID, CREATED_AT, SERVICE_URL, STORE, UPDATED_AT, EventExample, Events
from stoa.webhooks.api.examples import NEW_WEBHOOK
from stoa.webhooks.delivery.events import WebhookDisabled, WebhookFailing, WebhookTest
from stoa.webhooks.http import message

EVENT_ID, SEQUENCE = "evt_5t0b2c7w4m9k1v6x3q8n", 88_123
WEBHOOK_ID = 9


def sample(event: type[Event]) -> dict[str, Any]:
    """The whole event: envelope, changes and data."""
    stored = message.Event(
        store_id=STORE.id,
        id=EVENT_ID,
        type=event.name,
        resource_type=event.resource_type,
        resource_id=resource_id(event),
        resource_version=_examples()[event.name].version,
        actor=json_of(Actor("app", APP_ID)),
        changes=json_of(changes(event)),
        data=json_of(document(event)),
        created_at=datetime.fromisoformat(UPDATED_AT),
        parent_version=parent_version(event),
        app_views=None,
    )
    details = (STORE.name, STORE.currency, STORE.timezone, STORE.locale) if event.app_only else ()
    store = message.EventStore(STORE.id, STORE.handle, base_url(SERVICE_URL, STORE.handle), *details)
    return msgspec.json.decode(message.body(stored, SEQUENCE, store))


def resource_id(event: type[Event]) -> int:
    return _examples()[event.name].resource_id


def parent_version(event: type[Event]) -> int | None:
    """The version of the product after its variant changed; None for other resources."""
    return 2 if event.resource_type == "variant" else None


def changes(event: type[Event]) -> Mapping[str, Any]:
    return _examples()[event.name].changes


def document(event: type[Event]) -> dict[str, Any]:
    """The `data` of the sample: the resource after the change."""
    return _examples()[event.name].data


@cache
def _examples() -> Events:
    return {**collected.events(), **_webhook_events()}


def _webhook_events() -> Events:
    active = {
        "id": WEBHOOK_ID,
        "name": NEW_WEBHOOK["name"],
        "url": NEW_WEBHOOK["url"],
        "status": "active",
        "disabled_reason": None,
        "failing_since": None,
    }
    failing = {**active, "failing_since": CREATED_AT}
    disabled = {**failing, "status": "disabled", "disabled_reason": "failing"}
    return {
        WebhookTest.name: EventExample(WEBHOOK_ID, 1, active),
        WebhookFailing.name: EventExample(WEBHOOK_ID, 1, failing, {"health": ["healthy", "failing"]}),
        WebhookDisabled.name: EventExample(WEBHOOK_ID, 2, disabled, {"status": ["active", "disabled"]}),
    }
