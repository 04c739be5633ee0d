"""Example responses about subscriptions and deliveries; those about other resources are in `openapi_examples`."""

from datetime import datetime

import msgspec

from stoa.events.outbox import Event
from stoa.openapi_examples.fixtures import CREATED_AT, UPDATED_AT, Resource, Responses, one, page, shifted
from stoa.openapi_examples.orders import ORDER_ID
from stoa.orders.events import OrderStatusChanged
from stoa.products.events import ProductCreated
from stoa.webhooks.api.examples import NEW_REDELIVERY, NEW_WEBHOOK, WEBHOOK_CHANGES
from stoa.webhooks.api.samples import EVENT_ID, SEQUENCE, WEBHOOK_ID, sample
from stoa.webhooks.api.schemas import address
from stoa.webhooks.http.message import HIDDEN, base_string, sign

PATH_PARAMETERS = {"webhook_id": WEBHOOK_ID}
_SECRET = "whsec_ThisIsAnExampleSecretThatSignsNothingAtAll00"  # noqa: S105 - shown in the documentation, used nowhere
_SENT_AT = shifted(UPDATED_AT, milliseconds=205)


def resources() -> dict[str, Resource]:
    return {
        "Webhook": _webhook(),
        "Delivery": _delivery(),
        "TestResult": _test_result(),
        "Redelivery": {
            "id": 41,
            "webhook_id": WEBHOOK_ID,
            "matched": 128,
            "dry_run": False,
            "rate_per_s": NEW_REDELIVERY["rate_per_s"],
            "created_at": UPDATED_AT,
        },
    }


def responses() -> Responses:
    new = {"last_sequence": 0, "last_delivery_at": None, "stats_24h": {"succeeded": 0, "failed": 0, "attempts": 0}}
    updated = {"updated_at": UPDATED_AT, "version": 2}
    rotated = {"secret_expires_at": shifted(UPDATED_AT, hours=24), "secret": _SECRET}
    available = {
        "name": ProductCreated.name,
        "description": ProductCreated.__doc__,
        "scope": ProductCreated.scope,
        "granted": True,
        "schema": address(ProductCreated.name),
        "sample": _without_data(ProductCreated),
    }
    return {
        "list_webhooks": page(_webhook(), available_events=[available]),
        "create_webhook": one({**_webhook(), **new, "secret": _SECRET}),
        "update_webhook": one({**_webhook(), **WEBHOOK_CHANGES, **updated}),
        "rotate_webhook_secret": one({**_webhook(), **updated, **rotated}),
    }


def _webhook() -> Resource:
    return {
        "id": WEBHOOK_ID,
        "name": NEW_WEBHOOK["name"],
        "url": NEW_WEBHOOK["url"],
        "events": NEW_WEBHOOK["events"],
        "filter": NEW_WEBHOOK["filter"],
        "changed": [],
        "fields": [],
        "payload": NEW_WEBHOOK["payload"],
        "ordering": NEW_WEBHOOK["ordering"],
        "skip_own": NEW_WEBHOOK["skip_own"],
        "managed": False,
        "headers": dict.fromkeys(NEW_WEBHOOK["headers"], HIDDEN),
        "status": "active",
        "disabled_reason": None,
        "health": "healthy",
        "secret_expires_at": None,
        "max_in_flight": 10,
        "rate_per_s": None,
        "pending": 0,
        "oldest_pending_age_s": None,
        "breaker": {"state": "closed", "failures": 0, "next_probe_at": None},
        "stats_24h": {"succeeded": 214, "failed": 0, "attempts": 216},
        "last_sequence": SEQUENCE,
        "last_delivery_at": UPDATED_AT,
        "created_at": CREATED_AT,
        "updated_at": CREATED_AT,
        "version": 1,
    }


def _delivery() -> Resource:
    return {
        "id": f"dlv_{WEBHOOK_ID}_{SEQUENCE}",
        "webhook_id": WEBHOOK_ID,
        "event_id": EVENT_ID,
        "event_type": OrderStatusChanged.name,
        "sequence": SEQUENCE,
        "resource": {"type": OrderStatusChanged.resource_type, "id": ORDER_ID, "version": 2},
        "status": "succeeded",
        "attempts": [
            {"at": _SENT_AT, "duration_ms": 83, "response_status": 204, "response_body": "", "error": None},
        ],
        "attempt_count": 1,
        "next_attempt_at": None,
        "redelivery_of": None,
        "created_at": UPDATED_AT,
    }


def _without_data(event: type[Event]) -> Resource:
    """The sample as a subscription with `payload: thin` receives it: the whole resource would fill the page."""
    return {name: value for name, value in sample(event).items() if name != "data"}


def _test_result() -> Resource:
    event: Resource = {**_without_data(ProductCreated), "sequence": 0}
    body = msgspec.json.encode(event)
    sent_at = datetime.fromisoformat(_SENT_AT)
    timestamp = int(sent_at.timestamp())
    return {
        "succeeded": True,
        "event_id": event["id"],
        "event_type": event["type"],
        "url": NEW_WEBHOOK["url"],
        "request_headers": {
            **dict.fromkeys(NEW_WEBHOOK["headers"], HIDDEN),
            **sign([_SECRET], event["id"], timestamp, body),
        },
        "request_body": body.decode(),
        "signed_content": base_string(event["id"], timestamp, body).decode(),
        "response_status": 204,
        "response_headers": {"date": f"{sent_at:%a, %d %b %Y %H:%M:%S} GMT"},
        "response_body": "",
        "error": None,
        "timings": {"dns_ms": 4.1, "connect_ms": 18.6, "tls_ms": 21.3, "first_byte_ms": 38.2, "total_ms": 83.4},
        "not_sent": None,
    }
