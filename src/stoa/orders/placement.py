"""Places orders: one pipeline over a list of orders, from request bodies to stored documents. One order is a list of one."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec import UnsetType

from stoa.customers.contract import email_key
from stoa.customers.lookup import FoundCustomer, InlineCustomer, find, find_or_create, get_contacts, lock_contact
from stoa.customers.phones import e164
from stoa.db.errors import OUT_OF_RANGE, PostgresError, StaleTransaction, sqlstate, violates
from stoa.db.query import Executor, hex_bytes, json_rows
from stoa.events.outbox import Cause
from stoa.orders import input_rows, queries
from stoa.orders.bodies import READ_CUSTOMERS, NewOrder
from stoa.orders.contract import HOLDING, DuplicateOrderSuspected, Order
from stoa.orders.documents import Traits, document, likeness, parts_of, tail_of, time_text, traits_of
from stoa.orders.draft import Offers, customer_sum_too_large, draft, external_id_taken, offers_of
from stoa.orders.events import OrderCreated, OrderDuplicateSuspected
from stoa.orders.historical_bodies import HISTORICAL
from stoa.orders.holds import hold_orders
from stoa.orders.insert import Placement, Suspect, allocate, created, insert, number, reserve
from stoa.orders.state import OrderState
from stoa.products.stock_locations import DEFAULT_LOCATION, active_locations
from stoa.rest.call import Call, Store, Subject
from stoa.rest.endpoint import Created, One
from stoa.rest.group_commit import RefusedCalls
from stoa.rest.problems import Refusal

MOST_SUSPECTS = 10

Request = tuple[Call, NewOrder]
Outcome = Created[Order] | One[Order] | Refusal
Move = Callable[[Executor, Call, Any], Awaitable[Any]]


def placing(move: Move) -> Callable[[Executor, Sequence[tuple[Call, Any]]], Awaitable[list[Any]]]:
    """Place the orders of one store: new ones together, historical ones call by call, which `move` stores."""

    async def place_all(db: Executor, requests: Sequence[tuple[Call, Any]]) -> list[Any]:
        outcomes = {n: await move(db, *each) for n, each in enumerate(requests) if isinstance(each[1], HISTORICAL)}
        new = {n: each for n, each in enumerate(requests) if n not in outcomes}
        if new:
            outcomes.update(zip(new, await place_orders(db, list(new.values())), strict=True))
        return [outcomes[n] for n in range(len(requests))]

    return place_all


async def place_orders(db: Executor, requests: Sequence[Request]) -> list[Outcome | None]:
    """Place the orders of one store, each as if it came after those before it in the list.

    None is an order whose customer an earlier order of the list creates: it must run again after the commit.
    """
    store = requests[0][0].store
    lines = [line for _, body in requests for line in body.line_items]
    offers = await offers_of(db, store, lines)
    locations = await locations_of(db, store, [*lines, *(body for _, body in requests)])
    customers = await customers_of(db, store.id, [body for _, body in requests])
    outcomes: dict[int, Outcome | None] = {}
    placements: dict[int, Placement] = {}
    new_contacts: set[str] = set()
    for index, ((call, body), customer) in enumerate(zip(requests, customers, strict=True)):
        contacts = _contacts(body.customer, customer)
        if contacts & new_contacts:
            continue
        try:
            placement = _placement(call, body, draft(call, body, offers, customer, locations), customer)
        except Refusal as refusal:
            outcomes[index] = refusal
            continue
        placements[index] = placement
        if placement.new_customer is not None:
            new_contacts |= contacts
    placed = await place(db, list(placements.values()), offers)
    outcomes.update(zip(placements, placed, strict=True))
    return [outcomes.get(index) for index in range(len(requests))]


class Located(Protocol):
    """A part of a request that may name a location."""

    @property
    def location(self) -> str | UnsetType | None: ...


async def locations_of(db: Executor, store: Store, wanted: Sequence[Located]) -> Collection[str]:
    """The active locations of a store, read again if the cached ones do not have all that are named."""
    named = {each.location for each in wanted if each.location}
    known = active_locations(store) if named else (DEFAULT_LOCATION,)
    return known if named.issubset(known) else await queries.ACTIVE_LOCATIONS.all(db, store.id)


async def place(db: Executor, placements: Sequence[Placement], offers: Offers) -> list[Outcome]:
    """Decide on drafted orders of one store in turn, and store those that are accepted, all in one call."""
    if not placements:
        return []
    now = datetime.now(UTC)
    related = await _related(db, placements, now)
    refusals = _decide(placements, related, offers.available(), now)
    accepted = {index: each for index, each in enumerate(placements) if index not in refusals}
    if large := offers.large():
        for each in accepted.values():  # the event of a variant's stock contains the variant
            each.call.costs_documents(large.get(line.variant_id or 0, 0) for line in each.order.lines)
    await _lock_suspects(db, list(accepted.values()))
    stored = {index: each for index, each in accepted.items() if not each.dry_run}
    dry_runs = {index: each for index, each in accepted.items() if each.dry_run}
    await _lock_customers(db, list(dry_runs.values()))
    outcomes: dict[int, Outcome] = {}
    outcomes.update(zip(stored, await _store(db, list(stored.values()), elsewhere=offers.elsewhere), strict=True))
    short = await allocate(db, list(dry_runs.values()), elsewhere=offers.elsewhere, lock=False)
    held = [each for each in dry_runs.values() if each.held]
    refused = {**short, **(hold_orders(held, now) if held else {})}
    outcomes.update({index: refused.get(each.call) or _dry_run(each, now) for index, each in dry_runs.items()})
    outcomes.update({index: refusal() for index, refusal in refusals.items()})
    return [outcomes[index] for index in range(len(placements))]


def _placement(call: Call, body: NewOrder, order: OrderState, customer: FoundCustomer | None) -> Placement:
    dry_run = bool(call.parameters.get("dry_run"))
    return Placement(
        call=call,
        order=order,
        traits=traits_of(order),
        entry=f"Placed by {call.author}.",
        events=[(OrderCreated, {})],
        placed_at=body.placed_at,
        expires_at=body.expires_at,
        hold_for=body.hold_for,
        new_customer=body.customer if customer is None and not dry_run else None,
        dry_run=dry_run,
        window_hours=body.window_hours,
        reject_suspected_duplicates=body.reject_suspected_duplicates,
    )


# --- customers -----------------------------------------------------------------------------------------------------


async def customers_of(db: Executor, store_id: int, bodies: Sequence[NewOrder]) -> list[FoundCustomer | None]:
    """The stored customer of each order, by id or by the contact of the inline customer."""
    ids = [body.customer_id for body in bodies if body.customer_id is not None]
    inline = [body.customer for body in bodies if body.customer is not None]
    by_id = await get_contacts(db, store_id, ids) if ids else {}
    by_contact = iter(await find(db, store_id, inline) if inline else [])
    found: list[FoundCustomer | None] = []
    for body in bodies:
        matched = next(by_contact) if body.customer is not None else None
        found.append(matched if body.customer_id is None else by_id.get(body.customer_id))
    return found


def _contacts(inline: InlineCustomer | None, customer: FoundCustomer | None) -> set[str]:
    """The email address and phone number with which an earlier order of the list may create this order's customer."""
    if inline is None:
        return set()
    email = email_key(inline.email) if inline.email else None
    if customer is not None and customer.email is not None and email == email_key(customer.email):
        return set()  # an email address takes precedence over a phone number
    return {contact for contact in (email, e164(inline.phone) if inline.phone else None) if contact is not None}


async def _create_customers(db: Executor, placements: Sequence[Placement]) -> None:
    """Create inline customers in a fixed order, because concurrent calls may create the same ones."""
    new = [(sorted(_contacts(each.new_customer, None)), each) for each in placements if each.new_customer is not None]
    for _, each in sorted(new, key=lambda pair: pair[0]):
        call, inline = each.call, each.new_customer
        if inline is not None:
            customer = await find_or_create(
                db, call.store_id, inline, Cause(call.app_id, call.request_id, call.person_id)
            )
            phone = e164(inline.phone) if inline.phone else None
            if customer != FoundCustomer(customer.id, inline.email, phone, inline.first_name, inline.last_name):
                raise StaleTransaction("another request has created the customer")
            each.order.customer_id = customer.id


# --- decisions -----------------------------------------------------------------------------------------------------


async def _related(
    db: Executor, placements: Sequence[Placement], now: datetime
) -> Mapping[int, Sequence[queries.RelatedOrder]]:
    """The stored orders that each new one may duplicate or conflict with; locks the contacts of the new ones."""
    wanted = [_related_query(index, each, now) for index, each in enumerate(placements)]
    wanted = [each for each in wanted if each.external_id or each.customer_id or each.email or each.phone]
    related: defaultdict[int, list[queries.RelatedOrder]] = defaultdict(list)
    if wanted:
        for found in await queries.RELATED.all(db, placements[0].call.store_id, json_rows(wanted)):
            related[found.index].append(found)
    return related


def _related_query(index: int, placement: Placement, now: datetime) -> input_rows.RelatedQuery:
    traits, placed_at = placement.traits, placement.placed_at or now
    window = timedelta(hours=placement.window_hours or 0)
    compared = placement.window_hours is not None
    return input_rows.RelatedQuery(
        index=index,
        external_id=placement.order.external_id,
        customer_id=traits.customer_id if compared else None,
        email=traits.email if compared else None,
        phone=traits.phone if compared else None,
        basket=hex_bytes(traits.basket),
        address=hex_bytes(traits.address) if traits.address is not None else None,
        since=placed_at - window,
        until=placed_at + window,
    )


def _decide(
    placements: Sequence[Placement],
    related: Mapping[int, Sequence[queries.RelatedOrder]],
    available: dict[int, int],
    now: datetime,
) -> dict[int, Callable[[], Refusal]]:
    """Accept or refuse orders in turn; a refusal is built later, because it may name an order without a number."""
    refusals: dict[int, Callable[[], Refusal]] = {}
    earlier: list[Placement] = []
    for index, each in enumerate(placements):
        refusal = _refusal(each, related.get(index, ()), earlier, available, now)
        if refusal is not None:
            refusals[index] = refusal
        elif not each.dry_run:
            earlier.append(each)
    return refusals


def _refusal(
    placement: Placement,
    related: Sequence[queries.RelatedOrder],
    earlier: Sequence[Placement],
    available: dict[int, int],
    now: datetime,
) -> Callable[[], Refusal] | None:
    order = placement.order
    if order.external_id is not None:
        namesakes: list[queries.RelatedOrder | OrderState] = [each for each in related if each.same_external_id]
        namesakes += [each.order for each in earlier if each.order.external_id == order.external_id]
        if namesakes:
            return lambda: external_id_taken(namesakes[0].id)
    placement.suspects = _suspects(placement, related, earlier, now)
    rejected = bool(placement.suspects) and placement.reject_suspected_duplicates
    if order.status in HOLDING:
        units = dict(available) if rejected or placement.dry_run else available
        shortage = reserve(order.lines, units, sent=placement.lines_sent)
        if shortage is not None:
            return lambda: shortage
    return partial(_duplicate_suspected, placement.suspects[0]) if rejected else None


def _duplicate_suspected(suspect: Suspect) -> Refusal:
    other = suspect.other
    return DuplicateOrderSuspected(
        f"Order number {other.number}, with the id {other.id}, may be the same purchase.",
        existing_id=other.id,
        existing_number=other.number,
        score=suspect.score / 100,
        reasons=suspect.reasons,
    )


def _suspects(
    placement: Placement, related: Sequence[queries.RelatedOrder], earlier: Sequence[Placement], now: datetime
) -> list[Suspect]:
    """The orders that are most alike, the newest first among equals; limited, so that a flood of duplicates stays cheap."""
    if placement.window_hours is None:
        return []
    placed_at, window = placement.placed_at or now, timedelta(hours=placement.window_hours)
    known = placement.traits
    if not placement.call.may(READ_CUSTOMERS):
        known = msgspec.structs.replace(known, customer_id=None)  # it would reveal whose orders the others are
    stored = {each.id: each for each in related if not each.same_external_id}
    others: list[tuple[datetime, int, queries.RelatedOrder | OrderState, Traits]] = [
        (
            each.placed_at,
            each.id,
            each,
            Traits(each.customer_id, each.email, each.phone, each.basket, each.address, each.total),
        )
        for each in stored.values()
    ]
    newest = max(stored, default=0)
    others += [
        (each.placed_at or now, newest + n, each.order, each.traits)
        for n, each in enumerate(earlier, 1)
        if abs((each.placed_at or now) - placed_at) <= window
    ]
    others.sort(key=lambda other: other[:2], reverse=True)
    found: list[Suspect] = []
    for moment, _, other, traits in others:
        alike = likeness(known, traits)
        if alike is not None:
            found.append(Suspect(other, *alike, abs(int((placed_at - moment).total_seconds()))))
    return sorted(found, key=lambda suspect: -suspect.score)[:MOST_SUSPECTS]


async def _lock_suspects(db: Executor, placements: Sequence[Placement]) -> None:
    """Lock the suspected duplicates, and drop those that were cancelled meanwhile."""
    stored = {s.other.id for each in placements for s in each.suspects if isinstance(s.other, queries.RelatedOrder)}
    live = set(await queries.LOCK_LIVE.all(db, placements[0].call.store_id, sorted(stored))) if stored else set[int]()
    for each in placements:
        each.suspects = [s for s in each.suspects if isinstance(s.other, OrderState) or s.other.id in live]
        each.order.suspected_duplicates = len(each.suspects)
        if each.suspects:
            change = {"suspected_duplicates_count": (0, len(each.suspects))}
            each.events = [*each.events, (OrderDuplicateSuspected, change)]


# --- storing -------------------------------------------------------------------------------------------------------


async def _store(db: Executor, placements: Sequence[Placement], *, elsewhere: bool) -> list[Created[Order]]:
    """Number and store accepted orders with their new customers."""
    if not placements:
        return []
    call = placements[0].call
    await _create_customers(db, placements)
    moment = await number(call.autocommit, call.store_id, placements)
    held = [each for each in placements if each.held]
    if held and (unheld := hold_orders(held, moment)):
        raise RefusedCalls(unheld)
    for each in placements:
        each.call.subject = Subject("order", each.order.id)
    short = await allocate(db, placements, elsewhere=elsewhere, lock=True)
    if short:
        raise RefusedCalls(short)
    try:
        stored = await insert(db, call.store, moment, placements)
    except PostgresError as error:
        if violates(error, "orders_external_id_key") or violates(error, "orders_number_key"):
            raise StaleTransaction(
                "another order, perhaps a historical one, has taken the external id or number"
            ) from error
        if len(placements) == 1 and sqlstate(error) == OUT_OF_RANGE:
            raise RefusedCalls({call: customer_sum_too_large(call)}) from error
        raise
    return [created(each.order, parts, moment) for each, parts in zip(placements, stored, strict=True)]


async def _lock_customers(db: Executor, dry_runs: Sequence[Placement]) -> None:
    """Lock the customers of dry runs, whose responses may be stored under idempotency keys, so that an erasure finds them."""
    for each in dry_runs:
        customer_id = each.order.customer_id
        if customer_id is not None and await lock_contact(db, each.call.store_id, customer_id) is None:
            raise StaleTransaction("the customer was erased")


def _dry_run(placement: Placement, now: datetime) -> One[Order]:
    """The order as it would be stored, and the orders that it may duplicate."""
    call, order = placement.call, placement.order
    call.subject = Subject("customer", order.customer_id) if order.customer_id is not None else Subject("contact")
    order.place(time_text(placement.placed_at or now))
    if not call.may(READ_CUSTOMERS):
        order.customer_id = None  # it would reveal whether the store knows the person
    parts = parts_of(order, call.store.digits)
    suspects = [
        {"order_id": s.other.id, "score": s.score / 100, "reasons": s.reasons, "seconds_apart": s.seconds_apart}
        for s in placement.suspects
    ]
    meta = msgspec.json.encode({"dry_run": True, "suspected_duplicates": suspects})
    return One(document(order, parts, tail_of(len(suspects), time_text(now), 0)), 0, meta=meta)
