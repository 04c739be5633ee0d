"""Places the sample orders of a store, and moves each to the status that its file specifies; stores those of its old shop."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import msgspec

from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.orders.bodies import NewOrder, StatusChange
from stoa.orders.endpoints import create_order
from stoa.orders.historical_bodies import HistoricalOrder
from stoa.orders.moving import move_orders
from stoa.orders.status import update_order_status
from stoa.rest.body import convert, parse
from stoa.rest.call import Call, NamedOperator, Store
from stoa.rest.problems import Refusal

_SAMPLE_DATA = NamedOperator("Sample data")


async def sell(operator: Operator, store: Store, name: str) -> None:
    """Place the orders of a file in a store without orders; the historical ones come first, because they have lower numbers."""
    sample = parse((files("stoa.demo") / name).read_bytes())
    await _move(operator, store, sample.get("moved", []))
    for order in sample["orders"]:
        days_ago, moves = order.pop("days_ago"), order.pop("moves")
        body = convert(order, NewOrder, digits=store.digits)
        body.placed_at = datetime.now(UTC) - timedelta(days=days_ago)
        async with operator.db.transaction() as db:
            created = await create_order(_call(operator, store, db), body)
            placed = msgspec.json.decode(created.doc)
            for move in moves:
                change = convert(_body_of(move, placed), StatusChange, digits=store.digits)
                await update_order_status(_call(operator, store, db), placed["id"], change)


async def _move(operator: Operator, store: Store, orders: list[dict[str, Any]]) -> None:
    items = [(convert(order, HistoricalOrder, digits=store.digits), order) for order in orders]
    async with operator.db.transaction() as db:
        for moved in await move_orders(db, _call(operator, store, db), items, send_events=False):
            if isinstance(moved, Refusal):
                raise moved


def _call(operator: Operator, store: Store, db: Executor) -> Call:
    call = Call(db, store, _SAMPLE_DATA, operator.request_id, "")
    if isinstance(operator.db, Database):
        call.autocommit = operator.db.autocommit
    return call


def _body_of(move: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    """A status change as a request body.

    `first_line_only` becomes the id and quantity of the first line item, shipped from `location`; `first_line` of a refund is a number of its units.
    """
    line = order["line_items"][0]
    if move.pop("first_line_only", False):
        move["line_items"] = [{"id": line["id"], "quantity": line["quantity"], "location": move.pop("location", None)}]
    refund = move.get("refund", {})
    if "first_line" in refund:
        refund["line_items"] = [{"line_item_id": line["id"], "quantity": refund.pop("first_line")}]
    return move
