"""Request bodies of historical orders: orders of another shop, with all that happened to them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stoa.inventory.contract import LocationCode
from stoa.orders.bodies import Long, NewOrder, NewTracking
from stoa.orders.contract import Status
from stoa.orders.line_items import MOST_LINES, MOST_UNITS, NewLine, Units
from stoa.orders.records import MOST_FULFILLMENTS, MOST_PAYMENTS, MOST_REFUNDS, PaymentStatus
from stoa.products.contract import Weight, WeightUnit
from stoa.rest.checks import Money, Time
from stoa.rest.fields import Name, Short
from stoa.rest.scopes import requires

MOST_ORDERS = 100
MOST_LINES_TOGETHER = 2_000  # of the orders in one call, which one transaction stores
IMPORT_ORDERS = "orders:import"
LARGEST_NUMBER = 10**12 - 1
LineIndex = Annotated[
    int,
    Meta(
        ge=0, lt=MOST_LINES, description="The position of a line item in `line_items`, from 0. Send each at most once."
    ),
]
_HISTORICAL = Meta(
    description="True: the order is stored as it was, without any effect on stock. Requires `orders:import`."
)
_SEND_EVENTS = Meta(
    description="Whether webhooks receive `order.created`, and `customer.created` of new customers. The default is false."
)

_METHOD = Meta(description="How the money was moved, such as `card` or `cash`.")
_EXTERNAL_ID = Meta(description="The id of the transaction in the payment system, unique in the order.")
_NOTE = Meta(description="A note about it.")


class HistoricalLine(NewLine, forbid_unknown_fields=True):
    """A line item as it was ordered. It belongs to the variant with its `sku` or `variant_id`; without such a variant, `name` and `unit_price` are required."""

    name: Annotated[
        Name | None,
        Meta(description="The name of the product when it was ordered. By default it is the present name."),
    ] = None
    variant_title: Annotated[Short | None, Meta(description="The title of the variant when it was ordered.")] = None
    weight: Annotated[Weight | None, Meta(description="The weight of one unit when it was ordered.")] = None
    weight_unit: Annotated[WeightUnit | None, Meta(description="The unit of `weight`.")] = None
    returned_quantity: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_UNITS)],
        Meta(description="The shipped units that were returned; 0 by default."),
    ] = 0


class PastPayment(msgspec.Struct, forbid_unknown_fields=True):
    """Money that the customer paid."""

    amount: Annotated[Money, Meta(description="The paid amount, more than 0.")]
    created_at: Annotated[Time, Meta(description="The time of the payment.")]
    method: Annotated[Short | None, _METHOD] = None
    external_id: Annotated[Name | None, _EXTERNAL_ID] = None
    note: Annotated[Long | None, _NOTE] = None


class PastRefundLine(msgspec.Struct, forbid_unknown_fields=True):
    """Units of a line item that were refunded."""

    line_item: LineIndex
    quantity: Annotated[Units, Meta(description="The refunded units, at most the quantity of the line item.")]
    amount: Annotated[Money, Meta(description="The part of the refund's `amount` for these units.")]
    restock: Annotated[bool, Meta(description="Whether the units returned to stock at that time.")] = False


class PastRefund(msgspec.Struct, forbid_unknown_fields=True):
    """Money that was returned to the customer."""

    amount: Annotated[Money, Meta(description="The refunded amount, with `shipping_amount`; more than 0.")]
    created_at: Annotated[Time, Meta(description="The time of the refund.")]
    shipping_amount: Annotated[Money | None, Meta(description="The part for shipping; 0 by default.")] = None
    line_items: Annotated[
        list[PastRefundLine],
        Meta(
            max_length=MOST_LINES,
            description="The refunded units. Their amounts and `shipping_amount` add up to `amount`.",
        ),
    ] = []
    reason: Annotated[Short | None, Meta(description="Why the money was returned.")] = None
    note: Annotated[Long | None, _NOTE] = None
    method: Annotated[Short | None, _METHOD] = None
    external_id: Annotated[Name | None, _EXTERNAL_ID] = None


class PastPortion(msgspec.Struct, forbid_unknown_fields=True):
    """Units of a line item that were shipped."""

    line_item: LineIndex
    quantity: Annotated[Units, Meta(description="The shipped units, at most those that no other fulfillment has.")]


class PastFulfillment(msgspec.Struct, forbid_unknown_fields=True):
    """Units that were shipped together."""

    line_items: Annotated[
        list[PastPortion], Meta(min_length=1, max_length=MOST_LINES, description="The shipped units.")
    ]
    shipped_at: Annotated[Time, Meta(description="The time of the shipment.")]
    delivered_at: Annotated[Time | None, Meta(description="The time of the delivery; null if it is not delivered.")] = (
        None
    )
    tracking: Annotated[NewTracking | None, Meta(description="The tracking of the parcel.")] = None
    location: Annotated[
        LocationCode | None, Meta(description="The code of the location that shipped the units; null if unknown.")
    ] = None


class HistoricalOrder(NewOrder, kw_only=True, forbid_unknown_fields=True):
    """An order of another shop as it was: with its number, dates, final status, payments, refunds and fulfillments. It has no effect on stock, now or later, and is not compared with other orders."""

    historical: Annotated[bool, requires(IMPORT_ORDERS), _HISTORICAL] = True
    number: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST_NUMBER)] | None,
        Meta(
            description="The original number, unique in the store. Later orders get higher ones. By default Stoa assigns it."
        ),
    ] = None
    line_items: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - wider, and read by rules of its own
        Annotated[list[HistoricalLine], Meta(min_length=1, max_length=MOST_LINES)],
        Meta(description=f"The line items, from 1 to {MOST_LINES}."),
    ]
    status: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - wider, and read by rules of its own
        Status, Meta(description="The final status. Shipped units, dates and payments must agree with it.")
    ]
    payment_status: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - wider, and read by rules of its own
        PaymentStatus | None,
        Meta(
            description="Follows from `payments` and `refunds`, and must agree with them. Without payments it can be `unpaid`, the default, `authorized`, `failed` or `voided`."
        ),
    ] = None
    placed_at: Annotated[Time, Meta(description="The time at which the order was placed, from 1970 to now.")]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - wider, and read by rules of its own
    cancelled_at: Annotated[
        Time | None,
        Meta(description="The time of the cancellation; required if `status` is `cancelled`, else not allowed."),
    ] = None
    cancel_reason: Annotated[Short | None, Meta(description="Why the order was cancelled.")] = None
    completed_at: Annotated[
        Time | None,
        Meta(
            description="The time of the completion; required if `status` is `completed`, and possible if it is `returned`. Units that no fulfillment has were handed over then."
        ),
    ] = None
    payments: Annotated[
        list[PastPayment], Meta(max_length=MOST_PAYMENTS, description=f"The payments, at most {MOST_PAYMENTS}.")
    ] = msgspec.field(default_factory=list[PastPayment])
    refunds: Annotated[
        list[PastRefund], Meta(max_length=MOST_REFUNDS, description=f"The refunds, at most {MOST_REFUNDS}.")
    ] = msgspec.field(default_factory=list[PastRefund])
    fulfillments: Annotated[
        list[PastFulfillment],
        Meta(max_length=MOST_FULFILLMENTS, description=f"The shipments, at most {MOST_FULFILLMENTS}."),
    ] = msgspec.field(default_factory=list[PastFulfillment])
    amount_paid: Annotated[Money | None, Meta(description="If you send it, it must be the sum of `payments`.")] = None
    amount_refunded: Annotated[Money | None, Meta(description="If you send it, it must be the sum of `refunds`.")] = (
        None
    )
    send_events: Annotated[bool, _SEND_EVENTS] = False


class HistoricalOrders(msgspec.Struct, forbid_unknown_fields=True):
    """Historical orders to store, up to 100. Each is stored as it was, or refused by itself; nothing of a refused one is stored."""

    historical: Annotated[bool, requires(IMPORT_ORDERS), _HISTORICAL]
    items: Annotated[
        list[HistoricalOrder],
        Meta(
            description=f"The orders, stored in this order; at most {MOST_LINES_TOGETHER:,} line items together.",
            extra_json_schema={"minItems": 1, "maxItems": MOST_ORDERS},
        ),
    ]
    send_events: Annotated[bool, _SEND_EVENTS] = False


HISTORICAL = (HistoricalOrder, HistoricalOrders)
