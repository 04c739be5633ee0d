"""The discounts and taxes of a line item or an order: single entries, and the sums that follow from them."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from stoa import money
from stoa.orders.bodies import NewOrder, OrderChanges
from stoa.orders.line_items import LineChanges, NewDiscount, NewLine, NewTaxLine
from stoa.orders.state import LineState, OrderState
from stoa.rest.problems import Fault

AMOUNT_FIELDS = frozenset({"discount_total", "tax_total", "discounts", "tax_lines"})
_HUNDRED_PERCENT = 100 * 10_000  # a percentage has four fraction digits


class Itemized(msgspec.Struct):
    """Entries as callers see them, and their sum; None if it cannot be told."""

    entries: list[dict[str, Any]]
    total: int | None


class Amounts(msgspec.Struct):
    """The discounts and taxes of a new line item or order."""

    discount_total: int
    tax_total: int
    discounts: list[dict[str, Any]]
    tax_lines: list[dict[str, Any]]

    def apply(self, target: LineState | OrderState) -> None:
        target.discount_total, target.discounts = self.discount_total, self.discounts
        target.tax_total, target.tax_lines = self.tax_total, self.tax_lines


def new_amounts(body: NewLine | NewOrder, base: int | None, digits: int, at: str, faults: list[Fault]) -> Amounts:
    """The amounts that a body describes; adds their faults.

    `base` is what a percentage without amount is of; None if the price is unknown, because the line has another fault.
    """
    discounts = _discounts(body.discounts or (), base, digits, f"{at}/discounts", faults)
    taxes = _taxes(body.tax_lines or (), digits)
    return Amounts(
        discount_total=_sum("discount_total", discounts, body.discount_total, digits, at, faults),
        tax_total=_sum("tax_total", taxes, body.tax_total, digits, at, faults),
        discounts=discounts.entries,
        tax_lines=taxes.entries,
    )


def change_amounts(
    target: LineState | OrderState, body: LineChanges | OrderChanges, base: int, digits: int
) -> list[Fault]:
    """Apply the amounts of a merge patch. Repeating the amounts of the target changes nothing; an empty list alone makes its sum 0."""
    faults: list[Fault] = []
    if body.discounts is not UNSET:
        discounts = _discounts(body.discounts or (), base, digits, "/discounts", faults)
        target.discount_total = _sum("discount_total", discounts, body.discount_total, digits, "", faults)
        target.discounts = discounts.entries
    elif body.discount_total is not UNSET and money.to_minor(body.discount_total, digits) != target.discount_total:
        target.discount_total, target.discounts = money.to_minor(body.discount_total, digits), []
    if body.tax_lines is not UNSET:
        taxes = _taxes(body.tax_lines or (), digits)
        target.tax_total = _sum("tax_total", taxes, body.tax_total, digits, "", faults)
        target.tax_lines = taxes.entries
    elif body.tax_total is not UNSET and money.to_minor(body.tax_total, digits) != target.tax_total:
        target.tax_total, target.tax_lines = money.to_minor(body.tax_total, digits), []
    return faults


def percentage_of(base: int, percent: Decimal) -> int:
    """A percentage of an amount in minor units, rounded half up. An amount below zero has nothing to deduct from."""
    return (2 * max(base, 0) * int(percent * 10_000) + _HUNDRED_PERCENT) // (2 * _HUNDRED_PERCENT)


def percent_text(percent: Decimal) -> str:
    """A percentage with two to four fraction digits."""
    whole, _, fraction = f"{percent + 0:.4f}".partition(".")  # -0 becomes 0
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"


def _discounts(sent: Sequence[NewDiscount], base: int | None, digits: int, at: str, faults: list[Fault]) -> Itemized:
    entries: list[dict[str, Any]] = []
    amounts: list[int | None] = []
    for index, each in enumerate(sent):
        value, amount = _discount(each, base, digits, f"{at}/{index}", faults)
        shown = money.to_text(amount or 0, digits)
        entries.append({"code": each.code, "title": each.title, "kind": each.kind, "value": value, "amount": shown})
        amounts.append(amount)
    known = [amount for amount in amounts if amount is not None]
    return Itemized(entries, sum(known) if len(known) == len(amounts) else None)


def _discount(sent: NewDiscount, base: int | None, digits: int, at: str, faults: list[Fault]) -> tuple[str, int | None]:
    """The value of a discount as callers see it, and its amount; None if it cannot be told."""
    amount = money.to_minor(sent.amount, digits) if sent.amount is not None else None
    if sent.kind == "percentage":
        if sent.value > 100:
            words = "must be between 0 and 100 for a percentage"
            faults.append(Fault(f"{at}/value", "out_of_range", words, {"minimum": 0, "maximum": 100}))
            return "", None
        if amount is None and base is not None:
            amount = percentage_of(base, sent.value)
        return percent_text(sent.value), amount
    try:
        value = money.to_minor(sent.value, digits)
    except money.InvalidMoney as error:
        faults.append(Fault(f"{at}/value", "invalid_money", str(error)))
        return "", None
    expected = money.to_text(value, digits)
    if amount is not None and amount != value:
        words = f"must be {expected}, the value of the discount, or omitted"
        faults.append(Fault(f"{at}/amount", "total_mismatch", words, {"expected": expected}))
        return expected, None
    return expected, value


def _taxes(sent: Sequence[NewTaxLine], digits: int) -> Itemized:
    entries: list[dict[str, Any]] = []
    total = 0
    for each in sent:
        amount = money.to_minor(each.amount, digits)
        rate = percent_text(each.rate) if each.rate is not None else None
        entries.append({"title": each.title, "rate": rate, "amount": money.to_text(amount, digits)})
        total += amount
    return Itemized(entries, total)


def _sum(
    name: str, itemized: Itemized, sent: Decimal | UnsetType | None, digits: int, at: str, faults: list[Fault]
) -> int:
    """The sum of entries. A sum that was sent must agree with them; without entries, it is the sum."""
    total = money.to_minor(sent, digits) if isinstance(sent, Decimal) else None
    if not itemized.entries:
        return total or 0
    if total is not None and itemized.total is not None and total != itemized.total:
        expected = money.to_text(itemized.total, digits)
        words = f"must be {expected}, the sum of the single amounts, or omitted"
        faults.append(Fault(f"{at}/{name}", "total_mismatch", words, {"expected": expected}))
    return itemized.total or 0
