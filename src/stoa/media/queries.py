"""The statements about stored pictures and the images to fetch."""

import msgspec

from stoa.db.query import Command, Query

_ALL_STORES = "one duty serves all stores"


class StoredFile(msgspec.Struct):
    name: str
    width: int
    height: int


class Fetch(msgspec.Struct):
    product_id: int
    image_id: int
    source_url: str
    attempts: int
    silent: bool  # whether the product changes without an event


# Committed before the file is written, so that the removal of unreferenced files waits for it.
CLAIM_FILE = Query(str, "SELECT claim_file($1, $2, $3, $4, $5, $6)::text")
# A product is about to show these pictures. One whose removal has begun is not known any more.
TOUCH_FILES = Query(
    StoredFile,
    """UPDATE media_files SET unreferenced_since = now()
        WHERE store_id = $1 AND name = ANY ($2::text[]) AND unreferenced_since IS DISTINCT FROM '-infinity'
       RETURNING name, width, height""",
)
QUEUE_FETCHES = Command(
    """INSERT INTO picture_fetches (store_id, product_id, image_id, source_url, silent)
       SELECT $1, t.product_id, t.image_id, t.source_url, $5
         FROM unnest($2::bigint[], $3::integer[], $4::text[]) AS t (product_id, image_id, source_url)
           ON CONFLICT (store_id, product_id, image_id)
           DO UPDATE SET source_url = excluded.source_url, silent = excluded.silent, attempts = 0, due_at = excluded.due_at"""
)
STORES_WITH_FETCHES = Query(
    int,
    """WITH due AS MATERIALIZED (
           SELECT DISTINCT f.store_id FROM picture_fetches f JOIN stores s ON s.id = f.store_id
            WHERE f.due_at <= now() AND s.status = 'active')
       SELECT store_id FROM due WHERE NOT store_has_left(store_id)""",
    unbound=_ALL_STORES,
    over="shard",
)
# A worker that dies leaves the image to the others when the lease has ended.
LEASE_FETCHES = Query(
    Fetch,
    """UPDATE picture_fetches f
          SET due_at = now() + make_interval(secs => $3::float8), attempts = f.attempts + 1
        WHERE f.store_id = $1 AND (f.product_id, f.image_id) IN (
                  SELECT d.product_id, d.image_id FROM picture_fetches d
                   WHERE d.store_id = $1 AND d.due_at <= now()
                   ORDER BY d.due_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING f.product_id, f.image_id, f.source_url, f.attempts, f.silent""",
)
POSTPONE_FETCH = Command(
    """UPDATE picture_fetches
          SET due_at = now() + make_interval(secs => $5::float8), attempts = greatest(attempts - $6::integer, 0)
        WHERE store_id = $1 AND product_id = $2 AND image_id = $3 AND source_url = $4"""
)
END_FETCH = Command(
    "DELETE FROM picture_fetches WHERE store_id = $1 AND product_id = $2 AND image_id = $3 AND source_url = $4"
)
STORES_WITH_FILES = Query(
    int,
    """WITH found AS MATERIALIZED (SELECT DISTINCT store_id FROM media_files)
       SELECT store_id FROM found WHERE NOT store_has_left(store_id)""",
    unbound=_ALL_STORES,
    over="shard",
)

_SHOWN = r"/media/([1-9][0-9]*/[0-9a-f]{40}\.(?:jpg|webp))"
_SHOWN_NAMES = f"""SELECT DISTINCT found.parts[1] AS name
           FROM (SELECT p.head AS text FROM products p WHERE p.store_id = $1 AND p.deleted_at IS NULL AND p.head LIKE '%/media/%'
                  UNION ALL
                 SELECT c.picture FROM collections c WHERE c.store_id = $1 AND c.deleted_revision IS NULL) shown
                CROSS JOIN LATERAL regexp_matches(shown.text, '{_SHOWN}', 'g') AS found (parts)"""
SHOWN_NAMES = Query(str, _SHOWN_NAMES)
MARK_FILES = Command(
    f"""WITH shown AS MATERIALIZED ({_SHOWN_NAMES}),
             wrong AS (SELECT f.name, CASE WHEN s.name IS NULL THEN now() END AS since
                         FROM media_files f LEFT JOIN shown s ON s.name = f.name
                        WHERE f.store_id = $1 AND (f.unreferenced_since IS NULL) = (s.name IS NULL)
                          AND f.unreferenced_since IS DISTINCT FROM '-infinity')
        UPDATE media_files f SET unreferenced_since = w.since
          FROM wrong w WHERE f.store_id = $1 AND f.name = w.name"""
)


class Removable(msgspec.Struct):
    name: str
    widths: list[int]


# Committed before the first file is deleted, which no rollback undoes. Only an upload of the same picture ends it.
BEGIN_REMOVAL = Command(
    """UPDATE media_files SET unreferenced_since = '-infinity'
        WHERE store_id = $1 AND name IN (
                  SELECT f.name FROM media_files f
                   WHERE f.store_id = $1 AND f.unreferenced_since < now() - make_interval(days => $2::integer)
                   ORDER BY f.unreferenced_since LIMIT $3 FOR UPDATE SKIP LOCKED)"""
)
LOCK_REMOVABLE = Query(
    Removable,
    """SELECT name, widths FROM media_files WHERE store_id = $1 AND unreferenced_since = '-infinity'
        LIMIT $2 FOR UPDATE SKIP LOCKED""",
)
REMOVE_FILES = Command("DELETE FROM media_files WHERE store_id = $1 AND name = ANY ($2::text[])")
NOTE_ERASED = Command(
    "INSERT INTO erased_media (erased_id) VALUES ($1) ON CONFLICT DO NOTHING",
    unbound="the store itself is erased in this transaction",
)
ERASED = Query(int, "SELECT erased_id FROM erased_media ORDER BY erased_id LIMIT 10", unbound=_ALL_STORES)
FORGET_ERASED = Command("DELETE FROM erased_media WHERE erased_id = $1", unbound=_ALL_STORES)
PICTURES_WAITING = Query(
    int, "SELECT count(*) FROM (SELECT 1 FROM picture_fetches LIMIT 10000) f", unbound=_ALL_STORES, over="shard"
)
