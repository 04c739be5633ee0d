"""The fulfillments, refunds, payments and removed units of an order: as callers see them, in memory, and in the stored document."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from stoa import money
from stoa.db.editions import added
from stoa.events.outbox import Actor
from stoa.orders.line_items import Allocation
from stoa.rest.checks import Money, Time

Record = TypeVar("Record", bound=msgspec.Struct)
ShipmentStatus = Literal["shipped", "delivered"]
PaymentKind = Literal["payment", "refund"]
# What an app sets; it counts until something is paid.
PaymentMark = Literal["unpaid", "authorized", "paid", "failed", "voided", "refunded"]
PaymentStatus = Literal[
    "unpaid", "authorized", "partially_paid", "paid", "overpaid", "failed", "voided", "partially_refunded", "refunded"
]
MOST_FULFILLMENTS = MOST_PARCELS = MOST_REFUNDS = MOST_PAYMENTS = 100
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
    allocations: Annotated[
        list[Allocation],
        added(2),
        Meta(
            description="The locations that the units were shipped from. Empty if they are not known: the line item is not tracked and no location was named, or an earlier release of Stoa shipped it."
        ),
    ] = []


class Fulfillment(msgspec.Struct):
    """Units that were shipped together. Each request that ships units makes exactly one."""

    id: Annotated[int, Meta(description="1, 2, 3 and so on within the order. It never changes.")]
    line_items: Annotated[
        list[FulfillmentLine],
        Meta(
            description="The shipped units. Returns do not change them: see `returned_quantity` of the line item. Empty once the fulfillment is voided."
        ),
    ]
    tracking: Annotated[
        FulfillmentTracking | None,
        Meta(description="Null until tracking is sent, after it is removed, and after the customer is erased."),
    ]
    status: Annotated[
        ShipmentStatus,
        Meta(description="`shipped`, then `delivered`. A voided fulfillment stays `shipped`: see `voided_at`."),
    ]
    shipped_at: Annotated[
        Time, Meta(description="The time of the shipment: that of the request unless the request named another one.")
    ]
    delivered_at: Annotated[Time | None, Meta(description="The time at which Stoa recorded the delivery, or null.")]
    location: Annotated[
        str | None,
        added(2),
        Meta(
            description="The code of the location that all units were shipped from; null if there are several, or if it is not known. See `allocations` of the line items."
        ),
    ] = None
    voided_at: Annotated[
        Time | None,
        added(2),
        Meta(
            description="The time at which the fulfillment was voided, which returned its units to the order; else null."
        ),
    ] = None


class RefundLine(msgspec.Struct):
    """The refunded units of a line item."""

    line_item_id: Annotated[int, Meta(description="The id of a line item; the line item may have been removed since.")]
    quantity: Annotated[int, Meta(description="The refunded units, at least 1.")]
    amount: Annotated[Money, Meta(description="The part of the refund's `amount` for these units.")]
    restock: Annotated[bool, Meta(description="Whether the refund returned the units to stock.")]
    location: Annotated[
        str | None,
        added(2),
        Meta(
            description="The code of the location where the request restocked the units; null if it named none: they return to where they were shipped from."
        ),
    ] = None


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


class Payment(msgspec.Struct):
    """Money that was paid or refunded. `amount_paid` and `amount_refunded` of the order are the sums of these records."""

    id: Annotated[int, Meta(description="1, 2, 3 and so on within the order, over both kinds. It never changes.")]
    kind: Annotated[
        PaymentKind,
        Meta(description="`payment` from the customer, or `refund` to the customer. Each of `refunds` has one."),
    ]
    amount: Annotated[Money, Meta(description="The paid or refunded money, more than 0.")]
    method: Annotated[
        str | None, Meta(description="How it was paid, such as `card`; null if unknown. Stoa does not interpret it.")
    ]
    external_id: Annotated[
        str | None,
        Meta(
            description="The id of the transaction in your payment system, unique within the order; null if not sent."
        ),
    ]
    note: Annotated[
        str | None, Meta(description="A note for staff; null if not sent, and after the customer is erased.")
    ]
    actor: Annotated[Actor, Meta(description="The app, person or operator that recorded it.")]
    created_at: Annotated[Time, Meta(description="The time at which it was recorded; with a new order, `placed_at`.")]


class RemovedLine(msgspec.Struct):
    """Units that were removed from a line item after something was paid for the order. They can be refunded by line."""

    line_item_id: Annotated[int, Meta(description="The id of the line item, which may still have other units.")]
    sku: Annotated[str | None, Meta(description="The SKU of the variant; null if it has none.")]
    name: Annotated[str, Meta(description="The name of the product, or of the custom line item.")]
    quantity: Annotated[int, Meta(description="The removed units, without those that were added again.")]
    amount: Annotated[Money, Meta(description="What their removal took from the `total` of the line item.")]


# --- in memory -------------------------------------------------------------------------------------------------------


class FulfilledUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int
    allocations: list[Allocation] = []
    unknown: dict[str, Any] = {}  # members that a later release added; they are kept


class FulfillmentState(msgspec.Struct, frozen=True):
    """Units that were shipped together. Tracking, delivery and a void change it later."""

    id: int
    line_items: list[FulfilledUnits]
    tracking: dict[str, Any] | None
    status: ShipmentStatus
    shipped_at: str
    delivered_at: str | None
    location: str | None = None
    voided_at: str | None = None
    unknown: dict[str, Any] = {}


class RefundedUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int
    amount: int
    restock: bool
    location: str | None = None  # where the units are restocked; None: where they were shipped from
    unknown: dict[str, Any] = {}


class RefundState(msgspec.Struct, frozen=True):
    """Money that was returned to the customer. A refund never changes."""

    id: int
    amount: int
    shipping_amount: int
    reason: str | None
    note: str | None
    line_items: list[RefundedUnits]
    actor: Actor
    created_at: str
    unknown: dict[str, Any] = {}


class RemovedUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    sku: str | None
    name: str
    quantity: int
    amount: int
    unknown: dict[str, Any] = {}


class PaymentState(msgspec.Struct, frozen=True):
    """Money that was paid or refunded. A record never changes."""

    id: int
    kind: PaymentKind
    amount: int
    method: str | None
    external_id: str | None
    note: str | None
    actor: Actor
    created_at: str  # empty until a new order is placed
    unknown: dict[str, Any] = {}


def amount_document(record: PaymentState | RemovedUnits, digits: int) -> dict[str, Any]:
    """A record with one amount as callers see it."""
    return {**_joined(msgspec.to_builtins(record)), "amount": money.to_text(record.amount, digits)}


def payments_of(members: Mapping[str, Any], digits: int) -> list[PaymentState]:
    return [_amount_record(each, PaymentState, digits) for each in members["payments"]]


def removed_of(members: Mapping[str, Any], digits: int) -> list[RemovedUnits]:
    return [_amount_record(each, RemovedUnits, digits) for each in members["removed_line_items"]]


def _amount_record(document: dict[str, Any], kind: type[Record], digits: int) -> Record:
    amount = money.to_minor(Decimal(document["amount"]), digits)
    return msgspec.convert({**_split(document, kind), "amount": amount}, kind)


def records_of(
    fulfillments: Sequence[FulfillmentState],
    refunds: Sequence[RefundState],
    payments: Sequence[PaymentState],
    removed: Sequence[RemovedUnits],
    digits: int,
) -> dict[str, Any]:
    """The members of the document, in the order of the contract."""

    def text(minor: int) -> str:
        return money.to_text(minor, digits)

    return {
        "fulfillments": [_document(each) for each in fulfillments],
        "refunds": [_converted(_document(refund), text) for refund in refunds],
        "payments": [amount_document(each, digits) for each in payments],
        "removed_line_items": [amount_document(each, digits) for each in removed],
    }


def fulfillments_of(members: Mapping[str, Any]) -> list[FulfillmentState]:
    return [_record(each, FulfillmentState, FulfilledUnits) for each in members["fulfillments"]]


def refunds_of(members: Mapping[str, Any], digits: int) -> list[RefundState]:
    def minor(text: str) -> int:
        return money.to_minor(Decimal(text), digits)

    return [_record(_converted(refund, minor), RefundState, RefundedUnits) for refund in members["refunds"]]


def tracking_of(fulfillments: Sequence[FulfillmentState]) -> list[dict[str, Any]]:
    """The parcels of fulfillments; a parcel that carries several fulfillments is listed once."""
    parcels: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for each in fulfillments:
        if each.tracking is not None and each.tracking not in known:
            known.append(each.tracking)
            parcels.append({**each.tracking, "shipped_at": each.shipped_at})
    return parcels


def _document(record: FulfillmentState | RefundState) -> dict[str, Any]:
    """A record as callers see it, with the members that this release does not know."""
    document = msgspec.to_builtins(record)
    return {**_joined(document), "line_items": [_joined(line) for line in document["line_items"]]}


def _joined(members: dict[str, Any]) -> dict[str, Any]:
    return members | members.pop("unknown")


def _record(document: dict[str, Any], kind: type[Record], portion: type[msgspec.Struct]) -> Record:
    lines = [_split(line, portion) for line in document["line_items"]]
    return msgspec.convert({**_split(document, kind), "line_items": lines}, kind)


def _split(members: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    known = {name: value for name, value in members.items() if name in kind.__struct_fields__}
    return {**known, "unknown": {name: value for name, value in members.items() if name not in known}}


def _converted(refund: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """A refund with each of its amounts converted."""
    lines = [{**line, "amount": convert(line["amount"])} for line in refund["line_items"]]
    amounts = {name: convert(refund[name]) for name in ("amount", "shipping_amount")}
    return {**refund, **amounts, "line_items": lines}
