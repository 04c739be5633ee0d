"""Periodic maintenance, run by one worker at a time: it folds counters, deletes what has expired, and erases stores."""

import asyncio
import random

import structlog

from stoa.access.audit_heads import seal_chains
from stoa.access.key_rotation import rotate_key
from stoa.access.queries import DELETE_EXPIRED_TOKENS, DELETE_OLD_ATTEMPTS, DELETE_USED_ASSERTIONS
from stoa.accounts.authentication_queries import FORGET_OLD_DEVICES, FORGET_OLD_SESSIONS
from stoa.accounts.queries import (
    DELETE_OLD_ANNOUNCEMENTS,
    FORGET_OLD_FORMS,
    FORGET_OLD_LINKS,
    FORGET_OLD_RESET_REQUESTS,
    FORGET_OLD_RESULTS,
)
from stoa.accounts.team_queries import FORGET_OLD_INVITATIONS, FORGET_OLD_OFFERS
from stoa.db.directory_outbox import FORGET_RECEIVED
from stoa.db.errors import PostgresError, Unavailable, cause
from stoa.db.pool import Database
from stoa.db.query import Command, Query
from stoa.db.service_facts import own_shard
from stoa.db.shard_outbox import FORGET_RECEIVED_BY_SHARD, FORGET_RECEIVED_BY_STORES
from stoa.db.shards import ABSENT, Shards
from stoa.ids import new_id
from stoa.imports.queries import DELETE_CHECKED_FILES, DELETE_EXPIRED_REPORTS
from stoa.mail.queries import DELETE_OLD_MAILS
from stoa.notifications.queries import DELETE_OLD_NOTIFICATIONS
from stoa.operations.reencryption import COLUMNS, STORE_COLUMNS, reencrypt
from stoa.rest.idempotency import FORGET_OLD
from stoa.settings import Settings, secret_key
from stoa.store_data.store_erasure import erase_due_store
from stoa.usage.load import FORGET_OLD_SAMPLES
from stoa.usage.queries import FORGET_OLD_DAYS, FORGET_OLD_FAILURES, FORGET_OLD_HOURS, FORGET_OLD_REQUESTS

EVERY_S = 5.0
_ALL_STORES = "maintenance covers all stores"

TRY_LOCK = Query(bool, "SELECT pg_try_advisory_xact_lock(7306218)", unbound=_ALL_STORES)
FOLD_COUNTS = Command(
    """WITH grown AS (
           SELECT store_id, resource FROM row_counts WHERE store_id <> ALL ($1::bigint[])
            GROUP BY store_id, resource HAVING count(*) > 16 LIMIT 200),
       folded AS (
           DELETE FROM row_counts r USING grown g WHERE r.store_id = g.store_id AND r.resource = g.resource
           RETURNING r.store_id, r.resource, r.delta)
       INSERT INTO row_counts (store_id, resource, delta)
       SELECT store_id, resource, sum(delta) FROM folded GROUP BY store_id, resource""",
    unbound=_ALL_STORES,
    over="shard",
)
# A lease of an import lasts seconds; a longer one is from before the clock was set back.
END_FUTURE_LEASES = Command(
    "UPDATE import_queue SET lease_until = now() WHERE lease_until > now() + interval '1 minute'",
    unbound=_ALL_STORES,
    over="shard",
)
TASKS = (
    END_FUTURE_LEASES,
    FORGET_OLD,
    FORGET_OLD_FORMS,
    DELETE_EXPIRED_REPORTS,
    DELETE_CHECKED_FILES,
    FORGET_OLD_DAYS,
    FORGET_OLD_HOURS,
    FORGET_OLD_FAILURES,
    FORGET_OLD_SAMPLES,
    FORGET_RECEIVED_BY_STORES,
)
SHARD_TASKS = (FORGET_RECEIVED_BY_SHARD,)
# On global tables, and on those that only the directory uses.
DIRECTORY_TASKS = (
    DELETE_EXPIRED_TOKENS,
    DELETE_OLD_ATTEMPTS,
    DELETE_USED_ASSERTIONS,
    FORGET_OLD_SESSIONS,
    FORGET_OLD_RESULTS,
    FORGET_OLD_LINKS,
    FORGET_OLD_INVITATIONS,
    FORGET_OLD_OFFERS,
    DELETE_OLD_MAILS,
    DELETE_OLD_NOTIFICATIONS,
    FORGET_OLD_DEVICES,
    FORGET_OLD_RESET_REQUESTS,
    DELETE_OLD_ANNOUNCEMENTS,
    FORGET_RECEIVED,
)


async def maintain(database: Database, settings: Settings | None = None) -> None:
    """Run every task once, unless another worker is running them; those that need a key, only with settings."""
    async with database.transaction() as db:
        if await TRY_LOCK.one(db):
            # The rows of a store that moves here are only replayed; a row that is changed or added here would not match them.
            absent = await ABSENT.all(db)
            await FOLD_COUNTS.run(db, absent)
            in_shard = await own_shard(db)
            for task in (*TASKS, *(SHARD_TASKS if in_shard else DIRECTORY_TASKS)):
                await task.run(db)
            await FORGET_OLD_REQUESTS.run(db, (settings or Settings()).request_log_days)
            await erase_due_store(db, new_id("req"))
            if settings is not None:
                if in_shard:  # a service that starts does this in the directory
                    await rotate_key(db, secret_key(settings))
                await seal_chains(db, secret_key(settings), absent=absent)
                await reencrypt(db, secret_key(settings), columns=STORE_COLUMNS if in_shard else COLUMNS)


async def maintain_forever(shards: Shards, settings: Settings) -> None:
    while True:
        await asyncio.sleep(EVERY_S * random.uniform(0.8, 1.2))  # noqa: S311
        await asyncio.gather(*(_maintain(*each, settings) for each in shards.databases.items()))


async def _maintain(shard: str, database: Database, settings: Settings) -> None:
    try:
        await maintain(database, settings)
    except (PostgresError, Unavailable) as error:
        structlog.get_logger().warning("maintenance failed", shard=shard, **cause(error))
