"""Expiry: Stoa cancels the pending orders that were not paid in time, releases their stock, and sends `order.expired`."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from stoa.access.queries import STORE_BY_ID
from stoa.db.connection import Connection
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.ids import new_id
from stoa.loops import log_failure
from stoa.orders import queries
from stoa.orders.documents import time_text
from stoa.orders.events import OrderExpired, events_of
from stoa.orders.holds import is_due
from stoa.orders.rules import change_status
from stoa.orders.state import OrderState
from stoa.orders.status import entry_changes, lock_suspects, status_changes
from stoa.orders.update import Change, Consequences, Entry, load, loaded, update_all
from stoa.rest.call import Call, NamedOperator, Store

NAME = "order holds"
REASON = "Expired: not paid in time"
_TURN = 20  # orders of one store, in one transaction if possible, after which the other stores follow
_LOOK_AGAIN_S = 1.0  # the statement reads every order that is due
_REST = 1.0  # after each transaction, as a share of its duration: others get at least half of the time
_BY_STOA = NamedOperator("Stoa")


class DueOrder(msgspec.Struct):
    id: int
    expires_at: datetime
    suspected: bool  # whether it has suspected duplicates, which are locked with it


_BEFORE_ALL = DueOrder(0, datetime(1970, 1, 1, tzinfo=UTC), suspected=False)
DUE_STORES = Query(
    int,
    """WITH due AS MATERIALIZED (
           SELECT DISTINCT o.store_id FROM orders o JOIN stores s ON s.id = o.store_id
            WHERE o.expires_at <= now() AND s.status = 'active')
       SELECT store_id FROM due WHERE NOT store_has_left(store_id)""",
    unbound="the holds of all stores end by one clock, that of the database",
    over="shard",
)
DUE = Query(
    DueOrder,
    """SELECT id, expires_at, suspected_duplicates > 0 AS suspected FROM orders
        WHERE store_id = $1 AND expires_at <= now() AND (expires_at, id) > ($2::timestamptz, $3::bigint)
        ORDER BY expires_at, id LIMIT $4::integer""",
)


async def expire_orders(database: Database) -> int:
    """Cancel all orders whose holds have ended; returns their number.

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
    """Expire orders of a store: those without suspected duplicates in one transaction, or each by itself if that fails."""
    store = await STORE_BY_ID.one(database.autocommit, store_id)
    together = [each for each in due if not each.suspected]
    waiting: deque[list[DueOrder]] = deque([together] if together else [])
    waiting.extend([each] for each in due if each.suspected)
    expired = 0
    while waiting:
        group = waiting.popleft()
        started = asyncio.get_running_loop().time()
        try:
            expired += await _expire(database, store, group)
        except Exception as error:  # noqa: BLE001 - one order must not keep the others from expiring
            if len(group) == 1:
                log_failure(NAME, error)
            else:
                waiting.extendleft([each] for each in reversed(group))
        await asyncio.sleep(_REST * (asyncio.get_running_loop().time() - started))
    return expired


async def _expire(database: Database, store: Store, group: Sequence[DueOrder]) -> int:
    async def work(db: Connection) -> int:
        if group[0].suspected:
            return await expire_suspected(db, store, group[0].id)
        return await expire_all(db, store, [each.id for each in group])

    return await database.in_transaction(work, store.id)


async def expire_all(db: Executor, store: Store, ids: Sequence[int]) -> int:
    """Cancel the orders of one store whose holds have ended, and return their number.

    Those that were paid, moved, cancelled or extended meanwhile, are locked, or have become suspected duplicates stay.
    """
    rows = await queries.LOCK_DUE.all(db, store.id, list(ids))
    changes: list[Change] = []
    for row in rows:
        call = _call(db, store)
        change = _expiry(call, *loaded(call, row))
        changes += [change] if change is not None else []
    if changes:
        await update_all(db, changes)
    return len(changes)


async def expire_suspected(db: Executor, store: Store, order_id: int) -> int:
    """Cancel an order with suspected duplicates, which are locked with it in the order of ids; 0 if it is no longer due."""
    call = _call(db, store)
    no_longer_suspected = await lock_suspects(call, order_id)
    change = _expiry(call, *await load(call, order_id))
    if change is None:
        return 0
    change.consequences.no_longer_suspected = no_longer_suspected
    await update_all(db, [change])
    return 1


def _call(db: Executor, store: Store) -> Call:
    return Call(db, store, _BY_STOA, new_id("req"), "")


def _expiry(call: Call, before: OrderState, moment: datetime) -> Change | None:
    """The change that cancels an order whose hold has ended."""
    if not is_due(before, moment):
        return None
    order = before.copy()
    change_status(order, "cancelled", [], time_text(moment), REASON)
    changes = status_changes(call, before, order)
    events = events_of(changes)
    consequences = Consequences(
        events=[*events, (OrderExpired, events[0][1])],
        entries=[Entry("status_change", REASON, entry_changes(changes))],
    )
    return Change(call, before, order, consequences)
