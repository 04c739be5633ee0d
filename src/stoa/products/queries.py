"""The lists of products and variants, with their filters and sort keys, and the statements that read them."""

from datetime import datetime

import msgspec

from stoa.db.documents import TOMBSTONE, Document
from stoa.db.listing import Listing, Ranking, comparisons
from stoa.db.query import Query
from stoa.products.csv_columns import COLUMNS
from stoa.rest.filters import (
    Choices,
    Entries,
    Flag,
    Ids,
    Moment,
    MomentRange,
    MoneyRange,
    Term,
    Text,
    Texts,
    Words,
)
from stoa.rest.lists import ListOf

PRODUCTS = ListOf(
    columns=COLUMNS,
    filters={
        "status": Choices(values=("active", "draft", "archived"), description="One or more of these statuses."),
        "ids": Ids(description="Products with these ids."),
        "sku": Texts(description="Products of the variants with these SKUs.", longest=100),
        "barcode": Texts(description="Products of variants with these barcodes.", longest=100),
        "gtin": Texts(description="Products of variants with these GTINs.", longest=14),
        "brand": Term(kind="brand", description="Products of this brand, ignoring case."),
        "category": Term(
            kind="category", description="This category or any below it, such as `Home/Kitchen`, ignoring case."
        ),
        "tag": Term(kind="tag", description="Products with this tag, ignoring case."),
        "collection": Text(description="Products in the collection with this handle.", longest=64),
        "price": MoneyRange(description="The price, or a price range."),
        "in_stock": Flag(description="Whether any variant can be bought now."),
        "q": Words(
            description="Text search. Each word must be the start of a word in the name, brand, category, tags, SKU or barcode."
        ),
        "external_id": Text(description="The product with this external id."),
        "metadata": Entries(
            description="Products with this metadata value, as in `metadata[material]=linen`, or for a key with an ordered type in this range, as in `metadata[warranty_months][gte]=24`.",
            resource="product",
        ),
        "created_at": MomentRange(description="The time of creation, or a time range."),
        "updated_since": Moment(description="Products changed at or after this time, including stock and metadata."),
    },
    sorts={"id": int, "name": str, "price": int, "created_at": datetime, "updated_at": datetime, "position": int},
    sorts_within={"position": "collection"},
    includes=("variants", "inventory"),
    deletable=True,
)

VARIANTS = ListOf(
    filters={
        "ids": Ids(description="Variants with these ids."),
        "product_id": Ids(description="Variants of these products."),
        "sku": Texts(description="The variants with these SKUs.", longest=100),
        "barcode": Texts(description="Variants with these barcodes.", longest=100),
        "gtin": Texts(description="Variants with these GTINs.", longest=14),
        "external_id": Text(description="The variant with this external id."),
        "updated_since": Moment(description="Variants changed at or after this time, including stock."),
    },
    sorts={"id": int, "created_at": datetime, "updated_at": datetime},
    deletable=True,
)
PRODUCT_VARIANTS = msgspec.structs.replace(
    VARIANTS, filters={name: kind for name, kind in VARIANTS.filters.items() if name != "product_id"}
)

_FOUND = "id IN (SELECT product_id FROM product_terms WHERE store_id = $1 AND {})"
_TERMS = _FOUND.replace("{}", "terms @@ ({}::text)::tsquery")
_COMPARED = _FOUND.replace("{}", "comparable_terms(terms) @@ ({}::text)::tsquery")
_LISTED = _FOUND.replace("{}", "(terms @@ ({}::text)::tsquery OR comparable_terms(terms) @@ ({}::text)::tsquery)")
_VARIANT = """'{"id":' || id || ',"product_id":' || product_id || variant_head(head, edition) || tail"""
# A product `p` with its variants.
_PRODUCT = f"""'{{"id":' || id || product_head(head, edition) || ',"variants":[' || coalesce(
    (SELECT string_agg({_VARIANT}, ',' ORDER BY position, id)
       FROM variants WHERE store_id = $1 AND product_id = p.id AND deleted_at IS NULL), '') || ']' || tail"""

# The products of one collection with their places in it. The id is that of the membership, whose index is in this order.
_RANKED = """(SELECT m.store_id, m.product_id AS id, m.position, p.external_id, p.name, p.status, p.price, p.in_stock, p.version,
    p.created_at, p.updated_at, p.deleted_at, p.head, p.edition, p.tail
    FROM collection_products m JOIN products p ON p.store_id = $1 AND p.id = m.product_id
   WHERE m.store_id = $1 AND m.handle = {}) ranked"""

LISTING = Listing(
    table="products",
    doc="""'{"id":' || id || product_head(head, edition) || tail""",
    tombstone=TOMBSTONE,
    counted_as="products",
    deletable=True,
    sorts={
        "id": "id",
        "name": "name",
        "price": "price",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "position": "position",
    },
    ranked={"position": Ranking("collection", _RANKED)},
    where={
        "status": "status = ANY({}::text[])",
        "ids": "id = ANY({}::bigint[])",
        "sku": "id IN (SELECT product_id FROM variants"
        " WHERE store_id = $1 AND sku = ANY({}::text[]) AND deleted_at IS NULL)",
        "barcode": "id IN (SELECT product_id FROM variants"
        " WHERE store_id = $1 AND barcode = ANY({}::text[]) AND deleted_at IS NULL)",
        "gtin": "id IN (SELECT product_id FROM variants"
        " WHERE store_id = $1 AND gtin = ANY({}::text[]) AND deleted_at IS NULL)",
        "brand": _TERMS,
        "category": _TERMS,
        "tag": _TERMS,
        "collection": "id IN (SELECT product_id FROM collection_products WHERE store_id = $1 AND handle = {})",
        "q": _TERMS,
        "metadata": _TERMS,
        "metadata compared": _COMPARED,
        "metadata listed": _LISTED,
        **comparisons("price"),
        "in_stock": "in_stock = {}",
        "external_id": "external_id = {}",
        **comparisons("created_at"),
        "updated_since": "updated_at >= {}",
    },
)


GET = Query(
    Document,
    f"""SELECT textsend({_PRODUCT}) AS doc, version
          FROM products p WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL""",
)


class Found(msgspec.Struct):
    id: int
    version: int
    doc: str


DOCUMENTS = Query(
    Found,
    f"""SELECT id, version, {_PRODUCT} AS doc FROM products p WHERE store_id = $1 AND id = ANY($2::bigint[]) AND deleted_at IS NULL""",
)
VARIANT_DOCUMENTS = Query(
    Found,
    f"SELECT id, version, {_VARIANT} AS doc FROM variants WHERE store_id = $1 AND id = ANY($2::bigint[]) AND deleted_at IS NULL",
)


class Members(msgspec.Struct):
    product_id: int
    docs: bytes


VARIANTS_OF = Query(
    Members,
    f"""SELECT product_id, textsend(string_agg({_VARIANT}, ',' ORDER BY position, id)) AS docs
          FROM variants WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
         GROUP BY product_id""",
)

LEVELS_OF = Query(
    Members,
    """SELECT product_id,
              textsend(string_agg('{"variant_id":' || id || ',"sku":' || coalesce(to_json(sku)::text, 'null')
                         || stock_tail(on_hand, reserved) || '}', ',' ORDER BY position, id)) AS docs
         FROM variants WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
        GROUP BY product_id""",
)


class StoredProduct(msgspec.Struct):
    id: int
    version: int
    head: str


READ = Query(
    StoredProduct,
    """SELECT id, version, product_head(head, edition) AS head FROM products
        WHERE store_id = $1 AND deleted_at IS NULL AND id IN (
              SELECT unnest($2::bigint[])
              UNION SELECT id FROM products
                     WHERE store_id = $1 AND external_id = ANY($3::text[]) AND deleted_at IS NULL
              UNION SELECT product_id FROM variants
                     WHERE store_id = $1 AND sku = ANY($4::text[]) AND deleted_at IS NULL)
        ORDER BY id""",
)
# Lock order: products by id, then what belongs to them.
LOCK = Query(StoredProduct, f"{READ.sql} FOR NO KEY UPDATE")


class StoredVariant(msgspec.Struct):
    id: int
    product_id: int
    on_hand: int
    reserved: int
    other_on_hand: int
    other_reserved: int
    version: int
    head: str


VARIANTS_TO_CHANGE = Query(
    StoredVariant,
    """SELECT id, product_id, on_hand, reserved, other_on_hand, other_reserved, version, variant_head(head, edition) AS head
         FROM variants
        WHERE store_id = $1 AND product_id = ANY($2::bigint[]) AND deleted_at IS NULL
        ORDER BY product_id, position, id""",
)


class Saved(msgspec.Struct):
    product_ids: list[int] | None  # None: nothing was saved, because the store has rules that the caller has not read
    variant_ids: list[int] | None


SAVE = Query(
    Saved, "SELECT product_ids, variant_ids FROM save_products($1, $2, $3, $4::json, $5::json, $6::json, $7::json)"
)

COLLECTIONS_IN_FORCE = Query(str, "SELECT collections_in_force($1)")

FREE_SLUGS = Query(list[str], "SELECT free_slugs($1, $2::json)")

VARIANT_LISTING = Listing(
    table="variants",
    doc=_VARIANT,
    tombstone=TOMBSTONE,
    deletable=True,
    sorts={"id": "id", "created_at": "created_at", "updated_at": "updated_at"},
    where={
        "ids": "id = ANY({}::bigint[])",
        "product_id": "product_id = ANY({}::bigint[])",
        "sku": "sku = ANY({}::text[])",
        "barcode": "barcode = ANY({}::text[])",
        "gtin": "gtin = ANY({}::text[])",
        "external_id": "external_id = {}",
        "updated_since": "updated_at >= {}",
    },
)

GET_VARIANT = Query(
    Document,
    f"""SELECT textsend({_VARIANT}) AS doc, version FROM variants
         WHERE store_id = $1 AND product_id = $2 AND id = $3 AND deleted_at IS NULL""",
)
EXISTS = Query(int, "SELECT id FROM products WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL")
PRODUCTS_OF_EXTERNAL_IDS = Query(
    int,
    "SELECT product_id FROM variants WHERE store_id = $1 AND external_id = ANY($2::text[]) AND deleted_at IS NULL",
)
PRODUCT_OF_VARIANTS = Query(
    int, "SELECT product_id FROM variants WHERE store_id = $1 AND id = ANY($2::bigint[]) AND deleted_at IS NULL"
)
