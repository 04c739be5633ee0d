"""Removes the files of pictures that nothing shows any more, and those of erased stores."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

import msgspec

from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.media import queries
from stoa.media.contract import StorageAway
from stoa.media.storage import Storage, key_of, name_of_key, open_storage
from stoa.settings import Settings

NAME = "unused pictures"
OF_ERASED_STORES = "pictures of erased stores"
_AT_ONCE = 100


async def remove_unused(database: Database, settings: Settings) -> int:
    """Remove the pictures that nothing has shown for some days; returns their number."""
    storage = open_storage(settings)
    try:
        removed = 0
        for store_id in await queries.STORES_WITH_FILES.all(database.autocommit):
            await queries.MARK_FILES.run(database.autocommit, store_id)
            while found := await _remove_some(database, storage, store_id, settings.media_keep_days):
                removed += found
        return removed
    finally:
        await storage.close()


async def remove_erased(database: Database, settings: Settings) -> None:
    """Remove the files of erased stores; those that cannot be removed stay noted, and fail the duty after the others."""
    storage = open_storage(settings)
    failures = list[OSError]()
    try:
        for store_id in await queries.ERASED.all(database.autocommit):
            try:
                await storage.delete_all(f"{store_id}/")
            except OSError as error:
                failures.append(error)
            else:
                await queries.FORGET_ERASED.run(database.autocommit, store_id)
    finally:
        await storage.close()
    if failures:
        raise failures[0]


async def _remove_some(database: Database, storage: Storage, store_id: int, days: int) -> int:
    """Remove some files while their rows are locked: an upload of the same picture waits, and writes the file again.

    If a file cannot be deleted, or the process ends, the rows are left, and no product can refer to them meanwhile.
    """
    await queries.BEGIN_REMOVAL.run(database.autocommit, store_id, days, _AT_ONCE)
    async with database.transaction(store_id) as db:
        found = await queries.LOCK_REMOVABLE.all(db, store_id, _AT_ONCE)
        keys = [key_of(each.name, width) for each in found for width in (*each.widths, None)]
        deleted = await asyncio.gather(*(storage.delete(key) for key in keys), return_exceptions=True)
        if failures := [each for each in deleted if each is not None]:
            raise StorageAway from failures[0]  # no deletion is under way any more when the rows are unlocked
        await queries.REMOVE_FILES.run(db, store_id, [each.name for each in found])
        return len(found)


class StoreFiles(msgspec.Struct):
    """The files of one store, compared with what refers to them."""

    store_id: int
    files: int = 0
    missing: list[str] = msgspec.field(default_factory=list[str])  # that products or collections show
    unreferenced: list[str] = msgspec.field(default_factory=list[str])


async def compare_files(by: Operator) -> AsyncGenerator[StoreFiles]:
    """Compare the storage of each store with its products and collections, which are in the database of the store.

    A picture whose own file is gone is missing, even if smaller sizes are left, because they are not served in its place.
    """
    storage = open_storage(by.settings)
    try:
        stored: defaultdict[int, set[str]] = defaultdict(set)
        async for key in storage.list_keys():
            stored[int(key.partition("/")[0])].add(key)
        with_rows = (await by.each(queries.STORES_WITH_FILES.all)).values()
        for store_id in sorted({*stored, *(each for found in with_rows for each in found)}):
            shown = set(await queries.SHOWN_NAMES.all(await by.database_of(store_id), store_id))
            own = {name for name in shown if name.startswith(f"{store_id}/")}
            names = {name_of_key(key) for key in stored[store_id]}
            yield StoreFiles(store_id, len(names), sorted(own - stored[store_id]), sorted(names - own))
    finally:
        await storage.close()
