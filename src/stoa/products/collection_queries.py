"""The statements on the collections of a store, and on the scans that apply their rules."""

from datetime import datetime

import msgspec

from stoa.db.query import Command, Query
from stoa.products.queries import StoredProduct


class StoredCollection(msgspec.Struct):
    handle: str
    title: str
    description: str | None
    picture: str | None
    rules: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    products: int


_COLLECTION = """SELECT c.handle, c.title, c.description, c.picture, c.rules, c.version, c.created_at, c.updated_at,
       (SELECT count(*) FROM collection_products m JOIN products p ON p.store_id = $1 AND p.id = m.product_id
         WHERE m.store_id = $1 AND m.handle = c.handle AND p.deleted_at IS NULL) AS products
  FROM collections c WHERE c.store_id = $1 AND c.deleted_revision IS NULL"""
COLLECTIONS = Query(StoredCollection, f"{_COLLECTION} ORDER BY c.title, c.handle")
COLLECTION = Query(StoredCollection, f"{_COLLECTION} AND c.handle = $2")
TITLES = Query(
    str,
    """SELECT coalesce(json_object_agg(handle, title ORDER BY title, handle), '{}')::text FROM collections
        WHERE store_id = $1 AND deleted_revision IS NULL""",
)
# One change of a store's collections at a time.
LOCK = Query(str, "SELECT pg_advisory_xact_lock(hashtextextended($1::bigint || '/collections', 7))::text")
COUNT = Query(int, "SELECT count(*) FROM collections WHERE store_id = $1")
CREATE = Command(
    """INSERT INTO collections (store_id, handle, title, description, picture, rules) VALUES ($1, $2, $3, $4, $5, $6)"""
)
CHANGE = Command(
    """UPDATE collections SET title = $3, description = $4, picture = $5, rules = $6, version = version + 1, updated_at = now()
        WHERE store_id = $1 AND handle = $2"""
)
DELETE = Command("UPDATE collections SET deleted_revision = $3 WHERE store_id = $1 AND handle = $2")
NEXT_REVISION = Query(
    int,
    """INSERT INTO collection_revisions AS r (store_id, revision) VALUES ($1, 1)
           ON CONFLICT ON CONSTRAINT collection_revisions_pkey DO UPDATE SET revision = r.revision + 1 RETURNING revision""",
)
ADD_SCAN = Command("INSERT INTO collection_scans (store_id) VALUES ($1) ON CONFLICT DO NOTHING")
IS_APPLIED = Query(
    bool,
    """SELECT NOT EXISTS (SELECT FROM collection_revisions r, collection_scans s
                           WHERE r.store_id = $1 AND s.store_id = $1 AND s.applied < r.revision)""",
)

# --- scans -----------------------------------------------------------------------------------------------------------

DUE_STORES = Query(
    int,
    """SELECT r.store_id FROM collection_revisions r JOIN collection_scans s ON s.store_id = r.store_id
        WHERE s.applied < r.revision AND NOT store_has_left(r.store_id) ORDER BY r.store_id""",
    unbound="the background worker applies the rules of all stores",
    over="shard",
)


class Scan(msgspec.Struct):
    applied: int
    scanning: int
    reached: int


LOCK_SCAN = Query(
    Scan, "SELECT applied, scanning, reached FROM collection_scans WHERE store_id = $1 FOR UPDATE SKIP LOCKED"
)
REVISION = Query(int, "SELECT revision FROM collection_revisions WHERE store_id = $1")
# Whether no transaction is left that wrote products by the rules of these revisions.
SETTLED = Query(
    bool,
    """SELECT bool_and(pg_try_advisory_xact_lock(hashtextextended($1::bigint || '/collections/' || r, 7)))
         FROM generate_series($2::bigint, $3::bigint) r""",
)
ADVANCE = Command("UPDATE collection_scans SET scanning = $2, reached = $3 WHERE store_id = $1")
FINISH = Command("UPDATE collection_scans SET applied = $2, scanning = $2, reached = 0 WHERE store_id = $1")
PRODUCTS_AFTER = Query(
    StoredProduct,
    """SELECT id, version, product_head(head, edition) AS head FROM products
        WHERE store_id = $1 AND id > $2 AND deleted_at IS NULL ORDER BY id LIMIT $3""",
)
# What deleted products leave behind in collections that are gone.
FORGET_PRODUCTS = Command(
    """DELETE FROM collection_products WHERE store_id = $1 AND handle IN (
           SELECT handle FROM collections WHERE store_id = $1 AND deleted_revision <= $2)"""
)
FORGET = Command("DELETE FROM collections WHERE store_id = $1 AND deleted_revision <= $2")
