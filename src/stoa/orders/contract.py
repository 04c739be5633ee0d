"""The public contract of orders: resources, list filters and refusals."""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stoa.customers.contract import Country, Email, EmailText, Latitude, Longitude, Phone, PhoneText
from stoa.rest.checks import Money, Time
from stoa.rest.fields import Short
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
    Words,
)
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

Status = Literal[
    "draft", "pending", "processing", "on_hold", "shipped", "delivered", "completed", "cancelled", "returned"
]
PaymentStatus = Literal["unpaid", "authorized", "paid", "failed", "voided", "partially_refunded", "refunded"]
FulfillmentStatus = Literal["unfulfilled", "partially_fulfilled", "fulfilled", "returned"]
EntryType = Literal["comment", "status_change", "edit", "system"]
Visibility = Literal["internal", "customer"]
DuplicateKind = Literal["suspected", "copy"]
DuplicateReason = Literal["same_phone", "same_email", "same_customer", "same_address", "same_basket", "same_total"]

MOST_LINES = 500
MOST_UNITS = 1_000_000
WINDOW_HOURS, LONGEST_WINDOW_HOURS = 24, 168


# --- resources -----------------------------------------------------------------------------------------------------


class Source(msgspec.Struct):
    """The app that placed the order."""

    app_id: int | None
    name: str


class Contact(msgspec.Struct, forbid_unknown_fields=True):
    """The person to contact about the order: a snapshot that later changes of the customer do not affect."""

    email: Email | None = None
    phone: Phone | None = None
    first_name: Short | None = None
    last_name: Short | None = None


class OrderAddress(msgspec.Struct, forbid_unknown_fields=True):
    """A shipping or billing address: a snapshot that later changes of the customer do not affect."""

    first_name: Short | None = None
    last_name: Short | None = None
    company: Short | None = None
    phone: Annotated[str, Meta(max_length=40)] | None = None
    address1: Short | None = None
    address2: Short | None = None
    city: Short | None = None
    district: Short | None = None
    province: Short | None = None
    province_code: Annotated[str, Meta(max_length=16)] | None = None
    postal_code: Annotated[str, Meta(max_length=32)] | None = None
    country_code: Country | None = None
    latitude: Latitude | None = None
    longitude: Longitude | None = None


class Tracking(msgspec.Struct):
    """A shipped parcel."""

    carrier: str | None
    number: str | None
    url: str | None
    shipped_at: Time


class LineItem(msgspec.Struct):
    """A variant as it was when it was ordered. Its id is stable, even if the product changes or is deleted."""

    id: int
    product_id: int
    variant_id: int
    sku: str | None
    name: str
    variant_title: str
    option_values: dict[str, str]
    quantity: int
    fulfilled_quantity: int
    returned_quantity: int
    unit_price: Money
    discount_total: Money
    tax_total: Money
    total: Money
    metadata: dict[str, Any]


class Order(msgspec.Struct):
    """A purchase: its line items, amounts, customer and status."""

    id: int
    number: int
    external_id: str | None
    source: Source
    status: Status
    payment_status: PaymentStatus
    fulfillment_status: FulfillmentStatus
    allowed_transitions: list[Status]
    currency: str
    customer_id: int | None
    subtotal: Money
    discount_total: Money
    shipping_total: Money
    tax_total: Money
    total: Money
    amount_paid: Money
    amount_refunded: Money
    amount_due: Annotated[Money, Meta(description="The amount still to be collected; never less than 0.")]
    balance: Annotated[
        Money,
        Meta(description="`total` minus `amount_paid` plus `amount_refunded`; negative if the shop owes the customer."),
    ]
    shipping_method: str | None
    payment_method: str | None
    tags: list[str]
    duplicate_of: int | None
    cancel_reason: str | None
    placed_at: Time
    cancelled_at: Time | None
    completed_at: Time | None
    line_items: list[LineItem]
    contact: Contact
    shipping_address: OrderAddress | None
    billing_address: OrderAddress | None
    tracking: list[Tracking]
    note: str | None
    metadata: dict[str, Any]
    suspected_duplicates_count: int
    created_at: Time
    updated_at: Time
    version: int


class Author(msgspec.Struct):
    type: str
    id: int | None
    name: str


class Comment(msgspec.Struct):
    """An entry of an order's timeline: a comment, or a recorded change."""

    id: int
    order_id: int
    type: EntryType
    visibility: Visibility
    body: str | None
    author: Author
    changes: dict[str, tuple[Any, Any]]
    created_at: Time


class Duplicate(msgspec.Struct):
    """Another order that is a suspected duplicate of this one, or a copy of it."""

    order_id: int
    number: int
    kind: DuplicateKind
    score: float
    reasons: list[DuplicateReason]
    seconds_apart: int
    status: Status
    total: Money


# --- lists ---------------------------------------------------------------------------------------------------------

ORDERS = ListOf(
    filters={
        "ids": Ids(description="Orders with these ids."),
        "status": Choices(values=get_args(Status), description="One or more of these statuses."),
        "payment_status": Choices(values=get_args(PaymentStatus), description="One or more of these."),
        "fulfillment_status": Choices(values=get_args(FulfillmentStatus), description="One or more of these."),
        "customer_id": Ids(description="Orders of these customers."),
        "email": EmailText(description="Orders with this email address as contact, in any case.", longest=254),
        "phone": PhoneText(description="Orders with this phone number as contact, in any spelling.", longest=40),
        "sku": Text(description="Orders with a line item of this SKU.", longest=100),
        "number": Number(description="The order with this number."),
        "external_id": Text(description="The order with this external id."),
        "total": MoneyRange(description="The total, or a range of it."),
        "placed_at": MomentRange(description="The time of placement, or a range of it."),
        "tag": Term(kind="tag", description="Orders with this tag."),
        "q": Words(
            description="Each word must be the beginning of a word of the contact's name or email address, or of the order number."
        ),
        "metadata": Entries(description="Orders with this metadata value, as in `metadata[channel]=pos`."),
        "has_suspected_duplicates": Flag(description="Whether the order has suspected duplicates."),
        "updated_since": Moment(description="Orders that changed in any way at or after this time."),
    },
    sorts={"id": int, "number": int, "total": int, "placed_at": datetime, "updated_at": datetime},
)

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

DUPLICATES = ListOf(
    filters={
        "kind": Choices(values=get_args(DuplicateKind), description="One or both of these kinds."),
        "updated_since": Moment(description="Duplicates whose order changed at or after this time."),
    },
    sorts={"id": int},
    default_sort=("-id",),
)


# --- refusals ------------------------------------------------------------------------------------------------------


class IllegalTransition(Refusal):
    """The order cannot move from its current status to the requested one. `allowed_transitions` lists the statuses that it can move to."""

    status, code, title = 409, "illegal_transition", "Status transition not allowed"


class OrderNotEditable(Refusal):
    """The order's status no longer permits this change. The guide to the order lifecycle lists the fields that stay editable."""

    status, code, title = 409, "order_not_editable", "The order can no longer be edited"


class OrderNotPaid(Refusal):
    """Only a paid order can be completed. Change `payment_status` first, or in the same request."""

    status, code, title = 409, "order_not_paid", "The order is not paid"


class DuplicateOrderSuspected(Refusal):
    """The order looks like an earlier one, `existing_id` (number `existing_number`), and the request set `reject_suspected_duplicates`."""

    status, code, title = 409, "duplicate_order_suspected", "Suspected duplicate order"
