"""The story of a sample store: which orders were placed when, and what happened to each of them since.

It is the same for every store with the same catalog, and relative to now.
"""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

DAYS = 30  # of generated sales
OPENED = timedelta(days=61)  # before the first order of a file
_LATEST = timedelta(minutes=20)  # the last step of a story is this long ago
_APART = timedelta(days=3)  # otherwise Stoa suspects duplicates
_SEED = 1105


class Step(msgspec.Struct):
    """Something that happened: a new order (`of` counts them), a change of one, or units that arrived by SKU."""

    at: datetime
    of: int
    body: dict[str, Any]
    arrived: Mapping[str, int] = {}


class Sold(msgspec.Struct):
    """A variant that the generated orders buy."""

    sku: str
    weight: int  # how often it is bought, compared with the others


class Market(msgspec.Struct):
    """Who buys what in the generated orders."""

    per_day: int  # orders at least
    variants: list[Sold]
    buyers: dict[str, dict[str, Any]]  # bodies of orders by email: the customer and the address
    bought: list[tuple[str, datetime]]  # who has ordered when; nobody orders again within days


# How long after the step before; of a longer story than the age of its order, all steps are closer together.
_DELAYS = {
    "processing": timedelta(hours=3),
    "on_hold": timedelta(hours=2),
    "cancelled": timedelta(hours=5),
    "shipped": timedelta(hours=22),
    "delivered": timedelta(days=2, hours=5),
    "completed": timedelta(days=6),
    "returned": timedelta(days=5),
    "": timedelta(hours=26),  # a payment, a refund, a voided shipment
}


def told(orders: Sequence[Mapping[str, Any]], now: datetime) -> list[Step]:
    """The steps of the orders of a file, each with `days_ago` and its `moves`."""
    steps: list[Step] = []
    for number, order in enumerate(orders):
        body = dict(order)
        days_ago, moves = body.pop("days_ago"), body.pop("moves")
        placed = now - timedelta(days=days_ago, minutes=32 + 12 * (len(orders) - number))
        steps.append(Step(placed, number, body))
        steps += _moves(number, placed, moves, now)
    return steps


def _moves(number: int, placed: datetime, moves: Sequence[Mapping[str, Any]], now: datetime) -> list[Step]:
    """The moves with their usual delays; all of them happened."""
    delays = [_DELAYS[move.get("status", "")] for move in moves]
    room = now - _LATEST - placed
    needed = sum(delays, timedelta())
    share = min(1.0, room / needed) if moves else 1.0
    steps: list[Step] = []
    at = placed
    for move, delay in zip(moves, delays, strict=True):
        at += delay * share
        steps.append(Step(at, number, dict(move)))
    return steps


def generated(market: Market, first: int, zone: tzinfo, now: datetime) -> list[Step]:
    """The sales of the last days, counted from `first`: a few orders a day, and a delivery of goods each week."""
    draw = random.Random(_SEED)  # noqa: S311 - a story, not a secret
    steps: list[Step] = []
    sold: dict[str, int] = {}
    number = first
    today = now.astimezone(zone).date()
    for back in range(DAYS, -1, -1):
        day = today - timedelta(days=back)
        weekend = 1 if day.weekday() >= 5 else 0
        number_of_day = market.per_day + draw.randrange(3) + weekend
        for minute in sorted(draw.randrange(8 * 60, 22 * 60) for _ in range(number_of_day)):
            placed = datetime.combine(day, time(minute // 60, minute % 60, draw.randrange(60)), zone)
            near = {email for email, at in market.bought if abs(placed - at) < _APART}
            buyer = draw.choice([email for email in market.buyers if email not in near])
            market.bought.append((buyer, placed))
            body, moves = _order(draw, market, buyer, number)
            if placed > now - _LATEST:
                continue
            for line in body["line_items"]:
                sold[line["sku"]] = sold.get(line["sku"], 0) + line["quantity"]
            steps += [
                Step(placed, number, body),
                *_until(_moves(number, placed, moves, placed + timedelta(days=99)), now),
            ]
            number += 1
        if back % 7 == 1 and sold:
            arrival = datetime.combine(day, time(7, 40), zone)
            steps.append(Step(arrival, -1, {"reference": f"PO-{2050 - back}"}, sold))
            sold = {}
    return steps


def _until(steps: list[Step], now: datetime) -> list[Step]:
    return [step for step in steps if step.at < now - _LATEST]


def _order(draw: random.Random, market: Market, buyer: str, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An order, and what happens to it in the following weeks."""
    weights = [each.weight for each in market.variants]
    skus = dict.fromkeys(each.sku for each in draw.choices(market.variants, weights, k=draw.choice((1, 1, 2, 2, 3))))
    by_phone, fate = draw.random() < 0.15, draw.random()
    body = {
        **market.buyers[buyer],
        "line_items": [{"sku": sku, "quantity": draw.choice((1, 1, 1, 2))} for sku in skus],
        "shipping_method": draw.choice(("Parcel post", "Parcel post", "Courier")),
        "payment_method": draw.choice(("Card", "Card", "Card", "Bank transfer")),
        "shipping_total": draw.choice(("0.00", "6.50", "6.50", "9.90")),
        "tags": ["phone"] if by_phone else ["web"],
        "payment_status": "paid",
        "status": "processing",
    }
    tracking = {"carrier": "Parcel post", "number": f"PP{610_000_000 + number * 7919}"}
    shipped, delivered = {"status": "shipped", "tracking": tracking}, {"status": "delivered"}
    moves: list[dict[str, Any]] = [shipped, delivered]
    if fate < 0.04:
        del body["payment_status"]
        moves = [{"status": "cancelled", "reason": "The customer changed their mind."}]
    elif fate < 0.10:
        refund = {"first_line": 1, "reason": "Not as described"}
        moves += [{"status": "returned", "reason": "Too small.", "refund": refund}]
    elif fate < 0.15:
        moves += [{"refund": {"amount": "5.00", "reason": "Damaged", "note": "The customer keeps it."}}]
    elif fate < 0.18:
        moves[:0] = [{"status": "on_hold", "reason": "The address has to be checked."}, {"status": "processing"}]
    elif fate < 0.24:
        del body["payment_status"]
        moves[:0] = [{"payment_status": "paid"}]
    elif fate < 0.60:
        moves += [{"status": "completed"}]
    return body, moves
