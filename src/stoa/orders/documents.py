"""An order as it is stored: the parts of its document, its search terms, and the traits by which duplicates are suspected."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stoa import money, terms
from stoa.customers.contract import email_key
from stoa.db.query import json_of
from stoa.events.outbox import Actor
from stoa.orders.contract import TRANSITIONS, DuplicateReason
from stoa.orders.records import records_of
from stoa.orders.state import LineState, OrderState
from stoa.rest.call import Call
from stoa.rest.problems import Fault, ValidationFailed

_NO_RECORDS = ',"fulfillments":[],"refunds":[],"payments":[],"removed_line_items":[]'
MOST_LINES_TEXT = 2_000_000  # metadata that grows line by line must not make an order too large to read


class Parts(msgspec.Struct):
    """The parts that the database stores of a document, and joins when it is read."""

    head: str
    lines: str
    person: str


def parts_of(order: OrderState, digits: int) -> Parts:
    records = _NO_RECORDS
    if order.fulfillments or order.payments:
        records = (
            ","
            + json_of(records_of(order.fulfillments, order.refunds, order.payments, order.removed_line_items, digits))[
                1:-1
            ]
        )
    return Parts(
        head="," + json_of(purchase(order, digits))[1:-1] + records + _members(order.unknown),
        lines=json_of([line_document(line, digits) for line in order.lines]),
        person="," + json_of(person(order))[1:-1] + _members(order.unknown_of_person),
    )


def _members(unknown: Mapping[str, Any]) -> str:
    return "," + json_of(unknown)[1:-1] if unknown else ""


def check_size(parts: Parts) -> None:
    if len(parts.lines) > MOST_LINES_TEXT:
        fault = Fault("/line_items", "too_long", f"must have at most {MOST_LINES_TEXT} characters in total")
        raise ValidationFailed("The line items of the order are too large.", faults=[fault])


def document_of(order: OrderState, digits: int, lines: Sequence[LineState] | None = None) -> dict[str, Any]:
    """An order as callers see it, with all line items or only these, without counts, times and version."""
    shown = [line_document(line, digits) for line in (order.lines if lines is None else lines)]
    records = records_of(order.fulfillments, order.refunds, order.payments, order.removed_line_items, digits)
    return {**purchase(order, digits), **records, "line_items": shown, **person(order)}


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

    items = items_discount = items_tax = 0
    for line in order.lines:
        items += line.unit_price * line.quantity
        items_discount += line.discount_total
        items_tax += line.tax_total
    discount, shipping, tax = text(order.discount_total), text(order.shipping_total), text(order.tax_total)
    subtotal = order.subtotal
    figures = order.figures_of(order.total_of(subtotal))
    total = text(figures.total)
    return {
        "number": order.number,
        "external_id": order.external_id,
        "source": order.source,
        "status": order.status,
        "payment_status": figures.payment_status(order.payment_mark),
        "fulfillment_status": order.fulfillment_status,
        "allowed_transitions": TRANSITIONS[order.status],
        "currency": order.currency,
        "customer_id": order.customer_id,
        "subtotal": text(subtotal),
        "discount_total": discount,
        "shipping_total": shipping,
        "tax_total": tax,
        "total": total,
        "amount_paid": text(figures.paid),
        "amount_refunded": text(figures.refunded),
        "amount_due": text(figures.due),
        "balance": text(figures.balance),
        "prices_include_tax": order.prices_include_tax,
        "totals": {
            "items": text(items),
            "items_discount": text(items_discount),
            "items_tax": text(items_tax),
            "shipping": shipping,
            "shipping_tax": tax,
            "order_discount": discount,
            "discount": text(items_discount + order.discount_total),
            "tax": text(items_tax + order.tax_total),
            "total": total,
        },
        "discounts": order.discounts,
        "tax_lines": order.tax_lines,
        "shipping_method": order.shipping_method,
        "payment_method": order.payment_method,
        "tags": order.tags,
        "duplicate_of": order.duplicate_of,
        "cancel_reason": order.cancel_reason,
        "placed_at": order.placed_at,
        "cancelled_at": order.cancelled_at,
        "completed_at": order.completed_at,
        "expires_at": order.held_until,
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
        "discounts": line.discounts,
        "tax_lines": line.tax_lines,
        "requires_shipping": line.requires_shipping,
        "taxable": line.taxable,
        "location": line.location,
        "allocations": [{"location": each.location, "quantity": each.quantity} for each in line.allocations],
        "weight": line.weight,
        "weight_unit": line.weight_unit,
        **line.unknown,
    }


def searched(order: OrderState) -> dict[str, Any]:
    """What the search terms of an order follow from."""
    return {"contact": order.contact, "number": order.number, "tags": order.tags, "metadata": order.metadata}


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
    return Actor(call.kind, call.app_id)


def author_of(call: Call) -> str:
    """Who changes an order, as its timeline names them."""
    return json_of({"type": call.kind, "id": call.app_id, "name": call.author})


def time_text(moment: datetime) -> str:
    """A time as RFC 3339 in UTC with microseconds, as the database renders it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


# --- duplicates ----------------------------------------------------------------------------------------------------

_ADDRESS = ("address1", "address2", "city", "postal_code", "country_code")


class Traits(msgspec.Struct, frozen=True):
    """The features by which suspected duplicates are found."""

    customer_id: int | None
    email: str | None
    phone: str | None
    basket: bytes
    address: bytes | None
    total: int


def traits_of(order: OrderState) -> Traits:
    email, phone = order.contact["email"], order.contact["phone"]
    return Traits(
        customer_id=order.customer_id,
        email=email_key(email) if email else None,
        phone=phone,
        basket=basket_digest(order.lines),
        address=address_digest(order.shipping_address or order.billing_address),
        total=order.total,
    )


def basket_digest(lines: Sequence[LineState]) -> bytes:
    """A digest of the units of each variant and custom line item, independent of the order and the division of lines."""
    units: Counter[tuple[int, str]] = Counter()
    for line in lines:
        units[(0, line.name) if line.variant_id is None else (line.variant_id, "")] += line.quantity
    return _digest(repr(sorted(units.items())))


def address_digest(address: Mapping[str, Any] | None) -> bytes | None:
    """A digest of an address that ignores case, accents and punctuation, and spaces in a postal code; None without a street."""
    if not address or not address.get("address1"):
        return None
    words = {name: terms.words(str(address.get(name) or "")) for name in _ADDRESS}
    words["postal_code"] = ["".join(words["postal_code"])]
    return _digest(" ".join(word for found in words.values() for word in found))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def likeness(one: Traits, other: Traits) -> tuple[int, list[DuplicateReason]] | None:
    """The score of two orders as suspected duplicates, in hundredths, and its reasons.

    None unless they have the same contact, and the same basket or address.
    """
    contacts: list[DuplicateReason] = []
    if one.phone is not None and one.phone == other.phone:
        contacts.append("same_phone")
    if one.email is not None and one.email == other.email:
        contacts.append("same_email")
    if one.customer_id is not None and one.customer_id == other.customer_id:
        contacts.append("same_customer")
    same_address = one.address is not None and one.address == other.address
    same_basket = one.basket == other.basket
    if not contacts or not (same_address or same_basket):
        return None
    reasons = contacts
    score = 30 + 10 * (len(contacts) - 1)
    further: list[tuple[DuplicateReason, bool, int]] = [
        ("same_address", same_address, 15),
        ("same_basket", same_basket, 30),
        ("same_total", one.total == other.total, 5),
    ]
    for reason, applies, weight in further:
        if applies:
            reasons.append(reason)
            score += weight
    return score, reasons
