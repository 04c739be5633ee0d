"""The lists of orders, of their timelines and of their duplicates: entries, filters and sort keys."""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stoa.customers.contract import EmailText, PhoneText
from stoa.orders.contract import DuplicateReason, EntryType, FulfillmentStatus, Status, Visibility
from stoa.orders.records import PaymentStatus
from stoa.rest.checks import Money
from stoa.rest.fields import CreatedAt
from stoa.rest.filters import (
    Choices,
    Entries,
    Flag,
    Ids,
    Moment,
    MomentRange,
    MoneyRange,
    Number,
    Term,
    Text,
    Texts,
    Words,
)
from stoa.rest.lists import ListOf

DuplicateKind = Literal["suspected", "copy"]

ORDERS = ListOf(
    filters={
        "ids": Ids(description="Orders with these ids."),
        "status": Choices(values=get_args(Status), description="One or more of these statuses."),
        "payment_status": Choices(values=get_args(PaymentStatus), description="One or more of these."),
        "fulfillment_status": Choices(values=get_args(FulfillmentStatus), description="One or more of these."),
        "customer_id": Ids(description="Orders of these customers."),
        "email": EmailText(description="Orders with this email address as contact, in any case.", longest=254),
        "phone": PhoneText(description="Orders with this phone number as contact, in any spelling.", longest=40),
        "sku": Texts(description="Orders with a line item of one of these SKUs.", longest=100),
        "number": Number(description="The order with this number."),
        "external_id": Text(description="The order with this external id."),
        "total": MoneyRange(description="The total, or a range of it."),
        "placed_at": MomentRange(description="The time of placement, or a range of it."),
        "created_at": MomentRange(
            description="The time at which Stoa stored the order, or a range of it. An imported order may be placed earlier."
        ),
        "shipped_at": MomentRange(
            description="The time of the last shipment, or a range of it. Voided shipments do not count."
        ),
        "expires_at": MomentRange(description="The end of the hold, or a range of it."),
        "location": Texts(
            description="Orders with units that are reserved at, or were shipped from, one of these locations, by code.",
            longest=32,
        ),
        "fulfillable_at": Text(
            description="Open orders whose unshipped units are all reserved at this location or available there, by its code. Line items that are custom or not tracked are always available.",
            longest=32,
        ),
        "paid_at": MomentRange(description="The time of the newest payment, or a range of it."),
        "refunded_at": MomentRange(description="The time of the newest refund, or a range of it."),
        "tag": Term(kind="tag", description="Orders with this tag, ignoring case."),
        "q": Words(
            description="Each word must be the beginning of a word of the contact's name or email address, or of the order number."
        ),
        "metadata": Entries(
            description="Orders with this metadata value, as in `metadata[channel]=pos`, or for a key with an ordered type in this range, as in `metadata[deliver_on][lte]=2026-12-24`.",
            resource="order",
        ),
        "has_suspected_duplicates": Flag(description="Whether the order has suspected duplicates."),
        "updated_since": Moment(description="Orders that changed in any way at or after this time."),
    },
    sorts={
        "id": int,
        "number": int,
        "total": int,
        "placed_at": datetime,
        "created_at": datetime,
        "updated_at": datetime,
    },
)


class Author(msgspec.Struct):
    type: Annotated[
        str,
        Meta(
            description="`app`, `account` (a person on a page of the portal) or `operator`. Further values may follow."
        ),
    ]
    id: Annotated[int | None, Meta(description="The id of the app; null for all others.")]
    name: Annotated[str, Meta(description="The name of the app, person or operator at the time of the entry.")]


class Comment(msgspec.Struct):
    """An entry of an order's timeline: a comment, or a recorded change."""

    id: Annotated[int, Meta(description="The id of the entry, assigned by Stoa.")]
    order_id: Annotated[int, Meta(description="The id of the order.")]
    type: Annotated[
        EntryType,
        Meta(
            description="`comment` is a text that somebody wrote, `status_change` and `edit` record changes, and `system` records that the order was placed or copied."
        ),
    ]
    visibility: Annotated[
        Visibility,
        Meta(
            description="`customer` if the customer may see the entry; otherwise `internal`, the default, as all recorded changes are."
        ),
    ]
    body: Annotated[
        str | None,
        Meta(
            description="The text, up to 5,000 characters in a comment; null if a change has none. Written texts become `[erased]` when the customer is erased."
        ),
    ]
    author: Annotated[Author, Meta(description="The app, person or operator that wrote the entry or made the change.")]
    changes: Annotated[
        dict[str, tuple[Any, Any]],
        Meta(description="The old and the new value of each changed field, by its name; empty in a comment."),
    ]
    created_at: CreatedAt


COMMENTS = ListOf(
    filters={
        "type": Choices(values=get_args(EntryType), description="One or more of these types."),
        "visibility": Choices(
            values=get_args(Visibility), description="Entries with one or more of these visibilities."
        ),
        "updated_since": Moment(description="Entries written at or after this time. Entries never change."),
    },
    sorts={"id": int},
    default_sort=("-id",),
)


class Duplicate(msgspec.Struct):
    """Another order that is a suspected duplicate of this one, or a copy of it."""

    order_id: Annotated[int, Meta(description="The id of the other order.")]
    number: Annotated[int, Meta(description="The number of the other order.")]
    kind: Annotated[
        DuplicateKind,
        Meta(
            description="`suspected` if both may be the same purchase, `copy` if the other order was copied from this one on request."
        ),
    ]
    score: Annotated[float, Meta(description="The confidence, from 0 to 1; always 1 for a copy.")]
    reasons: Annotated[list[DuplicateReason], Meta(description="What both orders have in common; empty for a copy.")]
    seconds_apart: Annotated[int, Meta(description="The seconds between the `placed_at` of both orders.")]
    status: Annotated[Status, Meta(description="The status of the other order.")]
    total: Annotated[Money, Meta(description="The total of the other order.")]


DUPLICATES = ListOf(
    filters={
        "kind": Choices(values=get_args(DuplicateKind), description="One or both of these kinds."),
        "updated_since": Moment(description="Duplicates whose order changed at or after this time."),
    },
    sorts={"id": int},
    default_sort=("-id",),
)
