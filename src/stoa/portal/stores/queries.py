"""SQL for pages of stores that no API endpoint covers."""

from datetime import datetime

import msgspec

from stoa.db.query import Query

ORDER_NUMBER = Query(int, "SELECT number FROM orders WHERE store_id = $1 AND id = $2")
ORDER_STATUS = Query(str, "SELECT status FROM orders WHERE store_id = $1 AND id = $2")


class Picture(msgspec.Struct):
    """The address of a variant's own image, or of the first one of its product."""

    variant_id: int
    url: str | None


PICTURES = Query(
    Picture,
    """SELECT v.id AS variant_id,
              coalesce((SELECT image ->> 'url' FROM json_array_elements(of_product.head -> 'images') image
                         WHERE image ->> 'id' = of_variant.head ->> 'image_id'),
                       of_product.head #>> '{images,0,url}') AS url
         FROM variants v JOIN products p ON p.store_id = $1 AND p.id = v.product_id
              CROSS JOIN LATERAL (SELECT ('{' || substr(p.head, 2) || '}')::json AS head) of_product
              CROSS JOIN LATERAL (SELECT ('{' || substr(v.head, 2) || '}')::json AS head) of_variant
        WHERE v.store_id = $1 AND v.id = ANY($2::bigint[])""",
)


class NamedVariant(msgspec.Struct):
    """A variant as a row of a form shows it; `title` is empty if its product has no options."""

    id: int
    name: str
    title: str
    sku: str | None
    price: int
    available: int
    sellable: bool  # although no unit is available


NAMED_VARIANTS = Query(
    NamedVariant,
    """SELECT v.id, p.name,
              CASE WHEN v.options_key = '[]' THEN '' ELSE ('{' || substr(v.head, 2) || '}')::json ->> 'title' END AS title,
              v.sku, coalesce(v.price, p.price) AS price, v.on_hand - v.reserved AS available,
              v.allow_backorder OR NOT v.track_inventory AS sellable
         FROM variants v JOIN products p ON p.store_id = $1 AND p.id = v.product_id
        WHERE v.store_id = $1 AND v.id = ANY($2::bigint[]) AND v.deleted_at IS NULL
        ORDER BY p.name, v.product_id, v.position""",
)
VARIANTS_OF = Query(
    int,
    """SELECT id FROM variants WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
        ORDER BY product_id DESC, position LIMIT $3""",
)


class ImportRow(msgspec.Struct):
    """An import in the list of imports."""

    id: str
    number: int
    resource: str
    status: str
    dry_run: bool
    started_by: str | None
    total: int
    processed: int
    failed: int
    created_at: datetime
    finished_at: datetime | None


IMPORTS = Query(
    ImportRow,
    """SELECT i.id, i.number, i.resource, i.status, i.options::json ->> 'dry_run' = 'true' AS dry_run,
              coalesce(a.name, p.name) AS started_by, i.total, i.processed, i.failed, i.created_at, i.finished_at
         FROM imports i LEFT JOIN apps a ON a.id = i.app_id LEFT JOIN accounts p ON p.id = i.account_id
        WHERE i.store_id = $1 AND i.number < $2 ORDER BY i.number DESC LIMIT $3""",
)
APP_NAME = Query(str, "SELECT name FROM apps WHERE id = $1", unbound="a store sees the names of apps that wrote to it")


class AppName(msgspec.Struct):
    id: int
    name: str


APP_NAMES = Query(
    AppName,
    "SELECT id, name FROM apps WHERE id = ANY ($1::text[]::bigint[])",
    unbound="a store sees the names of apps that wrote to it",
)


class SavedFilter(msgspec.Struct):
    name: str
    filters: str  # as JSON


MOST_SAVED = 12
SAVED_FILTERS = Query(
    SavedFilter,
    "SELECT name, filters FROM saved_filters WHERE store_id = $1 AND account_id = $2 ORDER BY created_at, name",
)
# A name that is saved again gets the new filters. An account has at most MOST_SAVED in a store.
SAVE_FILTER = Query(
    str,
    f"""INSERT INTO saved_filters (store_id, account_id, name, filters)
        SELECT $1, $2, $3, $4
         WHERE (SELECT count(*) FROM saved_filters WHERE store_id = $1 AND account_id = $2 AND name <> $3) < {MOST_SAVED}
            ON CONFLICT ON CONSTRAINT saved_filters_pkey DO UPDATE SET filters = excluded.filters
        RETURNING name""",
)
FORGET_FILTER = Query(
    str, "DELETE FROM saved_filters WHERE store_id = $1 AND account_id = $2 AND name = $3 RETURNING name"
)
