"""Restores the backup of one shard, and brings it back among the others."""

from pathlib import Path

import msgspec

from stoa.access.operator import Operator
from stoa.backup.archive import opened
from stoa.backup.erasures import ErasureList, repeat
from stoa.backup.restoring import check, erasures_to_repeat, restore
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.ids import new_id
from stoa.shards import global_tables, registry, subscriptions
from stoa.shards.global_tables import PUBLICATION, Progress, no_progress
from stoa.shards.membership import directory_of
from stoa.shards.moves import follow_apps
from stoa.shards.registry import Shard, ShardRefused, session, shards_of, transaction
from stoa.shards.tables import global_tables as tables_to_copy
from stoa.store_data.store_erasure import BATCH, IN_SHARD, delete_rows

_SERVICE = "an operator restores a whole shard"
_IS_SUPERUSER = Query(bool, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user", unbound=_SERVICE)


class Place(msgspec.Struct):
    id: int
    handle: str
    shard: str


# The stores that the directory has in this shard, and those of which the backup has rows.
_PLACES = Query(Place, "SELECT id, handle, shard FROM stores ORDER BY handle", unbound=_SERVICE)
_HOLDS_STORES = Query(bool, "SELECT EXISTS (SELECT FROM audit_entries)", unbound=_SERVICE, over="shard")
_HELD = Query(int, "SELECT DISTINCT store_id FROM audit_entries", unbound=_SERVICE, over="shard")


class RestoredShard(msgspec.Struct):
    """What was restored: stores that have moved away since are left out, and those that moved here since are missing."""

    made_at: str
    stores: int
    left_out: list[str]
    missing: list[str]
    erased: int  # customers that were erased again
    absent: int  # customers whose erasure the backup has, or that it does not have
    others: int  # customers who have the id of an erased one, and were left alone
    unknown_stores: list[str]  # of erasures


async def restore_shard(
    by: Operator,
    name: str,
    file: Path,
    erasures: list[ErasureList],
    progress: Progress = no_progress,
    *,
    sure: bool = False,
) -> RestoredShard:
    """Replace a shard by its backup while no service runs. After a failure, run it again.

    If its database is new, it knows no erasures: they are given, or the operator is sure that there are none.
    """
    shard = await _check(by, name, file)
    async with session(shard.url) as db:
        to_repeat = await erasures_to_repeat(db, erasures, sure=sure, holds_stores=_HOLDS_STORES)
        await subscriptions.unsubscribe(db, PUBLICATION)
    async with session(directory_of(by).url) as directory:
        await global_tables.stop(directory, name)
    manifest = await restore(shard.url, by.settings, file, replace=True, erasures=to_repeat)
    async with session(directory_of(by).url) as directory, session(shard.url) as db:
        # The directory says what is true of apps, tokens and stores, and where each store is.
        async with transaction(db):
            await db.execute("SET LOCAL session_replication_role = replica")  # deletes no rows of stores with them
            for table in await tables_to_copy(db):
                await db.execute(f"DELETE FROM {table}")
            await db.execute("DELETE FROM store_residence")
        await global_tables.replicate(directory, db, directory_of(by).url, name, progress)
        held, places = set(await _HELD.all(db)), await _PLACES.all(directory)
        left_out = [place for place in places if place.id in held and place.shard != name]
        for store_id in held - {place.id for place in places if place.shard == name}:
            while await delete_rows(db, store_id, BATCH, IN_SHARD):
                pass
    here = [place for place in places if place.shard == name]
    pool = Database(shard.url, size=1, statement_timeout_ms=0)
    try:
        erased = await repeat(pool, new_id("req"))
    finally:
        await pool.close()
    async with by.db.transaction() as written:
        await by.record(written, None, "shard.restored", f"shard:{name}", made_at=manifest.made_at.isoformat())
        for place in here:  # the messages about changes of apps were received after the backup
            await follow_apps(written, place.id)
    return RestoredShard(
        manifest.made_at.isoformat(timespec="seconds"),
        len([place for place in here if place.id in held]),
        [place.handle for place in left_out],
        [place.handle for place in here if place.id not in held],
        erased.erased,
        erased.absent,
        erased.others,
        erased.unknown_stores,
    )


async def _check(by: Operator, name: str, file: Path) -> Shard:
    """Refuse what would fail later, when the shard is disconnected already: a backup that cannot be restored, or a role that
    cannot replace the copies of global tables."""
    shard = registry.find(name, await shards_of(by.db, by.key), "")
    if not shard.name:
        raise ShardRefused("the directory is restored by `stoa restore`")
    with opened(file) as (archive, manifest):
        if manifest.shard != name:
            raise ShardRefused(f"this is the backup of {manifest.shard or registry.DIRECTORY}, not of {name}")
        await check(shard.url, by.settings, archive, manifest, replace=True)
    async with session(shard.url) as db:
        if not await _IS_SUPERUSER.one(db):
            raise ShardRefused(f"the role of {name} must be a superuser to replace the copies of global tables")
    return shard
