"""Closing and deleting stores: a closed store refuses every app, and a store to be deleted is erased after a delay."""

from datetime import datetime

from stoa.access.contract import ErasureBegun, StoreRow
from stoa.access.operator import Operator, known_store
from stoa.access.operator_queries import (
    CANCEL_ERASURE,
    CLOSE_STORE,
    LOCK_CLOSURE,
    LOCK_STORE,
    REMOVE_CLOSURE,
    SCHEDULE_ERASURE,
    SET_STORE_STATUS,
    Closure,
)
from stoa.db.query import Executor

ERASURE_DAYS = 30


async def close_store(by: Operator, handle: str) -> StoreRow:
    """Refuse every app on a store until its owner opens it again; no data is lost."""
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        if await _close(db, store.id):
            await by.record_global(db, store.id, "store.closed", f"store:{handle}")
        return await known_store(db, handle)


async def reopen_store(by: Operator, handle: str) -> StoreRow:
    """Admit apps to a closed store again, and cancel its deletion; it stays suspended if an operator has suspended it."""
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        closure = await _closure(db, store.id)
        if closure is not None:
            await REMOVE_CLOSURE.run(db, store.id)
            await SET_STORE_STATUS.run(db, store.id, "suspended" if closure.suspended else "active")
            await by.record_global(db, store.id, "store.reopened", f"store:{handle}")
        return await known_store(db, handle)


async def delete_store(by: Operator, handle: str, *, days: int = ERASURE_DAYS) -> StoreRow:
    """Close a store, and let maintenance erase it after some days; until then, the deletion can be cancelled.

    A second deletion can only be earlier than the first.
    """
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        await _close(db, store.id)
        await _closure(db, store.id)
        erase_at: datetime = await SCHEDULE_ERASURE.one(db, store.id, days)
        await by.record_global(
            db, store.id, "store.deletion_scheduled", f"store:{handle}", erase_at=f"{erase_at:%Y-%m-%d}"
        )
        return await known_store(db, handle)


async def cancel_store_deletion(by: Operator, handle: str) -> StoreRow:
    """Cancel the deletion of a store; it stays closed."""
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        await _closure(db, store.id)
        if await CANCEL_ERASURE.run(db, store.id):
            await by.record_global(db, store.id, "store.deletion_cancelled", f"store:{handle}")
        return await known_store(db, handle)


async def _close(db: Executor, store_id: int) -> bool:
    """Add the closure of a store; whether it was open."""
    status = await LOCK_STORE.one(db, store_id)
    closed = await CLOSE_STORE.run(db, store_id, status == "suspended")
    await SET_STORE_STATUS.run(db, store_id, "suspended")
    return bool(closed)


async def _closure(db: Executor, store_id: int) -> Closure | None:
    """Return the closure of a store, locked; None if it is open. A store whose erasure has begun cannot change any more."""
    await LOCK_STORE.one(db, store_id)
    closure = await LOCK_CLOSURE.maybe(db, store_id)
    if closure is not None and closure.erasing:
        raise ErasureBegun
    return closure
