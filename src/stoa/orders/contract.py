"""The public contract of orders: resources, list filters and refusals."""

from datetime import datetime
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from stoa.customers.contract import EmailText, PhoneText
from stoa.orders.parts import (
    MOST_FULFILLMENTS,
    MOST_LINES,
    MOST_REFUNDS,
    Contact,
    Discount,
    DuplicateKind,
    DuplicateReason,
    EntryType,
    Fulfillment,
    FulfillmentStatus,
    LineItem,
    OrderAddress,
    PaymentStatus,
    Refund,
    Source,
    Status,
    TaxLine,
    Totals,
    Tracking,
    Visibility,
)
from stoa.rest.checks import Money, Time
from stoa.rest.fields import CreatedAt, ShownMetadata, UpdatedAt, Version
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
from stoa.rest.problems import Refusal


class Order(msgspec.Struct):
    """A purchase: its line items, amounts, customer and status."""

    id: Annotated[int, Meta(description="The id of the order, assigned by Stoa. It never changes.")]
    number: Annotated[
        int,
        Meta(
            description="The number of the order for people, from 1001 in each store. Numbers increase and may have gaps."
        ),
    ]
    external_id: Annotated[
        str | None,
        Meta(description="The id of the order in your own system, unique in the store; null if none is set."),
    ]
    source: Annotated[Source, Meta(description="The app or operator that placed the order.")]
    status: Annotated[
        Status,
        Meta(
            description="The progress of the order. Units that are not shipped are reserved while it is `pending`, `processing` or `on_hold`."
        ),
    ]
    payment_status: Annotated[
        PaymentStatus,
        Meta(
            description="The progress of the payment. Apps set it, and refunds change it; Stoa itself collects no money."
        ),
    ]
    fulfillment_status: Annotated[
        FulfillmentStatus,
        Meta(
            description="Follows from the units of the line items. `returned` means that all shipped units came back and no more are to be shipped."
        ),
    ]
    allowed_transitions: Annotated[
        list[Status],
        Meta(description="The statuses to which the order can move now; empty if it is `cancelled` or `returned`."),
    ]
    currency: Annotated[
        str, Meta(description="The currency of the store, as an ISO 4217 code. All amounts of the order are in it.")
    ]
    customer_id: Annotated[int | None, Meta(description="The id of the customer; null if the order has none.")]
    subtotal: Annotated[
        Money,
        Meta(
            description="The sum of the line items' `total`: after their discounts, and with their taxes. The order's own "
            "discount, shipping and tax are not included."
        ),
    ]
    discount_total: Annotated[
        Money,
        Meta(
            description="The discount on the order as a whole: the sum of `discounts` if there are any. The line items' "
            "discounts are not included; `totals.discount` is the sum of both."
        ),
    ]
    shipping_total: Annotated[
        Money,
        Meta(description="The shipping costs, with taxes if `prices_include_tax` is true, else without."),
    ]
    tax_total: Annotated[
        Money,
        Meta(
            description="The tax on shipping or on the order as a whole: the sum of `tax_lines` if there are any. The line "
            "items' taxes are not included; `totals.tax` is the sum of both."
        ),
    ]
    total: Annotated[
        Money,
        Meta(
            description="The amount to pay: `subtotal` minus `discount_total` plus `shipping_total`, plus `tax_total` unless "
            "`prices_include_tax` is true."
        ),
    ]
    amount_paid: Annotated[
        Money,
        Meta(description="The amount that was paid, before refunds. The payment status `paid` raises it to `total`."),
    ]
    amount_refunded: Annotated[
        Money, Meta(description="The amount that was refunded: the sum of `refunds`, at most `amount_paid`.")
    ]
    amount_due: Annotated[Money, Meta(description="The amount still to be collected; never less than 0.")]
    balance: Annotated[
        Money,
        Meta(description="`total` minus `amount_paid` plus `amount_refunded`; negative if the shop owes the customer."),
    ]
    prices_include_tax: Annotated[
        bool,
        Meta(
            description="Whether prices and shipping costs contain their taxes. If true, taxes are shown but not added to "
            "`total`."
        ),
    ]
    totals: Annotated[Totals, Meta(description="All amounts of the order, with those of its line items added up.")]
    discounts: Annotated[
        list[Discount],
        Meta(
            description="The discounts on the order as a whole; empty if only their sum was sent as `discount_total`."
        ),
    ]
    tax_lines: Annotated[
        list[TaxLine],
        Meta(
            description="The taxes on shipping or on the order as a whole; empty if only their sum was sent as `tax_total`."
        ),
    ]
    shipping_method: Annotated[
        str | None,
        Meta(
            description="The name of the shipping method, such as `Standard`; null if none is set. Stoa does not interpret it."
        ),
    ]
    payment_method: Annotated[
        str | None,
        Meta(
            description="The name of the payment method, such as `card`; null if none is set. Stoa does not interpret it."
        ),
    ]
    tags: Annotated[
        list[str],
        Meta(
            description="Words to group orders by, up to 250; lists filter by one. An update replaces the whole list."
        ),
    ]
    duplicate_of: Annotated[
        int | None, Meta(description="The id of the order that this one was copied from; null if it is not a copy.")
    ]
    cancel_reason: Annotated[
        str | None,
        Meta(
            description="The `reason` that was sent with the cancellation; null if none was sent, and after the customer is erased."
        ),
    ]
    placed_at: Annotated[
        Time,
        Meta(
            description="The time at which the order was placed, in UTC: the time of creation unless another one was sent."
        ),
    ]
    cancelled_at: Annotated[
        Time | None, Meta(description="The time of the cancellation, in UTC; null unless the order is cancelled.")
    ]
    completed_at: Annotated[
        Time | None, Meta(description="The time at which the order became `completed`, in UTC; null if it never did.")
    ]
    fulfillments: Annotated[
        list[Fulfillment],
        Meta(
            description=f"The shipments, oldest first, at most {MOST_FULFILLMENTS}. The quantities add up to `fulfilled_quantity` of each line item."
        ),
    ]
    refunds: Annotated[
        list[Refund],
        Meta(
            description=f"The refunds, oldest first, at most {MOST_REFUNDS}. Their amounts add up to `amount_refunded`."
        ),
    ]
    line_items: Annotated[list[LineItem], Meta(description=f"The line items, from 1 to {MOST_LINES}.")]
    contact: Annotated[
        Contact,
        Meta(
            description="The person to contact about the order. All its fields are null after the customer is erased."
        ),
    ]
    shipping_address: Annotated[
        OrderAddress | None,
        Meta(description="The address to ship to; null if none is set, and after the customer is erased."),
    ]
    billing_address: Annotated[
        OrderAddress | None,
        Meta(description="The address of the invoice; null if none is set, and after the customer is erased."),
    ]
    tracking: Annotated[
        list[Tracking],
        Meta(
            description="All parcels: those of `fulfillments`, then further ones that were added without a fulfillment."
        ),
    ]
    note: Annotated[
        str | None,
        Meta(
            description="A note on the order, up to 5,000 characters; null if none is set, and after the customer is erased."
        ),
    ]
    metadata: ShownMetadata
    suspected_duplicates_count: Annotated[
        int,
        Meta(
            description="The number of orders that may be the same purchase. It decreases when one of the two orders is cancelled."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    version: Version


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
        "sku": Texts(description="Orders with a line item of one of these SKUs.", longest=100),
        "number": Number(description="The order with this number."),
        "external_id": Text(description="The order with this external id."),
        "total": MoneyRange(description="The total, or a range of it."),
        "placed_at": MomentRange(description="The time of placement, or a range of it."),
        "created_at": MomentRange(
            description="The time at which Stoa stored the order, or a range of it. An imported order may be placed earlier."
        ),
        "tag": Term(kind="tag", description="Orders with this tag, ignoring case."),
        "q": Words(
            description="Each word must be the beginning of a word of the contact's name or email address, or of the order number."
        ),
        "metadata": Entries(description="Orders with this metadata value, as in `metadata[channel]=pos`."),
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
    """Only a paid order, or one whose total is 0, can be completed. Change `payment_status` first, or in the same request."""

    status, code, title = 409, "order_not_paid", "The order is not paid"


class RefundExceedsPayment(Refusal):
    """The refund is larger than what was paid and is not refunded yet. `refundable` is that amount."""

    status, code, title = 409, "refund_exceeds_payment", "The refund exceeds the payment"


class DuplicateOrderSuspected(Refusal):
    """The order looks like an earlier one, `existing_id` (number `existing_number`), and the request set `reject_suspected_duplicates`."""

    status, code, title = 409, "duplicate_order_suspected", "Suspected duplicate order"
