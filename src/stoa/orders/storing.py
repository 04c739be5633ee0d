"""New orders into the database: numbered, then stored with all that follows from them, one or several in one call."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa.db.documents import json_of
from stoa.db.query import Executor
from stoa.events.outbox import Event
from stoa.ids import new_id
from stoa.orders import queries
from stoa.orders.contract import DuplicateReason
from stoa.orders.documents import Parts, parts_of, tail_of, terms_of, time_text
from stoa.orders.events import Changes
from stoa.orders.rules import Traits, contribution, stock_effects
from stoa.orders.saving import Cause, check_size
from stoa.orders.states import OrderState
from stoa.rest.endpoint import One, Store

FIRST_VERSION = 1


class Placement(msgspec.Struct):
    """An order on its way into the database, and what is told of it."""

    order: OrderState
    traits: Traits
    cause: Cause
    entry: str  # of its timeline
    events: Sequence[tuple[type[Event], Changes]]
    placed_at: datetime | None = None  # now, unless it says otherwise


class Suspect(msgspec.Struct):
    """An order that the new one may double."""

    id: int
    score: int  # in hundredths
    reasons: list[DuplicateReason]
    seconds_apart: int


class Short(Exception):
    """There is not enough of some variants; what was written must be rolled back."""

    def __init__(self, left: dict[int, int]) -> None:
        super().__init__(left)
        self.left = left  # how much there is of each


async def number(autocommit: Executor, store_id: int, new: Sequence[Placement]) -> datetime:
    """Give orders their numbers and ids, in a statement of its own, so that nobody waits for them to be stored."""
    lines = [line for each in new for line in each.order.lines]
    taken = await queries.TAKE_NUMBERS.one(autocommit, store_id, len(new), len(lines))
    for line, line_id in zip(lines, taken.line_ids, strict=True):
        line.id = line_id
    for place, (each, order_id) in enumerate(zip(new, taken.order_ids, strict=True), 1):
        each.order.id, each.order.number = order_id, taken.last - len(new) + place
        each.order.placed_at = time_text(each.placed_at or taken.moment)
    return taken.moment


async def store(db: Executor, shop: Store, moment: datetime, new: Sequence[Placement]) -> list[One[Any]]:
    """Store numbered orders and take their stock, all or none; raises Short where that is not enough."""
    parts = [parts_of(each.order, shop.digits) for each in new]
    for part in parts:
        check_size(part)
    told = await queries.PLACE.one(
        db,
        shop.id,
        moment,
        *_columns([_row(each, part, shop) for each, part in zip(new, parts, strict=True)], 22),
        *_columns(_customers(new), 4),
        *_columns([(place, line.id, line.variant_id, line.sku, line.quantity)
                   for place, each in enumerate(new, 1) for line in each.order.lines], 5),
        *_columns([(place, new_id("evt"), event.name, json_of(changes))
                   for place, each in enumerate(new, 1) for event, changes in each.events], 4),
        *_takings(new),
    )  # fmt: skip
    if told.short:
        raise Short(dict(zip(told.short, told.available or [], strict=True)))
    now = time_text(moment)
    return [
        One(document(each.order, part, tail_of(each.order.suspected_duplicates, now, FIRST_VERSION)), FIRST_VERSION)
        for each, part in zip(new, parts, strict=True)
    ]


async def suspect(db: Executor, store_id: int, new: Placement, suspects: Sequence[Suspect]) -> None:
    """Note which orders a new one may double; they are held."""
    await queries.SUSPECT.one(
        db,
        store_id,
        new.cause.actor,
        new.cause.request_id,
        new.order.id,
        [each.id for each in suspects],
        [each.score for each in suspects],
        [json_of(each.reasons) for each in suspects],
        [each.seconds_apart for each in suspects],
    )


def document(order: OrderState, part: Parts, tail: str) -> bytes:
    """The order as callers see it, as the database will put it together too."""
    return f'{{"id":{order.id}{part.head},"line_items":{part.lines}{part.person}{tail}'.encode()


def _row(each: Placement, part: Parts, shop: Store) -> tuple[Any, ...]:
    order, traits = each.order, each.traits
    return (
        order.id,
        order.number,
        order.external_id,
        order.status,
        order.payment_status,
        order.customer_id,
        traits.email,
        traits.phone,
        traits.total,
        datetime.fromisoformat(order.placed_at),
        order.duplicate_of,
        order.suspected_duplicates,
        traits.basket,
        traits.address,
        part.head,
        part.lines,
        part.person,
        terms_of(order, shop.id),
        each.cause.actor,
        each.cause.author,
        each.cause.request_id,
        each.entry,
    )


def _customers(new: Sequence[Placement]) -> list[tuple[int, int, int, datetime | None]]:
    """What the count and the sum of each customer grow by, and when they ordered last."""
    found: dict[int, tuple[int, int, int, datetime | None]] = {}
    for each in new:
        customer_id = each.order.customer_id
        if customer_id is not None:
            _, orders, spent, last = found.get(customer_id, (customer_id, 0, 0, None))
            more, paid = contribution(each.order)
            placed_at = datetime.fromisoformat(each.order.placed_at)
            last = max(last or placed_at, placed_at) if more else last
            found[customer_id] = customer_id, orders + more, spent + paid, last
    return list(found.values())


def _takings(new: Sequence[Placement]) -> list[list[Any]]:
    """What is taken from stock: line by line, by order and variant, by variant, by product; as the database wants it."""
    products = {line.variant_id: line.product_id for each in new for line in each.order.lines}
    taken: Counter[int] = Counter()
    steps: Counter[int] = Counter()
    by_product: Counter[int] = Counter()
    by_line: list[tuple[int, int, int, int, str]] = []
    by_order: list[tuple[int, int, int, int, int]] = []
    for place, each in enumerate(new, 1):
        own: Counter[int] = Counter()
        for effect in stock_effects(None, each.order):
            own[effect.variant_id] += effect.reserved
            taken[effect.variant_id] += effect.reserved
            by_product[products[effect.variant_id]] += effect.reserved
            key = f"order/{each.order.id}/{effect.line_id}/{effect.kind}/{FIRST_VERSION}"
            by_line.append((place, effect.variant_id, effect.reserved, taken[effect.variant_id], key))
        for variant_id, units in own.items():
            steps[variant_id] += 1
            by_order.append((place, variant_id, units, taken[variant_id], steps[variant_id]))
    return [
        *_columns([(place, v, units, taken[v] - so_far, key) for place, v, units, so_far, key in by_line], 5),
        *_columns([(p, v, units, taken[v] - so_far, steps[v] - step) for p, v, units, so_far, step in by_order], 5),
        *_columns([(variant_id, units, steps[variant_id]) for variant_id, units in taken.items()], 3),
        *_columns(sorted(by_product.items()), 2),
    ]


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
