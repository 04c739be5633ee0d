"""Migrates the directory and all of its shards together, and then lets the shards copy global tables that are new."""

import structlog

from stoa.db.connection import connect
from stoa.db.errors import Unavailable, cause
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.db.schema_files import Migration
from stoa.settings import Settings
from stoa.shards import global_tables
from stoa.shards.registry import Shard, registered_shards


async def migrate_all(url: str, settings: Settings, *, skip_away: bool = False) -> list[Migration]:
    """Migrate a database and its shards; returns the migrations of the database itself.

    A service starts although a shard is away or incomplete: the next run of `stoa migrate` then reaches it.
    """
    shards = await _registered(url, settings)
    if skip_away:
        shards = [shard for shard in shards if await _answers(shard)]
    done = await migrate(url, [shard.url for shard in shards])
    if shards:
        await global_tables.refresh(url, shards, skip_away=skip_away)
    return done


async def _registered(url: str, settings: Settings) -> list[Shard]:
    db = Database(url, size=1)
    try:
        return await registered_shards(db, settings)
    finally:
        await db.close()


async def _answers(shard: Shard) -> bool:
    try:
        await (await connect(shard.url)).close()
    except Unavailable as error:
        structlog.get_logger().warning("a shard is away and is not migrated", shard=shard.name, **cause(error))
        return False
    return True
