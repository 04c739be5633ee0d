"""The amounts and line items of an order: as callers see them, and the request bodies that set them."""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.db.editions import added
from stoa.inventory.contract import LocationCode
from stoa.products.contract import Sku, Weight, WeightUnit
from stoa.rest.checks import Money, Percent, decimal_text
from stoa.rest.fields import Metadata, MetadataChanges, Name, Short, ShownMetadata

DiscountKind = Literal["fixed", "percentage"]
MOST_LINES = 500
MOST_UNITS = 1_000_000
MOST_ENTRIES = 20  # discounts, and tax lines, of a line item or of an order
Id = Annotated[int, Meta(ge=1, le=10**18 - 1)]
Units = Annotated[int, Meta(ge=1, le=MOST_UNITS)]
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


# --- as callers see them -------------------------------------------------------------------------------------------


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
            description="Whether the line item has to be shipped: that of the product when it was ordered, or of the custom line item."
        ),
    ]
    taxable: Annotated[
        bool,
        Meta(
            description="Whether the line item is taxed: that of the product when it was ordered, or of the custom line item."
        ),
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
    weight: Annotated[
        Weight | None,
        added(2),
        Meta(
            description="The weight of one unit in `weight_unit`: that of the variant, else of the product, when it was ordered; null if unknown."
        ),
    ] = None
    weight_unit: Annotated[
        WeightUnit | None, added(2), Meta(description="The unit of `weight`; null if the weight is unknown.")
    ] = None


# --- request bodies ------------------------------------------------------------------------------------------------


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
TAX_LINES = Meta(description="The single taxes. `tax_total` follows from them; if you send both, they must agree.")
DISCOUNTS = Meta(
    description="The single discounts. `discount_total` follows from them; if you send both, they must agree."
)
_LINE_SUM = "on all units of the line item; 0 by default. It is the sum of the single amounts if you send them."


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
    discounts: Annotated[Discounts | None, DISCOUNTS] = None
    tax_lines: Annotated[TaxLines | None, TAX_LINES] = None
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
    discounts: Annotated[Discounts | UnsetType | None, DISCOUNTS] = UNSET
    tax_lines: Annotated[TaxLines | UnsetType | None, TAX_LINES] = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET
    location: Annotated[
        LocationCode | UnsetType | None,
        Meta(
            description="The code of the location where the units that are not shipped are to be reserved: they move there, all or none. Null leaves them where they are, and reserves further units by the priority of locations."
        ),
    ] = UNSET
