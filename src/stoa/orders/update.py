"""Loads orders under lock and stores their changes with lines, timeline, events and stock."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.db.errors import OUT_OF_RANGE, PostgresError, sqlstate, violates
from stoa.db.query import json_of, json_rows
from stoa.events.outbox import Event
from stoa.ids import new_id
from stoa.inventory.queries import Move, large_variants, move_stock
from stoa.orders import input_rows, queries
from stoa.orders.allocation import Levels, held_units, settle
from stoa.orders.contract import EntryType, Order
from stoa.orders.documents import Parts, actor_of, author_of, check_size, parts_of, traits_of
from stoa.orders.draft import customer_sum_too_large
from stoa.orders.events import Changes
from stoa.orders.insert import insufficient, lock_levels, order_columns, short_fault
from stoa.orders.line_items import Allocation, LineItem
from stoa.orders.records import fulfillments_of, payments_of, refunds_of, removed_of, tracking_of
from stoa.orders.rules import Effect, stock_effects
from stoa.orders.state import LineState, OrderState, contribution
from stoa.products.stock_locations import active_locations
from stoa.rest.call import Call, Store, Subject
from stoa.rest.endpoint import One
from stoa.rest.problems import ExternalIdTaken, Fault, NotFound

_AMOUNTS = ("discount_total", "shipping_total", "tax_total")
_LINE_AMOUNTS = ("unit_price", "discount_total", "tax_total")
_KEPT = (
    "number", "external_id", "source", "status", "currency", "customer_id", "shipping_method",
    "payment_method", "tags", "duplicate_of", "cancel_reason", "placed_at", "cancelled_at", "completed_at", "contact",
    "shipping_address", "billing_address", "note", "metadata", "prices_include_tax", "discounts", "tax_lines", "expires_at",
)  # fmt: skip
# The members that this release knows. Others were added by a later one.
_MEMBERS = frozenset(Order.__struct_fields__)
_LINE_MEMBERS = frozenset(LineItem.__struct_fields__) - {"total"}
_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_lines_decoder = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)


class Entry(msgspec.Struct):
    """A timeline entry for a change."""

    type: EntryType
    body: str | None = None
    changes: Changes = {}


class Consequences(msgspec.Struct, kw_only=True):
    """What is stored along with a changed order."""

    events: Sequence[tuple[type[Event], Changes]] = ()
    entries: Sequence[Entry] = ()
    no_longer_suspected: Sequence[int] = ()  # orders that lose one suspected duplicate; they are locked
    restock: bool = True
    restock_at: Mapping[int, Sequence[Allocation]] = {}  # where returned units go, by line
    pointers: Mapping[int, str] = {}  # of lines in the request body, by their ids


async def load(call: Call, order_id: int) -> tuple[OrderState, datetime]:
    """Lock an order and read it, with the time of the lock; checks the version in If-Match."""
    row = await queries.LOCK.maybe(call.db, call.store_id, order_id)
    if row is None:
        raise NotFound("There is no order with this id.")
    call.check_version(row.version)
    call.subject = Subject("order", order_id)
    return stored_order(row, call.store), row.moment


def stored_order(row: queries.StoredOrder, store: Store) -> OrderState:
    parts = Parts(row.head, row.lines, row.person)
    return order_of(parts, store.digits, id=row.id, version=row.version, suspected_duplicates=row.suspected_duplicates)


def order_of(parts: Parts, digits: int, **known: Any) -> OrderState:
    """The state of a stored order."""
    purchased, about = (_decoder.decode("{" + part[1:] + "}") for part in (parts.head, parts.person))
    members = {**purchased, **about}
    include = members["prices_include_tax"]
    lines = [_line_of(line, digits, include) for line in _lines_decoder.decode(parts.lines)]
    amounts = {name: money.to_minor(Decimal(members[name]), digits) for name in _AMOUNTS}
    fulfillments, payments = fulfillments_of(members), payments_of(members, digits)
    return OrderState(
        lines=lines,
        fulfillments=fulfillments,
        refunds=refunds_of(members, digits),
        payments=payments,
        removed_line_items=removed_of(members, digits),
        payment_mark="unpaid" if payments else members["payment_status"],
        parcels=members["tracking"][len(tracking_of(fulfillments)) :],
        **amounts,
        **{name: members[name] for name in _KEPT},
        unknown={name: value for name, value in purchased.items() if name not in _MEMBERS},
        unknown_of_person={name: value for name, value in about.items() if name not in _MEMBERS},
        **known,
    )


def _line_of(members: dict[str, Any], digits: int, prices_include_tax: bool) -> LineState:
    kept: dict[str, Any] = {name: value for name, value in members.items() if name in _LINE_MEMBERS}
    for name in _LINE_AMOUNTS:
        kept[name] = money.to_minor(Decimal(kept[name]), digits)
    kept["allocations"] = [Allocation(**each) for each in kept["allocations"]]
    unknown = {name: value for name, value in members.items() if name not in _LINE_MEMBERS and name != "total"}
    return LineState(**kept, prices_include_tax=prices_include_tax, unknown=unknown)


async def update(call: Call, before: OrderState, order: OrderState, consequences: Consequences) -> One[Any]:
    """Store a changed order and move its stock; if stock is insufficient, refuse, and the transaction is rolled back."""
    await _allocate(call, before, order, consequences.pointers)
    parts = parts_of(order, call.store.digits)
    check_size(parts)
    try:
        stored = await queries.UPDATE.one(
            call.db,
            call.store_id,
            json_of(actor_of(call)),
            author_of(call),
            call.request_id,
            json_rows([_order_row(call, before, order, parts)]),
            json_rows(_line_rows(order) if order.lines != before.lines else []),
            json_rows(
                [input_rows.EntryRow(each.type, each.body, json_of(each.changes)) for each in consequences.entries]
            ),
            json_rows(
                [
                    input_rows.EventRow(n, new_id("evt"), event.name, json_of(changes))
                    for n, (event, changes) in enumerate(consequences.events)
                ]
            ),
            list(consequences.no_longer_suspected),
        )
    except PostgresError as error:
        if violates(error, "orders_external_id_key"):
            raise ExternalIdTaken("Another order has taken this external id.") from error
        if sqlstate(error) == OUT_OF_RANGE:
            raise customer_sum_too_large(call) from error
        raise
    effects = stock_effects(before, order, restock=consequences.restock, restock_at=consequences.restock_at)
    if effects:
        await _move_stock(call, order, effects, consequences.pointers)
    return One(stored.doc, stored.version)


def _order_row(call: Call, before: OrderState, order: OrderState, parts: Parts) -> input_rows.ChangedOrderRow:
    (old_orders, old_spent), (orders, spent) = contribution(before), contribution(order)
    return input_rows.ChangedOrderRow(
        **order_columns(order, traits_of(order), parts, call.store_id),
        fulfillment_status=order.fulfillment_status,
        customer_orders=orders - old_orders if order.customer_id is not None else 0,
        customer_spent=spent - old_spent if order.customer_id is not None else 0,
        last_order_at=datetime.fromisoformat(order.placed_at) if orders > old_orders else None,
    )


def _line_rows(order: OrderState) -> list[input_rows.LineRow]:
    return [
        input_rows.LineRow(
            id=line.id,
            variant_id=line.variant_id,
            sku=line.sku,
            quantity=line.quantity,
            fulfilled_quantity=line.fulfilled_quantity,
            returned_quantity=line.returned_quantity,
        )
        for line in order.lines
    ]


async def _allocate(call: Call, before: OrderState, order: OrderState, pointers: Mapping[int, str]) -> None:
    """Decide where a changed order reserves further units. A store with one location does not read levels for it."""
    active = active_locations(call.store)
    await _find_untracked(call, before, order)
    growing = [line for line in order.lines if line.tracked and held_units(line, order.status) > line.allocated]
    if any(line.location not in (None, *active) for line in growing):  # it may be newer than the cached ones
        active = frozenset(await queries.ACTIVE_LOCATIONS.all(call.db, call.store_id))
    levels: Levels | None = None
    if growing and len(active) > 1:
        customers = [order.customer_id] if order.customer_id is not None else []
        levels = await lock_levels(call.db, call.store_id, customers, growing)
    short = settle(order, levels, active)
    if short and levels is not None:
        raise insufficient(
            [
                short_fault(each, pointers.get(each.id), levels.available(each.variant_id, where), where)
                for each in short
                for where in (each.location if each.location in active else None,)
            ]
        )


async def _find_untracked(call: Call, before: OrderState, order: OrderState) -> None:
    """Find the line items whose further units are not reserved: the variant is not tracked now, or was not before."""
    unreserved = {line.id for line in before.lines if held_units(line, before.status) > line.allocated}
    for line in order.lines:
        line.tracked = line.id not in unreserved
    growing = [line for line in order.lines if line.tracked and held_units(line, order.status) > line.allocated]
    if growing:
        variants = {line.variant_id for line in growing}
        untracked = set(await queries.UNTRACKED.all(call.db, call.store_id, list(variants)))
        for line in growing:
            line.tracked = line.variant_id not in untracked


async def _move_stock(call: Call, order: OrderState, effects: Sequence[Effect], pointers: Mapping[int, str]) -> None:
    """Move the stock of a changed order, last, because every order waits for stock."""
    moves = [
        Move(
            variant_id=effect.variant_id,
            kind=effect.kind,
            location=effect.location,
            on_hand=effect.on_hand,
            reserved=effect.reserved,
            reason="return" if effect.returned else "order",
            reference=str(order.number),
            order_id=order.id,
            movement_key=f"order/{order.id}/{effect.line_id}/{effect.kind}/{order.version + 1}/{effect.location}",
        )
        for effect in effects
    ]
    moved = await move_stock(
        call.db, call.store_id, moves, atomic=True, actor=actor_of(call), request_id=call.request_id
    )
    call.costs_documents(await large_variants(call.db, call.store_id, moves))
    lines = {line.id: line for line in order.lines}
    faults: list[Fault] = [
        short_fault(lines[effect.line_id], pointers.get(effect.line_id), result.available)
        for effect, result in zip(effects, moved, strict=True)
        if result.outcome != "updated"
    ]
    if faults:
        raise insufficient(faults)
