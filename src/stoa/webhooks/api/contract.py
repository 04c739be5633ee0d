"""The contract of subscriptions: the resource, request bodies and errors."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.checks import Time, worded
from stoa.rest.fields import CreatedAt, UpdatedAt
from stoa.rest.problems import Refusal

MAX_WEBHOOKS = 100
MAX_CHANGED_FIELDS = 20
CHANGED_FIELD = r"^[a-z0-9_]+(\.[A-Za-z0-9_.-]+)?$"

Payload = Literal["full", "thin"]
Ordering = Literal["none", "resource"]
WebhookStatus = Literal["active", "paused", "disabled"]
Health = Literal["healthy", "degraded", "failing"]
Breaker = Literal["closed", "open"]

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
        extra_json_schema={"pattern": r"^[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){0,3}(\[[^\[\]\x00]{1,64}\])?$"},
    ),
]
FilterValue = Annotated[str, Meta(max_length=1000, extra_json_schema={"minLength": 1})] | int | float | bool
Fields = Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=100)]
ChangedField = Annotated[
    str,
    Meta(min_length=1, max_length=160, pattern=CHANGED_FIELD),
    worded("must be a field such as price, stock.available or metadata.tier"),
]
ChangedFields = Annotated[
    list[ChangedField], Meta(max_length=MAX_CHANGED_FIELDS, extra_json_schema={"uniqueItems": True})
]
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


class Stats(msgspec.Struct):
    """Figures of the last 24 hours: deliveries that succeeded, deliveries that failed for good, and all attempts."""

    succeeded: Annotated[int, Meta(description="Deliveries that your endpoint accepted in the last 24 hours.")]
    failed: Annotated[
        int, Meta(description="Deliveries that failed for good in the last 24 hours; Stoa does not retry them.")
    ]
    attempts: Annotated[int, Meta(description="All requests that Stoa sent in the last 24 hours, including retries.")]


class BreakerState(msgspec.Struct):
    """The circuit breaker. While it is open, Stoa sends only probes; `next_probe_at` is the time of the next one."""

    state: Annotated[
        Breaker,
        Meta(
            description="`closed` is normal. `open` means that your endpoint failed repeatedly, and Stoa sends only probes."
        ),
    ]
    failures: Annotated[int, Meta(description="Failed attempts since the last success.")]
    next_probe_at: Annotated[
        Time | None, Meta(description="The time of the next probe; null while the circuit breaker is closed.")
    ]


class Webhook(msgspec.Struct):
    """A subscription of this app to events of this store."""

    id: Annotated[int, Meta(description="The id of the subscription, assigned by Stoa. It never changes.")]
    name: Annotated[str | None, Meta(description="A name for people; null if none is set.")]
    url: Annotated[
        str | None,
        Meta(
            description="The address that receives the events. Null means that nothing is sent, and your app reads the feed."
        ),
    ]
    events: Annotated[
        list[str],
        Meta(
            description="Event names, or patterns such as `order.*` or `*`. `meta.available_events` of the list has all names."
        ),
    ]
    filter: Annotated[
        dict[str, str],
        Meta(
            description="Up to 20 conditions on the resource, written like list filters, such as `price[gte]`. All must match; empty means every event."
        ),
    ]
    changed: Annotated[
        list[str],
        Meta(
            description="Up to 20 fields, such as `stock.available` or `metadata.tier`: an update is sent only if one of them changed. Creations and deletions are always sent; empty means every update."
        ),
    ]
    fields: Annotated[
        list[str], Meta(description="The fields of the resource to send in `data`. Empty, the default, means all.")
    ]
    payload: Annotated[
        Payload,
        Meta(
            description="`full` sends the resource in `data`. `thin` omits `data`, so that your app reads the resource itself. The default is `full`."
        ),
    ]
    ordering: Annotated[
        Ordering,
        Meta(
            description="`resource` sends the events of one resource one after another. `none` sends them as soon as possible, and is the default."
        ),
    ]
    skip_own: Annotated[
        bool, Meta(description="Whether changes that your own app made are left out. The default is false.")
    ]
    headers: Annotated[
        dict[str, str],
        Meta(
            description="Up to 20 headers that Stoa adds to each request. Responses show `********` instead of the values, and a change of the host of `url` removes them."
        ),
    ]
    status: Annotated[
        WebhookStatus,
        Meta(
            description="`active` receives events. `paused` keeps them until you resume. `disabled` was switched off by Stoa: see `disabled_reason`."
        ),
    ]
    disabled_reason: Annotated[
        str | None,
        Meta(
            description="Why Stoa disabled the subscription: `gone` after a response with 410, `failing` after 72 hours without a success; null otherwise."
        ),
    ]
    managed: Annotated[
        bool,
        Meta(
            description="Whether your app declares the subscription for all stores. It is changed only there, and signs with the app's signing secret."
        ),
    ]
    health: Annotated[
        Health,
        Meta(
            description="`healthy`; `degraded` after a failed attempt; `failing` while the circuit breaker is open or the subscription is disabled."
        ),
    ]
    secret_expires_at: Annotated[
        Time | None, Meta(description="Until when the previous secret signs as well; null if there is only one secret.")
    ]
    max_in_flight: Annotated[
        int,
        Meta(description="The largest number of concurrent requests to your endpoint, 1 to 100. The default is 10."),
    ]
    rate_per_s: Annotated[
        int | None, Meta(description="The largest number of requests per second, 1 to 1,000; null means no limit.")
    ]
    pending: Annotated[int, Meta(description="Deliveries that wait to be sent, for the first time or again.")]
    oldest_pending_age_s: Annotated[
        int | None, Meta(description="The age of the oldest pending delivery, in seconds; null if none is pending.")
    ]
    breaker: Annotated[
        BreakerState, Meta(description="The circuit breaker, which protects your endpoint while it fails.")
    ]
    stats_24h: Annotated[Stats, Meta(description="Figures of the last 24 hours.")]
    last_sequence: Annotated[
        int, Meta(description="The `sequence` of the newest event of the subscription; 0 before the first one.")
    ]
    last_delivery_at: Annotated[
        Time | None, Meta(description="The time of the last attempt; null before the first one.")
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    version: Annotated[
        int,
        Meta(
            description="Increases with each change of the settings, from 1. Send it as `If-Match` to change only the version that you read."
        ),
    ]
    secret: (
        Annotated[
            str,
            Meta(
                description="The secret that signs the requests. Only in the responses to a create and to a rotation: store it then."
            ),
        ]
        | UnsetType
    ) = UNSET


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
    changed: ChangedFields = []
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

    since: Annotated[Time, Meta(description="Pending deliveries of events before this time are skipped.")]


class WebhookChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to a subscription. Omitted fields keep their values; null clears a field."""

    events: Patterns | UnsetType = UNSET
    url: Url | UnsetType | None = UNSET
    name: WebhookName | UnsetType | None = UNSET
    filter: Annotated[dict[FilterKey, FilterValue | None], Meta(max_length=20)] | UnsetType | None = UNSET
    changed: ChangedFields | UnsetType | None = UNSET
    fields: Fields | UnsetType | None = UNSET
    payload: Payload | UnsetType = UNSET
    ordering: Ordering | UnsetType = UNSET
    skip_own: bool | UnsetType = UNSET
    headers: Annotated[dict[HeaderName, HeaderValue | None], Meta(max_length=20)] | UnsetType | None = UNSET
    status: Literal["active", "paused"] | UnsetType = UNSET
    resume: (
        Annotated[
            Literal["all", "now"] | ResumeSince,
            Meta(
                description="What happens to the events that were kept while the subscription was paused: `all` sends them, `now` skips them, and `since` sends the newer ones. Send it together with `status: active`."
            ),
        ]
        | UnsetType
    ) = UNSET
    max_in_flight: InFlight | UnsetType = UNSET
    rate_per_s: Rate | UnsetType | None = UNSET


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the previous secret also signs; use 0 if it has leaked."""

    grace_hours: Annotated[
        Annotated[int, Meta(ge=0, le=168)],
        Meta(
            description="For how many hours the previous secret signs as well, 0 to 168. The default is 24; use 0 if it has leaked."
        ),
    ] = 24
    force: Annotated[
        bool,
        Meta(
            description="Whether to end an earlier rotation that is still active. The default is false, and the call fails with `secret_rotation_active`."
        ),
    ] = False


class WebhookExists(Refusal):
    """This app already has a subscription on this store with the same URL and events. `existing_id` is its id."""

    status, code, title = 409, "webhook_exists", "The subscription already exists"


class ManagedSubscription(Refusal):
    """Your app declares this subscription for all stores, so a single store cannot change it. Change the declaration in the
    portal, or with `stoa app subscriptions`. Merchants pause and resume it on their store."""

    status, code, title = 409, "managed_subscription", "The subscription is declared at the app"


class TooManyWebhooks(Refusal):
    """An app can have 100 subscriptions on a store. Delete one, or add events to an existing one."""

    status, code, title = 409, "too_many_webhooks", "Too many subscriptions"


class SecretRotationActive(Refusal):
    """Two secrets are active. Wait until the older one expires, or send `force: true` to end it now."""

    status, code, title = 409, "secret_rotation_active", "A secret rotation is already active"
