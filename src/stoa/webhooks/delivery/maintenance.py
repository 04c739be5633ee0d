"""What delivery needs done now and then: days made ahead and dropped when old, lost wake-ups found, dead rows cleared."""

from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.webhooks.delivery import queries
from stoa.webhooks.delivery.retry_policy import Clock

_ALL_STORES = "housekeeping goes over all stores"
_HOT = ("lanes", "pending_deliveries", "events_unrouted")
_MANY_DEAD = 5_000

TRY_LOCK = Query(bool, "SELECT pg_try_advisory_xact_lock(7306219)", unbound=_ALL_STORES)
DEAD = Query(
    str,
    "SELECT relname::text FROM pg_stat_user_tables WHERE relname = ANY ($1::text[]) AND n_dead_tup > $2",
    unbound=_ALL_STORES,
)


async def make_days(database: Database) -> None:
    """Make the days ahead, so that there is always one to route into."""
    async with database.transaction() as db:
        await queries.MAKE_DAYS.one(db)


async def tidy(database: Database, clock: Clock) -> None:
    """Do every chore once, unless another worker is at it."""
    async with database.transaction() as db:
        if not await TRY_LOCK.one(db):
            return
        await queries.MAKE_DAYS.one(db)
        await queries.SWEEP.one(db)
        await queries.CLEAR.one(db, clock.keep_days)
        await queries.REMOVE_ENDED.one(db)
        await queries.FORGET_OLD_HOURS.run(db, clock.keep_days)
    async with database.transaction() as db:
        old = await queries.OLD_DAYS.maybe(db, clock.keep_days)
        if old is not None and await TRY_LOCK.one(db):
            # Everybody waits behind us while we wait: better to come again.
            await db.execute("SET LOCAL lock_timeout = '200ms'")
            await db.execute(f'DROP TABLE IF EXISTS "{old}"')
    # A queue is as fast as it is free of dead rows; the server's own rounds may come minutes apart.
    for table in await DEAD.all(database, list(_HOT), _MANY_DEAD):
        await database.execute(f'VACUUM (SKIP_LOCKED, TRUNCATE off) "{table}"')
