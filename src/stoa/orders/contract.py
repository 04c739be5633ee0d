"""The public contract of orders: resources, list filters and refusals."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

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
    EmailText,
    Latitude,
    Longitude,
    Phone,
    PhoneText,
)
from stoa.events.outbox import Actor
from stoa.rest.checks import Money, Percent, Time, decimal_text
from stoa.rest.fields import CreatedAt, Short, ShownMetadata, UpdatedAt, Version
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

Status = Literal[
    "draft", "pending", "processing", "on_hold", "shipped", "delivered", "completed", "cancelled", "returned"
]
PaymentStatus = Literal["unpaid", "authorized", "paid", "failed", "voided", "partially_refunded", "refunded"]
FulfillmentStatus = Literal["unfulfilled", "partially_fulfilled", "fulfilled", "returned"]
ShipmentStatus = Literal["shipped", "delivered"]
EntryType = Literal["comment", "status_change", "edit", "system"]
Visibility = Literal["internal", "customer"]
DiscountKind = Literal["fixed", "percentage"]
DuplicateKind = Literal["suspected", "copy"]
DuplicateReason = Literal["same_phone", "same_email", "same_customer", "same_address", "same_basket", "same_total"]

MOST_LINES = 500
MOST_UNITS = 1_000_000
MOST_ENTRIES = 20  # discounts, and tax lines, of a line item or of an order
MOST_FULFILLMENTS = MOST_PARCELS = MOST_REFUNDS = 100
WINDOW_HOURS, LONGEST_WINDOW_HOURS = 24, 168


# --- resources -----------------------------------------------------------------------------------------------------


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


CARRIER = Meta(description="The name of the carrier; null if it was not sent.")
TRACKING_NUMBER = Meta(description="The carrier's tracking number; null if it was not sent.")
TRACKING_URL = Meta(description="A page that shows where the parcel is; null if it was not sent.")


class Tracking(msgspec.Struct):
    """A shipped parcel."""

    carrier: Annotated[str | None, CARRIER]
    number: Annotated[str | None, TRACKING_NUMBER]
    url: Annotated[str | None, TRACKING_URL]
    shipped_at: Annotated[
        Time,
        Meta(
            description="The time of the shipment, in UTC; for a parcel without a fulfillment, the time at which it was added."
        ),
    ]


class FulfillmentTracking(msgspec.Struct):
    """How to follow the parcel of a fulfillment."""

    carrier: Annotated[str | None, CARRIER]
    number: Annotated[str | None, TRACKING_NUMBER]
    url: Annotated[str | None, TRACKING_URL]


class FulfillmentLine(msgspec.Struct):
    """The units of a line item in a fulfillment."""

    line_item_id: Annotated[int, Meta(description="The id of a line item of the order.")]
    quantity: Annotated[int, Meta(description="The shipped units of this line item, at least 1.")]


class Fulfillment(msgspec.Struct):
    """Units that were shipped together. Each request that ships units makes exactly one."""

    id: Annotated[int, Meta(description="1, 2, 3 and so on within the order. It never changes.")]
    line_items: Annotated[
        list[FulfillmentLine],
        Meta(description="The shipped units. Returns do not change them: see `returned_quantity` of the line item."),
    ]
    tracking: Annotated[
        FulfillmentTracking | None, Meta(description="Null until tracking is sent, and after the customer is erased.")
    ]
    status: Annotated[ShipmentStatus, Meta(description="`shipped`, then `delivered`.")]
    shipped_at: Annotated[Time, Meta(description="The time at which Stoa recorded the shipment.")]
    delivered_at: Annotated[Time | None, Meta(description="The time at which Stoa recorded the delivery, or null.")]


class RefundLine(msgspec.Struct):
    """The refunded units of a line item."""

    line_item_id: Annotated[int, Meta(description="The id of a line item; the line item may have been removed since.")]
    quantity: Annotated[int, Meta(description="The refunded units, at least 1.")]
    amount: Annotated[Money, Meta(description="The part of the refund's `amount` for these units.")]
    restock: Annotated[bool, Meta(description="Whether the refund returned the units to stock.")]


class Refund(msgspec.Struct):
    """Money that was returned to the customer. The amounts of all refunds add up to `amount_refunded` of the order."""

    id: Annotated[int, Meta(description="1, 2, 3 and so on within the order. It never changes.")]
    amount: Annotated[
        Money,
        Meta(description="The returned money: the amounts of the line items, if there are any, and `shipping_amount`."),
    ]
    shipping_amount: Annotated[Money, Meta(description="The part of `amount` that refunds shipping; 0 by default.")]
    reason: Annotated[str | None, Meta(description="Why; null if not sent, and after the customer is erased.")]
    note: Annotated[
        str | None, Meta(description="A note for staff; null if not sent, and after the customer is erased.")
    ]
    line_items: Annotated[list[RefundLine], Meta(description="The refunded units; empty if only an amount was sent.")]
    actor: Annotated[Actor, Meta(description="The app that refunded, or the operator.")]
    created_at: Annotated[Time, Meta(description="The time of the refund.")]


Rate = Annotated[
    Percent | None,
    Meta(description="The tax rate in percent, such as `19.00`; null if there is none. Stoa does not apply it."),
]
DiscountValue = Annotated[
    Decimal,
    Meta(
        description="What the discount promises: a percentage from 0 to 100 if `kind` is `percentage`, an amount in the store's "
        "currency if it is `fixed`.",
        examples=["10.00"],
    ),
    decimal_text(2**63 - 1, r"^[0-9]{1,16}(\.[0-9]{1,4})?$"),
]


class TaxLine(msgspec.Struct):
    """One tax on a line item, or on the order as a whole, such as the tax on shipping."""

    title: Annotated[str, Meta(description="The name of the tax for people, such as `VAT`.")]
    rate: Rate
    amount: Annotated[Money, Meta(description="The amount of the tax.")]


class Discount(msgspec.Struct):
    """One discount on a line item or on the order as a whole."""

    code: Annotated[str | None, Meta(description="The code that the buyer entered; null if there was none.")]
    title: Annotated[str | None, Meta(description="The name of the discount for people; null if it has none.")]
    kind: Annotated[DiscountKind, Meta(description="Whether `value` is an amount or a percentage.")]
    value: DiscountValue
    amount: Annotated[
        Money,
        Meta(description="The amount that is deducted. It stays as it is when quantities or prices change later."),
    ]


class Totals(msgspec.Struct):
    """All amounts of an order. `discount` and `tax` include those of the line items. `total` is `items` minus `discount` plus `shipping`, plus `tax` unless `prices_include_tax` is true."""

    items: Annotated[Money, Meta(description="The sum of unit price times quantity of all line items.")]
    items_discount: Annotated[Money, Meta(description="The sum of the line items' `discount_total`.")]
    items_tax: Annotated[Money, Meta(description="The sum of the line items' `tax_total`.")]
    shipping: Annotated[Money, Meta(description="The shipping costs; the same as `shipping_total` of the order.")]
    shipping_tax: Annotated[
        Money, Meta(description="The tax on shipping or on the order as a whole; the same as `tax_total` of the order.")
    ]
    order_discount: Annotated[
        Money, Meta(description="The discount on the order as a whole; the same as `discount_total` of the order.")
    ]
    discount: Annotated[Money, Meta(description="All discounts: `items_discount` plus `order_discount`.")]
    tax: Annotated[Money, Meta(description="All taxes: `items_tax` plus `shipping_tax`.")]
    total: Annotated[Money, Meta(description="The amount to pay; the same as `total` of the order.")]


class Allocation(msgspec.Struct, frozen=True):
    """Units of a line item at one location."""

    location: Annotated[str, Meta(description="The code of the location.")]
    quantity: Annotated[
        int, Meta(description="Units of the line item that are reserved at, or were shipped from, the location.")
    ]


LINE_DISCOUNT = Meta(description="The discount on all units of the line item: the sum of `discounts` if there are any.")
LINE_TAX = Meta(description="The tax on all units of the line item: the sum of `tax_lines` if there are any.")


class LineItem(msgspec.Struct):
    """A variant as it was when it was ordered, or a custom line item without variant. Its id is stable, even if the product changes or is deleted."""

    id: Annotated[int, Meta(description="The id of the line item, assigned by Stoa. It never changes.")]
    product_id: Annotated[int | None, Meta(description="The id of the product; null for a custom line item.")]
    variant_id: Annotated[int | None, Meta(description="The id of the variant; null for a custom line item.")]
    sku: Annotated[
        str | None, Meta(description="The SKU of the variant; null if it has none, and for a custom line item.")
    ]
    name: Annotated[str, Meta(description="The name of the product, or of the custom line item.")]
    variant_title: Annotated[str, Meta(description="The title of the variant; empty for a custom line item.")]
    option_values: Annotated[
        dict[str, str],
        Meta(
            description="The option values of the variant when it was ordered, by the name of the option. Empty for a custom line item."
        ),
    ]
    quantity: Annotated[int, Meta(description="The ordered units, including those that were shipped or returned.")]
    fulfilled_quantity: Annotated[int, Meta(description="The shipped units, including those that were returned.")]
    returned_quantity: Annotated[int, Meta(description="The shipped units that were returned.")]
    unit_price: Annotated[
        Money,
        Meta(
            description="The price of one unit, with taxes if the order's `prices_include_tax` is true, else without."
        ),
    ]
    discount_total: Annotated[Money, LINE_DISCOUNT]
    tax_total: Annotated[Money, LINE_TAX]
    total: Annotated[
        Money,
        Meta(
            description="`unit_price` times `quantity`, minus `discount_total`, plus `tax_total` unless the order's "
            "`prices_include_tax` is true."
        ),
    ]
    metadata: ShownMetadata
    discounts: Annotated[
        list[Discount],
        Meta(description="The discounts on the line item; empty if only their sum was sent as `discount_total`."),
    ]
    tax_lines: Annotated[
        list[TaxLine],
        Meta(description="The taxes on the line item; empty if only their sum was sent as `tax_total`."),
    ]
    requires_shipping: Annotated[
        bool,
        Meta(
            description="Whether the line item has to be shipped. True for variants; a custom line item can be false."
        ),
    ]
    taxable: Annotated[
        bool, Meta(description="Whether the line item is taxed. True for variants; a custom line item can be false.")
    ]
    location: Annotated[
        str | None,
        Meta(
            description="The code of the location that the request asked for; null: reserve by the priority of locations."
        ),
    ]
    allocations: Annotated[
        list[Allocation],
        Meta(
            description="The locations of the reserved and shipped units, in the order in which they are shipped. Empty while "
            "nothing is reserved, as in a draft."
        ),
    ]


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
    type: Annotated[str, Meta(description="`app` or `operator`.")]
    id: Annotated[int | None, Meta(description="The id of the app; null for an operator.")]
    name: Annotated[str, Meta(description="The name of the app or operator at the time of the entry.")]


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
    author: Annotated[Author, Meta(description="The app or operator that wrote the entry or made the change.")]
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
    """Only a paid order can be completed. Change `payment_status` first, or in the same request."""

    status, code, title = 409, "order_not_paid", "The order is not paid"


class RefundExceedsPayment(Refusal):
    """The refund is larger than what was paid and is not refunded yet. `refundable` is that amount."""

    status, code, title = 409, "refund_exceeds_payment", "The refund exceeds the payment"


class DuplicateOrderSuspected(Refusal):
    """The order looks like an earlier one, `existing_id` (number `existing_number`), and the request set `reject_suspected_duplicates`."""

    status, code, title = 409, "duplicate_order_suspected", "Suspected duplicate order"
