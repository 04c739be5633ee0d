"""An accounting export, written from the public documentation alone: it computes every total from its smallest parts.

The guides say how the amounts of an order follow from unit prices, quantities, single discounts and taxes, shipping,
payments and refunds, and where its units are. The export does this sum by itself and compares each derived field of the API with its
own result.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from typing import Any

import httpx

Document = dict[str, Any]
ZERO = Decimal(0)
SET_BY_APPS = ("unpaid", "authorized", "failed", "voided", "paid")  # paid if the order costs nothing


Stock = dict[tuple[str, str], tuple[int, int]]  # the units that left stock and that are reserved, by SKU and location


@dataclass
class Posting:
    """What one order adds to the books."""

    number: int
    customer_id: int | None
    counts: bool
    totals: dict[str, Decimal]
    paid: Decimal
    refunded: Decimal
    stock: Stock
    differences: list[str] = field(default_factory=list[str])

    @property
    def received(self) -> Decimal:
        return self.paid - self.refunded


@dataclass
class Books:
    postings: list[Posting]
    restocked: Counter[tuple[str, str]]  # the units that came back to each location, by the ledger

    @property
    def differences(self) -> list[str]:
        return [f"order {each.number}: {words}" for each in self.postings for words in each.differences]

    def sum_of(self, name: str) -> Decimal:
        return sum((each.totals[name] for each in self.postings), ZERO)

    def stock(self, *, without: Collection[int] = ()) -> Stock:
        """The units that left each location and that are reserved there, except for orders with these numbers."""
        found: Stock = {}
        for posting in self.postings:
            if posting.number not in without:
                for place, (left, reserved) in posting.stock.items():
                    before = found.get(place, (0, 0))
                    found[place] = before[0] + left, before[1] + reserved
        for place, units in self.restocked.items():
            left, reserved = found.get(place, (0, 0))
            found[place] = left - units, reserved
        return found

    def received_from(self, customer_id: int) -> tuple[int, Decimal]:
        """The orders of a customer that count, and what was received for them."""
        counted = [each for each in self.postings if each.customer_id == customer_id and each.counts]
        return len(counted), sum((each.received for each in counted), ZERO)


async def export(client: httpx.AsyncClient) -> Books:
    postings = [posting_of(order) async for order in rows_of(client, "/orders")]
    restocked: Counter[tuple[str, str]] = Counter()
    async for entry in rows_of(client, "/products/inventory/adjustments"):
        if entry["kind"] == "restock" and entry["order_id"] is not None:
            restocked[entry["sku"], entry["location"]] += entry["delta_on_hand"]
    return Books(postings, restocked)


async def rows_of(client: httpx.AsyncClient, path: str) -> AsyncIterator[Document]:
    """Every row of a list, page by page."""
    cursor = ""
    while True:
        page = (await client.get(path, params={"limit": 250} | ({"cursor": cursor} if cursor else {}))).json()
        for row in page["data"]:
            yield row
        cursor = page["meta"]["next_cursor"]
        if not cursor:
            return


def posting_of(order: Document) -> Posting:
    lines = order["line_items"]
    included = order["prices_include_tax"]
    items = sum((Decimal(line["unit_price"]) * line["quantity"] for line in lines), ZERO)
    items_discount = sum((discount_of(line) for line in lines), ZERO)
    items_tax = sum((tax_of(line) for line in lines), ZERO)
    shipping, order_discount, shipping_tax = Decimal(order["shipping_total"]), discount_of(order), tax_of(order)
    discount, tax = items_discount + order_discount, items_tax + shipping_tax
    totals = {
        "items": items, "items_discount": items_discount, "items_tax": items_tax, "shipping": shipping,
        "shipping_tax": shipping_tax, "order_discount": order_discount, "discount": discount, "tax": tax,
        "total": items - discount + shipping + (ZERO if included else tax),
    }  # fmt: skip
    paid, refunded = recorded(order, "payment"), recorded(order, "refund")
    kept = kept_of(order, totals["total"])
    balance = kept - paid + min(refunded, max(ZERO, paid - kept))
    counts = order["status"] not in ("draft", "cancelled")
    made = Posting(order["number"], order["customer_id"], counts, totals, paid, refunded, stock_of(order))
    expected: dict[str, Decimal] = {
        **{f"totals.{name}": amount for name, amount in totals.items()},
        "total": totals["total"],
        "subtotal": items - items_discount + (ZERO if included else items_tax),
        "discount_total": order_discount,
        "tax_total": shipping_tax,
        "amount_paid": paid,
        "amount_refunded": refunded,
        "amount_due": max(ZERO, balance),
        "balance": balance,
    }
    shown = {name: order["totals"][name[7:]] if name.startswith("totals.") else order[name] for name in expected}
    made.differences = [
        f"{name} is {shown[name]}, expected {amount}"
        for name, amount in expected.items()
        if Decimal(shown[name]) != amount
    ]
    for line in lines:
        made.differences += line_differences(order, line, included=included)
    made.differences += payment_differences(order, made, balance)
    made.differences += refund_differences(order)
    made.differences += shipment_differences(order)
    return made


def recorded(order: Document, kind: str) -> Decimal:
    return sum((Decimal(each["amount"]) for each in order["payments"] if each["kind"] == kind), ZERO)


def kept_of(order: Document, total: Decimal) -> Decimal:
    """The part of the total for units that were neither returned nor, in a cancelled order, left unshipped."""
    lost, kept = ZERO, False
    for line in order["line_items"]:
        gone = line["returned_quantity"]
        if order["status"] == "cancelled":
            gone += line["quantity"] - line["fulfilled_quantity"]
        worth = Decimal(line["total"])
        lost += (worth * gone / line["quantity"]).quantize(worth, ROUND_DOWN)
        kept = kept or gone < line["quantity"]
    return max(ZERO, total - lost) if kept else ZERO


def payment_differences(order: Document, made: Posting, balance: Decimal) -> list[str]:
    """The payment status, the numbers of the records, and what an order may not be: completed with money due."""
    if made.refunded:
        status = "refunded" if made.refunded == made.paid else "partially_refunded"
    elif made.paid:
        rest = "overpaid" if made.paid > made.totals["total"] else "paid"
        status = "partially_paid" if balance > 0 else rest
    else:
        status = order["payment_status"] if order["payment_status"] in SET_BY_APPS else "unpaid"
    differences: list[str] = []
    if order["payment_status"] != status:
        differences.append(f"payment_status is {order['payment_status']}, expected {status}")
    if [each["id"] for each in order["payments"]] != list(range(1, len(order["payments"]) + 1)):
        differences.append("payments are not numbered 1, 2, 3")
    refunds = [each["amount"] for each in order["payments"] if each["kind"] == "refund"]
    if refunds != [each["amount"] for each in order["refunds"]]:
        differences.append("refunds and their records differ")
    if order["status"] == "completed" and balance > 0:
        differences.append(f"completed with {balance} due")
    return differences


def discount_of(part: Document) -> Decimal:
    """The single discounts of a line item or an order; without them, their sum."""
    return sum((Decimal(each["amount"]) for each in part["discounts"]), ZERO) or Decimal(part["discount_total"])


def tax_of(part: Document) -> Decimal:
    return sum((Decimal(each["amount"]) for each in part["tax_lines"]), ZERO) or Decimal(part["tax_total"])


def line_differences(order: Document, line: Document, *, included: bool) -> list[str]:
    cost = Decimal(line["unit_price"]) * line["quantity"]
    total = cost - discount_of(line) + (ZERO if included else tax_of(line))
    shipped = sum(units_in(each, line["id"]) for each in shipments_of(order))
    differences: list[str] = []
    if Decimal(line["total"]) != total:
        differences.append(f"line {line['id']} is {line['total']}, expected {total}")
    if shipped != line["fulfilled_quantity"]:
        differences.append(
            f"line {line['id']} has {shipped} units in fulfillments, {line['fulfilled_quantity']} fulfilled"
        )
    if not line["returned_quantity"] <= shipped <= line["quantity"]:
        differences.append(f"line {line['id']} shipped or returned more than was ordered")
    return differences


def units_in(record: Document, line_id: int) -> int:
    return sum(each["quantity"] for each in record["line_items"] if each["line_item_id"] == line_id)


def refund_differences(order: Document) -> list[str]:
    """A refund is its line items plus shipping; all refunds together are at most what was paid."""
    differences: list[str] = []
    for made in order["refunds"]:
        parts = sum((Decimal(each["amount"]) for each in made["line_items"]), Decimal(made["shipping_amount"]))
        if made["line_items"] and parts != Decimal(made["amount"]):
            differences.append(f"refund {made['id']} is {made['amount']}, its parts are {parts}")
    if sum((Decimal(made["amount"]) for made in order["refunds"]), ZERO) > Decimal(order["amount_paid"]):
        differences.append("more was refunded than was paid")
    for line in order["line_items"]:
        ordered = line["quantity"] + units_in({"line_items": order["removed_line_items"]}, line["id"])
        if sum(units_in(made, line["id"]) for made in order["refunds"]) > ordered:
            differences.append(f"line {line['id']} has more refunded units than ordered ones")
    return differences


def shipments_of(order: Document) -> list[Document]:
    """The fulfillments that count: a voided one never left."""
    return [each for each in order["fulfillments"] if each["voided_at"] is None]


def stock_of(order: Document) -> Stock:
    """The units of each SKU that left a location, and those that are still reserved there, by the allocations."""
    names = {line["id"]: line["sku"] for line in order["line_items"]}
    left: Counter[tuple[str, str]] = Counter()
    for made in shipments_of(order):
        for each in made["line_items"]:
            for part in each["allocations"]:
                left[names[each["line_item_id"]], part["location"]] += part["quantity"]
    allocated: Counter[tuple[str, str]] = Counter()
    for line in order["line_items"]:
        for part in line["allocations"]:
            allocated[line["sku"], part["location"]] += part["quantity"]
    return {place: (left[place], max(0, allocated[place] - left[place])) for place in left | allocated}


def shipment_differences(order: Document) -> list[str]:
    """A shipment from one location names it, and a hold exists only while a pending order waits for its payment."""
    differences: list[str] = []
    for made in shipments_of(order):
        places = {part["location"] for each in made["line_items"] for part in each["allocations"]}
        if len(places) == 1 and made["location"] not in places:
            differences.append(f"fulfillment {made['id']} is at {made['location']}, its units at {places}")
    waits = order["status"] == "pending" and order["payment_status"] in ("unpaid", "failed", "voided")
    if order["expires_at"] is not None and not waits:
        differences.append(f"held until {order['expires_at']}, although it does not wait for a payment")
    return differences
