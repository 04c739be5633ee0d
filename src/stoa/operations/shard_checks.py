"""The part of `stoa doctor` that examines the shards: their schema, the replication of global tables, and moves that have not ended."""

from stoa.access.encryption import Undecryptable
from stoa.db import migrate
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.db.service_facts import restore_has_ended
from stoa.db.shard_outbox import LATE
from stoa.operations.finding import Finding
from stoa.operations.measuring import problems, read_queues
from stoa.operations.reencryption import Progress, progress
from stoa.settings import Settings, existing_key
from stoa.shards.global_tables import replication_of
from stoa.shards.moves import MOVES_LEFT
from stoa.shards.registry import RESTORE_LEFT, Shard, address, end_restore_of, registered_shards

_MUCH_BEHIND = 64 * 1024**2  # bytes of the log
_LATE_MESSAGE_S = 120.0  # a message that fails is tried again after a minute at most
_SHOWN = 3


async def check_shards(db: Executor, settings: Settings) -> list[Finding]:
    """A line for each shard, and one for moves that nobody works on; none without shards."""
    if existing_key(settings) is None:
        return []
    try:
        shards = await registered_shards(db, settings)
    except Undecryptable as error:
        return [Finding("shards", "problem", str(error), "Set STOA_SECRET_KEY to the key of the service.")]
    found = [await _check_shard(db, shard) for shard in shards]
    found += [each for shard in shards if (each := await _check_queues(shard)) is not None]
    if shards and (late := await LATE.all(db, _LATE_MESSAGE_S)):
        shown = ", ".join(f"{each.kind} to {each.receiver}" for each in late[:_SHOWN]) + (
            ", ..." if late[_SHOWN:] else ""
        )
        detail = (
            f"{sum(each.messages for each in late)} messages have waited for up to {late[0].seconds:.0f} s: {shown}"
        )
        action = (
            "If their shard answers, look for `a message from the directory failed` in the log of the background worker: "
            "it names the error."
        )
        found.append(Finding("messages", "problem", detail, action))
    if left := await MOVES_LEFT.one(db):
        action = (
            "Run each again, or give it up with --undo: `stoa shard list` shows them. A slot keeps the log meanwhile."
        )
        found.append(
            Finding("moves", "problem", f"{left} moves of stores have not ended, and no process works on them", action)
        )
    return found


async def progress_in_shards(db: Executor, settings: Settings, key: bytes) -> dict[str, Progress | None]:
    """How far the pass under this key has come in each shard; None for one that does not answer."""
    try:
        shards = await registered_shards(db, settings)
    except Undecryptable:
        return {}  # `check_shards` has a line about it
    return {shard.name: await _progress_in(shard, key) for shard in shards}


async def _progress_in(shard: Shard, key: bytes) -> Progress | None:
    db = Database(shard.url, size=1)
    try:
        return await progress(db, key)
    except (PostgresError, Unavailable):
        return None
    finally:
        await db.close()


async def _check_shard(directory: Executor, shard: Shard) -> Finding:
    name = f"shard {shard.name}"
    db = Database(shard.url, size=1)
    try:
        version = await migrate.version(db)
        outdated = await migrate.outdated_functions(db) if version == migrate.LATEST else 0
        if version < migrate.LATEST or outdated:
            detail = f"the schema is {version} of {migrate.LATEST}, and {outdated} functions are outdated"
            return Finding(name, "problem", detail, "Run `stoa migrate`.")
        if not await restore_has_ended(db):
            return Finding(
                name, "problem", RESTORE_LEFT, f"Run {end_restore_of(shard.name)}: no service starts before."
            )
        replication = await replication_of(directory, db, shard.name)
    except (PostgresError, Unavailable) as error:
        action = f"Check the server at {address(shard.url)}: requests to its stores fail meanwhile."
        return Finding(name, "problem", str(error), action)
    finally:
        await db.close()
    if problem := replication.problem:
        action = (
            f"Look into the log of its server; `stoa shard add` with the name {shard.name} repairs what is missing."
        )
        return Finding(name, "problem", problem, action)
    behind = replication.lag.bytes if replication.lag is not None else 0
    detail = f"global tables are {behind / 1024:.0f} kB of the log behind the directory"
    if behind > _MUCH_BEHIND:
        return Finding(name, "warning", detail, "Check the load of its server, and the network between the two.")
    return Finding(name, "ok", detail)


async def _check_queues(shard: Shard) -> Finding | None:
    """What waits too long in a shard; None if nothing does, or the shard does not answer, which has a line of its own."""
    db = Database(shard.url, size=1)
    try:
        waiting = problems(await read_queues(db))
    except (PostgresError, Unavailable):
        return None
    finally:
        await db.close()
    if not waiting:
        return None
    action = "Check that `stoa serve` or `stoa worker` runs, and reaches its server."
    return Finding(f"queues of shard {shard.name}", "problem", "; ".join(waiting.values()), action)
