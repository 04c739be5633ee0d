"""The public contract of orders: an order as callers see it, and refusals."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stoa.customers.contract import (
    ADDRESS2,
    CITY,
    COMPANY,
    DISTRICT,
    FIRST_NAME,
    LAST_NAME,
    LATITUDE,
    LONGITUDE,
    POSTAL_CODE,
    PROVINCE,
    PROVINCE_CODE,
    Country,
    Email,
    Latitude,
    Longitude,
    Phone,
)
from stoa.db.editions import added
from stoa.orders.line_items import MOST_LINES, Discount, LineItem, TaxLine, Totals
from stoa.orders.records import (
    MOST_FULFILLMENTS,
    MOST_PAYMENTS,
    MOST_REFUNDS,
    Fulfillment,
    Payment,
    PaymentStatus,
    Refund,
    RemovedLine,
    Tracking,
)
from stoa.rest.checks import Money, Time
from stoa.rest.fields import CreatedAt, Short, ShownMetadata, UpdatedAt, Version
from stoa.rest.problems import Refusal

Status = Literal[
    "draft", "pending", "processing", "on_hold", "shipped", "delivered", "completed", "cancelled", "returned"
]
FulfillmentStatus = Literal["unfulfilled", "partially_fulfilled", "fulfilled", "returned"]
EntryType = Literal["comment", "status_change", "edit", "system"]
Visibility = Literal["internal", "customer"]
DuplicateReason = Literal["same_phone", "same_email", "same_customer", "same_address", "same_basket", "same_total"]

TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    "draft": ("pending", "processing", "cancelled"),
    "pending": ("processing", "on_hold", "cancelled"),
    "processing": ("on_hold", "shipped", "completed", "cancelled"),
    "on_hold": ("pending", "processing", "cancelled"),
    "shipped": ("delivered", "returned"),
    "delivered": ("completed", "returned"),
    "completed": ("returned",),
    "cancelled": (),
    "returned": (),
}
# In these statuses, and only in these, units that are not shipped are reserved.
HOLDING: frozenset[Status] = frozenset({"pending", "processing", "on_hold"})
# With these payments, and only with these, a pending order can expire.
UNPAID: frozenset[PaymentStatus] = frozenset({"unpaid", "failed", "voided"})


class Source(msgspec.Struct):
    """The app that placed the order."""

    app_id: Annotated[int | None, Meta(description="The id of the app; null if an operator placed the order.")]
    name: Annotated[str, Meta(description="The name of the app or operator when it placed the order.")]


class Contact(msgspec.Struct, forbid_unknown_fields=True):
    """The person to contact about the order: a snapshot that later changes of the customer do not affect."""

    email: Annotated[Email | None, Meta(description="The email address; null if none is set.")] = None
    phone: Phone | None = None
    first_name: Annotated[Short | None, FIRST_NAME] = None
    last_name: Annotated[Short | None, LAST_NAME] = None


class OrderAddress(msgspec.Struct, forbid_unknown_fields=True):
    """A shipping or billing address: a snapshot that later changes of the customer do not affect."""

    first_name: Annotated[Short | None, FIRST_NAME] = None
    last_name: Annotated[Short | None, LAST_NAME] = None
    company: Annotated[Short | None, COMPANY] = None
    phone: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="A phone number, stored as it is sent; null if none is set."),
    ] = None
    address1: Annotated[
        Short | None, Meta(description="The first line: street and house number; null if none is set.")
    ] = None
    address2: Annotated[Short | None, ADDRESS2] = None
    city: Annotated[Short | None, CITY] = None
    district: Annotated[Short | None, DISTRICT] = None
    province: Annotated[Short | None, PROVINCE] = None
    province_code: Annotated[Annotated[str, Meta(max_length=16)] | None, PROVINCE_CODE] = None
    postal_code: Annotated[Annotated[str, Meta(max_length=32)] | None, POSTAL_CODE] = None
    country_code: Country | None = None
    latitude: Annotated[Latitude | None, LATITUDE] = None
    longitude: Annotated[Longitude | None, LONGITUDE] = None


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
            description="Follows from `payments`. Once something is refunded: `refunded` if all that was paid is, else `partially_refunded`. Otherwise `partially_paid` while something is due, `overpaid` if more was paid than `total`, and `paid`. Before the first payment, it is what an app set: `unpaid`, `authorized`, `failed` or `voided`. Stoa itself collects no money."
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
        Meta(description="The amount that was paid, before refunds: the sum of `payments` of the kind `payment`."),
    ]
    amount_refunded: Annotated[
        Money, Meta(description="The amount that was refunded: the sum of `refunds`, at most `amount_paid`.")
    ]
    amount_due: Annotated[
        Money, Meta(description="The amount still to be collected: `balance`, or 0 if that is negative.")
    ]
    balance: Annotated[
        Money,
        Meta(
            description="What the customer owes; negative if the shop owes the customer. It is what is kept, minus `amount_paid`, plus `amount_refunded` as far as more was paid than is kept. Kept is the part of `total` for units that were neither cancelled nor returned."
        ),
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
    payments: Annotated[
        list[Payment],
        added(2),
        Meta(
            description=f"The payments and refunds, oldest first, at most {MOST_PAYMENTS} payments and {MOST_REFUNDS} refunds. All sums about money follow from them."
        ),
    ] = []
    removed_line_items: Annotated[
        list[RemovedLine],
        added(2),
        Meta(
            description="The units that were removed from the order after something was paid. They are not part of `line_items` and `total`, and can be refunded by line."
        ),
    ] = []
    expires_at: Annotated[
        Time | None,
        added(2),
        Meta(
            description="The end of the hold, in UTC: Stoa then cancels the order. Null if there is none, and once the order leaves `pending` or its payment is authorized or paid, also in part."
        ),
    ] = None


# --- refusals ------------------------------------------------------------------------------------------------------


class IllegalTransition(Refusal):
    """The order cannot move from its current status to the requested one. `allowed_transitions` lists the statuses that it can move to."""

    status, code, title = 409, "illegal_transition", "Status transition not allowed"


class OrderNotEditable(Refusal):
    """The order's status no longer permits this change. The guide to the order lifecycle lists the fields that stay editable."""

    status, code, title = 409, "order_not_editable", "The order can no longer be edited"


class OrderNotPaid(Refusal):
    """An order with money due cannot be completed. `amount_due` is the amount. Send `payment`, or `payment_status` with `paid`, first or in the same request."""

    status, code, title = 409, "order_not_paid", "The order is not paid"


class PaymentAlreadyRecorded(Refusal):
    """A payment or refund of the order has the same `external_id`, so it is the same transaction. `payment` is that record."""

    status, code, title = 409, "payment_already_recorded", "The payment is already recorded"


class RefundExceedsPayment(Refusal):
    """The refund is larger than what was paid and is not refunded yet. `refundable` is that amount."""

    status, code, title = 409, "refund_exceeds_payment", "The refund exceeds the payment"


class DuplicateOrderSuspected(Refusal):
    """The order looks like an earlier one, `existing_id` (number `existing_number`), and the request set `reject_suspected_duplicates`."""

    status, code, title = 409, "duplicate_order_suspected", "Suspected duplicate order"
