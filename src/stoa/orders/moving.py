"""Stores historical orders: one pipeline over a list of orders, from request bodies to stored documents."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stoa.customers.lookup import FoundCustomer, find_or_create
from stoa.db.errors import PostgresError, StaleTransaction, violates
from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.orders import queries
from stoa.orders.bodies import READ_CUSTOMERS
from stoa.orders.contract import Order
from stoa.orders.documents import Parts, actor_of, document, parts_of, tail_of, time_text, traits_of
from stoa.orders.draft import Offers, draft, external_id_taken, offers_of
from stoa.orders.events import OrderCreated
from stoa.orders.historical_bodies import (
    MOST_LINES_TOGETHER,
    MOST_ORDERS,
    HistoricalLine,
    HistoricalOrder,
    HistoricalOrders,
)
from stoa.orders.history import Origin, add_history
from stoa.orders.insert import Placement, created, insert
from stoa.orders.line_items import NewLine
from stoa.orders.placement import Outcome, customers_of, placing
from stoa.orders.state import OrderState
from stoa.products.stock_locations import active_locations
from stoa.rest.batch import Batch, TooManyItems, done, failed, numbered
from stoa.rest.call import Call, Store, Subject
from stoa.rest.checks import validation_failed
from stoa.rest.endpoint import One
from stoa.rest.problems import Fault, Refusal, ValidationFailed

LONG_ORDER = 50  # line items; drafting more takes milliseconds


class NumberTaken(Refusal):
    """Another order of the store has this number. `existing_id` names it."""

    status, code, title = 409, "number_taken", "The order number is taken"


class Moved(msgspec.Struct):
    """A historical order on its way into the database."""

    body: HistoricalOrder
    order: OrderState
    customer: FoundCustomer | None
    stored: tuple[Parts, datetime] | None = None  # what the database has of it, and since when; None: a dry run


async def move(db: Executor, call: Call, body: HistoricalOrder | HistoricalOrders) -> Outcome | Batch[Order]:
    """Store the historical orders of one call."""
    if isinstance(body, HistoricalOrders):
        return await _move_many(db, call, body)
    return await _move_one(db, call, body)


place_all = placing(move)


async def _move_one(db: Executor, call: Call, body: HistoricalOrder) -> Outcome:
    [moved] = await move_orders(db, call, [(body, call.patch)], send_events=body.send_events)
    if isinstance(moved, Refusal):
        return moved
    order = moved.order
    if moved.stored is None:
        call.subject = Subject("contact") if order.customer_id is None else Subject("customer", order.customer_id)
        return _unstored(call, order)
    call.subject = Subject("order", order.id)
    return created(order, *moved.stored)


async def _move_many(db: Executor, call: Call, body: HistoricalOrders) -> Batch[Order] | Refusal:
    """Store each order by itself: what is wrong with one does not affect the others.

    The results name the orders by their ids and do not contain them: a stored response must not keep the personal data of a
    hundred customers, whose erasures would not find it.
    """
    if not body.historical:
        fault = Fault("/historical", "invalid_format", "must be true with items")
        return ValidationFailed("Only historical orders can be sent as items.", faults=[fault])
    try:
        items = numbered(body.items, call.refused_items, MOST_ORDERS)
    except Refusal as refusal:
        return refusal
    if sum(len(item.line_items) for item in body.items) > MOST_LINES_TOGETHER:
        words = f"The orders of a batch may have at most {MOST_LINES_TOGETHER:,} line items together."
        return TooManyItems(words, max_line_items=MOST_LINES_TOGETHER)
    sent = call.patch["items"]
    valid = {index: (item, sent[index]) for index, item in items if not isinstance(item, Refusal)}
    moved = dict(
        zip(valid, await move_orders(db, call, list(valid.values()), send_events=body.send_events), strict=True)
    )
    results: list[Any] = []
    for index, item in items:
        result = item if isinstance(item, Refusal) else moved[index]
        if isinstance(result, Refusal):
            results.append(failed(index, result))
        else:
            results.append(done(index, "created", result.order.id if result.stored else None, None))
    return Batch(results)


async def move_orders(
    db: Executor, call: Call, items: Sequence[tuple[HistoricalOrder, Mapping[str, Any]]], *, send_events: bool
) -> list[Moved | Refusal]:
    """Store those orders that nothing contradicts; returns each as it is stored, or why it is refused."""
    if not items:
        return []
    bodies = [body for body, _ in items]
    offers = await offers_of(db, call.store, [line for body in bodies for line in body.line_items])
    locations = await _locations(db, call.store, bodies)
    customers = await customers_of(db, call.store_id, bodies)
    taken = await _taken(db, call.store_id, bodies)
    drawn = await queries.NEW_ORDER_IDS.one(db, len(bodies), sum(len(body.line_items) for body in bodies))
    order_ids, line_ids = iter(drawn.order_ids), iter(drawn.line_ids)
    origin = Origin(actor_of(call), datetime.now(UTC), locations, call.store.digits)
    outcomes: list[Moved | Refusal] = []
    for (body, sent), customer in zip(items, customers, strict=True):
        ids = [next(line_ids) for _ in body.line_items]
        try:
            taken.check(body)
            order = _order(call, body, sent, offers, customer, locations, ids, origin)
        except Refusal as refusal:
            outcomes.append(refusal)
            continue
        order.id, order.number = next(order_ids), body.number or 0
        taken.add(order)
        outcomes.append(Moved(body, order, customer))
        if len(order.lines) > LONG_ORDER:
            await asyncio.sleep(0)  # the requests of others are served in between
    accepted = [each for each in outcomes if isinstance(each, Moved)]
    if accepted and not call.parameters.get("dry_run"):
        await _store(db, call, accepted, send_events=send_events)
    return outcomes


async def _locations(db: Executor, store: Store, bodies: Sequence[HistoricalOrder]) -> Collection[str]:
    named = {each.location for body in bodies for each in body.fulfillments if each.location is not None}
    known = active_locations(store)
    return known if named.issubset(known) else await queries.ACTIVE_LOCATIONS.all(db, store.id)


# --- one order -------------------------------------------------------------------------------------------------------


def _order(
    call: Call,
    body: HistoricalOrder,
    sent: Mapping[str, Any],
    offers: Offers,
    customer: FoundCustomer | None,
    locations: Collection[str],
    line_ids: Sequence[int],
    origin: Origin,
) -> OrderState:
    """The order as it was; refuses with every fault in it."""
    faults = [
        Fault(f"/{name}", "invalid_format", "must not be sent for a historical order")
        for name in ("location", "reject_suspected_duplicates", "window_hours", "expires_at", "hold_for")
        if name in sent
    ]
    wanted = [_line(line, offers) for line in body.line_items]
    order = draft(call, msgspec.structs.replace(body, line_items=wanted), offers, customer, locations, history=sent)
    for line, line_id, given in zip(order.lines, line_ids, body.line_items, strict=True):
        _keep(line, given)
        line.id = line_id
    faults += add_history(order, body, origin)
    if faults:
        raise validation_failed(faults)
    return order


def _line(given: HistoricalLine, offers: Offers) -> NewLine:
    """The line item to price: of the variant that it names, or a custom one if the store has no such variant."""
    if given.variant_id in offers.by_id or (given.sku is not None and given.sku in offers.by_sku):
        return msgspec.structs.replace(given, name=None, requires_shipping=None, taxable=None)
    if given.name is not None:
        return msgspec.structs.replace(given, variant_id=None, sku=None)
    return given


def _keep(line: Any, given: HistoricalLine) -> None:
    """Let a line item show what it was when it was ordered, also if its variant is another now, or none."""
    for name in ("name", "sku", "variant_title", "requires_shipping", "taxable", "weight", "weight_unit"):
        value = getattr(given, name)
        if value is not None:
            setattr(line, name, value)


def _unstored(call: Call, order: OrderState) -> One[Any]:
    """The order as a dry run shows it: without ids and version, and as for new orders without what the caller may not know."""
    order.id = 0
    for line in order.lines:
        line.id = 0
    if not call.may(READ_CUSTOMERS):
        order.customer_id = None
    meta = msgspec.json.encode({"dry_run": True, "suspected_duplicates": []})
    return One(
        document(order, parts_of(order, call.store.digits), tail_of(0, time_text(datetime.now(UTC)), 0)), 0, meta=meta
    )


# --- keys ------------------------------------------------------------------------------------------------------------


class Taken(msgspec.Struct):
    """The numbers and external ids that orders have, each with the id of its order."""

    numbers: dict[int, int]
    external_ids: dict[str, int]

    def check(self, body: HistoricalOrder) -> None:
        if body.number is not None and body.number in self.numbers:
            fault = Fault("/number", NumberTaken.code, "is the number of another order")
            raise NumberTaken("Another order has this number.", faults=[fault], existing_id=self.numbers[body.number])
        if body.external_id is not None and body.external_id in self.external_ids:
            raise external_id_taken(self.external_ids[body.external_id])

    def add(self, order: OrderState) -> None:
        if order.number:
            self.numbers[order.number] = order.id
        if order.external_id is not None:
            self.external_ids[order.external_id] = order.id


async def _taken(db: Executor, store_id: int, bodies: Sequence[HistoricalOrder]) -> Taken:
    numbers = [body.number for body in bodies if body.number is not None]
    external_ids = [body.external_id for body in bodies if body.external_id is not None]
    found = await queries.TAKEN_KEYS.all(db, store_id, numbers, external_ids)
    return Taken(
        {each.number: each.id for each in found},
        {each.external_id: each.id for each in found if each.external_id is not None},
    )


# --- storing ---------------------------------------------------------------------------------------------------------


async def _store(db: Executor, call: Call, moved: Sequence[Moved], *, send_events: bool) -> None:
    """Create the customers that are new, number the orders, and store all of them in one call."""
    await _create_customers(db, call, moved, send_events=send_events)
    placements = [
        Placement(
            call=call,
            order=each.order,
            traits=traits_of(each.order),
            entry=f"Moved from another shop by {call.author}.",
            events=[(OrderCreated, {})] if send_events else [],
            placed_at=each.body.placed_at,
        )
        for each in moved
    ]
    unnumbered = [each.order for each in moved if not each.order.number]
    highest = max((each.order.number for each in moved), default=0)
    # In a separate transaction, as for new orders: no other order waits until these are stored.
    raised = await queries.RAISE_NUMBERS.one(call.autocommit, call.store_id, highest, len(unnumbered))
    for number, order in enumerate(unnumbered, raised.last - len(unnumbered) + 1):
        order.number = number
    try:
        stored = await insert(db, call.store, raised.moment, placements)
    except PostgresError as error:
        if violates(error, "orders_external_id_key") or violates(error, "orders_number_key"):
            raise StaleTransaction("another order has taken the number or external id") from error
        raise
    for each, parts in zip(moved, stored, strict=True):
        each.stored = parts, raised.moment


async def _create_customers(db: Executor, call: Call, moved: Sequence[Moved], *, send_events: bool) -> None:
    """Create the customers that the store does not know, in a fixed order, because concurrent calls may create the same ones."""
    cause = Cause(call.app_id, call.request_id, call.person_id)
    new = [each for each in moved if each.customer is None and each.body.customer is not None]
    for each in sorted(new, key=lambda each: _contact(each.body)):
        if each.body.customer is not None:
            found = await find_or_create(db, call.store_id, each.body.customer, cause, events=send_events)
            each.order.customer_id = found.id


def _contact(body: HistoricalOrder) -> tuple[str, str]:
    person = body.customer
    return (person.email or "", person.phone or "") if person is not None else ("", "")
