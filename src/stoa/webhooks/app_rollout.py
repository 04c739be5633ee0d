"""Brings what an app changes for all stores to the stores of a shard: its endpoint, its secret, its subscriptions, its deletion.

A message from the directory causes it (`access.app_changes`). Each store is brought to the state of the app's global rows, which
the message follows, so it does no harm to do this twice, or late. A store that has moved gets a message of its own.
"""

import asyncio
import time

import msgspec
import structlog

from stoa.access.app_changes import APP_CHANGED, AppChange
from stoa.access.contract import NotInstalled
from stoa.access.grants import uninstall
from stoa.access.operator import Joined, Operator
from stoa.access.queries import STORE_BY_ID
from stoa.db.connection import Connection
from stoa.db.directory_outbox import send
from stoa.db.errors import StoreElsewhere, cause
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.db.shard_outbox import send_to_store
from stoa.settings import Settings

BATCH = 50  # stores, after which the progress is stored
# After this time a batch ends, whatever it reached: the transaction that holds the message idles meanwhile, and during the pause,
# and the server ends one that idles for 10 seconds.
STEP_S = 2.0
NOT_REACHED = "app_not_reached"  # the kind of a message to the directory

# The stores of an app, also those that have uninstalled it and still have its subscriptions.
STORES_OF = Query(
    int,
    """SELECT DISTINCT t.store_id FROM (
           (SELECT i.store_id FROM installations i WHERE i.app_id = $1 AND i.store_id > $2 ORDER BY i.store_id LIMIT $3)
           UNION ALL
           (SELECT w.store_id FROM webhooks w
             WHERE w.app_id = $1 AND (w.of_app OR w.managed_by IS NOT NULL) AND w.ended_at IS NULL AND w.store_id > $2
             ORDER BY w.store_id LIMIT $3)) t
        ORDER BY t.store_id LIMIT $3""",
    unbound="an app has one endpoint for all stores that install it",
    over="shard",
)
APPS_OF = Query(
    int,
    """SELECT i.app_id FROM installations i WHERE i.store_id = $1
       UNION
       SELECT w.app_id FROM webhooks w
        WHERE w.store_id = $1 AND (w.of_app OR w.managed_by IS NOT NULL) AND w.ended_at IS NULL
       ORDER BY 1""",
)
IS_DELETED = Query(bool, "SELECT status = 'deleted' FROM apps WHERE id = $1", unbound="the row of the app itself")
APPLY = Query(str, "SELECT apply_app($1, $2, $3, $4)::text")


class NotReached(msgspec.Struct):
    """A store that a change of an app could not reach; it is tried again by itself, and keeps no other store."""

    store_id: int
    change: AppChange


async def roll_out(settings: Settings, here: Database, after: int, content: bytes) -> int | None:
    """Bring a change of an app to the next stores of a shard; returns the last of them, or None if there are no more.

    Each batch is followed by a pause of its own duration, two seconds at most, so that deliveries have half of the database's time.
    """
    change = msgspec.json.decode(content, type=AppChange)
    started = time.monotonic()
    stores = await STORES_OF.all(here, change.app_id, after, BATCH)
    last = stores[-1] if len(stores) == BATCH else None
    for store_id in stores:
        await _reach(settings, here, store_id, change)
        if time.monotonic() - started > STEP_S:
            last = store_id
            break
    await asyncio.sleep(min(time.monotonic() - started, STEP_S))
    return last


async def _reach(settings: Settings, here: Database, store_id: int, change: AppChange) -> None:
    try:
        async with here.transaction(store_id) as db:
            await _bring(settings, db, store_id, change)
    except StoreElsewhere:
        return  # the message that follows every move brings it there
    except Exception as error:  # noqa: BLE001 - the other stores go on
        structlog.get_logger().warning("an app's change failed on a store", app_id=change.app_id, **cause(error))
        async with here.transaction(store_id) as db:
            await send(db, NOT_REACHED, NotReached(store_id, change))


async def receive_app_change(settings: Settings, db: Connection, store_id: int, content: bytes) -> None:
    """Bring the change of an app to one store; after a move of the store, whatever changed of any app."""
    await _bring(settings, db, store_id, msgspec.json.decode(content, type=AppChange))


async def receive_not_reached(db: Executor, content: bytes) -> None:
    """Let a store that a change could not reach try again, by a message of its own."""
    missed = msgspec.json.decode(content, type=NotReached)
    await send_to_store(db, missed.store_id, APP_CHANGED, missed.change)


async def _bring(settings: Settings, db: Connection, store_id: int, change: AppChange) -> None:
    for app_id in await APPS_OF.all(db, store_id) if change.app_id is None else [change.app_id]:
        if await IS_DELETED.one(db, app_id):
            await _uninstall(settings, db, store_id, app_id, change)
        await APPLY.one(db, store_id, app_id, change.resumed, change.new_secret)


async def _uninstall(settings: Settings, db: Connection, store_id: int, app_id: int, change: AppChange) -> None:
    by = Operator(Joined(db), settings, actor=change.actor, request_id=change.request_id)
    try:
        await uninstall(by, str(app_id), (await STORE_BY_ID.one(db, store_id)).handle)
    except NotInstalled:
        return
