"""Adds a database as a shard, removes one, and shows all of them."""

import re
from collections.abc import Callable

import msgspec

from stoa.access.operator import Operator
from stoa.cluster.distribution import Step, no_report
from stoa.db import migrate
from stoa.db.connection import Connection
from stoa.db.errors import PostgresError
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.db.service_facts import FACT, NOTE, note_key
from stoa.shards import global_tables, moving, registry, subscriptions
from stoa.shards.global_tables import PUBLICATION, Progress, no_progress
from stoa.shards.moves import OPEN_MOVES_OF
from stoa.shards.moving import Ask
from stoa.shards.registry import DIRECTORY, Shard, ShardRefused, address, session, shards_of, take_lock
from stoa.shards.requirements import check_same_text, check_schema, refuse, source_faults, target_faults

_OWN_NAME = "shard"  # the fact by which a database knows the name of its own shard
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_SERVICE = "shards belong to the service"
# Held in the directory while a shard is added or removed. If the new database is the directory itself, it is not free there.
_TRY_LOCK = Query(bool, "SELECT pg_try_advisory_lock(7306233)", unbound=_SERVICE)
_STORES = Query(int, "SELECT count(*) FROM stores WHERE shard = $1", unbound=_SERVICE)
_HAS_ROWS = Query(
    bool,
    "SELECT EXISTS (SELECT FROM stores) OR EXISTS (SELECT FROM apps) OR EXISTS (SELECT FROM accounts)",
    unbound=_SERVICE,
)
_HAS_MESSAGES = Query(bool, "SELECT EXISTS (SELECT FROM directory_outbox)", unbound=_SERVICE)
BYTES = Query(int, "SELECT pg_database_size(current_database())", unbound=_SERVICE)


class ShardStatus(msgspec.Struct):
    """A shard as an operator sees it: `behind` counts the bytes of the directory's log that it has not replayed yet."""

    name: str
    address: str
    state: str
    stores: int
    schema: int | None = None
    bytes: int | None = None
    behind: int | None = None
    problem: str = ""


def directory_of(by: Operator) -> Shard:
    """The directory, by the URL of its server: neither replication nor the lock of a session passes a pooler."""
    url = by.settings.database_direct_url or (by.db.url if isinstance(by.db, Database) else "")
    return Shard("", url)


async def plan_to_add(by: Operator, url: str, name: str) -> list[Step]:
    """The steps that `add` would take; refuses what it would refuse."""
    async with session(directory_of(by).url) as directory, session(url) as shard:
        new = await _check(directory, shard, by, Shard(name, url))
        return _steps(name, new=new)


def _steps(name: str, *, new: bool) -> list[Step]:
    subject = f"shard {name}"
    return [
        *([Step(subject, "create the schema")] if new else []),
        Step(subject, "record its address, encrypted"),
        Step(subject, "copy the global tables, and keep them up to date"),
    ]


async def add(
    by: Operator,
    url: str,
    name: str,
    report: Callable[[Step], None] = no_report,
    progress: Progress = no_progress,
) -> list[Step]:
    """Make a database a shard. After a failure, run it again: what is done already stays."""
    async with session(directory_of(by).url) as directory, session(url) as shard:
        added = Shard(name, url)
        new = await _check(directory, shard, by, added)
        steps = iter(_steps(name, new=new))
        if new:
            await migrate.migrate(url)
            report(next(steps))
        await check_schema(shard, added)
        # Its name comes first: a database that knows it can only become this shard.
        await NOTE.run(shard, _OWN_NAME, name)
        await note_key(shard, by.key)
        if not any(known.name == name for known in await shards_of(directory, by.key)):
            async with by.db.transaction() as db:
                await registry.record(db, by.key, name, url)
                await by.record(db, None, "shard.added", f"shard:{name}", address=address(url))
        report(next(steps))
        await global_tables.replicate(directory, shard, directory_of(by).url, name, progress)
        report(next(steps))
    return _steps(name, new=new)


async def _check(directory: Connection, shard: Connection, by: Operator, added: Shard) -> bool:
    """Refuse a database that cannot be this shard; returns whether it has no schema yet."""
    if not _NAME.fullmatch(added.name) or added.name == DIRECTORY:
        raise ShardRefused(
            f'"{added.name}" is no name for a shard: use up to 31 lowercase letters, digits and hyphens, a letter first'
        )
    if not await take_lock(_TRY_LOCK, directory):
        raise ShardRefused("another command is adding or removing a shard; wait until it has ended")
    if not await _TRY_LOCK.one(shard):
        raise ShardRefused("this database is the directory itself; create another one for the shard")
    known = next((each for each in await shards_of(directory, by.key) if each.name == added.name), None)
    if known is not None and known.url != added.url:
        raise ShardRefused(f"there is a shard {added.name} at {address(known.url)}; choose another name")
    refuse(
        *await source_faults(directory, directory_of(by)),
        *await source_faults(shard, added),
        *await target_faults(shard, added),
    )
    await check_same_text(directory, shard, added)
    version = await migrate.version(shard)
    if version == 0:
        return True
    await check_schema(shard, added)
    own = await FACT.maybe(shard, _OWN_NAME)
    if own not in (None, added.name):
        raise ShardRefused(f"this database is or was the shard {own}; create an empty one")
    if known is None and await _HAS_ROWS.one(shard):
        raise ShardRefused("this database has stores, apps or accounts; a new shard must be empty")
    return False


async def remove(by: Operator, name: str, *, lost: bool = False) -> None:
    """Forget a shard without stores; `lost` is for one whose server does not come back.

    A move from or to a lost shard ends: the store is where the directory has it, which is another shard. It takes no store from the first transaction on, so none is created in it while it is disconnected. The database keeps its name, so it never takes the copies of rows in it for its own.
    """
    async with session(directory_of(by).url) as directory:
        if not await take_lock(_TRY_LOCK, directory):
            raise ShardRefused("another command is adding or removing a shard; wait until it has ended")
        async with by.db.transaction() as db:
            await registry.lock(db, name)
            await check_removal(by, name, db, lost=lost)
            await registry.set_state(db, name, "draining")
        shard = registry.find(name, await shards_of(directory, by.key), "")
        if lost:
            await _end_moves(by, name)
        else:
            async with session(shard.url) as db:
                if await _HAS_MESSAGES.one(db):
                    raise ShardRefused(
                        f"{name} has messages for the directory, such as notifications; a running service fetches them, "
                        "then run this again"
                    )
                await subscriptions.unsubscribe(db, PUBLICATION)
        await global_tables.stop(directory, name)
        async with by.db.transaction() as db:
            await registry.lock(db, name)
            await check_removal(by, name, db)
            await registry.forget(db, name)
            await by.record(db, None, "shard.removed", f"shard:{name}", lost=lost)


async def _end_moves(by: Operator, name: str) -> None:
    """End the moves from and to a lost shard, without it."""
    shards = await shards_of(by.db, by.key)
    for each in await OPEN_MOVES_OF.all(by.db, name):
        directory = directory_of(by)
        source, target = (registry.find(end, shards, directory.url) for end in (each.source, each.target))
        ask = Ask(each.store, source, target, directory, by.actor, by.request_id, grace_s=0.0)
        if target.name == name:
            await moving.undo(ask, target_is_lost=True)
        else:
            await moving.move(ask, source_is_lost=True)


async def take_stores_again(by: Operator, name: str, *, only_plan: bool = False) -> None:
    """Let a shard that was drained take stores, unless its removal has begun."""
    async with session(directory_of(by).url) as directory:
        if not await take_lock(_TRY_LOCK, directory):
            raise ShardRefused("another command is adding or removing a shard; wait until it has ended")
        shard = registry.find(name, await shards_of(directory, by.key), "")
        if shard.state != "draining":
            raise ShardRefused(f"{name} is not being drained")
        async with session(shard.url) as db:
            if not await subscriptions.runs(db, PUBLICATION):
                raise ShardRefused(
                    f"{name} does not follow the global tables; if its removal was interrupted, run `stoa shard remove {name}` again"
                )
        if not only_plan:
            async with by.db.transaction() as db:
                await registry.set_state(db, name, "active")
                await by.record(db, None, "shard.undrained", f"shard:{name}")


async def check_removal(by: Operator, name: str, directory: Executor, *, lost: bool = False) -> None:
    """Refuse to remove a shard that is not known, that has stores, or that a store moves from or to, unless it is lost."""
    if name == DIRECTORY:
        raise ShardRefused("the directory cannot be removed")
    registry.find(name, await shards_of(directory, by.key), "")
    if stores := await _STORES.one(directory, name):
        raise ShardRefused(f"{name} has {stores} stores; run `stoa shard drain {name}` first")
    if not lost and await OPEN_MOVES_OF.all(directory, name):
        raise ShardRefused(f"a move from or to {name} has not ended; `stoa shard list` shows it")


async def statuses(by: Operator) -> list[ShardStatus]:
    """The directory and every shard; one that does not answer has a problem instead of figures."""
    directory = directory_of(by)
    found: list[ShardStatus] = []
    for shard in [directory, *await shards_of(by.db, by.key)]:
        status = ShardStatus(shard.shown, address(shard.url), shard.state, await _STORES.one(by.db, shard.name))
        found.append(status)
        try:
            async with session(shard.url) as db:
                status.schema, status.bytes = await migrate.version(db), await BYTES.one(db)
                if shard.name:
                    await _show_replication(by.db, db, status)
        except (ShardRefused, PostgresError) as error:
            status.problem = str(error)
    return found


async def _show_replication(directory: Executor, shard: Executor, status: ShardStatus) -> None:
    replication = await global_tables.replication_of(directory, shard, status.name)
    status.behind = None if replication.lag is None else replication.lag.bytes
    status.problem = replication.problem
