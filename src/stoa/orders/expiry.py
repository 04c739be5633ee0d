"""Expiry: Stoa cancels the pending orders that were not paid in time, releases their stock, and sends `order.expired`."""

import asyncio
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
_BATCH = 100
_REST = 1.0  # after each order, as a share of its duration: others get at least half of the time
_BY_STOA = NamedOperator("Stoa")
_ALL_STORES = "the holds of all stores end by one clock, that of the database"


class DueOrder(msgspec.Struct):
    store_id: int
    id: int
    expires_at: datetime


DUE = Query(
    DueOrder,
    """SELECT o.store_id, o.id, o.expires_at
         FROM orders o JOIN stores s ON s.id = o.store_id
        WHERE o.expires_at <= now() AND (o.expires_at, o.store_id, o.id) > ($1::timestamptz, $2::bigint, $3::bigint)
          AND s.status = 'active'
        ORDER BY o.expires_at, o.store_id, o.id LIMIT $4::integer""",
    unbound=_ALL_STORES,
)


async def expire_orders(database: Database) -> int:
    """Cancel all orders whose holds have ended, each in one transaction; returns their number.

    Any number of workers may do so: an order that another one has locked is left to it. An order that fails is logged, and
    tried again in the next run.
    """
    last = DueOrder(0, 0, datetime(1970, 1, 1, tzinfo=UTC))
    expired = 0
    while due := await DUE.all(database.autocommit, last.expires_at, last.store_id, last.id, _BATCH):
        stores: dict[int, Store] = {}
        for each in due:
            if each.store_id not in stores:
                stores[each.store_id] = await STORE_BY_ID.one(database.autocommit, each.store_id)
            started = asyncio.get_running_loop().time()
            try:
                expired += await _expire(database, stores[each.store_id], each.id)
            except Exception as error:  # noqa: BLE001 - one order must not keep the others from expiring
                log_failure(NAME, error)
            await asyncio.sleep(_REST * (asyncio.get_running_loop().time() - started))
        last = due[-1]
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
