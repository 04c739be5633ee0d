"""The fulfillments and refunds of an order: their state, and the members of its document that hold them."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.events.outbox import Actor
from stoa.orders.parts import ShipmentStatus


class FulfilledUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int


class FulfillmentState(msgspec.Struct, frozen=True):
    """Units that were shipped together. Only tracking and delivery change later."""

    id: int
    line_items: list[FulfilledUnits]
    tracking: dict[str, Any] | None
    status: ShipmentStatus
    shipped_at: str
    delivered_at: str | None


class RefundedUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int
    amount: int
    restock: bool


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


def records_of(fulfillments: Sequence[FulfillmentState], refunds: Sequence[RefundState], digits: int) -> dict[str, Any]:
    """The members of the document, in the order of the contract."""

    def text(minor: int) -> str:
        return money.to_text(minor, digits)

    return {
        "fulfillments": msgspec.to_builtins(fulfillments),
        "refunds": [_converted(msgspec.to_builtins(refund), text) for refund in refunds],
    }


def fulfillments_of(members: Mapping[str, Any]) -> list[FulfillmentState]:
    return msgspec.convert(members["fulfillments"], list[FulfillmentState])


def refunds_of(members: Mapping[str, Any], digits: int) -> list[RefundState]:
    def minor(text: str) -> int:
        return money.to_minor(Decimal(text), digits)

    return msgspec.convert([_converted(refund, minor) for refund in members["refunds"]], list[RefundState])


def _converted(refund: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """A refund with each of its amounts converted."""
    lines = [{**line, "amount": convert(line["amount"])} for line in refund["line_items"]]
    amounts = {name: convert(refund[name]) for name in ("amount", "shipping_amount")}
    return {**refund, **amounts, "line_items": lines}
