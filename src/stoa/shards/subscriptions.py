"""PostgreSQL's logical replication, step by step: a publication, its slot, and the subscription in another database.

Each step can be repeated. The slot is created by itself, because CREATE SUBSCRIPTION would wait for its own transaction if both
databases are on one server.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from stoa.db.connection import Connection
from stoa.db.errors import PostgresError, is_busy, sqlstate
from stoa.db.query import Executor, Query
from stoa.shards.registry import ShardRefused

_CATALOG = "it reads the catalog of PostgreSQL"
_IN_USE = "55006"
_POLL_S = 0.02
_DROP_MS = 2_000
_REFRESH_MS = 10_000
_OWN = "s.subname = $1 AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"


class Copied(msgspec.Struct):
    """How many tables of a subscription are copied, of how many, and how often its workers failed."""

    copied: int
    tables: int
    failures: int


class Lag(msgspec.Struct):
    """How far a subscriber is behind; a slot without a subscriber keeps the write-ahead log until it comes back."""

    connected: bool
    bytes: int


DATABASE_ID = Query(int, "SELECT oid::bigint FROM pg_database WHERE datname = current_database()", unbound=_CATALOG)
PUBLISHED = Query(str, "SELECT tablename::text FROM pg_publication_tables WHERE pubname = $1", unbound=_CATALOG)
_HAS_PUBLICATION = Query(bool, "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)", unbound=_CATALOG)
_HAS_SLOT = Query(bool, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)", unbound=_CATALOG)
_HAS_SUBSCRIPTION = Query(bool, f"SELECT EXISTS (SELECT FROM pg_subscription s WHERE {_OWN})", unbound=_CATALOG)
_RUNS = Query(bool, f"SELECT EXISTS (SELECT FROM pg_subscription s WHERE {_OWN} AND s.subenabled)", unbound=_CATALOG)
_CREATE_SLOT = Query(
    str, "SELECT slot_name::text FROM pg_create_logical_replication_slot($1, 'pgoutput')", unbound=_CATALOG
)
_DROP_SLOT = Query(
    str,
    """SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots
        WHERE slot_name = $1 AND database = current_database()""",
    unbound=_CATALOG,
)
# How the slots are named by which a subscriber copies tables: by its subscription, and by its server.
_COPIES_NAMED = Query(
    str,
    rf"SELECT format('^pg_%s_sync_\d+_%s$', s.oid, c.system_identifier) FROM pg_subscription s, pg_control_system() c WHERE {_OWN}",
    unbound=_CATALOG,
)
_SLOTS_OF_COPIES = Query(
    str,
    """SELECT r.slot_name::text FROM pg_publication p
           JOIN pg_replication_slots r ON r.slot_name ~ obj_description(p.oid, 'pg_publication')
        WHERE p.pubname = $1 AND r.database = current_database()""",
    unbound=_CATALOG,
)
_END_SENDER = Query(
    bool,
    """SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
        WHERE slot_name = $1 AND active_pid IS NOT NULL AND database = current_database()""",
    unbound=_CATALOG,
)
_COPIED = Query(
    Copied,
    f"""SELECT count(*) FILTER (WHERE r.srsubstate = 'r') AS copied, count(*) AS tables,
               coalesce(max(t.apply_error_count + t.sync_error_count), 0)::bigint AS failures
          FROM pg_subscription s JOIN pg_subscription_rel r ON r.srsubid = s.oid
               LEFT JOIN pg_stat_subscription_stats t ON t.subid = s.oid
         WHERE {_OWN}""",
    unbound=_CATALOG,
)
_LAG = Query(
    Lag,
    """SELECT active AS connected,
              greatest(pg_wal_lsn_diff(pg_current_wal_flush_lsn(), confirmed_flush_lsn), 0)::bigint AS bytes
         FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()""",
    unbound=_CATALOG,
)


def literal(text: str) -> str:
    """A text inside a statement that takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


async def has_publication(db: Executor, name: str) -> bool:
    return await _HAS_PUBLICATION.one(db, name)


async def has_slot(db: Executor, name: str) -> bool:
    return await _HAS_SLOT.one(db, name)


async def has_subscription(db: Executor, name: str) -> bool:
    return await _HAS_SUBSCRIPTION.one(db, name)


async def runs(db: Executor, name: str) -> bool:
    """Whether the database has the subscription, and fetches its changes."""
    return await _RUNS.one(db, name)


async def publish(source: Connection, name: str, tables: Sequence[str]) -> None:
    """Create a publication of tables, each with its row filter if it has one."""
    if not await has_publication(source, name):
        options = "publish_via_partition_root = true"
        await source.execute(f"CREATE PUBLICATION {name} FOR TABLE {', '.join(tables)} WITH ({options})")


async def create_slot(source: Connection, slot: str) -> None:
    """Create the slot, which keeps the changes for the subscriber; waits until transactions that run now have ended."""
    if not await has_slot(source, slot):
        await _CREATE_SLOT.one(source, slot)


async def subscribe(target: Connection, source_url: str, publication: str, slot: str, *, enabled: bool = True) -> None:
    """Create the subscription, which has the name of the publication and begins with a copy of the tables once it is enabled.

    The source forgets a change as soon as the target confirms it. By default, the target does so before its standby has the
    change, and a failover would lose it.
    """
    if await has_subscription(target, publication):
        return
    try:
        await target.execute(
            f"""CREATE SUBSCRIPTION {publication} CONNECTION {literal(source_url)} PUBLICATION {publication}
                WITH (create_slot = false, slot_name = {literal(slot)}, enabled = {str(enabled).lower()}, streaming = on,
                      synchronous_commit = on)"""
        )
    except PostgresError as error:
        raise ShardRefused(
            f"the target could not subscribe: {error}. Its server connects to the source by the URL that Stoa uses, so "
            "that URL must work there, too"
        ) from error


async def enable(source: Connection, target: Connection, publication: str) -> None:
    """Let the subscription begin, after the source has noted which slots it will create there: nobody else drops them if the target
    is lost."""
    named = await _COPIES_NAMED.one(target, publication)
    await source.execute(f"COMMENT ON PUBLICATION {publication} IS {literal(named)}")
    await target.execute(f"ALTER SUBSCRIPTION {publication} ENABLE")


async def refresh(target: Connection, subscription: str) -> None:
    """Copy the tables that were published since. The server asks the source, and waits for it as long as any statement."""
    await target.execute(f"SET statement_timeout = {_REFRESH_MS}")
    await target.execute(f"ALTER SUBSCRIPTION {subscription} REFRESH PUBLICATION")
    await target.execute("SET statement_timeout = 0")


async def copied(target: Executor, subscription: str) -> Copied:
    return await _COPIED.one(target, subscription)


async def lag(source: Executor, slot: str) -> Lag | None:
    """None if the slot does not exist."""
    return await _LAG.maybe(source, slot)


async def unsubscribe(target: Connection, subscription: str) -> None:
    """Drop the subscription, but not its slot, so that this works while the source is away."""
    if await has_subscription(target, subscription):
        await target.execute(f"ALTER SUBSCRIPTION {subscription} DISABLE")
        await target.execute(f"ALTER SUBSCRIPTION {subscription} SET (slot_name = NONE)")
        while not await _drop_subscription(target, subscription):
            pass


async def _drop_subscription(target: Connection, subscription: str) -> bool:
    """Whether the subscription was dropped in time.

    It waits for the senders of tables whose copy has just begun. On one server, such a sender waits for all transactions that
    run, so for this one too. PostgreSQL does not detect that deadlock, and nobody else can subscribe meanwhile.
    """
    await target.execute(f"BEGIN; SET LOCAL statement_timeout = {_DROP_MS}")
    try:
        await target.execute(f"DROP SUBSCRIPTION {subscription}")
    except PostgresError as error:
        await target.execute("ROLLBACK")
        if not is_busy(error):
            raise
        await asyncio.sleep(_POLL_S)
        return False
    await target.execute("COMMIT")
    return True


async def drop_slot(source: Connection, slot: str) -> None:
    """Drop the slot; the process that sent its changes may end a moment after the subscription."""
    while True:
        try:
            await _DROP_SLOT.maybe(source, slot)
        except PostgresError as error:
            if sqlstate(error) != _IN_USE:
                raise
        else:
            return
        await _END_SENDER.maybe(source, slot)
        await asyncio.sleep(_POLL_S)


async def unpublish(source: Connection, publication: str) -> None:
    """Drop the publication, and the slots of copies that its subscriber has left."""
    for slot in await _SLOTS_OF_COPIES.all(source, publication):
        await drop_slot(source, slot)
    await source.execute(f"DROP PUBLICATION IF EXISTS {publication}")
