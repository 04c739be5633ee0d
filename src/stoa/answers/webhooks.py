"""Answers about subscriptions, deliveries and imports: one of each, in the state that its operation leaves it in."""

from datetime import datetime
from typing import Any

import msgspec

from stoa.answers.parts import CHANGED, CREATED, Answers, Resource, one
from stoa.imports.contract import Counts, CustomerImportFinished, ProductImportFinished
from stoa.products.events import ProductCreated
from stoa.webhooks.api.contract import HIDDEN, NEW_WEBHOOK, WEBHOOK_CHANGES
from stoa.webhooks.api.samples import document, sample
from stoa.webhooks.http.signing import base_string, sign

WEBHOOK_ID = 9
_SECRET = "whsec_ThisIsAnExampleSecretThatSignsNothingAtAll00"  # noqa: S105 - shown in the documentation, used nowhere
_EVENT_ID, _SENT_AT = "evt_5t0b2c7w4m9k1v6x3q8n", "2026-03-14T15:09:26.741203Z"


def resources() -> dict[str, Resource]:
    return {
        "Webhook": _webhook(),
        "Delivery": _delivery(),
        "TestResult": _tried(),
        "Redelivery": {
            "id": 41,
            "webhook_id": WEBHOOK_ID,
            "matched": 128,
            "dry_run": False,
            "rate_per_s": 50,
            "created_at": CHANGED,
        },
        "Import": document(ProductImportFinished),
    }


def answers() -> Answers:
    new = {"last_sequence": 0, "last_delivery_at": None, "stats_24h": {"succeeded": 0, "failed": 0, "attempts": 0}}
    later = {"updated_at": CHANGED, "version": 2}
    return {
        "create_webhook": one({**_webhook(), **new, "secret": _SECRET}),
        "update_webhook": one({**_webhook(), **WEBHOOK_CHANGES, **later}),
        "rotate_webhook_secret": one(
            {**_webhook(), **later, "secret_expires_at": "2026-03-15T15:09:26.535897Z", "secret": _SECRET}
        ),
        "create_product_import": one(_queued(document(ProductImportFinished))),
        "create_customer_import": one(_queued(document(CustomerImportFinished))),
        "get_customer_import": one(document(CustomerImportFinished)),
    }


def _queued(job: Resource) -> Resource:
    counts = dict.fromkeys(Counts.__struct_fields__, 0)
    waits = {"status": "queued", "counts": counts, "progress": 0.0, "started_at": None, "finished_at": None}
    return {**job, **waits, "version": 1}


def _webhook() -> Resource:
    return {
        "id": WEBHOOK_ID,
        "name": NEW_WEBHOOK["name"],
        "url": NEW_WEBHOOK["url"],
        "events": NEW_WEBHOOK["events"],
        "filter": NEW_WEBHOOK["filter"],
        "fields": [],
        "payload": NEW_WEBHOOK["payload"],
        "ordering": NEW_WEBHOOK["ordering"],
        "skip_own": NEW_WEBHOOK["skip_own"],
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
        "last_sequence": 88_123,
        "last_delivery_at": CHANGED,
        "created_at": CREATED,
        "updated_at": CREATED,
        "version": 1,
    }


def _delivery() -> Resource:
    return {
        "id": f"dlv_{WEBHOOK_ID}_88123",
        "webhook_id": WEBHOOK_ID,
        "event_id": _EVENT_ID,
        "event_type": "order.status_changed",
        "sequence": 88_123,
        "resource": {"type": "order", "id": 512, "version": 2},
        "status": "succeeded",
        "attempts": [
            {"at": _SENT_AT, "duration_ms": 83, "response_status": 204, "response_body": "", "error": None},
        ],
        "attempt_count": 1,
        "next_attempt_at": None,
        "redelivery_of": None,
        "created_at": CHANGED,
    }


def _tried() -> Resource:
    told: dict[str, Any] = {**sample(ProductCreated), "sequence": 0}
    del told["data"]  # as a subscription with `payload: thin` gets it
    body = msgspec.json.encode(told)
    timestamp = int(datetime.fromisoformat(_SENT_AT).timestamp())
    return {
        "succeeded": True,
        "event_id": told["id"],
        "event_type": told["type"],
        "url": NEW_WEBHOOK["url"],
        "request_headers": {
            **dict.fromkeys(NEW_WEBHOOK["headers"], HIDDEN),
            **sign([_SECRET], told["id"], timestamp, body),
        },
        "request_body": body.decode(),
        "signed_content": base_string(told["id"], timestamp, body).decode(),
        "response_status": 204,
        "response_headers": {"date": "Sat, 14 Mar 2026 15:09:26 GMT"},
        "response_body": "",
        "error": None,
        "timings": {"dns_ms": 4.1, "connect_ms": 18.6, "tls_ms": 21.3, "first_byte_ms": 38.2, "total_ms": 83.4},
    }
