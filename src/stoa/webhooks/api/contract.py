"""The webhooks API contract: subscriptions, deliveries, request bodies and errors."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.checks import Time, worded
from stoa.rest.problems import Refusal

MAX_WEBHOOKS = 100
MAX_REDELIVERED = 500
MAX_WAIT_S = 20
HIDDEN = "********"  # replaces the value of a header in responses; in a request it keeps the stored value

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
    worded("must be a URL that begins with http:// or https://"),
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
    worded("must be a header name of at most 64 characters, such as X-Warehouse"),
]
HeaderValue = Annotated[
    str,
    Meta(max_length=1024, pattern=r"^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$"),
    worded("must be one line of visible ASCII characters, without leading or trailing spaces"),
]
InFlight = Annotated[int, Meta(ge=1, le=100)]
Rate = Annotated[int, Meta(ge=1, le=1000)]
DeliveryId = Annotated[
    str,
    Meta(extra_json_schema={"maxLength": 43}, pattern=r"^dlv_[0-9]{1,19}_[0-9]{1,19}$"),
    worded("must be a delivery id, which begins with dlv_"),
]
Ended = Literal["succeeded", "failed", "skipped", "cancelled"]


class Stats(msgspec.Struct):
    """Figures of the last 24 hours: deliveries that succeeded, deliveries that failed for good, and all attempts."""

    succeeded: int
    failed: int
    attempts: int


class BreakerState(msgspec.Struct):
    """The circuit breaker. While it is open, Stoa sends only probes; `next_probe_at` is the time of the next one."""

    state: Breaker
    failures: int
    next_probe_at: Time | None


class Webhook(msgspec.Struct):
    """A subscription of this app to events of this store."""

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


# Fields that change by themselves: a request may echo an outdated value.
VOLATILE = frozenset(
    {"health", "pending", "oldest_pending_age_s", "breaker", "stats_24h", "last_sequence", "last_delivery_at",
     "disabled_reason", "secret_expires_at", "updated_at"}
)  # fmt: skip


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """A new subscription. Without `url` nothing is sent, and the app reads the events from the feed."""

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
    """Send pending deliveries of events since this time; older ones are skipped."""

    since: Time


class WebhookChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to a subscription. Omitted fields keep their values; null clears a field."""

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
    """The event to send a sample of; `webhook.test` by default."""

    event: Pattern = "webhook.test"


class Timings(msgspec.Struct):
    """Milliseconds from the start of the request to the end of each step; null for a step that was not reached."""

    dns_ms: float | None
    connect_ms: float | None
    tls_ms: float | None
    first_byte_ms: float | None
    total_ms: float


class TestResult(msgspec.Struct):
    """The result of a test send: the signed request and the response of the receiver."""

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
    """How long the previous secret also signs; use 0 if it has leaked."""

    grace_hours: Annotated[int, Meta(ge=0, le=168)] = 24
    force: bool = False


class Attempt(msgspec.Struct):
    """One delivery attempt and the response of the receiver."""

    at: Time
    duration_ms: int
    response_status: int | None
    response_body: str | None
    error: str | None


class DeliveredResource(msgspec.Struct):
    """The resource that the event is about."""

    type: str
    id: int
    version: int


class Delivery(msgspec.Struct):
    """The delivery of one event to one subscription."""

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
    """The deliveries to send again: by id, or by time range and status."""

    delivery_ids: (
        Annotated[list[DeliveryId], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_REDELIVERED})] | None
    ) = None
    since: Time | None = None
    until: Time | None = None
    status: Ended | None = None
    dry_run: bool = False
    rate_per_s: Rate | None = None


class Redelivery(msgspec.Struct):
    """A redelivery, which sends deliveries again in their original order."""

    id: int | None
    webhook_id: int
    matched: int
    dry_run: bool
    rate_per_s: int | None
    created_at: Time


class WebhookExists(Refusal):
    """This app already has a subscription on this store with the same URL and events. `existing_id` is its id."""

    status, code, title = 409, "webhook_exists", "The subscription already exists"


class TooManyWebhooks(Refusal):
    """An app can have 100 subscriptions on a store. Delete one, or add events to an existing one."""

    status, code, title = 409, "too_many_webhooks", "Too many subscriptions"


class SecretRotationActive(Refusal):
    """Two secrets are active. Wait until the older one expires, or send `force: true` to end it now."""

    status, code, title = 409, "secret_rotation_active", "A secret rotation is already active"
