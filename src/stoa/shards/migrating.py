"""Migrates the directory and all of its shards together, and then lets the shards copy global tables that are new."""

import structlog

from stoa.db.connection import Connection, connect
from stoa.db.errors import Unavailable, cause
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.db.schema_files import Migration, MigrationRefused
from stoa.settings import Settings
from stoa.shards import global_tables
from stoa.shards.moves import KNOWS_MOVES, MOVES_UNDER_WAY
from stoa.shards.registry import DIRECTORY, Shard, registered_shards


async def migrate_all(url: str, settings: Settings, *, skip_away: bool = False) -> list[Migration]:
    """Migrate a database and its shards; returns the migrations of the database itself.

    A service starts although a shard is away or incomplete: the next run of `stoa migrate` then reaches it. While a store moves,
    nothing is migrated: a new table would not move along, and a backfill could miss the store in both databases.
    """
    shards = await _registered(url, settings)
    if skip_away:
        shards = [shard for shard in shards if await _answers(shard)]
    done = await migrate(url, [shard.url for shard in shards], _without_moves)
    if shards:
        await global_tables.refresh(url, shards, skip_away=skip_away)
    return done


async def _without_moves(directory: Connection) -> None:
    """Refuse while a move is under way. None begins meanwhile, because it needs the lock that the migration holds."""
    moves = await MOVES_UNDER_WAY.all(directory) if await KNOWS_MOVES.one(directory) else []
    if moves:
        commands = ", ".join(f"`stoa shard move {each.store} --to {each.target or DIRECTORY}`" for each in moves)
        raise MigrationRefused(
            f"A store moves between shards, so nothing is migrated. End the move with the release that began it, or add "
            f"--undo to give it up: {commands}. Then run this again."
        )


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
