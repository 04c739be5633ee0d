"""The fulfillments and refunds of an order: their state, and the members of its document that hold them."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from stoa import money
from stoa.events.outbox import Actor
from stoa.orders.parts import ShipmentStatus

Record = TypeVar("Record", bound=msgspec.Struct)


class FulfilledUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int
    unknown: dict[str, Any] = {}  # members that a later release added; they are kept


class FulfillmentState(msgspec.Struct, frozen=True):
    """Units that were shipped together. Only tracking and delivery change later."""

    id: int
    line_items: list[FulfilledUnits]
    tracking: dict[str, Any] | None
    status: ShipmentStatus
    shipped_at: str
    delivered_at: str | None
    unknown: dict[str, Any] = {}


class RefundedUnits(msgspec.Struct, frozen=True):
    line_item_id: int
    quantity: int
    amount: int
    restock: bool
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


def records_of(fulfillments: Sequence[FulfillmentState], refunds: Sequence[RefundState], digits: int) -> dict[str, Any]:
    """The members of the document, in the order of the contract."""

    def text(minor: int) -> str:
        return money.to_text(minor, digits)

    return {
        "fulfillments": [_document(each) for each in fulfillments],
        "refunds": [_converted(_document(refund), text) for refund in refunds],
    }


def fulfillments_of(members: Mapping[str, Any]) -> list[FulfillmentState]:
    return [_record(each, FulfillmentState, FulfilledUnits) for each in members["fulfillments"]]


def refunds_of(members: Mapping[str, Any], digits: int) -> list[RefundState]:
    def minor(text: str) -> int:
        return money.to_minor(Decimal(text), digits)

    return [_record(_converted(refund, minor), RefundState, RefundedUnits) for refund in members["refunds"]]


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
