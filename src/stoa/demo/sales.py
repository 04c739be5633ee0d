"""Plays the story of a sample store: each order and each change through its endpoint; stores the orders of its old shop."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.demo.past import Past
from stoa.demo.story import Step
from stoa.events.outbox import Actor
from stoa.ids import new_id
from stoa.inventory.queries import Move, move_stock
from stoa.orders.bodies import NewOrder, StatusChange
from stoa.orders.endpoints import create_order
from stoa.orders.historical_bodies import HistoricalOrder
from stoa.orders.moving import move_orders
from stoa.orders.status import update_order_status
from stoa.rest.body import convert
from stoa.rest.call import Call, Caller, NamedOperator, NamedPerson, Store
from stoa.rest.problems import Refusal

_SAMPLE_DATA = NamedOperator("Sample data")
_ARRIVAL = "restock"


class Cast(msgspec.Struct, frozen=True):
    """Who appears in a story: the app that places the orders of the web shop, and the person who works on all of them."""

    app: Caller | NamedOperator = _SAMPLE_DATA
    person: NamedPerson | NamedOperator = _SAMPLE_DATA


async def play(operator: Operator, store: Store, steps: Sequence[Step], cast: Cast, past: Past) -> None:
    """Run the steps in the order of their times, each in a transaction of its own or in that of the operator."""
    orders: dict[int, dict[str, Any]] = {}
    for step in sorted(steps, key=lambda each: each.at):
        async with operator.db.transaction() as db:
            await past.travel(db, step.at)
            if step.arrived:
                await _receive(db, store, step, past)
            elif step.of not in orders:
                orders[step.of] = await _place(_call(operator, store, db, _buyer(step, cast), past), step)
            else:
                change = convert(_body_of(step.body, orders[step.of]), StatusChange, digits=store.digits)
                call = _call(operator, store, db, cast.person, past)
                await update_order_status(call, orders[step.of]["id"], change)


def _buyer(step: Step, cast: Cast) -> Caller | NamedOperator | NamedPerson:
    """Who enters an order: the person at the phone, or the app of the web shop."""
    return cast.person if "phone" in step.body.get("tags", ()) else cast.app


async def _place(call: Call, step: Step) -> dict[str, Any]:
    body = convert(step.body, NewOrder, digits=call.store.digits)
    body.placed_at = step.at
    return msgspec.json.decode((await create_order(call, body)).doc)


async def _receive(db: Executor, store: Store, step: Step, past: Past) -> None:
    moves = [
        Move(sku=sku, kind="adjust", on_hand=units, reason=_ARRIVAL, reference=step.body["reference"])
        for sku, units in sorted(step.arrived.items())
    ]
    request_id = past.belongs(new_id("req"))
    await move_stock(db, store.id, moves, atomic=True, actor=Actor("operator"), request_id=request_id)


async def move_old_orders(operator: Operator, store: Store, orders: Sequence[Mapping[str, Any]], past: Past) -> None:
    """Store the historical orders of a file; they come before all others, because they have lower numbers."""
    items = [(convert(order, HistoricalOrder, digits=store.digits), order) for order in orders]
    async with operator.db.transaction() as db:
        for moved in await move_orders(db, _call(operator, store, db, _SAMPLE_DATA, past), items, send_events=False):
            if isinstance(moved, Refusal):
                raise moved


def _call(operator: Operator, store: Store, db: Executor, by: Caller | NamedOperator | NamedPerson, past: Past) -> Call:
    call = Call(db, store, by, past.belongs(new_id("req")), "")
    if isinstance(operator.db, Database):
        call.autocommit = operator.db.autocommit
    return call


def _body_of(move: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    """A status change as a request body.

    `first_line_only` becomes the id and quantity of the first line item, shipped from `location`; `first_line` of a refund is a number of its units.
    """
    line, body = order["line_items"][0], dict(move)
    if body.pop("first_line_only", False):
        body["line_items"] = [{"id": line["id"], "quantity": line["quantity"], "location": body.pop("location", None)}]
    refund = dict(body.get("refund", {}))
    if "first_line" in refund:
        refund["line_items"] = [{"line_item_id": line["id"], "quantity": refund.pop("first_line")}]
        body["refund"] = refund
    return body
