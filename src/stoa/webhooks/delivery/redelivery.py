"""Sending again what was sent before: jobs worked off slice by slice, each slice one transaction that remembers its end."""

from datetime import datetime

import msgspec

from stoa.db.pool import Database
from stoa.db.query import Command, Query

AT_ONCE = 1000
_ALL_STORES = "workers take jobs of all stores"


class Redelivery(msgspec.Struct):
    """A job: deliveries by their sequences, or those of a time and status; `until` is never later than the job itself."""

    store_id: int
    id: int
    webhook_id: int
    sequences: list[int] | None
    since: datetime | None
    until: datetime
    status: str | None
    rate_per_s: int | None
    next_sequence: int


# Held until the slice is committed, so that two workers never queue the same one twice.
NEXT = Query(
    Redelivery,
    """SELECT store_id, id, webhook_id, sequences, since, least(until, created_at) AS until, status, rate_per_s,
              next_sequence
         FROM redeliveries WHERE finished_at IS NULL AND due_at <= now()
        ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED""",
    unbound=_ALL_STORES,
)
# Of a delivery that was sent again, the later one stands for both.
IN_RANGE = Query(
    int,
    """SELECT sequence FROM delivery_log
        WHERE store_id = $1 AND bucket = ($1 % 64)::smallint AND webhook_id = $2 AND sequence > $3
          AND created_at >= $4 AND created_at < $5 AND ($6::text IS NULL OR status = $6)
        ORDER BY sequence LIMIT $7""",
)
QUEUE = Query(int, "SELECT queue_again($1, $2, $3::text[]::bigint[])")
ADVANCE = Command(
    """UPDATE redeliveries
          SET next_sequence = $3, queued = queued + $4, due_at = now() + make_interval(secs => $5),
              finished_at = CASE WHEN $6 THEN now() END
        WHERE store_id = $1 AND id = $2"""
)


async def redeliver_some(database: Database) -> int | None:
    """Queue the next slice of the job that is due; says the bucket it went to, None when there is no job."""
    async with database.transaction() as db:
        job = await NEXT.maybe(db)
        if job is None:
            return None
        size = min(job.rate_per_s or AT_ONCE, AT_ONCE)
        if job.sequences is not None:
            chosen = sorted(each for each in set(job.sequences) if each > job.next_sequence)[:size]
        else:
            since = job.since or datetime.min.replace(year=2000, tzinfo=job.until.tzinfo)
            place = (job.store_id, job.webhook_id, job.next_sequence)
            chosen = await IN_RANGE.all(db, *place, since, job.until, job.status, size)
        queued = 0
        if chosen:
            queued = await QUEUE.one(db, job.store_id, job.webhook_id, [str(each) for each in chosen])
        last = chosen[-1] if chosen else job.next_sequence
        pause = 1.0 if job.rate_per_s else 0.0
        await ADVANCE.run(db, job.store_id, job.id, last, queued, pause, len(chosen) < size)
    return job.store_id % 64
