"""The parts of an order as callers see them: people, places, parcels, refunds, taxes, discounts, line items."""

from decimal import Decimal
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
from stoa.events.outbox import Actor
from stoa.rest.checks import Money, Percent, Time, decimal_text
from stoa.rest.fields import Short, ShownMetadata

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
    actor: Annotated[Actor, Meta(description="The app, person or operator that refunded.")]
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
            "nothing is reserved, as in a draft, and if the variant is not tracked."
        ),
    ]
