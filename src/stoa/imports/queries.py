"""The statements for imports: jobs and their parts, the queue, and the result of each row."""

from datetime import datetime

import msgspec

from stoa.db.fan_out import FanOut, in_order
from stoa.db.query import Command, Query
from stoa.rest.call import Store

_ALL_STORES = "workers claim jobs of all stores"

# --- jobs --------------------------------------------------------------------------------------------------------------


class Job(msgspec.Struct):
    store_id: int
    id: str
    number: int
    resource: str
    status: str
    options: str
    media: str
    header: str | None
    app_id: int | None
    account_id: int | None
    scopes: list[str] | None
    request_id: str
    total: int
    checked: int
    processed: int
    created: int
    updated: int
    unchanged: int
    archived: int
    failed: int
    failure: str | None
    version: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    report_expires_at: datetime
    gone: bool
    continued_by: str | None  # the import that took over the file


_JOB = """SELECT store_id, id, number, resource, status, options, media, header, app_id, account_id, scopes, request_id, total,
              checked, processed, created, updated, unchanged, archived, failed, failure, version, created_at, started_at,
              finished_at, report_expires_at, expired OR report_expires_at < now() AS gone, continued_by
         FROM imports"""
GET = Query(Job, f"{_JOB} WHERE store_id = $1 AND resource = $2 AND id = $3")
CREATE = Command(
    """INSERT INTO imports (store_id, id, resource, options, media, header, app_id, account_id, scopes, request_id, total)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)"""
)
SET_TOTAL = Command("UPDATE imports SET total = $3 WHERE store_id = $1 AND id = $2")
START = Command(
    """UPDATE imports SET status = 'running', started_at = least(started_at, now()), version = version + 1
        WHERE store_id = $1 AND id = $2 AND finished_at IS NULL"""
)
COUNT = Command(
    """UPDATE imports
          SET checked = checked + $3, processed = processed + $4, created = created + $5, updated = updated + $6,
              unchanged = unchanged + $7, archived = archived + $8, failed = failed + $9, version = version + 1
        WHERE store_id = $1 AND id = $2"""
)
FINISH = Command(
    """UPDATE imports SET status = $3, failure = $4, finished_at = now(), version = version + 1
        WHERE store_id = $1 AND id = $2"""
)

# --- parts -------------------------------------------------------------------------------------------------------------


class StoredPart(msgspec.Struct):
    part: int
    first_row: int
    data: bytes


ADD_PART = Command("INSERT INTO import_parts (store_id, import_id, part, first_row, data) VALUES ($1, $2, $3, $4, $5)")
PART = Query(
    StoredPart,
    "SELECT part, first_row, data FROM import_parts WHERE store_id = $1 AND import_id = $2 AND part = $3",
)
PARTS_WITH_ROWS = Query(
    StoredPart,
    """SELECT p.part, p.first_row, p.data FROM import_parts p
        WHERE p.store_id = $1 AND p.import_id = $2 AND EXISTS (
              SELECT FROM unnest($3::integer[]) AS row WHERE p.first_row <= row AND NOT EXISTS (
                     SELECT FROM import_parts n
                      WHERE n.store_id = $1 AND n.import_id = $2 AND n.part = p.part + 1 AND n.first_row <= row))
        ORDER BY p.part""",
)
REPLACE_PART = Command("UPDATE import_parts SET data = $4 WHERE store_id = $1 AND import_id = $2 AND part = $3")
# A file is moved, not copied, so that only one import can continue with it.
CONTINUE = Command("UPDATE imports SET continued_by = $3 WHERE store_id = $1 AND id = $2 AND continued_by IS NULL")
MOVE_PARTS = Command("UPDATE import_parts SET import_id = $3 WHERE store_id = $1 AND import_id = $2")
HAS_PARTS = Query(bool, "SELECT EXISTS (SELECT FROM import_parts WHERE store_id = $1 AND import_id = $2)")
DROP_PARTS = Command("DELETE FROM import_parts WHERE store_id = $1 AND import_id = $2")

# --- the queue ---------------------------------------------------------------------------------------------------------

# Locked until the job is enqueued, so that concurrent uploads count each other.
LOCK_INSTALLATION = Query(int, "SELECT app_id FROM installations WHERE store_id = $1 AND app_id = $2 FOR NO KEY UPDATE")
UNFINISHED = Query(int, "SELECT count(*) FROM import_queue WHERE store_id = $1 AND app_id IS NOT DISTINCT FROM $2")
ENQUEUE = Command("INSERT INTO import_queue (store_id, import_id, app_id) VALUES ($1, $2, $3)")


class Claimed(msgspec.Struct):
    store_id: int
    import_id: str
    next_part: int
    tries: int


class Waiting(msgspec.Struct):
    store_id: int
    import_id: str


OLDEST_WAITING = Query(Waiting, "SELECT store_id, import_id FROM waiting_imports()", unbound=_ALL_STORES, over="shard")
# A job may run if nobody has its lease, and if it has one of the two slots of its app or one is free.
CLAIM = Query(
    Claimed,
    """UPDATE import_queue q
           SET lease_owner = $3, lease_until = now() + make_interval(secs => $4), tries = q.tries + 1,
               lane = coalesce(q.lane, CASE WHEN EXISTS (
                          SELECT 1 FROM import_queue o
                           WHERE o.store_id = $1 AND o.app_id IS NOT DISTINCT FROM q.app_id AND o.lane = 1) THEN 2 ELSE 1 END)
         WHERE q.store_id = $1 AND q.import_id = (
               SELECT w.import_id FROM import_queue w
                WHERE w.store_id = $1 AND w.import_id = $2 AND w.lease_until <= now() AND (w.lane IS NOT NULL OR 2 > (
                      SELECT count(*) FROM import_queue o
                       WHERE o.store_id = $1 AND o.app_id IS NOT DISTINCT FROM w.app_id AND o.lane IS NOT NULL))
                  FOR UPDATE SKIP LOCKED)
        RETURNING q.store_id, q.import_id, q.next_part, q.tries""",
)

# Updates no row if another worker has the lease; the transaction then rolls back.
ADVANCE = Command(
    """UPDATE import_queue SET next_part = $4, tries = 0, lease_until = now() + make_interval(secs => $5)
        WHERE store_id = $1 AND import_id = $2 AND lease_owner = $3"""
)
RENEW = Command(
    """UPDATE import_queue SET lease_until = now() + make_interval(secs => $4)
        WHERE store_id = $1 AND import_id = $2 AND lease_owner = $3"""
)
RELEASE = Command(
    """UPDATE import_queue SET lease_until = now(), tries = 0
        WHERE store_id = $1 AND import_id = $2 AND lease_owner = $3"""
)
DEQUEUE = Command("DELETE FROM import_queue WHERE store_id = $1 AND import_id = $2 AND lease_owner = $3")

CANCEL = Command("DELETE FROM import_queue WHERE store_id = $1 AND import_id = $2")
UNFINISHED_IMPORT = FanOut(
    Job,
    f"""{_JOB} WHERE (store_id, id) IN (
            SELECT store_id, import_id FROM import_queue WHERE import_id = $1 AND store_id <> ALL ($2::bigint[]))""",
    in_order("id", unique=["id"]),
    unbound="an operator names an import by its id alone",
)

# The app may have lost scopes since it uploaded the file; while it or the store is suspended, it has none.
GRANTED = Query(
    list[str],
    """SELECT i.scopes FROM installations i JOIN apps a ON a.id = i.app_id JOIN stores s ON s.id = i.store_id
        WHERE i.store_id = $1 AND i.app_id = $2 AND a.status = 'active' AND s.status = 'active'""",
)

# --- rows --------------------------------------------------------------------------------------------------------------

ADD_ROWS = Command(
    """INSERT INTO import_rows (store_id, import_id, row, status, result_id, key, errors, changes, raw)
       SELECT $1, $2, t.row, t.status, t.result_id, t.key, t.errors, t.changes, t.raw
         FROM unnest($3::integer[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[])
              AS t (row, status, result_id, key, errors, changes, raw)"""
)


class StoredRow(msgspec.Struct):
    row: int
    status: str
    result_id: int | None
    key: str
    errors: str | None
    changes: str | None


ROWS = Query(
    StoredRow,
    """SELECT row, status, result_id, key, errors, changes FROM import_rows
        WHERE store_id = $1 AND import_id = $2 AND row > $3 ORDER BY row LIMIT $4""",
)


class FailedRow(msgspec.Struct):
    row: int
    key: str
    errors: str
    raw: str


FAILED_ROWS = Query(
    FailedRow,
    """SELECT row, key, errors, raw FROM import_rows
        WHERE store_id = $1 AND import_id = $2 AND status = 'failed' AND row > $3 ORDER BY row LIMIT $4""",
)
RESULT_IDS = Query(
    int, "SELECT result_id FROM import_rows WHERE store_id = $1 AND import_id = $2 AND result_id IS NOT NULL"
)
# Products created after the upload cannot be in the file. A row of another import may have given its product an earlier date: the
# product was created while that import ran. If that began before the upload, its products with such dates are spared too.
UNARCHIVED = Query(
    int,
    """SELECT id FROM products p
        WHERE store_id = $1 AND id > $2 AND created_at < $3 AND deleted_at IS NULL AND status <> 'archived' AND NOT EXISTS (
              SELECT FROM imports i JOIN import_rows r ON r.store_id = $1 AND r.import_id = i.id
               WHERE i.store_id = $1 AND i.resource = 'products' AND (i.finished_at IS NULL OR i.finished_at > $3)
                 AND r.status = 'created' AND r.result_id = p.id AND p.created_at < i.created_at)
        ORDER BY id LIMIT $4""",
)

# An import that saves the rows of a part in several steps does not save them in the order of their keys. It does so only while no
# other import writes products of the store, and others wait until its part is committed: otherwise the two could deadlock.
SAVE_ALONE = Query(bool, "SELECT pg_try_advisory_xact_lock(hashtextextended($1::bigint || '/imports', 7))")
SAVE_BESIDE = Query(str, "SELECT pg_advisory_xact_lock_shared(hashtextextended($1::bigint || '/imports', 7))::text")

# --- other -------------------------------------------------------------------------------------------------------------


STORE = Query(
    Store,
    """SELECT id, handle, name, currency, status, prices_include_tax, timezone, locale, shard
         FROM stores WHERE id = $1""",
)
KNOWN_SIZE = Query(
    int,
    "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = $1::text::regclass",
    unbound="planner statistics cover all stores",
)
# The file of a person of which nothing was written is kept for a day, so that the import can follow.
DELETE_CHECKED_FILES = Command(
    """DELETE FROM import_parts WHERE (store_id, import_id, part) IN (
           SELECT p.store_id, p.import_id, p.part
             FROM import_parts p JOIN imports i ON i.store_id = p.store_id AND i.id = p.import_id
            WHERE i.finished_at < now() - interval '1 day' LIMIT 1000)""",
    unbound="maintenance covers all stores",
    over="shard",
)
DELETE_EXPIRED_REPORTS = Command(
    """WITH old AS (
           UPDATE imports SET expired = true WHERE (store_id, id) IN (
                  SELECT store_id, id FROM imports WHERE NOT expired AND report_expires_at < now() LIMIT 1)
           RETURNING store_id, id)
       DELETE FROM import_rows r USING old WHERE r.store_id = old.store_id AND r.import_id = old.id""",
    unbound="maintenance covers all stores",
    over="shard",
)
