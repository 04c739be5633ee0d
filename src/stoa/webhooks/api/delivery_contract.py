"""The contract of deliveries: the log, test sends and redeliveries."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.rest.checks import Time, worded
from stoa.webhooks.api.contract import Pattern, Rate

MAX_REDELIVERED = 500
MAX_WAIT_S = 20
DeliveryStatus = Literal["pending", "retrying", "succeeded", "failed", "skipped", "cancelled", "held"]
DeliveryId = Annotated[
    str,
    Meta(extra_json_schema={"maxLength": 43}, pattern=r"^dlv_[0-9]{1,19}_[0-9]{1,19}$"),
    worded("must be a delivery id, which begins with dlv_"),
]
Ended = Literal["succeeded", "failed", "skipped", "cancelled"]


class NewTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The event to send a sample of; `webhook.test` by default."""

    event: Annotated[
        Pattern, Meta(description="The name of the event to send a sample of. The default is `webhook.test`.")
    ] = "webhook.test"


class Timings(msgspec.Struct):
    """Milliseconds from the start of the request to the end of each step; null for a step that was not reached."""

    dns_ms: Annotated[
        float | None,
        Meta(description="Milliseconds until the host name was resolved; null if that was not needed or not reached."),
    ]
    connect_ms: Annotated[
        float | None, Meta(description="Milliseconds until the connection was open; null if that was not reached.")
    ]
    tls_ms: Annotated[
        float | None,
        Meta(
            description="Milliseconds until the connection was encrypted; null for `http` and if that was not reached."
        ),
    ]
    first_byte_ms: Annotated[
        float | None, Meta(description="Milliseconds until the first byte of the response; null if there was none.")
    ]
    total_ms: Annotated[float, Meta(description="Milliseconds until the end of the response or of the attempt.")]


class NotSent(msgspec.Struct):
    """Why a subscription does not receive an event."""

    reason: Annotated[str, Meta(description="The reason, for programs, as in `meta.not_sent` of the delivery log.")]
    detail: Annotated[str, Meta(description="The reason, for people.")]


class TestResult(msgspec.Struct):
    """The result of a test send: the signed request and the response of the receiver."""

    succeeded: Annotated[bool, Meta(description="Whether your endpoint responded with a 2xx status in time.")]
    event_id: Annotated[str, Meta(description="The id of the test event, which is also the `webhook-id` header.")]
    event_type: Annotated[str, Meta(description="The name of the event that was sent.")]
    url: Annotated[str, Meta(description="The address that received the request.")]
    request_headers: Annotated[dict[str, str], Meta(description="The headers of the request, including the signature.")]
    request_body: Annotated[str, Meta(description="The body of the request, exactly as sent.")]
    signed_content: Annotated[
        str,
        Meta(
            description="The text that the signature covers: id, timestamp and body, joined by dots. Compare it with what your code verifies."
        ),
    ]
    response_status: Annotated[int | None, Meta(description="The status of the response; null if there was none.")]
    response_headers: Annotated[
        dict[str, str], Meta(description="The headers of the response; empty if there was none.")
    ]
    response_body: Annotated[
        str | None,
        Meta(
            description="The first 4 kB of the response; null if there was none, or if the token lacks the scope of the event."
        ),
    ]
    error: Annotated[str | None, Meta(description="Why no response arrived, such as a timeout; null if one arrived.")]
    timings: Annotated[Timings, Meta(description="How long each step took.")]
    not_sent: Annotated[
        NotSent | None,
        Meta(
            description="Why the subscription would not receive an event like this sample: `not_subscribed`, `unchanged` or `filtered`. The test is sent in any case. Null if it would receive it, and for events about the app or a subscription."
        ),
    ] = None


class Attempt(msgspec.Struct):
    """One delivery attempt and the response of the receiver."""

    at: Annotated[Time, Meta(description="The time at which the request was sent.")]
    duration_ms: Annotated[int, Meta(description="How long the attempt took, in milliseconds.")]
    response_status: Annotated[int | None, Meta(description="The status of the response; null if there was none.")]
    response_body: Annotated[
        str | None,
        Meta(
            description="The first 4 kB of the response; null if there was none, or if the token lacks the scope of the event."
        ),
    ]
    error: Annotated[str | None, Meta(description="Why no response arrived, such as a timeout; null if one arrived.")]


class DeliveredResource(msgspec.Struct):
    """The resource that the event is about."""

    type: Annotated[str, Meta(description="The type of the resource, such as `order`.")]
    id: Annotated[int, Meta(description="The id of the resource.")]
    version: Annotated[int, Meta(description="The version of the resource after the change.")]


class Delivery(msgspec.Struct):
    """The delivery of one event to one subscription."""

    id: Annotated[str, Meta(description="The id of the delivery, which begins with `dlv_`. Treat it as opaque.")]
    webhook_id: Annotated[int, Meta(description="The id of the subscription.")]
    event_id: Annotated[str, Meta(description="The id of the event. It is the same in every delivery of the event.")]
    event_type: Annotated[str, Meta(description="The name of the event, such as `order.created`.")]
    sequence: Annotated[
        int, Meta(description="The number of the event in its subscription; it grows by one with each event.")
    ]
    resource: Annotated[DeliveredResource, Meta(description="The resource that the event is about.")]
    status: Annotated[
        DeliveryStatus,
        Meta(
            description="`pending` and `retrying` wait for an attempt; `held` waits until the subscription is active. `succeeded` and `failed` are final, and `skipped` and `cancelled` deliveries are not sent."
        ),
    ]
    attempts: Annotated[list[Attempt], Meta(description="The attempts so far, the newest last.")]
    attempt_count: Annotated[int, Meta(description="The number of attempts so far.")]
    next_attempt_at: Annotated[Time | None, Meta(description="The time of the next attempt; null if none is planned.")]
    redelivery_of: Annotated[
        str | None,
        Meta(description="The id of the delivery that this one repeats; null for the first delivery of an event."),
    ]
    created_at: Annotated[Time, Meta(description="The time at which the delivery was created, in UTC.")]
    payload: (
        Annotated[
            Any,
            Meta(description="The body of the request, only with `include=payload`; null if the event has expired."),
        ]
        | UnsetType
    ) = UNSET
    headers: (
        Annotated[
            dict[str, str],
            Meta(
                description="The headers of a request with this event, freshly signed. Only with `after` and `include=payload`."
            ),
        ]
        | UnsetType
    ) = UNSET


class NewRedelivery(msgspec.Struct, forbid_unknown_fields=True):
    """The deliveries to send again: by id, or by time range and status."""

    delivery_ids: (
        Annotated[
            list[DeliveryId],
            Meta(
                description="The ids of single deliveries, up to 500. Send these, or `since`.",
                extra_json_schema={"minItems": 1, "maxItems": MAX_REDELIVERED},
            ),
        ]
        | None
    ) = None
    since: Annotated[Time | None, Meta(description="Deliveries of events at or after this time.")] = None
    until: Annotated[
        Time | None, Meta(description="Deliveries of events before this time; null, the default, means until now.")
    ] = None
    status: Annotated[
        Ended | None, Meta(description="Only deliveries with this status; null, the default, means any final status.")
    ] = None
    dry_run: bool = False
    rate_per_s: Rate | None = None


class Redelivery(msgspec.Struct):
    """A redelivery, which sends deliveries again in their original order."""

    id: Annotated[int | None, Meta(description="The id of the redelivery; null for a dry run.")]
    webhook_id: Annotated[int, Meta(description="The id of the subscription.")]
    matched: Annotated[int, Meta(description="The number of deliveries that are sent again, or would be in a dry run.")]
    dry_run: Annotated[
        bool, Meta(description="Whether nothing is sent, and only `matched` is counted. The default is false.")
    ]
    rate_per_s: Annotated[
        int | None,
        Meta(
            description="The largest number of requests per second of this redelivery, 1 to 1,000; null means the limit of the subscription."
        ),
    ]
    created_at: Annotated[Time, Meta(description="The time of the request, in UTC.")]
