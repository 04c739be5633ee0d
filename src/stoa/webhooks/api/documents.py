"""The public document of a subscription, and its encrypted secrets and headers."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from stoa.access.encryption import Cipher
from stoa.rest.call import Call
from stoa.settings import secret_key
from stoa.webhooks.api.contract import (
    Breaker,
    BreakerState,
    Health,
    Ordering,
    Payload,
    Stats,
    Webhook,
    WebhookStatus,
)
from stoa.webhooks.api.queries import Row
from stoa.webhooks.delivery.decryption import secret_place
from stoa.webhooks.http.message import HIDDEN

_TABLE = "webhooks"


def shown(row: Row) -> Webhook:
    return Webhook(
        id=row.id,
        name=row.name or None,
        url=row.url,
        events=row.events,
        filter=msgspec.json.decode(row.filter, type=dict[str, str]),
        changed=row.changed,
        fields=row.fields,
        payload=cast("Payload", row.payload),
        ordering=cast("Ordering", row.ordering),
        skip_own=row.skip_own,
        headers=dict.fromkeys(row.header_names, HIDDEN),
        status=cast("WebhookStatus", row.status),
        disabled_reason=row.disabled_reason,
        managed=row.managed,
        health=_health(row),
        secret_expires_at=row.old_secret_expires_at,
        max_in_flight=row.max_in_flight,
        rate_per_s=row.rate_per_s,
        pending=row.waiting,
        oldest_pending_age_s=row.oldest_age_s,
        breaker=BreakerState(
            cast("Breaker", row.breaker), row.failures, row.hold_until if row.breaker == "open" else None
        ),
        stats_24h=Stats(row.succeeded, row.failed, row.attempts),
        last_sequence=row.last_sequence,
        last_delivery_at=row.last_delivery_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        version=row.version,
    )


def _health(row: Row) -> Health:
    if row.breaker == "open" or row.status == "disabled":
        return "failing"
    return "degraded" if row.failures or row.failing else "healthy"


def same_key(url: str | None, name: str, events: Iterable[str]) -> bytes:
    """A digest that identifies equal subscriptions: URL and events, or name and events without a URL."""
    parts = [url or f"pull {name}", *sorted(events)]
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


class Secrets:
    """Encrypts and decrypts the secrets of the subscriptions of one store."""

    def __init__(self, call: Call) -> None:
        self._cipher = Cipher(secret_key(call.settings))
        self._store_id = call.store_id

    def encrypt(self, webhook_id: int, secret: str) -> bytes:
        return self._cipher.encrypt(secret, _TABLE, "secret", self._store_id, webhook_id)

    def of(self, row: Row) -> list[str]:
        """The active signing secrets of a subscription, newest first."""
        encrypted = [row.sealed_secret, *([row.sealed_old_secret] if row.sealed_old_secret else [])]
        place = secret_place(self._store_id, row.id, row.app_id, shared=row.shared_secret)
        return [self._cipher.decrypt(each, *place) for each in encrypted]

    def encrypt_headers(self, webhook_id: int, headers: Mapping[str, str]) -> bytes | None:
        text = msgspec.json.encode(headers).decode()
        return self._cipher.encrypt(text, _TABLE, "headers", self._store_id, webhook_id) if headers else None

    def headers_of(self, row: Row) -> dict[str, str]:
        if row.sealed_headers is None:
            return {}
        text = self._cipher.decrypt(row.sealed_headers, _TABLE, "headers", self._store_id, row.id)
        return msgspec.json.decode(text, type=dict[str, str])
