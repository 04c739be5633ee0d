"""The timeline of an order in sentences: who did what, from the recorded changes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa.orders.contract import Order
from stoa.orders.lists import Comment

_MOST_NAMED = 4
# What an edit says of each field. The other fields follow from them.
_FIELDS = {
    "contact": "the contact",
    "shipping_address": "the shipping address",
    "billing_address": "the billing address",
    "shipping_total": "the shipping costs",
    "shipping_method": "the shipping method",
    "payment_method": "the payment method",
    "discounts": "the discounts",
    "discount_total": "the discount",
    "tax_lines": "the taxes",
    "tax_total": "the tax",
    "prices_include_tax": "whether prices include taxes",
    "note": "the note",
    "tags": "the tags",
    "metadata": "the metadata",
    "external_id": "the external ID",
}


class Told(msgspec.Struct):
    """An entry of the timeline as a page shows it."""

    kind: str
    author: str
    sentence: str
    text: str
    to_customer: bool
    created_at: datetime


class Storyteller:
    """Tells the entries of one order. Without `personal`, it names no carrier: a viewer sees no tracking."""

    def __init__(self, order: Order, locations: Mapping[str, str], *, personal: bool) -> None:
        self._order = order
        self._locations = locations  # the names of locations by code; empty if there is only one
        self._personal = personal
        self.names = {each.line_item_id: each.name for each in order.removed_line_items}
        self.names |= {line.id: line.name for line in order.line_items}

    def tell(self, entry: Comment) -> Told:
        author, sentence, text = entry.author.name or "Unknown", "", entry.body or ""
        if entry.type == "system":
            author, sentence, text = "", text, ""
        elif entry.type == "comment":
            sentence = "commented"
        elif entry.type == "status_change":
            sentence = _joined(self._moves(entry.changes)) or "changed the order"
        else:
            sentence = _joined(self._edits(entry.changes)) or "edited the order"
        to_customer = entry.visibility == "customer" and entry.type == "comment"
        return Told(entry.type, author, sentence, text, to_customer, entry.created_at)

    def _moves(self, changes: Mapping[str, Sequence[Any]]) -> list[str]:
        """What a change of status did: shipments, returns, money, then the status if it does not follow from them."""
        told = [*self._shipments(*changes.get("fulfillments", ((), ())))]
        was, returned = changes.get("returned_quantity", (0, 0))
        if returned > was:
            told.append(f"took back {_units(returned - was)}")
        told += [self._payment(each) for each in changes.get("payments", ((), ()))[1] if each["kind"] == "payment"]
        told += [self._refund(each) for each in changes.get("refunds", ((), ()))[1]]
        old, new = changes.get("status", ("", ""))
        if new in ("cancelled", "completed"):
            told.append(f"{new} the order")
        elif new and not (told and new in ("shipped", "delivered", "returned")):
            told.append(f"moved the order from {_words(old)} to {_words(new)}")
        if "payment_status" in changes and not changes.keys() & {"payments", "refunds"}:
            told.append(f"marked the payment as {_words(changes['payment_status'][1])}")
        return told

    def _shipments(self, old: Sequence[Any], new: Sequence[Any]) -> list[str]:
        before = {each["id"]: each for each in old}
        told: list[str] = []
        for each in new:
            known = before.get(each["id"])
            named = f"shipment {each['id']}" if len(self._order.fulfillments) > 1 else "the shipment"
            if known is None:
                told.append(f"shipped {self._contents(each['line_items'])}{self._way(each)}")
            elif each.get("voided_at") and not known.get("voided_at"):
                told.append(f"voided {named}")
            elif each["status"] != known["status"]:
                told.append(f"marked {named} as {each['status']}")
            else:
                told.append(f"changed the tracking of {named}")
        return told

    def _way(self, shipment: Mapping[str, Any]) -> str:
        """Where the units were shipped from, and with which carrier."""
        place = self._locations.get(shipment.get("location") or "", "")
        now = next((each for each in self._order.fulfillments if each.id == shipment["id"]), None)
        carrier = now.tracking.carrier if now and now.tracking and self._personal else None
        return (f" from {place}" if place else "") + (f" with {carrier}" if carrier else "")

    def _payment(self, payment: Mapping[str, Any]) -> str:
        by = f" by {payment['method']}" if payment.get("method") else ""
        return f"recorded a payment of {self._money(payment['amount'])}{by}"

    def _refund(self, refund: Mapping[str, Any]) -> str:
        lines = refund["line_items"]
        back = " and put them back into stock" if any(each.get("restock") for each in lines) else ""
        of = f" for {self._contents(lines)}{back}" if lines else ""
        return f"refunded {self._money(refund['amount'])}{of}"

    def _edits(self, changes: Mapping[str, Sequence[Any]]) -> list[str]:
        told = self._lines(*changes.get("line_items", ((), ())))
        fields = [words for name, words in _FIELDS.items() if name in changes]
        if fields:
            told.append(f"changed {_joined(fields)}")
        if "expires_at" in changes:
            told.append("ended the hold" if changes["expires_at"][1] is None else "changed the hold")
        if told and "total" in changes:
            told[-1] += f", for a total of {self._money(changes['total'][1])}"
        return told

    def _lines(self, old: Sequence[Any], new: Sequence[Any]) -> list[str]:
        before, after = ({each["id"]: each for each in lines} for lines in (old, new))
        told: list[str] = []
        for line_id, line in (before | after).items():
            was, now = before.get(line_id), after.get(line_id)
            if was is None:
                told.append(f"added {_times(line['quantity'], line['name'])}")
            elif now is None:
                told.append(f"removed {_times(was['quantity'], was['name'])}")
            elif was["quantity"] != now["quantity"]:
                told.append(f"changed {now['name']} from {was['quantity']:,} to {_units(now['quantity'])}")
            elif now.get("location") and was.get("location") != now["location"]:
                place = self._locations.get(now["location"], now["location"])
                told.append(f"moved the reservation of {now['name']} to {place}")
            else:
                told.append(f"changed {now['name']}")
        left = len(told) - _MOST_NAMED
        return told if left <= 1 else [*told[:_MOST_NAMED], f"changed {left:,} more line items"]

    def _contents(self, lines: Sequence[Mapping[str, Any]]) -> str:
        """The units of line items, the first few by name."""
        named = [
            _times(each["quantity"], self.names.get(each["line_item_id"], "a removed item"))
            for each in lines[:_MOST_NAMED]
        ]
        left = sum(each["quantity"] for each in lines[_MOST_NAMED:])
        return _joined([*named, *([f"{left:,} more units"] if left else [])]) or "nothing"

    def _money(self, amount: str) -> str:
        return f"{amount} {self._order.currency}"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _times(count: int, name: str) -> str:
    return f"{count:,} \N{MULTIPLICATION SIGN} {name}"


def _units(count: int) -> str:
    return f"{count:,} unit{'' if count == 1 else 's'}"


def _words(status: str) -> str:
    return status.replace("_", " ")
