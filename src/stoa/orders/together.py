"""Plain orders of one store, placed together: what is unusual about one is left to be placed alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from stoa.customers.lookup import FoundCustomer, find, get_contacts
from stoa.db.query import Executor
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries, storing
from stoa.orders.bodies import NewOrder
from stoa.orders.contract import Order
from stoa.orders.placing import draft, give_to, placement
from stoa.orders.pricing import check_available, offers_of
from stoa.orders.rules import HOLDING
from stoa.orders.storing import Placement
from stoa.rest.endpoint import Call, Created, Subject
from stoa.rest.problems import Refusal

MOST_LINES = 200  # in all: large orders take their time, and others would wait for it
Asked = tuple[Call, NewOrder]


async def place_together(db: Executor, asked: Sequence[Asked]) -> list[Created[Order] | None]:
    """Place what is plain of several orders; None stands for those that must go alone.

    Those are large or only tried out, have faults, want more than there is, bring a new customer, or may double another.
    """
    answers: list[Created[Order] | None] = [None] * len(asked)
    drafts = await _drafts(db, asked)
    plain = await _plain(db, asked, drafts)
    if not plain:
        return answers
    call = asked[0][0]
    new = [drafts[place] for place in plain]
    moment = await storing.number(call.autocommit, call.store_id, new)
    try:
        stored = await storing.store(db, call.store, moment, new)
    except storing.Short as short:
        raise InsufficientStock from short
    for place, each, one in zip(plain, new, stored, strict=True):
        asked[place][0].subject = Subject("order", each.order.id)
        answers[place] = Created(one.doc, one.version, f"/orders/{each.order.id}")
    return answers


async def _drafts(db: Executor, asked: Sequence[Asked]) -> dict[int, Placement]:
    """The orders that are found right, by their places, with their customers."""
    store = asked[0][0].store
    lines = 0
    chosen: dict[int, Asked] = {}
    for place, (call, body) in enumerate(asked):
        if not call.parameters.get("dry_run") and lines + len(body.line_items) <= MOST_LINES:
            lines += len(body.line_items)
            chosen[place] = call, body
    if not chosen:
        return {}
    offers = await offers_of(db, store, [line for _, body in chosen.values() for line in body.line_items])
    customers = await _customers(db, store.id, chosen)
    left = offers.left()
    drafts: dict[int, Placement] = {}
    for place, (call, body) in chosen.items():
        found = customers.get(place)
        if (body.customer_id or body.customer) and found is None:
            continue
        try:
            order = draft(call, body, offers, found)
            if order.status in HOLDING:
                check_available(order.lines, left)
        except Refusal:
            continue  # told when it goes alone, unless its key was used before
        if body.customer is not None and found is not None:
            give_to(order, found, body)
        drafts[place] = placement(call, body, order)
    return drafts


async def _customers(db: Executor, store_id: int, chosen: dict[int, Asked]) -> dict[int, FoundCustomer]:
    """Whose the orders are, by their places, as far as they are known."""
    named = {place: body.customer_id for place, (_, body) in chosen.items() if body.customer_id is not None}
    inline = {place: body.customer for place, (_, body) in chosen.items() if body.customer is not None}
    found: dict[int, FoundCustomer] = {}
    if named:
        known = await get_contacts(db, store_id, list(named.values()))
        found |= {place: known[customer_id] for place, customer_id in named.items() if customer_id in known}
    if inline:
        met = await find(db, store_id, list(inline.values()))
        found |= {place: each for place, each in zip(inline, met, strict=True) if each is not None}
    return found


async def _plain(db: Executor, asked: Sequence[Asked], drafts: dict[int, Placement]) -> list[int]:
    """The places of orders that double no other and whose external ids are free, their contacts held."""
    places: list[int] = []
    met: set[object] = set()
    now = datetime.now(UTC)
    rows: list[tuple[object, ...]] = []
    for place, each in drafts.items():
        order, traits, body = each.order, each.traits, asked[place][1]
        own = {
            ("external_id", order.external_id),
            ("customer_id", traits.customer_id),
            ("email", traits.email),
            ("phone", traits.phone),
        }
        own = {name for name in own if name[1] is not None}
        if own & met:
            continue
        met |= own
        moment, window = body.placed_at or now, timedelta(hours=body.window_hours)
        places.append(place)
        rows.append(
            (
                order.external_id,
                traits.customer_id,
                traits.email,
                traits.phone,
                traits.basket,
                traits.address,
                moment - window,
                moment + window,
            )
        )
    if not met:
        return places
    apart = await queries.APART.one(db, asked[0][0].store_id, *map(list, zip(*rows, strict=True)))
    return [place for at, place in enumerate(places, 1) if at not in apart]
