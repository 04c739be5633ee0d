"""Orders in and out of the database: loaded under lock, stored with lines, timeline, events and stock in one call."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa.customers.contract import email_key
from stoa.db.documents import json_of
from stoa.db.errors import OUT_OF_RANGE, PostgresError, sqlstate, violates
from stoa.db.query import Executor
from stoa.events.outbox import Actor, Event
from stoa.ids import new_id
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.contract import EntryType
from stoa.orders.documents import Parts, line_document, order_of, parts_of, person, purchase, terms_of
from stoa.orders.events import Changes
from stoa.orders.rules import Effect, Traits, address_digest, basket_digest, contribution, stock_effects
from stoa.orders.states import LineState, OrderState
from stoa.rest.endpoint import Call, One, Store, Subject
from stoa.rest.problems import ExternalIdTaken, Fault, NotFound, ValidationFailed, counted

_NEW = False  # new orders are stored elsewhere
MOST_LINES_TEXT = 2_000_000  # metadata that grows line by line must not make an order that nobody can read


class Cause(msgspec.Struct, frozen=True):
    """Who changes an order, and in which request."""

    app_id: int  # 0 when an operator does
    name: str
    request_id: str

    @property
    def actor(self) -> str:
        return json_of(Actor("app", self.app_id) if self.app_id else Actor("operator"))

    @property
    def author(self) -> str:
        return json_of({"type": "app" if self.app_id else "operator", "id": self.app_id or None, "name": self.name})


class Entry(msgspec.Struct):
    """What the timeline tells of a change."""

    type: EntryType
    body: str | None = None
    changes: Changes = {}


class Consequences(msgspec.Struct, kw_only=True):
    """What is written beside an order."""

    events: Sequence[tuple[type[Event], Changes]] = ()
    entries: Sequence[Entry] = ()
    settled: Sequence[int] = ()  # orders that are suspected of one double less
    restock: bool = True
    pointers: Mapping[int, str] = {}  # where in the body a line stands, by its id


def cause_of(call: Call) -> Cause:
    return Cause(call.caller.app_id, call.caller.app_name, call.request_id)


async def load(call: Call, order_id: int) -> tuple[OrderState, datetime]:
    """An order under lock, and the moment of looking; the version that the caller knows is checked."""
    row = await queries.LOCK.maybe(call.db, call.store_id, order_id)
    if row is None:
        raise NotFound("There is no order with this id.")
    call.check_version(row.version)
    call.subject = Subject("order", order_id)
    return order_in(row, call.store), row.moment


def order_in(row: queries.StoredOrder, store: Store) -> OrderState:
    parts = Parts(row.head, row.lines, row.person)
    return order_of(parts, store.digits, id=row.id, version=row.version, suspected_duplicates=row.suspected_duplicates)


def document_of(order: OrderState, digits: int) -> dict[str, Any]:
    """An order as callers see it, but for what moves by itself."""
    lines = [line_document(line, digits) for line in order.lines]
    return {**purchase(order, digits), "line_items": lines, **person(order)}


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


def check_size(parts: Parts) -> None:
    if len(parts.lines) > MOST_LINES_TEXT:
        fault = Fault("/line_items", "too_long", f"may hold at most {MOST_LINES_TEXT} characters in all")
        raise ValidationFailed("The order's lines hold too much.", faults=[fault])


def explain(error: Exception) -> None:
    """Refuse with what an order's constraints mean."""
    if violates(error, "orders_external_id_key"):
        raise ExternalIdTaken("Another order has taken this external id.") from error
    if sqlstate(error) == OUT_OF_RANGE:
        fault = Fault("/customer_id", "out_of_range", "has spent more than can be counted")
        raise ValidationFailed("The customer's sum cannot hold this.", faults=[fault]) from error


async def save(
    db: Executor, store: Store, before: OrderState, order: OrderState, cause: Cause, told: Consequences
) -> One[Any]:
    """Store a changed order with all that follows; refuses, to be rolled back, where stock is short."""
    effects = stock_effects(before, order, restock=told.restock)
    parts, traits = parts_of(order, store.digits), traits_of(order)
    check_size(parts)
    try:
        saved = await queries.SAVE.one(
            db,
            store.id,
            cause.actor,
            cause.request_id,
            _NEW,
            order.id,
            order.number,
            order.external_id,
            order.status,
            order.payment_status,
            order.fulfillment_status,
            order.customer_id,
            traits.email,
            traits.phone,
            order.total,
            datetime.fromisoformat(order.placed_at),
            order.duplicate_of,
            order.suspected_duplicates,
            traits.basket,
            traits.address,
            parts.head,
            parts.lines,
            parts.person,
            terms_of(order, store.id),
            *_credit(before, order),
            *([None] * 6 if before.lines == order.lines else _line_columns(order)),
            [entry.type for entry in told.entries],
            [entry.body for entry in told.entries],
            [json_of(entry.changes) for entry in told.entries],
            cause.author,
            *([[]] * 4),  # an order that changes is compared with no other
            list(told.settled),
            -1,
            "order.updated",
            [new_id("evt") for _ in told.events],
            [event.name for event, _ in told.events],
            [json_of(changes) for _, changes in told.events],
            [effect.variant_id for effect in effects],
            [effect.kind for effect in effects],
            [effect.on_hand for effect in effects],
            [effect.reserved for effect in effects],
            [f"order/{order.id}/{effect.line_id}/{effect.kind}/{order.version + 1}" for effect in effects],
        )
    except PostgresError as error:
        explain(error)
        raise
    _check_stock(order, effects, saved, told.pointers)
    return One(saved.doc, saved.version)


def _line_columns(order: OrderState) -> list[list[Any]]:
    rows = [
        (line.id, line.variant_id, line.sku, line.quantity, line.fulfilled_quantity, line.returned_quantity)
        for line in order.lines
    ]
    return [list(column) for column in zip(*rows, strict=True)]


def _check_stock(
    order: OrderState, effects: Sequence[Effect], saved: queries.Saved, pointers: Mapping[int, str]
) -> None:
    """Refuse naming every line that there is not enough for."""
    lines = {line.id: line for line in order.lines}
    faults = [
        short_fault(lines[effect.line_id], pointers.get(effect.line_id), available)
        for effect, outcome, available in zip(effects, saved.outcomes or [], saved.available or [], strict=True)
        if outcome != "updated"
    ]
    if faults:
        raise InsufficientStock(f"{counted(len(faults), 'line')} cannot be had.", faults=faults)


def short_fault(line: LineState, pointer: str | None, available: int) -> Fault:
    """Says of which line there is too little, and how much there is; one that the body does not name, by its id."""
    left = max(0, available)
    known = {"available": left, "variant_id": line.variant_id, "sku": line.sku}
    if pointer is None:
        known["line_item_id"] = line.id
    return Fault(pointer or "/status", InsufficientStock.code, f"available is {left}", known)


def _credit(before: OrderState | None, order: OrderState) -> tuple[int, int, datetime | None]:
    """What the customer's count and sum move by, and when they ordered last."""
    (old_orders, old_spent), (orders, spent) = contribution(before), contribution(order)
    placed_at = datetime.fromisoformat(order.placed_at) if orders > old_orders else None
    return orders - old_orders, spent - old_spent, placed_at
