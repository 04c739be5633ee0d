"""The request body that moves an order on: its status, payment, shipments, returns and refunds."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.orders.bodies import Id, Units
from stoa.orders.parts import MOST_FULFILLMENTS, MOST_LINES, PaymentStatus, Status
from stoa.rest.checks import Money
from stoa.rest.fields import Short, Url


class NewTracking(msgspec.Struct, forbid_unknown_fields=True):
    carrier: Short | None = None
    number: Short | None = None
    url: Url | None = None


class Portion(msgspec.Struct, forbid_unknown_fields=True):
    """A quantity of one line item."""

    id: Annotated[Id, Meta(description="The id of a line item of the order. Send each at most once.")]
    quantity: Annotated[
        Units,
        Meta(
            description="The units to ship, at most those that are not shipped yet, or to return, at most those that are shipped."
        ),
    ]


class NewRefundLine(msgspec.Struct, forbid_unknown_fields=True):
    """Units of a line item to refund."""

    line_item_id: Annotated[Id, Meta(description="The id of a line item of the order. Send each at most once.")]
    quantity: Annotated[
        Units, Meta(description="The units to refund: at most the quantity of the line item minus refunded units.")
    ]
    restock: Annotated[
        bool,
        Meta(description="True returns the units, which must be shipped, to stock and counts them as returned."),
    ] = False


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


class StatusChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of the order's status, its payment status, the tracking of a shipment, a refund, or several of these. `line_items` ships or returns only a part. `partially_refunded` requires `amount_refunded`, the sum of all refunds."""

    status: Annotated[
        Status | None,
        Meta(
            description="The status to move to: one of `allowed_transitions`, or `returned` for shipped units in `line_items`. Required unless `payment_status`, `tracking` or `refund` is sent."
        ),
    ] = None
    payment_status: Annotated[
        PaymentStatus | None,
        Meta(
            description="The payment status to move to. `paid` raises `amount_paid` to the total. Not allowed with `refund`."
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
                description="The fulfillment whose `tracking` is replaced, or that is delivered if `status` is `delivered`.",
            ),
        ]
        | None
    ) = None
    refund: Annotated[NewRefund | None, Meta(description="A refund; `payment_status` follows from it.")] = None
    tracking: Annotated[
        NewTracking | None,
        Meta(
            description="The tracking of a parcel, with at least one field. Without `fulfillment_id`, it belongs to the units that this request ships, or to the newest fulfillment without tracking."
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
