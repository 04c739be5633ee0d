"""How an order comes to be: checked, priced, given to its customer, compared with others, numbered and stored."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stoa import money
from stoa.customers.lookup import (
    FoundCustomer,
    InlineCustomer,
    find_or_create,
    get_contact,
    inline_faults,
    lock_contact,
)
from stoa.customers.phones import e164
from stoa.customers.rules import COUNTRIES
from stoa.db.errors import PostgresError
from stoa.events.outbox import Cause
from stoa.orders import queries, storing
from stoa.orders.bodies import NewOrder
from stoa.orders.contract import Contact, DuplicateOrderSuspected, OrderAddress
from stoa.orders.documents import NO_CONTACT, parts_of, tail_of, time_text
from stoa.orders.events import OrderCreated, OrderDuplicateSuspected
from stoa.orders.pricing import Offers, check_available, offers_of, price
from stoa.orders.rules import HOLDING, Traits, change_payment, likeness, line_faults, sum_faults
from stoa.orders.saving import cause_of, explain, traits_of
from stoa.orders.states import OrderState
from stoa.orders.storing import Placement, Suspect
from stoa.rest.checks import MOST_FAULTS
from stoa.rest.endpoint import Call, One, Subject
from stoa.rest.problems import ExternalIdTaken, Fault, ValidationFailed, counted

MOST_SUSPECTS = 10
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


async def place(call: Call, body: NewOrder) -> tuple[OrderState, One[Any]]:
    """Place an order for good."""
    order = await _drafted(call, body)
    await _give_to_customer(call, body, order)
    new = placement(call, body, order)
    suspects = await _compare(call, body, new)
    if suspects:
        new.events = [*new.events, (OrderDuplicateSuspected, {"suspected_duplicates_count": (0, len(suspects))})]
    stored = await place_alone(call, new)
    if suspects:
        await storing.suspect(call.db, call.store_id, new, suspects)
    return order, stored


def placement(call: Call, body: NewOrder, order: OrderState) -> Placement:
    entry = f"Placed by {call.caller.app_name}."
    return Placement(order, traits_of(order), cause_of(call), entry, [(OrderCreated, {})], body.placed_at)


async def place_alone(call: Call, new: Placement, *, sent: bool = True) -> One[Any]:
    """Number and store one order; says what stands in its way, lines that the caller did not send by their ids."""
    moment = await storing.number(call.autocommit, call.store_id, [new])
    call.subject = Subject("order", new.order.id)
    try:
        [stored] = await storing.store(call.db, call.store, moment, [new])
    except storing.Short as short:
        check_available(new.order.lines, short.left, sent=sent)
        raise
    except PostgresError as error:
        explain(error)
        raise
    return stored


async def try_out(call: Call, body: NewOrder) -> One[Any]:
    """Everything but the order itself: what it would be, and what stands in its way."""
    order = await _drafted(call, body)
    await call.db.execute("SAVEPOINT trial")
    await _give_to_customer(call, body, order)
    suspects = await _compare(call, body, placement(call, body, order))
    await call.db.execute("ROLLBACK TO SAVEPOINT trial")
    # The answer may be remembered: whoever it tells of is held, so that an erasure finds it.
    if order.customer_id and await lock_contact(call.db, call.store_id, order.customer_id) is None:
        if body.customer is None:
            raise ValidationFailed(f"{counted(1, 'fault')} found.", faults=[_unknown_customer()])
        order.customer_id = None  # one whom the real order would make
        order.contact = merged_contact(_known(body.customer), body.contact)
    call.subject = Subject("customer", order.customer_id) if order.customer_id else Subject("contact")
    now = time_text(datetime.now(UTC))
    order.placed_at = time_text(body.placed_at) if body.placed_at else now
    doc = storing.document(order, parts_of(order, call.store.digits), tail_of(len(suspects), now, 0))
    doubles = [
        {"order_id": each.id, "score": each.score / 100, "reasons": each.reasons, "seconds_apart": each.seconds_apart}
        for each in suspects
    ]
    return One(doc, 0, meta=msgspec.json.encode({"dry_run": True, "suspected_duplicates": doubles}))


# --- what is asked for ---------------------------------------------------------------------------------------------


async def _drafted(call: Call, body: NewOrder) -> OrderState:
    """The order that a body describes, once all of it is found right and nothing is in its way."""
    offers = await offers_of(call.db, call.store, body.line_items)
    customer_id = body.customer_id
    customer = await get_contact(call.db, call.store_id, customer_id) if customer_id is not None else None
    order = draft(call, body, offers, customer)
    # What would fail anyway fails before a number is taken.
    if order.external_id is not None:
        existing = await queries.BY_EXTERNAL_ID.maybe(call.db, call.store_id, order.external_id)
        if existing is not None:
            fault = Fault("/external_id", ExternalIdTaken.code, "is another order's")
            raise ExternalIdTaken("Another order has this external id.", faults=[fault], existing_id=existing)
    if order.status in HOLDING:
        check_available(order.lines, offers.left())
    return order


def draft(call: Call, body: NewOrder, offers: Offers, customer: FoundCustomer | None) -> OrderState:
    """The order that a body describes, or every fault in it; `customer` is whom `customer_id` names."""
    digits = call.store.digits
    priced = price(call.store, body.line_items, offers)
    faults = [*priced.faults, *_plain_faults(call, body)]
    order = OrderState(
        status=body.status,
        currency=call.store.currency,
        lines=priced.lines,
        source={"app_id": call.caller.app_id or None, "name": call.caller.app_name},
        external_id=body.external_id,
        discount_total=_minor(body.discount_total, digits),
        shipping_total=_minor(body.shipping_total, digits),
        tax_total=_minor(body.tax_total, digits),
        shipping_method=body.shipping_method,
        payment_method=body.payment_method,
        tags=list(dict.fromkeys(body.tags)),
        note=body.note,
        metadata=body.metadata,
        shipping_address=snapshot(body.shipping_address),
        billing_address=snapshot(body.billing_address),
        contact=NO_CONTACT,
    )
    if priced.faults:
        faults += line_faults(order.lines, priced.pointers)
    else:
        total = money.to_minor(body.total, digits) if body.total is not None else None
        faults += sum_faults(order, priced.pointers, digits, total)
    if body.customer_id is not None:
        if customer is None:
            faults.append(_unknown_customer())
        else:
            order.customer_id = customer.id
            order.contact = _known(customer)
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults[:MOST_FAULTS])
    order.contact = merged_contact(order.contact, body.contact)
    change_payment(order, body.payment_status, None)
    return order


def _plain_faults(call: Call, body: NewOrder) -> list[Fault]:
    """What can be seen without a database."""
    faults: list[Fault] = []
    if body.currency is not None and body.currency != call.store.currency:
        words = f"this store sells in {call.store.currency}"
        faults.append(Fault("/currency", "currency_mismatch", words, {"expected": call.store.currency}))
    if body.customer_id is not None and body.customer is not None:
        faults.append(Fault("/customer", "invalid_format", "give either customer_id or customer, not both"))
    if body.customer is not None:
        faults += inline_faults(body.customer)
    if body.contact is not None:
        faults += phone_faults(body.contact.phone, "/contact/phone")
    faults += country_faults(body.shipping_address, "/shipping_address")
    faults += country_faults(body.billing_address, "/billing_address")
    if body.placed_at is not None and not _EARLIEST <= body.placed_at <= datetime.now(UTC) + timedelta(days=1):
        faults.append(Fault("/placed_at", "out_of_range", "must lie between 1970 and tomorrow"))
    return faults


def phone_faults(phone: str | None, at: str) -> list[Fault]:
    if phone is None or e164(phone) is not None:
        return []
    return [Fault(at, "invalid_format", "must be a number with its country code, as in +1 555 0100 123")]


def country_faults(address: OrderAddress | None, at: str) -> list[Fault]:
    code = address.country_code if address else None
    if code is None or code.upper() in COUNTRIES:
        return []
    return [Fault(f"{at}/country_code", "invalid_format", "must be a country code of ISO 3166-1, as in US")]


def _minor(amount: Any, digits: int) -> int:
    return money.to_minor(amount, digits) if amount is not None else 0


def snapshot(address: OrderAddress | None) -> dict[str, Any] | None:
    """An address as an order keeps it; one without anything in it is none."""
    if address is None:
        return None
    members = msgspec.structs.asdict(address)
    if members["country_code"]:
        members["country_code"] = members["country_code"].upper()
    return members if any(value is not None for value in members.values()) else None


# --- whose it is ---------------------------------------------------------------------------------------------------


async def _give_to_customer(call: Call, body: NewOrder, order: OrderState) -> None:
    if body.customer is None:
        return
    cause = Cause(call.caller.app_id, call.request_id)
    give_to(order, await find_or_create(call.db, call.store_id, body.customer, cause), body)


def give_to(order: OrderState, found: FoundCustomer, body: NewOrder) -> None:
    """Let an order be of the customer that was given with it; what was said of them now goes before what was known."""
    order.customer_id = found.id
    given = {name: value for name, value in _known(body.customer).items() if value is not None} if body.customer else {}
    order.contact = merged_contact(_known(found) | given, body.contact)


def _known(person: FoundCustomer | InlineCustomer) -> dict[str, Any]:
    return {name: getattr(person, name) for name in NO_CONTACT}


def _unknown_customer() -> Fault:
    return Fault("/customer_id", "unknown_customer", "no customer of this store has this id")


def merged_contact(known: dict[str, Any], given: Contact | None) -> dict[str, Any]:
    """What the order says of its contact, and for the rest what its customer is known by."""
    contact = dict(known)
    if given is not None:
        contact |= {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    if contact["phone"] is not None:
        contact["phone"] = e164(contact["phone"])
    return contact


# --- what it may double --------------------------------------------------------------------------------------------


async def _compare(call: Call, body: NewOrder, new: Placement) -> list[Suspect]:
    """Look for orders that this one may double, and hold them; refuses where the caller asked for that."""
    traits = new.traits
    if traits.customer_id is None and traits.email is None and traits.phone is None:
        return []
    placed_at = body.placed_at or datetime.now(UTC)
    neighbours = await queries.NEIGHBOURS.all(
        call.db,
        call.store_id,
        traits.customer_id,
        traits.email,
        traits.phone,
        traits.basket,
        traits.address,
        placed_at,
        body.window_hours,
    )
    suspects = _suspects(traits, placed_at, neighbours)
    if suspects and body.reject_suspected_duplicates:
        best = suspects[0]
        number = await queries.NUMBER.one(call.db, call.store_id, best.id)
        raise DuplicateOrderSuspected(
            f"Order number {number}, with the id {best.id}, may be the same purchase.",
            existing_id=best.id,
            existing_number=number,
            score=best.score / 100,
            reasons=best.reasons,
        )
    if suspects:
        # One that was cancelled while we waited for it is no double any more.
        held = await queries.LOCK_LIVE.all(call.db, call.store_id, [suspect.id for suspect in suspects])
        suspects = [suspect for suspect in suspects if suspect.id in held]
    new.order.suspected_duplicates = len(suspects)
    return suspects


def _suspects(traits: Traits, placed_at: datetime, neighbours: Sequence[queries.Neighbour]) -> list[Suspect]:
    """Those that are alike, most alike first, then newest; so many that a flood of doubles stays cheap."""
    found: list[Suspect] = []
    for other in neighbours:
        known = Traits(other.customer_id, other.email, other.phone, other.basket, other.address, other.total)
        alike = likeness(traits, known)
        if alike is not None:
            apart = abs(int((placed_at - other.placed_at).total_seconds()))
            found.append(Suspect(other.id, alike[0], alike[1], apart))
    return sorted(found, key=lambda suspect: -suspect.score)[:MOST_SUSPECTS]
