"""Request bodies of orders, with limits that guarantee that every valid body fits into the database."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.customers.lookup import InlineCustomer
from stoa.inventory.contract import LocationCode
from stoa.orders.parts import (
    LINE_DISCOUNT,
    LINE_TAX,
    LONGEST_WINDOW_HOURS,
    MOST_ENTRIES,
    MOST_LINES,
    MOST_UNITS,
    WINDOW_HOURS,
    Contact,
    DiscountKind,
    DiscountValue,
    OrderAddress,
    Rate,
    Visibility,
)
from stoa.products.contract import Sku
from stoa.rest.checks import Money, Time
from stoa.rest.fields import Metadata, MetadataChanges, Name, Short, Tag
from stoa.rest.scopes import requires

Id = Annotated[int, Meta(ge=1, le=10**18 - 1)]
Units = Annotated[int, Meta(ge=1, le=MOST_UNITS)]
Long = Annotated[str, Meta(max_length=5_000)]
Tags = Annotated[list[Tag], Meta(max_length=250)]
READ_CUSTOMERS = "customers:read"


class NewTaxLine(msgspec.Struct, forbid_unknown_fields=True):
    """One tax. Stoa stores the amount as it is sent and does not compute taxes."""

    title: Annotated[Name, Meta(description="The name of the tax for people, such as `VAT`.")]
    amount: Annotated[Money, Meta(description="The amount of the tax.")]
    rate: Rate = None


class NewDiscount(msgspec.Struct, forbid_unknown_fields=True):
    """One discount. Stoa computes the `amount` from `kind` and `value` unless it is sent."""

    kind: Annotated[DiscountKind, Meta(description="Whether `value` is an amount or a percentage.")]
    value: DiscountValue
    amount: Annotated[
        Money | None,
        Meta(
            description="The amount that is deducted. A `fixed` discount deducts its `value`. Without `amount`, a `percentage` "
            "of a line item is of unit price times quantity, and one of the order is of all line items after their discounts, "
            "without taxes that are added; it is rounded half up to the currency's digits."
        ),
    ] = None
    code: Annotated[Short | None, Meta(description="The code that the buyer entered.")] = None
    title: Annotated[Short | None, Meta(description="The name of the discount for people.")] = None


TaxLines = Annotated[list[NewTaxLine], Meta(max_length=MOST_ENTRIES)]
Discounts = Annotated[list[NewDiscount], Meta(max_length=MOST_ENTRIES)]
_TAX_LINES = Meta(description="The single taxes. `tax_total` follows from them; if you send both, they must agree.")
_DISCOUNTS = Meta(
    description="The single discounts. `discount_total` follows from them; if you send both, they must agree."
)
_PRICES_INCLUDE_TAX = Meta(
    description="Whether unit prices and shipping costs contain their taxes. If true, taxes are shown but not added to the "
    "total. A new order takes the setting of the store by default."
)
_LINE_SUM = "on all units of the line item; 0 by default. It is the sum of the single amounts if you send them."
_ORDER_SUM = "on the order as a whole, without those on line items; 0 by default. It is the sum of the single amounts if you send them."


class NewLine(msgspec.Struct, forbid_unknown_fields=True):
    """A variant, by `variant_id` or `sku`, and a quantity; `unit_price` defaults to its current price. Or a custom line item without variant and stock, with `name` and `unit_price`."""

    quantity: Annotated[Units, Meta(description=f"The units to order, from 1 to {MOST_UNITS:,}.")]
    variant_id: Annotated[
        Id | None,
        Meta(description="The id of the variant. Send either this or `sku`, and neither for a custom line item."),
    ] = None
    sku: Annotated[
        Sku | None,
        Meta(
            description="The SKU of the variant. Send either this or `variant_id`, and neither for a custom line item."
        ),
    ] = None
    name: Annotated[
        Name | None, Meta(description="The name of a custom line item. It excludes `variant_id` and `sku`.")
    ] = None
    unit_price: Annotated[
        Money | None,
        Meta(
            description="The price of one unit: by default the variant's current price; required for a custom line item."
        ),
    ] = None
    discount_total: Annotated[Money | None, Meta(description=f"The discount {_LINE_SUM}")] = None
    tax_total: Annotated[Money | None, Meta(description=f"The tax {_LINE_SUM}")] = None
    discounts: Annotated[Discounts | None, _DISCOUNTS] = None
    tax_lines: Annotated[TaxLines | None, _TAX_LINES] = None
    requires_shipping: Annotated[
        bool | None, Meta(description="Whether a custom line item has to be shipped; true by default.")
    ] = None
    taxable: Annotated[bool | None, Meta(description="Whether a custom line item is taxed; true by default.")] = None
    metadata: Metadata = {}
    location: Annotated[
        LocationCode | None,
        Meta(
            description="The code of the location where the units are reserved. In a new order, the default is the order's `location`."
        ),
    ] = None


class AddedLine(NewLine, forbid_unknown_fields=True):
    """A line to add. It is merged into an equal line (same variant, price and metadata, no discounts or tax lines) unless `merge` is false."""

    merge: Annotated[
        bool,
        Meta(description="Whether the units are added to an equal line item if there is one. The default is true."),
    ] = True


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
        Meta(description="The first payment status; `unpaid` by default. With `paid`, the whole total counts as paid."),
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
    discounts: Annotated[Discounts | None, _DISCOUNTS] = None
    tax_lines: Annotated[TaxLines | None, _TAX_LINES] = None
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
    discounts: Annotated[Discounts | UnsetType | None, _DISCOUNTS] = UNSET
    tax_lines: Annotated[TaxLines | UnsetType | None, _TAX_LINES] = UNSET
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
    **dict.fromkeys(("fulfillments", "refunds"), _STATUS_ENDPOINT),
    "line_items": "PATCH /orders/{order_id}/products/{line_item_id}",
}


class AddedLines(msgspec.Struct, forbid_unknown_fields=True):
    line_items: Annotated[
        Annotated[list[AddedLine], Meta(min_length=1, max_length=MOST_LINES)],
        Meta(description=f"The line items to add. An order has at most {MOST_LINES}."),
    ]


class LineChanges(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a line item. A quantity of 0 removes it."""

    quantity: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_UNITS)] | UnsetType,
        Meta(description="The new number of units, at least those that are shipped; 0 removes the line item."),
    ] = UNSET
    unit_price: Annotated[Money, Meta(description="The new price of one unit.")] | UnsetType = UNSET
    discount_total: Annotated[Money, LINE_DISCOUNT] | UnsetType = UNSET
    tax_total: Annotated[Money, LINE_TAX] | UnsetType = UNSET
    discounts: Annotated[Discounts | UnsetType | None, _DISCOUNTS] = UNSET
    tax_lines: Annotated[TaxLines | UnsetType | None, _TAX_LINES] = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET


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
