"""Expiry: Stoa cancels the pending orders that were not paid in time, releases their stock, and sends `order.expired`."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from stoa.access.queries import STORE_BY_ID
from stoa.db.connection import Connection
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.ids import new_id
from stoa.loops import log_failure
from stoa.orders import queries
from stoa.orders.documents import time_text
from stoa.orders.events import OrderExpired, events_of
from stoa.orders.holds import is_due
from stoa.orders.rules import change_status
from stoa.orders.status import entry_changes, lock_suspects, status_changes
from stoa.orders.update import Consequences, Entry, load, update
from stoa.rest.call import Call, NamedOperator, Store

NAME = "order holds"
REASON = "Expired: not paid in time"
_TURN = 20  # orders of one store, after which the other stores follow
_LOOK_AGAIN_S = 1.0  # the statement reads every order that is due
_REST = 1.0  # after each order, as a share of its duration: others get at least half of the time
_BY_STOA = NamedOperator("Stoa")


class DueOrder(msgspec.Struct):
    id: int
    expires_at: datetime


_BEFORE_ALL = DueOrder(0, datetime(1970, 1, 1, tzinfo=UTC))
DUE_STORES = Query(
    int,
    """SELECT DISTINCT o.store_id FROM orders o JOIN stores s ON s.id = o.store_id
        WHERE o.expires_at <= now() AND s.status = 'active'""",
    unbound="the holds of all stores end by one clock, that of the database",
)
DUE = Query(
    DueOrder,
    """SELECT id, expires_at FROM orders
        WHERE store_id = $1 AND expires_at <= now() AND (expires_at, id) > ($2::timestamptz, $3::bigint)
        ORDER BY expires_at, id LIMIT $4::integer""",
)


async def expire_orders(database: Database) -> int:
    """Cancel all orders whose holds have ended, each in one transaction; returns their number.

    The stores take turns, so that a store with very many of them does not delay those of others. Any number of workers may do
    so: an order that another one has locked is left to it. An order that fails is logged, and tried again in the next run.
    """
    last: dict[int, DueOrder] = {}
    expired, found = 0, True
    stores: list[int] = []
    looked_at = float("-inf")
    while found:
        found = False
        now = asyncio.get_running_loop().time()
        if now - looked_at >= _LOOK_AGAIN_S:
            stores, looked_at = await DUE_STORES.all(database.autocommit), now
        for store_id in stores:
            after = last.get(store_id, _BEFORE_ALL)
            due = await DUE.all(database.autocommit, store_id, after.expires_at, after.id, _TURN)
            if due:
                found, last[store_id] = True, due[-1]
                expired += await _expire_in_turn(database, store_id, due)
    return expired


async def _expire_in_turn(database: Database, store_id: int, due: Sequence[DueOrder]) -> int:
    store = await STORE_BY_ID.one(database.autocommit, store_id)
    expired = 0
    for each in due:
        started = asyncio.get_running_loop().time()
        try:
            expired += await _expire(database, store, each.id)
        except Exception as error:  # noqa: BLE001 - one order must not keep the others from expiring
            log_failure(NAME, error)
        await asyncio.sleep(_REST * (asyncio.get_running_loop().time() - started))
    return expired


async def _expire(database: Database, store: Store, order_id: int) -> bool:
    async def work(db: Connection) -> bool:
        return await expire(Call(db, store, _BY_STOA, new_id("req"), ""), order_id)

    return await database.in_transaction(work)


async def expire(call: Call, order_id: int) -> bool:
    """Cancel an order whose hold has ended; False if it was paid, moved, cancelled or extended meanwhile, or is locked."""
    # Suspected duplicates are locked in the order of ids, so only an order without them can be locked first.
    alone = not await queries.SUSPECTED.all(call.db, call.store_id, order_id)
    if alone and await queries.LOCK_DUE.maybe(call.db, call.store_id, order_id) is None:
        return False
    no_longer_suspected = await lock_suspects(call, order_id)
    before, moment = await load(call, order_id)
    if not is_due(before, moment):
        return False
    order = before.copy()
    change_status(order, "cancelled", [], time_text(moment), REASON)
    changes = status_changes(call, before, order)
    events = events_of(changes)
    consequences = Consequences(
        events=[*events, (OrderExpired, events[0][1])],
        entries=[Entry("status_change", REASON, entry_changes(changes))],
        no_longer_suspected=no_longer_suspected,
    )
    await update(call, before, order, consequences)
    return True
