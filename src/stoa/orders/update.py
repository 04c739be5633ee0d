"""Loads orders under lock and stores their changes with lines, timeline, events and stock."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.db.errors import OUT_OF_RANGE, PostgresError, sqlstate, violates
from stoa.db.query import Executor, json_of, json_rows
from stoa.events.outbox import Event
from stoa.ids import new_id
from stoa.inventory.queries import LATER, Move, Moved, large_variants, move_stock
from stoa.orders import input_rows, queries
from stoa.orders.allocation import Levels, held_units, settle
from stoa.orders.contract import EntryType, Order
from stoa.orders.documents import Parts, actor_of, author_of, check_size, parts_of, searched, terms_of, traits_of
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
from stoa.rest.group_commit import RefusedCalls, only_outcome
from stoa.rest.patch import is_same
from stoa.rest.problems import ExternalIdTaken, Fault, NotFound, Refusal

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


class Change(msgspec.Struct):
    """A changed order: as it was, as it is, and what is stored along with it."""

    call: Call
    before: OrderState
    order: OrderState
    consequences: Consequences

    @property
    def effects(self) -> list[Effect]:
        """The movements of stock that follow from the change."""
        given = self.consequences
        return stock_effects(self.before, self.order, restock=given.restock, restock_at=given.restock_at)

    @property
    def cancels(self) -> bool:
        return self.order.status == "cancelled" != self.before.status

    @property
    def unreserved(self) -> set[int]:
        """The line items of which units were ordered while the variant was not tracked: they stay unreserved."""
        status = self.before.status
        return {line.id for line in self.before.lines if held_units(line, status) > line.allocated}

    @property
    def growing(self) -> list[LineState]:
        """The line items that need further units."""
        status, unreserved = self.order.status, self.unreserved
        lines = self.order.lines
        return [line for line in lines if line.id not in unreserved and held_units(line, status) > line.allocated]


async def load(call: Call, order_id: int) -> tuple[OrderState, datetime]:
    """Lock an order and read it, with the time of the lock; checks the version in If-Match."""
    return loaded(call, await queries.LOCK.maybe(call.db, call.store_id, order_id))


async def lock_all(db: Executor, store_id: int, ids: Sequence[int]) -> dict[int, queries.StoredOrder]:
    """Lock different orders in the order of their ids, and read those that exist."""
    one = len(ids) == 1
    found = await (queries.LOCK.all(db, store_id, ids[0]) if one else queries.LOCK_ALL.all(db, store_id, ids))
    return {row.id: row for row in found}


def loaded(call: Call, row: queries.StoredOrder | None) -> tuple[OrderState, datetime]:
    """The state of an order that was locked, with the time of the lock; checks the version in If-Match."""
    if row is None:
        raise NotFound("There is no order with this id.")
    call.check_version(row.version)
    call.subject = Subject("order", row.id)
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
    return await only_outcome(call, update_all(call.db, [Change(call, before, order, consequences)]))


async def update_all(db: Executor, changes: Sequence[Change]) -> list[One[Any]]:
    """Store changed orders of one store and move their stock, each as if it came after those before it.

    Several orders must not need further units: these may lock products, which come after the customers of all orders.
    """
    rows: list[tuple[str, ...]] = []
    for each in changes:
        try:
            await _allocate(each)
            rows.append(_arguments(each))
        except Refusal as refusal:
            raise RefusedCalls({each.call: refusal}) from None
    store_id = changes[0].call.store_id
    customers = {each.order.customer_id for each in changes if contribution(each.before) != contribution(each.order)}
    customers.discard(None)
    if len(customers) > 1:
        await queries.LOCK_CUSTOMERS.all(db, store_id, list(customers))
    try:
        stored = (
            await queries.UPDATE.all(db, store_id, *rows[0])
            if len(rows) == 1
            else await queries.UPDATE_ALL.all(db, store_id, *zip(*rows, strict=True))
        )
    except PostgresError as error:
        refusal = _refusal(error, changes[0].call)
        if refusal is None or len(changes) > 1:
            raise
        raise RefusedCalls({changes[0].call: refusal}) from error
    await _move_stock(db, changes)
    return [One(each.doc, each.version) for each in stored]


def _refusal(error: Exception, call: Call) -> Refusal | None:
    """Why the database refuses a changed order, if the caller can do something about it."""
    if violates(error, "orders_external_id_key"):
        return ExternalIdTaken("Another order has taken this external id.")
    return customer_sum_too_large(call) if sqlstate(error) == OUT_OF_RANGE else None


def _arguments(change: Change) -> tuple[str, ...]:
    """What update_order takes for one order."""
    call, order, consequences = change.call, change.order, change.consequences
    parts = parts_of(order, call.store.digits)
    check_size(parts)
    entries = [input_rows.EntryRow(each.type, each.body, json_of(each.changes)) for each in consequences.entries]
    events = [
        input_rows.EventRow(n, new_id("evt"), event.name, json_of(changes))
        for n, (event, changes) in enumerate(consequences.events)
    ]
    return (
        json_of(actor_of(call)),
        author_of(call),
        call.request_id,
        json_rows([_order_row(call, change.before, order, parts)]),
        json_rows(_line_rows(order) if order.lines != change.before.lines else []),
        json_rows(entries),
        json_rows(events),
        f"{{{','.join(map(str, consequences.no_longer_suspected))}}}",
    )


def _order_row(call: Call, before: OrderState, order: OrderState, parts: Parts) -> input_rows.ChangedOrderRow:
    (old_orders, old_spent), (orders, spent) = contribution(before), contribution(order)
    return input_rows.ChangedOrderRow(
        **order_columns(order, traits_of(order), parts),
        fulfillment_status=order.fulfillment_status,
        terms=terms_of(order, call.store_id) if not is_same(searched(order), searched(before)) else None,
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


async def _allocate(change: Change) -> None:
    """Decide where a changed order reserves further units. A store with one location does not read levels for it."""
    call, order, pointers = change.call, change.order, change.consequences.pointers
    active = active_locations(call.store)
    growing = await _find_tracked(change)
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


async def _find_tracked(change: Change) -> list[LineState]:
    """Find the line items whose further units are reserved: the variant is tracked now, and was before."""
    call, growing = change.call, change.growing
    unreserved = change.unreserved
    if growing:
        variants = {line.variant_id for line in growing}
        untracked = set(await queries.UNTRACKED.all(call.db, call.store_id, list(variants)))
        unreserved |= {line.id for line in growing if line.variant_id in untracked}
    for line in change.order.lines:
        line.tracked = line.id not in unreserved
    return [line for line in growing if line.tracked]


async def _move_stock(db: Executor, changes: Sequence[Change]) -> None:
    """Move the stock of changed orders, last, because every order waits for stock.

    A statement moves a product for one order only, so that each order has its ledger rows and events: those that need a
    product of an earlier one follow in the next statement. All products are locked by the first.
    """
    waiting = {n: (each, effects) for n, each in enumerate(changes) if (effects := each.effects)}
    chosen = list(waiting)
    while waiting:
        moves = {n: [_movement(waiting[n][0], n, effect) for effect in waiting[n][1]] for n in chosen}
        call = waiting[chosen[0]][0].call
        together = [move for each in moves.values() for move in each]
        moved = iter(
            await move_stock(db, call.store_id, together, atomic=True, actor=actor_of(call), request_id=call.request_id)
        )
        refusals: dict[Call, Refusal] = {}
        for n, own in moves.items():
            change, effects = waiting[n]
            results = [next(moved) for _ in own]
            if any(each.outcome == LATER for each in results):
                continue
            if faults := _short_faults(change, effects, results):
                refusals[change.call] = insufficient(faults)
            change.call.costs_documents(await large_variants(db, call.store_id, own))
            del waiting[n]
        if refusals:
            raise RefusedCalls(refusals)
        chosen = _next_moves(waiting)


def _next_moves(waiting: Mapping[int, tuple[Change, Sequence[Effect]]]) -> list[int]:
    """The waiting changes that move different variants, so that few of them must wait again."""
    chosen: list[int] = []
    variants: set[int] = set()
    for n, (_, effects) in waiting.items():
        own = {effect.variant_id for effect in effects}
        if variants.isdisjoint(own):
            chosen.append(n)
        variants |= own
    return chosen


def _movement(change: Change, number: int, effect: Effect) -> Move:
    call, order = change.call, change.order
    return Move(
        call=number,
        actor=json_of(actor_of(call)),
        request_id=call.request_id,
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


def _short_faults(change: Change, effects: Sequence[Effect], results: Sequence[Moved]) -> list[Fault]:
    lines, pointers = {line.id: line for line in change.order.lines}, change.consequences.pointers
    return [
        short_fault(lines[effect.line_id], pointers.get(effect.line_id), result.available)
        for effect, result in zip(effects, results, strict=True)
        if result.outcome != "updated"
    ]
