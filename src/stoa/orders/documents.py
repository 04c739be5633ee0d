"""The stored form of an order: the parts of its document and its search terms, rendered without a database."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money, terms
from stoa.db.documents import json_of
from stoa.events.outbox import Actor
from stoa.orders.rules import TRANSITIONS
from stoa.orders.states import LineState, OrderState
from stoa.rest.problems import Fault, ValidationFailed
from stoa.rest.request import Call

_AMOUNTS = ("discount_total", "shipping_total", "tax_total", "amount_paid", "amount_refunded")
_LINE_AMOUNTS = ("unit_price", "discount_total", "tax_total")
_KEPT = (
    "number", "external_id", "source", "status", "payment_status", "currency", "customer_id", "shipping_method",
    "payment_method", "tags", "duplicate_of", "cancel_reason", "placed_at", "cancelled_at", "completed_at", "contact",
    "shipping_address", "billing_address", "tracking", "note", "metadata",
)  # fmt: skip
NO_CONTACT: dict[str, Any] = {"email": None, "phone": None, "first_name": None, "last_name": None}
_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_lines_decoder = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)


MOST_LINES_TEXT = 2_000_000  # metadata that grows line by line must not make an order too large to read


class Parts(msgspec.Struct):
    """The parts that the database stores of a document, and joins when it is read."""

    head: str
    lines: str
    person: str


def parts_of(order: OrderState, digits: int) -> Parts:
    return Parts(
        head="," + json_of(purchase(order, digits))[1:-1],
        lines=json_of([line_document(line, digits) for line in order.lines]),
        person="," + json_of(person(order))[1:-1],
    )


def check_size(parts: Parts) -> None:
    if len(parts.lines) > MOST_LINES_TEXT:
        fault = Fault("/line_items", "too_long", f"must have at most {MOST_LINES_TEXT} characters in total")
        raise ValidationFailed("The line items of the order are too large.", faults=[fault])


def document_of(order: OrderState, digits: int) -> dict[str, Any]:
    """An order as callers see it, without counts, times and version."""
    lines = [line_document(line, digits) for line in order.lines]
    return {**purchase(order, digits), "line_items": lines, **person(order)}


def document(order: OrderState, parts: Parts, tail: str) -> bytes:
    """The order as callers see it; `order_document` in the database renders the same."""
    return f'{{"id":{order.id}{parts.head},"line_items":{parts.lines}{parts.person}{tail}'.encode()


def tail_of(suspected_duplicates: int, now: str, version: int) -> str:
    """The last part of a new order's document; the database renders the same."""
    return f',"suspected_duplicates_count":{suspected_duplicates},"created_at":"{now}","updated_at":"{now}","version":{version}}}'


def purchase(order: OrderState, digits: int) -> dict[str, Any]:
    """The members about the purchase, in the order of the contract."""

    def text(minor: int) -> str:
        return money.to_text(minor, digits)

    return {
        "number": order.number,
        "external_id": order.external_id,
        "source": order.source,
        "status": order.status,
        "payment_status": order.payment_status,
        "fulfillment_status": order.fulfillment_status,
        "allowed_transitions": TRANSITIONS[order.status],
        "currency": order.currency,
        "customer_id": order.customer_id,
        "subtotal": text(order.subtotal),
        "discount_total": text(order.discount_total),
        "shipping_total": text(order.shipping_total),
        "tax_total": text(order.tax_total),
        "total": text(order.total),
        "amount_paid": text(order.amount_paid),
        "amount_refunded": text(order.amount_refunded),
        "amount_due": text(order.amount_due),
        "shipping_method": order.shipping_method,
        "payment_method": order.payment_method,
        "tags": order.tags,
        "duplicate_of": order.duplicate_of,
        "cancel_reason": order.cancel_reason,
        "placed_at": order.placed_at,
        "cancelled_at": order.cancelled_at,
        "completed_at": order.completed_at,
    }


def person(order: OrderState) -> dict[str, Any]:
    """The members about the buyer: the part that an erasure empties."""
    return {
        "contact": order.contact,
        "shipping_address": order.shipping_address,
        "billing_address": order.billing_address,
        "tracking": order.tracking,
        "note": order.note,
        "metadata": order.metadata,
    }


def line_document(line: LineState, digits: int) -> dict[str, Any]:
    return {
        "id": line.id,
        "product_id": line.product_id,
        "variant_id": line.variant_id,
        "sku": line.sku,
        "name": line.name,
        "variant_title": line.variant_title,
        "option_values": line.option_values,
        "quantity": line.quantity,
        "fulfilled_quantity": line.fulfilled_quantity,
        "returned_quantity": line.returned_quantity,
        "unit_price": money.to_text(line.unit_price, digits),
        "discount_total": money.to_text(line.discount_total, digits),
        "tax_total": money.to_text(line.tax_total, digits),
        "total": money.to_text(line.total, digits),
        "metadata": line.metadata,
    }


def order_of(parts: Parts, digits: int, **known: Any) -> OrderState:
    """The state of a stored order."""
    members = _decoder.decode("{" + parts.head[1:] + parts.person + "}")
    lines = [_line_of(line, digits) for line in _lines_decoder.decode(parts.lines)]
    amounts = {name: money.to_minor(Decimal(members[name]), digits) for name in _AMOUNTS}
    return OrderState(lines=lines, **amounts, **{name: members[name] for name in _KEPT}, **known)


def _line_of(members: dict[str, Any], digits: int) -> LineState:
    kept: dict[str, Any] = {name: value for name, value in members.items() if name != "total"}
    for name in _LINE_AMOUNTS:
        kept[name] = money.to_minor(Decimal(kept[name]), digits)
    return LineState(**kept)


def terms_of(order: OrderState, store_id: int) -> str:
    """The search terms of an order, as a tsvector."""
    contact = order.contact
    text = f"{contact['first_name'] or ''} {contact['last_name'] or ''} {contact['email'] or ''} {order.number}"
    found = {terms.lexeme(store_id, "word", word) for word in terms.words(text)}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in order.tags}
    found |= {terms.lexeme(store_id, "meta", terms.entry(key, value)) for key, value in order.metadata.items()}
    return terms.vector(found)


def actor_of(call: Call) -> Actor:
    """Who changes an order, as events and the stock ledger name them."""
    return Actor("app", call.caller.app_id) if call.caller.app_id else Actor("operator")


def author_of(call: Call) -> str:
    """Who changes an order, as its timeline names them."""
    caller = call.caller
    return json_of(
        {"type": "app" if caller.app_id else "operator", "id": caller.app_id or None, "name": caller.app_name}
    )


def time_text(moment: datetime) -> str:
    """A time as RFC 3339 in UTC with microseconds, as the database renders it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
