"""Maintenance of deliveries: creates and drops partitions, wakes stalled lanes, deletes expired rows and vacuums."""

from stoa.db.pool import Database
from stoa.db.query import Command, Query
from stoa.webhooks.delivery.retry_policy import DeliveryConfig

_ALL_STORES = "maintenance covers all stores"
_HOT_TABLES = ("lanes", "pending_deliveries", "events_unrouted", "routing_leases")
_MAX_DEAD_ROWS = 5_000

WAKE_STALLED = Query(int, "SELECT wake_stalled_lanes(make_interval(secs => $1))", unbound=_ALL_STORES, over="shard")
DELETE_EXPIRED = Query(int, "SELECT delete_expired_deliveries($1, 20000)", unbound=_ALL_STORES, over="shard")
DELETE_ENDED = Query(int, "SELECT delete_ended_subscriptions()", unbound=_ALL_STORES, over="shard")
CREATE_PARTITIONS = Query(
    int,
    """SELECT count(*) FROM unnest(ARRAY['events', 'deliveries']) AS t (name), generate_series(-1, 7) AS d
        WHERE make_day(t.name, current_date + d)""",
    unbound=_ALL_STORES,
)
OLDEST_EXPIRED_PARTITION = Query(
    str,
    """SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('events'::regclass, 'deliveries'::regclass)
          AND c.relname ~ '_\\d{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < current_date - $1::integer
        ORDER BY c.relname LIMIT 1""",
    unbound=_ALL_STORES,
)
DELETE_OLD_HOURS = Command(
    "DELETE FROM delivery_hours WHERE hour < now() - make_interval(days => $1::integer)",
    unbound=_ALL_STORES,
    over="shard",
)
# A longer lease is from before the clock was set back.
END_FUTURE_LEASES = Command(
    """UPDATE routing_leases SET until = clock_timestamp()
        WHERE until > clock_timestamp() + make_interval(secs => $1)""",
    unbound=_ALL_STORES,
)
FORGET_DEAD_WORKERS = Command(
    "DELETE FROM delivery_workers WHERE seen_at < now() - interval '1 hour' OR seen_at > now() + interval '1 hour'",
    unbound=_ALL_STORES,
)
TRY_LOCK = Query(bool, "SELECT pg_try_advisory_xact_lock(7306219)", unbound=_ALL_STORES)
BLOATED_TABLES = Query(
    str,
    "SELECT relname::text FROM pg_stat_user_tables WHERE relname = ANY ($1::text[]) AND n_dead_tup > $2",
    unbound=_ALL_STORES,
)


async def create_partitions(database: Database) -> None:
    """Create the partitions of the next days, so that events can always be routed."""
    async with database.transaction() as db:
        await CREATE_PARTITIONS.one(db)


async def maintain(database: Database, config: DeliveryConfig) -> None:
    """Run every task once, unless another worker is running them."""
    async with database.transaction() as db:
        if not await TRY_LOCK.one(db):
            return
        await CREATE_PARTITIONS.one(db)
        await WAKE_STALLED.one(db, config.lease)
        await END_FUTURE_LEASES.run(db, config.takeover_after)
        await FORGET_DEAD_WORKERS.run(db)
        await DELETE_EXPIRED.one(db, config.retention_days)
        await DELETE_ENDED.one(db)
        await DELETE_OLD_HOURS.run(db, config.retention_days)
    async with database.transaction() as db:
        expired = await OLDEST_EXPIRED_PARTITION.maybe(db, config.retention_days)
        if expired is not None and await TRY_LOCK.one(db):
            # Every other statement would queue behind this lock: give up soon and try again later.
            await db.execute("SET LOCAL lock_timeout = '200ms'")
            await db.execute(f'DROP TABLE IF EXISTS "{expired}"')
    # Dead rows slow a queue down, and autovacuum may run minutes apart.
    for table in await BLOATED_TABLES.all(database, list(_HOT_TABLES), _MAX_DEAD_ROWS):
        await database.execute(f'VACUUM (SKIP_LOCKED, TRUNCATE off) "{table}"')
