"""Reads a store over minutes, and refuses to go on if it has moved: its rows are deleted in the database that held it."""

from collections.abc import Sequence
from typing import Any

from stoa.access.contract import AccessRefused
from stoa.db.query import Executor
from stoa.rest.backends import IS_HERE


class StoreMoved(AccessRefused):
    """The store has moved to another shard, and what was read is not complete."""

    def __init__(self) -> None:
        super().__init__("the store has moved to another shard meanwhile, so the export is not complete; run it again")


class HeldStore:
    """Runs statements that read a store, and looks after each of them whether the database still holds the store."""

    def __init__(self, db: Executor, store_id: int) -> None:
        self._db = db
        self._store_id = store_id

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        rows = await self._db.fetch(sql, *args)
        await self._look()
        return rows

    async def execute(self, sql: str, *args: Any) -> str:
        done = await self._db.execute(sql, *args)
        await self._look()
        return done

    async def _look(self) -> None:
        if not await IS_HERE.one(self._db, self._store_id):
            raise StoreMoved
