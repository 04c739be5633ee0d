"""Webhooks as callers see them: subscriptions, deliveries, what may be sent, and what is refused."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.checks import Time, worded
from stoa.rest.problems import Refusal

MOST_WEBHOOKS = 100
MOST_REDELIVERED = 500
LONGEST_WAIT_S = 20
HIDDEN = "********"  # what is shown of a header's value, and means "as it was" when it is sent back

Payload = Literal["full", "thin"]
Ordering = Literal["none", "resource"]
WebhookStatus = Literal["active", "paused", "disabled"]
Health = Literal["healthy", "degraded", "failing"]
Breaker = Literal["closed", "open"]
DeliveryStatus = Literal["pending", "retrying", "succeeded", "failed", "skipped", "cancelled", "held"]

WebhookName = Annotated[str, Meta(min_length=1, max_length=100)]
Url = Annotated[
    str,
    Meta(min_length=1, max_length=2048, pattern=r"^https?://[^\s\u0000-\u001f\u007f-\u009f\ufeff]+$"),
    worded("must be an address that begins with http:// or https://"),
]
Pattern = Annotated[str, Meta(min_length=1, max_length=64)]
Patterns = Annotated[list[Pattern], Meta(min_length=1, max_length=100, extra_json_schema={"uniqueItems": True})]
FilterKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=160,
        extra_json_schema={"pattern": r"^[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){0,3}(\[[^\[\]]{1,64}\])?$"},
    ),
]
FilterValue = Annotated[str, Meta(max_length=1000, extra_json_schema={"minLength": 1})] | int | float | bool
Fields = Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=100)]
HeaderName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"),
    worded("must be the name of a header field, such as X-Warehouse, of at most 64 characters"),
]
HeaderValue = Annotated[
    str,
    Meta(max_length=1024, pattern=r"^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$"),
    worded("must be one line of visible ASCII characters, with no space at either end"),
]
InFlight = Annotated[int, Meta(ge=1, le=100)]
Rate = Annotated[int, Meta(ge=1, le=1000)]
DeliveryId = Annotated[
    str,
    Meta(extra_json_schema={"maxLength": 43}, pattern=r"^dlv_[0-9]{1,19}_[0-9]{1,19}$"),
    worded("must be the id of a delivery, which begins with dlv_"),
]
Ended = Literal["succeeded", "failed", "skipped", "cancelled"]


class Stats(msgspec.Struct):
    """What the last 24 hours brought: events that arrived, events given up, and tries in all."""

    succeeded: int
    failed: int
    attempts: int


class BreakerState(msgspec.Struct):
    """Whether sending rests because the receiver fails; `next_probe_at` is when it is tried again."""

    state: Breaker
    failures: int
    next_probe_at: Time | None


class Webhook(msgspec.Struct):
    """A subscription of this app to what happens in this store."""

    id: int
    name: str | None
    url: str | None
    events: list[str]
    filter: dict[str, str]
    fields: list[str]
    payload: Payload
    ordering: Ordering
    skip_own: bool
    headers: dict[str, str]
    status: WebhookStatus
    disabled_reason: str | None
    health: Health
    secret_expires_at: Time | None
    max_in_flight: int
    rate_per_s: int | None
    pending: int
    oldest_pending_age_s: int | None
    breaker: BreakerState
    stats_24h: Stats
    last_sequence: int
    last_delivery_at: Time | None
    created_at: Time
    updated_at: Time
    version: int
    secret: str | UnsetType = UNSET


# What moves by itself, so that sending it back changed is no mistake.
VOLATILE = frozenset(
    {"health", "pending", "oldest_pending_age_s", "breaker", "stats_24h", "last_sequence", "last_delivery_at",
     "disabled_reason", "secret_expires_at", "updated_at", "version"}
)  # fmt: skip


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription as it is asked for; without `url` its events are only kept, to be pulled."""

    events: Patterns
    url: Url | None = None
    name: WebhookName | None = None
    filter: Annotated[dict[FilterKey, FilterValue], Meta(max_length=20)] = {}
    fields: Fields = []
    payload: Payload = "full"
    ordering: Ordering = "none"
    skip_own: bool = False
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=20)] = {}
    status: Literal["active", "paused"] = "active"
    max_in_flight: InFlight = 10
    rate_per_s: Rate | None = None


class ResumeSince(msgspec.Struct, forbid_unknown_fields=True):
    """Send what has waited since this time; what is older is cancelled."""

    since: Time


class WebhookChanges(msgspec.Struct, forbid_unknown_fields=True):
    """What may be changed of a subscription; what is left out stays, null clears."""

    events: Patterns | UnsetType = UNSET
    url: Url | UnsetType | None = UNSET
    name: WebhookName | UnsetType | None = UNSET
    filter: Annotated[dict[FilterKey, FilterValue | None], Meta(max_length=20)] | UnsetType | None = UNSET
    fields: Fields | UnsetType | None = UNSET
    payload: Payload | UnsetType = UNSET
    ordering: Ordering | UnsetType = UNSET
    skip_own: bool | UnsetType = UNSET
    headers: Annotated[dict[HeaderName, HeaderValue | None], Meta(max_length=20)] | UnsetType | None = UNSET
    status: Literal["active", "paused"] | UnsetType = UNSET
    resume: Literal["all", "now"] | ResumeSince | UnsetType = UNSET
    max_in_flight: InFlight | UnsetType = UNSET
    rate_per_s: Rate | UnsetType | None = UNSET


class NewTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which event to send a sample of; `webhook.test` unless given."""

    event: Pattern = "webhook.test"


class Timings(msgspec.Struct):
    """How long each part of a request took, in milliseconds; null for a part that was not reached."""

    dns_ms: float | None
    connect_ms: float | None
    tls_ms: float | None
    first_byte_ms: float | None
    total_ms: float


class TestResult(msgspec.Struct):
    """What a test send brought: the request as it was signed, and what the receiver said."""

    succeeded: bool
    event_id: str
    event_type: str
    url: str
    request_headers: dict[str, str]
    request_body: str
    signed_content: str
    response_status: int | None
    response_headers: dict[str, str]
    response_body: str | None
    error: str | None
    timings: Timings


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the secret before goes on signing beside the new one; 0 when it has leaked."""

    grace_hours: Annotated[int, Meta(ge=0, le=168)] = 24
    force: bool = False


class Attempt(msgspec.Struct):
    """One try to deliver, and what the receiver said."""

    at: Time
    duration_ms: int
    response_status: int | None
    response_body: str | None
    error: str | None


class DeliveredResource(msgspec.Struct):
    """What the event tells of."""

    type: str
    id: int
    version: int


class Delivery(msgspec.Struct):
    """An event on its way to a subscription."""

    id: str
    webhook_id: int
    event_id: str
    event_type: str
    sequence: int
    resource: DeliveredResource
    status: DeliveryStatus
    attempts: list[Attempt]
    attempt_count: int
    next_attempt_at: Time | None
    redelivery_of: str | None
    created_at: Time
    payload: Any | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET


class NewRedelivery(msgspec.Struct, forbid_unknown_fields=True):
    """Which deliveries to send again: by their ids, or all of a time and status."""

    delivery_ids: (
        Annotated[list[DeliveryId], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_REDELIVERED})] | None
    ) = None
    since: Time | None = None
    until: Time | None = None
    status: Ended | None = None
    dry_run: bool = False
    rate_per_s: Rate | None = None


class Redelivery(msgspec.Struct):
    """What is sent again, in the order in which it first was."""

    id: int | None
    webhook_id: int
    matched: int
    dry_run: bool
    rate_per_s: int | None
    created_at: Time


class WebhookExists(Refusal):
    """This app already has a subscription on this store with the same address and events; `existing_id` names it."""

    status, code, title = 409, "webhook_exists", "There is such a subscription already"


class TooManyWebhooks(Refusal):
    """An app may have 100 subscriptions on a store. Delete one, or let one take more events."""

    status, code, title = 409, "too_many_webhooks", "There are too many subscriptions"


class SecretRotationActive(Refusal):
    """Two secrets sign at the moment. Wait until the older one ends, or send `force: true` to end it now."""

    status, code, title = 409, "secret_rotation_active", "Two secrets are in use already"


NEW_WEBHOOK: dict[str, Any] = {
    "name": "Orders to the warehouse",
    "url": "https://hooks.example.com/stoa",
    "events": ["order.*"],
    "filter": {"status": "processing,shipped", "total[gte]": "100.00"},
    "payload": "full",
    "ordering": "resource",
    "skip_own": True,
    "headers": {"X-Warehouse": "east"},
}
WEBHOOK_CHANGES: dict[str, Any] = {"events": ["order.*", "product.out_of_stock"], "rate_per_s": 50}
