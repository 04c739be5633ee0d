"""Redelivery jobs: queues deliveries again in slices, each in one transaction that also stores the progress."""

from datetime import datetime

import msgspec

from stoa.db.pool import Database
from stoa.db.query import Command, Query
from stoa.webhooks.delivery.queries import BUCKETS

SLICE = 1000


class Redelivery(msgspec.Struct):
    """A job: deliveries by sequence, or by time range and status; `until` is never later than the job itself."""

    store_id: int
    id: int
    webhook_id: int
    sequences: list[int] | None
    since: datetime | None
    until: datetime
    status: str | None
    rate_per_s: int | None
    next_sequence: int


class DueJob(msgspec.Struct):
    store_id: int
    id: int


DUE = Query(
    DueJob,
    "SELECT store_id, id FROM due_redeliveries()",
    unbound="workers take the jobs of all stores",
    over="shard",
)
# The row lock lasts until the slice is committed, so that two workers never queue the same slice.
TAKE = Query(
    Redelivery,
    """SELECT store_id, id, webhook_id, sequences, since, least(until, created_at) AS until, status, rate_per_s,
              next_sequence
         FROM redeliveries WHERE store_id = $1 AND id = $2 AND finished_at IS NULL AND due_at <= now()
          FOR UPDATE SKIP LOCKED""",
)
# If a delivery was sent again, the later one represents both.
IN_RANGE = Query(
    int,
    """SELECT sequence FROM delivery_log
        WHERE store_id = $1 AND webhook_id = $2 AND sequence > $3
          AND created_at >= $4 AND created_at < $5 AND ($6::text IS NULL OR status = $6)
        ORDER BY sequence LIMIT $7""",
)
REQUEUE = Query(int, "SELECT requeue_deliveries($1, $2, $3::bigint[])")
ADVANCE = Command(
    """UPDATE redeliveries
          SET next_sequence = $3, queued = queued + $4, due_at = now() + make_interval(secs => $5),
              finished_at = now() + CASE WHEN $6 THEN interval '0' END
        WHERE store_id = $1 AND id = $2"""
)


async def requeue_next_slice(database: Database) -> int | None:
    """Queue the next slice of a due job; returns the bucket of its store, or None if no job is due."""
    for due in await DUE.all(database):
        if await _requeue_slice(database, due):
            return due.store_id % BUCKETS
    return None


async def _requeue_slice(database: Database, due: DueJob) -> bool:
    async with database.transaction(due.store_id) as db:
        job = await TAKE.maybe(db, due.store_id, due.id)
        if job is None:
            return False
        size = min(job.rate_per_s or SLICE, SLICE)
        if job.sequences is not None:
            chosen = sorted(each for each in set(job.sequences) if each > job.next_sequence)[:size]
        else:
            since = job.since or datetime.min.replace(year=2000, tzinfo=job.until.tzinfo)
            after = (job.store_id, job.webhook_id, job.next_sequence)
            chosen = await IN_RANGE.all(db, *after, since, job.until, job.status, size)
        queued = await REQUEUE.one(db, job.store_id, job.webhook_id, chosen) if chosen else 0
        last = chosen[-1] if chosen else job.next_sequence
        pause = 1.0 if job.rate_per_s else 0.0
        await ADVANCE.run(db, job.store_id, job.id, last, queued, pause, len(chosen) < size)
    return True
