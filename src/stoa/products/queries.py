"""What the database does for products and variants."""

import msgspec

from stoa.db.listing import Listing
from stoa.db.query import Command, Query

_TERMS = "terms @@ ({}::text)::tsquery"
_VARIANT = """'{"id":' || id || ',"product_id":' || product_id || head || tail"""

LISTING = Listing(
    table="products",
    doc="""'{"id":' || id || head || tail""",
    tombstone="""'{"id":' || id || ',"deleted_at":"' || rfc3339(deleted_at) || '","version":' || version || '}'""",
    counted_as="products",
    deletable=True,
    sorts={
        "id": "id",
        "name": "name",
        "price": "price",
        "created_at": "created_at",
        "updated_at": "updated_at",
    },
    where={
        "status": "status = ANY({}::text[])",
        "ids": "id = ANY({}::bigint[])",
        "sku": "id IN (SELECT product_id FROM variants WHERE store_id = $1 AND sku = {} AND deleted_at IS NULL)",
        "barcode": "id IN (SELECT product_id FROM variants WHERE store_id = $1 AND barcode = {} AND deleted_at IS NULL)",
        "brand": _TERMS,
        "category": _TERMS,
        "tag": _TERMS,
        "q": _TERMS,
        "metadata": _TERMS,
        "price": "price = {}",
        "price[gte]": "price >= {}",
        "price[gt]": "price > {}",
        "price[lte]": "price <= {}",
        "price[lt]": "price < {}",
        "in_stock": "in_stock = {}",
        "external_id": "external_id = {}",
        "created_at": "created_at = {}",
        "created_at[gte]": "created_at >= {}",
        "created_at[gt]": "created_at > {}",
        "created_at[lte]": "created_at <= {}",
        "created_at[lt]": "created_at < {}",
        "updated_since": "updated_at >= {}",
    },
)


class Document(msgspec.Struct):
    doc: str
    version: int


GET = Query(
    Document,
    f"""SELECT '{{"id":' || id || head || ',"variants":[' || coalesce(
               (SELECT string_agg({_VARIANT}, ',' ORDER BY position, id)
                  FROM variants WHERE store_id = $1 AND product_id = $2 AND deleted_at IS NULL), '') || ']' || tail AS doc,
               version
          FROM products WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL""",
)


class Members(msgspec.Struct):
    product_id: int
    docs: str


VARIANTS_OF = Query(
    Members,
    f"""SELECT product_id, string_agg({_VARIANT}, ',' ORDER BY position, id) AS docs
          FROM variants WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
         GROUP BY product_id""",
)

LEVELS_OF = Query(
    Members,
    """SELECT product_id,
              string_agg('{"variant_id":' || id || ',"sku":' || coalesce(to_json(sku)::text, 'null')
                         || stock_tail(on_hand, reserved) || '}', ',' ORDER BY position, id) AS docs
         FROM variants WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
        GROUP BY product_id""",
)

INSERT = Query(
    int,
    """INSERT INTO products (store_id, external_id, slug, name, status, price, on_hand, reserved, in_stock, head, terms)
       VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, array_to_tsvector($10::text[])) RETURNING id""",
)

INSERT_VARIANT = Query(
    int,
    """INSERT INTO variants (store_id, product_id, position, sku, barcode, external_id, options_key, price, on_hand,
                             track_inventory, allow_backorder, low_stock_threshold, head)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id""",
)

COUNT = Command("INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'products', $2)")
