"""Request bodies of orders, with limits that guarantee that every valid body fits into the database."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.customers.lookup import InlineCustomer
from stoa.inventory.contract import LocationCode
from stoa.orders.contract import Contact, OrderAddress, Status, Visibility
from stoa.orders.line_items import DISCOUNTS, MOST_LINES, TAX_LINES, Discounts, Id, NewLine, TaxLines, Units
from stoa.orders.records import MOST_FULFILLMENTS
from stoa.rest.checks import Money, Time
from stoa.rest.fields import Metadata, MetadataChanges, Name, Short, Tag, Url
from stoa.rest.scopes import requires

Long = Annotated[str, Meta(max_length=5_000)]
# Other payment statuses follow from the records.
SetPaymentStatus = Literal["unpaid", "authorized", "paid", "failed", "voided", "partially_refunded", "refunded"]
Tags = Annotated[list[Tag], Meta(max_length=250)]
READ_CUSTOMERS = "customers:read"
WINDOW_HOURS, LONGEST_WINDOW_HOURS = 24, 168
_PRICES_INCLUDE_TAX = Meta(
    description="Whether unit prices and shipping costs contain their taxes. If true, taxes are shown but not added to the "
    "total. A new order takes the setting of the store by default."
)
_TRANSACTION = Meta(
    description="The id of the transaction in your payment system. Each can be recorded once on an order."
)
_ORDER_SUM = "on the order as a whole, without those on line items; 0 by default. It is the sum of the single amounts if you send them."


class NewOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A new order. Stoa computes the total; a `total` in the request must agree with it."""

    line_items: Annotated[
        Annotated[list[NewLine], Meta(min_length=1, max_length=MOST_LINES)],
        Meta(description=f"The line items, from 1 to {MOST_LINES}."),
    ]
    status: Annotated[
        Literal["draft", "pending", "processing"],
        Meta(
            description="The first status of the order. `pending`, the default, and `processing` reserve stock; a `draft` does not."
        ),
    ] = "pending"
    payment_status: Annotated[
        Literal["unpaid", "authorized", "paid", "failed", "voided"],
        Meta(
            description="The first payment status; `unpaid` by default. With `paid`, a payment of the whole total is recorded."
        ),
    ] = "unpaid"
    currency: Annotated[
        Annotated[str, Meta(min_length=3, max_length=3)] | None,
        Meta(description="If you send it, it must be the currency of the store."),
    ] = None
    customer_id: Annotated[
        Annotated[Id, requires(READ_CUSTOMERS)] | None,
        Meta(
            description="The id of a customer of the store, instead of `customer`. Requires the scope `customers:read`."
        ),
    ] = None
    customer: Annotated[
        InlineCustomer | None,
        Meta(
            description="The customer, instead of `customer_id`. Stoa finds a stored one by email address, else by phone number, or creates one."
        ),
    ] = None
    contact: Annotated[
        Contact | None,
        Meta(
            description="The person to contact. Fields that you omit come from `customer`, and with `customers:read` from the stored customer."
        ),
    ] = None
    shipping_total: Annotated[
        Money | None,
        Meta(description="The shipping costs, with taxes if `prices_include_tax` is true, else without; 0 by default."),
    ] = None
    discount_total: Annotated[Money | None, Meta(description=f"The discount {_ORDER_SUM}")] = None
    tax_total: Annotated[Money | None, Meta(description=f"The tax {_ORDER_SUM}")] = None
    discounts: Annotated[Discounts | None, DISCOUNTS] = None
    tax_lines: Annotated[TaxLines | None, TAX_LINES] = None
    prices_include_tax: Annotated[bool | None, _PRICES_INCLUDE_TAX] = None
    total: Annotated[
        Money | None, Meta(description="The amount to pay. If you send it, it must be the total that Stoa computes.")
    ] = None
    shipping_address: OrderAddress | None = None
    billing_address: OrderAddress | None = None
    shipping_method: Short | None = None
    payment_method: Short | None = None
    note: Long | None = None
    tags: Tags = []
    metadata: Metadata = {}
    external_id: Name | None = None
    placed_at: Annotated[
        Time | None,
        Meta(description="The time at which the order was placed, from 1970 to one day ahead. The default is now."),
    ] = None
    location: Annotated[
        LocationCode | None,
        Meta(
            description="The code of the location where the line items are reserved. By default, units are reserved at the "
            "locations in the order of their priority, and a line item may be split."
        ),
    ] = None
    reject_suspected_duplicates: Annotated[
        bool,
        Meta(
            description="Whether to refuse the order if it looks like an earlier one. By default it is placed, and `suspected_duplicates_count` of both orders increases."
        ),
    ] = False
    window_hours: Annotated[
        Annotated[int, Meta(ge=1, le=LONGEST_WINDOW_HOURS)],
        Meta(
            description=f"The hours before and after `placed_at` in which Stoa looks for suspected duplicates. The default is {WINDOW_HOURS}."
        ),
    ] = WINDOW_HOURS


class OrderChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of an order's own fields. Omitted fields stay as they are; null clears a field."""

    contact: Contact | UnsetType | None = UNSET
    shipping_address: OrderAddress | UnsetType | None = UNSET
    billing_address: OrderAddress | UnsetType | None = UNSET
    shipping_total: Money | UnsetType = UNSET
    discount_total: Money | UnsetType = UNSET
    tax_total: Money | UnsetType = UNSET
    discounts: Annotated[Discounts | UnsetType | None, DISCOUNTS] = UNSET
    tax_lines: Annotated[TaxLines | UnsetType | None, TAX_LINES] = UNSET
    prices_include_tax: Annotated[bool | UnsetType, _PRICES_INCLUDE_TAX] = UNSET
    shipping_method: Short | UnsetType | None = UNSET
    payment_method: Short | UnsetType | None = UNSET
    note: Long | UnsetType | None = UNSET
    tags: Tags | UnsetType | None = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET
    external_id: Name | UnsetType | None = UNSET


_STATUS_ENDPOINT = "PUT /orders/{order_id}/status"
# Fields that have an endpoint of their own.
ORDER_ELSEWHERE = {
    **dict.fromkeys(("status", "payment_status", "tracking", "cancel_reason", "amount_refunded"), _STATUS_ENDPOINT),
    **dict.fromkeys(("fulfillments", "refunds", "payments", "removed_line_items"), _STATUS_ENDPOINT),
    "line_items": "PATCH /orders/{order_id}/products/{line_item_id}",
}


class NewComment(msgspec.Struct, forbid_unknown_fields=True):
    body: Annotated[Annotated[str, Meta(min_length=1, max_length=5_000)], Meta(description="The text of the comment.")]
    visibility: Visibility = "internal"


class NewCopy(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a copy: its status, and whether it takes the current prices."""

    status: Annotated[
        Literal["draft", "pending"],
        Meta(description="The status of the copy: `draft`, the default, reserves no stock, and `pending` does."),
    ] = "draft"
    reprice: Annotated[
        bool,
        Meta(
            description="Whether line items take the current prices, without discounts and taxes. The default is false."
        ),
    ] = False


# --- status changes ------------------------------------------------------------------------------------------------


class NewTracking(msgspec.Struct, forbid_unknown_fields=True):
    carrier: Short | None = None
    number: Short | None = None
    url: Url | None = None


class Portion(msgspec.Struct, forbid_unknown_fields=True):
    """A quantity of one line item."""

    id: Annotated[
        Id,
        Meta(description="The id of a line item of the order. Send each at most once, or once for each `location`."),
    ]
    quantity: Annotated[
        Units,
        Meta(
            description="The units to ship, at most those that are not shipped yet, or to return, at most those that are shipped."
        ),
    ]
    location: Annotated[
        LocationCode | None,
        Meta(
            description="The code of the location that the units are shipped from, where they must be reserved, or return to. By default, units are shipped from their `allocations` in the order of the list, and return to where they were shipped from."
        ),
    ] = None


class NewRefundLine(msgspec.Struct, forbid_unknown_fields=True):
    """Units of a line item to refund."""

    line_item_id: Annotated[Id, Meta(description="The id of a line item of the order. Send each at most once.")]
    quantity: Annotated[
        Units,
        Meta(
            description="The units to refund: at most those of the line item and those that were removed from it, minus refunded units."
        ),
    ]
    restock: Annotated[
        bool,
        Meta(description="True returns the units, which must be shipped, to stock and counts them as returned."),
    ] = False
    location: Annotated[
        LocationCode | None,
        Meta(
            description="With `restock`: the code of the location that the units return to. By default, it is the one that they were shipped from."
        ),
    ] = None


class NewRefund(msgspec.Struct, forbid_unknown_fields=True):
    """A refund: units of line items, shipping, an amount, or several of these."""

    line_items: Annotated[
        list[NewRefundLine],
        Meta(
            max_length=MOST_LINES,
            description="The units to refund. Their share of the line item's `total` is the amount unless you send one.",
        ),
    ] = []
    shipping_amount: Annotated[Money, Meta(description="The part of the refund for shipping; 0 by default.")] | None = (
        None
    )
    amount: (
        Annotated[
            Money,
            Meta(
                description="The whole refund, with `shipping_amount`. By default the amount of the line items plus `shipping_amount`."
            ),
        ]
        | None
    ) = None
    reason: Annotated[str, Meta(max_length=255, description="Why the money is refunded, in a few words.")] | None = None
    note: Annotated[str, Meta(max_length=5_000, description="A note for staff.")] | None = None
    method: Annotated[Short | None, Meta(description="How the money was returned, such as `card`.")] = None
    external_id: Annotated[Name | None, _TRANSACTION] = None


class NewPayment(msgspec.Struct, forbid_unknown_fields=True):
    """Money that the customer paid: all that is due, a part such as a deposit, or more."""

    amount: Annotated[Money, Meta(description="The paid amount, more than 0.")]
    method: Annotated[
        Short | None, Meta(description="How it was paid, such as `card`; by default the order's `payment_method`.")
    ] = None
    external_id: Annotated[Name | None, _TRANSACTION] = None
    note: Annotated[str, Meta(max_length=5_000, description="A note for staff.")] | None = None


class StatusChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of the order's status, its payment status, a payment, the tracking of a shipment, a refund, or several of these. `line_items` ships or returns only a part. `partially_refunded` requires `amount_refunded`, the sum of all refunds."""

    status: Annotated[
        Status | None,
        Meta(
            description="The status to move to: one of `allowed_transitions`, or `returned` for shipped units in `line_items`. Required unless `payment_status`, `payment`, `tracking`, `refund` or `void` is sent."
        ),
    ] = None
    payment_status: Annotated[
        SetPaymentStatus | None,
        Meta(
            description="The payment status to move to. `paid` records a payment of `amount_due`. Not allowed with `payment` or `refund`."
        ),
    ] = None
    amount_refunded: Annotated[
        Money | None,
        Meta(
            description="The sum of all refunds including this one. Only with the payment status `partially_refunded`; required to move to it."
        ),
    ] = None
    fulfillment_id: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MOST_FULFILLMENTS,
                description="The fulfillment whose `tracking` is replaced, or that is delivered if `status` is `delivered`, or voided if `void` is true.",
            ),
        ]
        | None
    ) = None
    payment: Annotated[NewPayment | None, Meta(description="A payment; `payment_status` follows from it.")] = None
    refund: Annotated[NewRefund | None, Meta(description="A refund; `payment_status` follows from it.")] = None
    tracking: Annotated[
        NewTracking | UnsetType | None,
        Meta(
            description="The tracking of a parcel, with at least one field. Without `fulfillment_id`, it belongs to the units that this request ships, or to the newest fulfillment without tracking. Null removes the tracking of `fulfillment_id`, if no `status` is sent."
        ),
    ] = UNSET
    void: Annotated[
        bool,
        Meta(
            description="True voids the shipment `fulfillment_id`, which must not be delivered or returned: its units are reserved again, and a `shipped` order is `processing` again."
        ),
    ] = False
    shipped_at: Annotated[
        Time | None,
        Meta(
            description="With the status `shipped`: the time at which the units were shipped, from 1970 to now. The default is now."
        ),
    ] = None
    comment: Annotated[
        Annotated[str, Meta(min_length=1, max_length=5_000)] | None,
        Meta(description="A text for the timeline entry of this change. The entry is internal."),
    ] = None
    reason: Annotated[
        Short | None, Meta(description="Why, for the timeline. It becomes `cancel_reason` of a cancelled order.")
    ] = None
    restock: Annotated[
        bool, Meta(description="With the status `returned`: whether the units return to stock. A refund has its own.")
    ] = True
    line_items: (
        Annotated[
            list[Portion],
            Meta(
                max_length=MOST_LINES,
                extra_json_schema={"minItems": 1},
                description="The units to ship or return, only with the status `shipped` or `returned`. The default is all units that are left.",
            ),
        ]
        | UnsetType
    ) = UNSET
