"""The replication of global tables from the directory, where they are written, to every shard, where requests read them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from stoa.db.connection import Connection
from stoa.db.errors import PostgresError, cause
from stoa.db.query import Executor
from stoa.shards import subscriptions
from stoa.shards.registry import Shard, ShardRefused, session
from stoa.shards.subscriptions import Copied, Lag
from stoa.shards.tables import global_tables

PUBLICATION = "stoa_global"
MOST_FAILURES = 10  # of the workers that copy, before an operator has to look
_POLL_S = 0.05

Progress = Callable[[Copied], Awaitable[None]]


async def no_progress(_: Copied) -> None:
    return None


async def slot_of(directory: Executor, name: str) -> str:
    """The name of a shard's slot. Slots are known to the whole server, so it contains the directory's database."""
    return f"stoa_global_{name.replace('-', '_')}_{await subscriptions.DATABASE_ID.one(directory)}"


async def replicate(
    directory: Connection, shard: Connection, url: str, name: str, progress: Progress = no_progress
) -> None:
    """Copy the global tables to a shard, and keep them up to date from now on. May be repeated."""
    await extend_publication(directory)
    slot = await slot_of(directory, name)
    if await subscriptions.has_subscription(shard, PUBLICATION) and not await subscriptions.has_slot(directory, slot):
        raise ShardRefused(
            f"the replication slot of {name} is lost, for example by a failover of the directory, and with it changes of global "
            f"tables: drain the shard, remove it, and add an empty database"
        )
    await subscriptions.create_slot(directory, slot)
    await subscriptions.subscribe(shard, url, PUBLICATION, slot)
    await wait_for_copy(shard, PUBLICATION, progress)


async def wait_for_copy(
    target: Executor,
    subscription: str,
    progress: Progress,
    meanwhile: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Wait until every table is copied; a copy that fails again and again ends with a refusal."""
    while True:
        if meanwhile is not None:
            await meanwhile()
        done = await subscriptions.copied(target, subscription)
        await progress(done)
        if not done.tables:
            raise ShardRefused(f"the subscription {subscription} is lost at the target; undo this, and begin again")
        if done.copied == done.tables:
            return
        if done.failures > MOST_FAILURES:
            raise ShardRefused(
                f"the copy failed {done.failures} times; the log of the target's server says why. Then run this again"
            )
        await asyncio.sleep(_POLL_S)


async def extend_publication(directory: Connection) -> list[str]:
    """Publish the global tables that are not published yet; returns them."""
    tables = await global_tables(directory)
    if not await subscriptions.has_publication(directory, PUBLICATION):
        await subscriptions.publish(directory, PUBLICATION, tables)
        return tables
    new = sorted(set(tables) - set(await subscriptions.PUBLISHED.all(directory, PUBLICATION)))
    if new:
        await directory.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {', '.join(new)}")
    return new


async def refresh(directory_url: str, shards: Sequence[Shard], *, skip_away: bool = False) -> None:
    """After a migration: publish new global tables, and let every shard copy them.

    With `skip_away`, a shard that cannot do that now copies them after the next migration.
    """
    async with session(directory_url) as directory:
        await extend_publication(directory)
    log = structlog.get_logger()
    for shard in shards:
        try:
            async with session(shard.url) as db:
                if await subscriptions.runs(db, PUBLICATION):
                    await subscriptions.refresh(db, PUBLICATION)
                else:  # it was added, removed or restored in part
                    log.warning("a shard does not follow the global tables", shard=shard.name)
        except (ShardRefused, PostgresError, OSError) as error:
            if not skip_away:
                raise
            log.warning("a shard cannot copy new global tables", shard=shard.name, **cause(error))


async def stop(directory: Connection, name: str) -> None:
    """Forget a shard at the directory: drop its slot, which would keep the write-ahead log forever."""
    await subscriptions.drop_slot(directory, await slot_of(directory, name))


class Replication(msgspec.Struct):
    """How the global tables of a shard are kept up to date."""

    lag: Lag | None
    copied: Copied

    @property
    def problem(self) -> str:
        """What keeps the global tables from being up to date; empty if nothing does."""
        if self.lag is None or not self.copied.tables:
            return "the global tables are not replicated"
        if not self.lag.connected:
            return "its server does not fetch the changes of global tables"
        if self.copied.copied < self.copied.tables:
            return f"{self.copied.copied} of {self.copied.tables} global tables are copied"
        return ""


async def replication_of(directory: Executor, shard: Executor, name: str) -> Replication:
    slot = await slot_of(directory, name)
    return Replication(await subscriptions.lag(directory, slot), await subscriptions.copied(shard, PUBLICATION))
