"""The statements for orders, their timelines and their duplicates."""

from datetime import datetime

import msgspec

from stoa.db.documents import Document
from stoa.db.listing import Listing, comparisons
from stoa.db.query import Query
from stoa.orders.allocation import Level

_TERMS = "terms @@ ({}::text)::tsquery"
_COMPARED = "comparable_terms(terms) @@ ({}::text)::tsquery"
# Each || copies both of its sides. In this order, the copies take two thirds of the memory, so that PostgreSQL allocates less for
# each row.
_DOCUMENT = """('{"id":' || id || order_purchase(head, lines, edition)) || ((',"line_items":' || order_items(lines, edition))
    || (order_person(person, edition) || tail))"""

_HOLDING = "('pending', 'processing', 'on_hold')"
# The default location holds the units that no other location holds, of nearly all orders: it is looked up for each order, and
# the others by their index.
_AT_LOCATION = "id IN (SELECT order_id FROM order_allocations WHERE store_id = $1 AND location = ANY({}::text[]))"
_AT_DEFAULT = f"""(id IN (SELECT order_id FROM order_allocations WHERE store_id = $1 AND location = ANY({{}}::text[])) OR EXISTS (
    SELECT 1 FROM order_lines l
     WHERE l.store_id = $1 AND l.order_id = orders.id AND l.variant_id IS NOT NULL
       AND CASE WHEN orders.status IN {_HOLDING} THEN l.quantity ELSE l.fulfilled_quantity END > coalesce((
               SELECT sum(a.reserved + a.shipped) FROM order_allocations a
                WHERE a.store_id = $1 AND a.order_id = l.order_id AND a.line_id = l.id), 0)))"""
# Open orders of which no variant has more units to ship that are reserved elsewhere than are available at the location.
_FULFILLABLE_AT = f"""status IN {_HOLDING} AND fulfillment_status IN ('unfulfilled', 'partially_fulfilled')
    AND EXISTS (SELECT 1 FROM locations WHERE store_id = $1 AND code = {{}} AND active)
    AND NOT EXISTS (
        SELECT 1
          FROM (SELECT l.variant_id, sum(CASE WHEN {{}} = 'default' THEN a.elsewhere
                                              ELSE l.quantity - l.fulfilled_quantity - a.here END) AS units
                  FROM order_lines l
                       CROSS JOIN LATERAL (
                           SELECT coalesce(sum(r.reserved), 0) AS elsewhere,
                                  coalesce(sum(r.reserved) FILTER (WHERE r.location = {{}}), 0) AS here
                             FROM order_allocations r
                            WHERE r.store_id = $1 AND r.order_id = l.order_id AND r.line_id = l.id) a
                 WHERE l.store_id = $1 AND l.order_id = orders.id AND l.quantity > l.fulfilled_quantity
                 GROUP BY l.variant_id) n
               JOIN variants v ON v.store_id = $1 AND v.id = n.variant_id AND v.track_inventory
               LEFT JOIN stock_levels s ON s.store_id = $1 AND s.variant_id = n.variant_id AND s.location = {{}}
         WHERE n.units > 0
           AND CASE WHEN {{}} = 'default'
                    THEN NOT v.allow_backorder AND n.units > v.on_hand - v.other_on_hand - (v.reserved - v.other_reserved)
                    ELSE n.units > coalesce(s.on_hand - s.reserved, 0) END)"""
_COMMENT = "comment_document(id, order_id, type, visibility, body, author, changes, created_at)"

LISTING = Listing(
    table="orders",
    doc=_DOCUMENT,
    counted_as="orders",
    sorts={
        "id": "id",
        "number": "number",
        "total": "total",
        "placed_at": "placed_at",
        "created_at": "created_at",
        "updated_at": "updated_at",
    },
    where={
        "ids": "id = ANY({}::bigint[])",
        "status": "status = ANY({}::text[])",
        "payment_status": "payment_status = ANY({}::text[])",
        "fulfillment_status": "fulfillment_status = ANY({}::text[])",
        "customer_id": "customer_id = ANY({}::bigint[])",
        "email": "email = {}",
        "phone": "phone = {}",
        "sku": "id IN (SELECT order_id FROM order_lines WHERE store_id = $1 AND sku = ANY({}::text[]))",
        "number": "number = {}",
        "external_id": "external_id = {}",
        **comparisons("total"),
        **comparisons("placed_at"),
        **comparisons("created_at"),
        **comparisons("shipped_at"),
        **comparisons("expires_at"),
        "location": _AT_LOCATION,
        "default_location": _AT_DEFAULT,
        "fulfillable_at": _FULFILLABLE_AT,
        **comparisons("paid_at"),
        **comparisons("refunded_at"),
        "tag": _TERMS,
        "q": _TERMS,
        "metadata": _TERMS,
        "metadata compared": _COMPARED,
        "metadata listed": f"({_TERMS} OR {_COMPARED})",
        "has_suspected_duplicates": "(suspected_duplicates > 0) = {}",
        "updated_since": "updated_at >= {}",
    },
)

COMMENTS = Listing(
    table="order_comments",
    doc=_COMMENT,
    sorts={"id": "id"},
    where={
        "order_id": "order_id = {}",
        "type": "type = ANY({}::text[])",
        "visibility": "visibility = ANY({}::text[])",
        "updated_since": "created_at >= {}",
    },
)

_PAIRS = """(
    SELECT d.store_id, d.order_id, o.id, 'suspected' AS kind, d.score, d.reasons, d.seconds_apart, o.number, o.status, o.head,
           o.updated_at
      FROM order_duplicates d JOIN orders o ON o.store_id = $1 AND o.id = d.other_id WHERE d.store_id = $1
    UNION ALL
    SELECT d.store_id, d.other_id, o.id, 'suspected', d.score, d.reasons, d.seconds_apart, o.number, o.status, o.head,
           o.updated_at
      FROM order_duplicates d JOIN orders o ON o.store_id = $1 AND o.id = d.order_id WHERE d.store_id = $1
    UNION ALL
    SELECT o.store_id, o.duplicate_of, o.id, 'copy', 100, '[]', abs(extract(epoch FROM o.placed_at - s.placed_at))::bigint,
           o.number, o.status, o.head, o.updated_at
      FROM orders o JOIN orders s ON s.store_id = $1 AND s.id = o.duplicate_of WHERE o.store_id = $1) pairs"""
DUPLICATES = Listing(
    table=_PAIRS,
    doc="""'{"order_id":' || id || ',"number":' || number || ',"kind":"' || kind || '","score":' || score / 100.0::float8
           || ',"reasons":' || reasons || ',"seconds_apart":' || seconds_apart || ',"status":"' || status
           || '","total":"' || (('{' || substr(head, 2) || '}')::json ->> 'total') || '"}'""",
    sorts={"id": "id"},
    where={"order_id": "order_id = {}", "kind": "kind = ANY({}::text[])", "updated_since": "updated_at >= {}"},
)


GET = Query(
    Document,
    f"SELECT textsend({_DOCUMENT}) AS doc, version FROM orders WHERE store_id = $1 AND id = $2",
)
EXISTS = Query(int, "SELECT id FROM orders WHERE store_id = $1 AND id = $2")


class StoredOrder(msgspec.Struct):
    id: int
    version: int
    suspected_duplicates: int
    head: str
    lines: str
    person: str
    moment: datetime


_STORED = """SELECT id, version, suspected_duplicates, order_purchase(head, lines, edition) AS head,
                    order_items(lines, edition) AS lines, order_person(person, edition) AS person, clock_timestamp() AS moment
               FROM orders WHERE store_id = $1 AND id"""
# A copy prevents changes of the original, but no other copies.
READ = Query(StoredOrder, f"{_STORED} = $2 FOR SHARE")
# All transactions lock in the same order: orders by id, customers by id, products by id.
LOCK = Query(StoredOrder, f"{_STORED} = $2 FOR NO KEY UPDATE")
LOCK_ALL = Query(StoredOrder, f"{_STORED} = ANY ($2::bigint[]) ORDER BY id FOR NO KEY UPDATE")
LOCK_CUSTOMERS = Query(
    int,
    "SELECT id FROM customers WHERE store_id = $1 AND id = ANY ($2::bigint[]) ORDER BY id FOR NO KEY UPDATE",
)
# Several orders are locked in the order of their ids.
LOCK_LIVE = Query(
    int,
    """SELECT o.id FROM unnest($2::bigint[]) AS t (id) JOIN orders o ON o.store_id = $1 AND o.id = t.id
        WHERE o.status <> 'cancelled' ORDER BY o.id FOR NO KEY UPDATE OF o""",
)
# The orders without suspected duplicates whose holds have ended, except those that another transaction has locked.
LOCK_DUE = Query(
    StoredOrder,
    f"""{_STORED} = ANY ($2::bigint[]) AND expires_at <= now() AND suspected_duplicates = 0
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED""",
)
SUSPECTED = Query(
    int,
    """SELECT other_id AS id FROM order_duplicates WHERE store_id = $1 AND order_id = $2
        UNION SELECT order_id FROM order_duplicates WHERE store_id = $1 AND other_id = $2""",
)
BY_EXTERNAL_ID = Query(int, "SELECT id FROM orders WHERE store_id = $1 AND external_id = $2")


class Taken(msgspec.Struct):
    last: int
    order_ids: list[int]
    line_ids: list[int]
    moment: datetime


TAKE_NUMBERS = Query(Taken, "SELECT last, order_ids, line_ids, moment FROM take_order_numbers($1, $2, $3)")


class NewIds(msgspec.Struct):
    order_ids: list[int]
    line_ids: list[int]


NEW_ORDER_IDS = Query(
    NewIds,
    """SELECT ARRAY(SELECT nextval('order_ids') FROM generate_series(1, $1::integer)) AS order_ids,
              ARRAY(SELECT nextval('order_line_ids') FROM generate_series(1, $2::integer)) AS line_ids""",
    unbound="all stores share the sequences",
)


class Numbered(msgspec.Struct):
    last: int
    moment: datetime


# The next orders get numbers above those of the historical ones, and above those that these need.
RAISE_NUMBERS = Query(
    Numbered,
    """WITH raised AS (
           INSERT INTO order_numbers AS n (store_id, last) VALUES ($1, greatest(1000, $2::bigint) + $3::integer)
               ON CONFLICT ON CONSTRAINT order_numbers_pkey
               DO UPDATE SET last = greatest(n.last, $2::bigint) + $3::integer
           RETURNING n.last)
       SELECT last, clock_timestamp() AS moment FROM raised""",
)


class TakenKey(msgspec.Struct):
    id: int
    number: int
    external_id: str | None


TAKEN_KEYS = Query(
    TakenKey,
    """SELECT id, number, external_id FROM orders WHERE store_id = $1 AND number = ANY ($2::bigint[])
        UNION SELECT id, number, external_id FROM orders WHERE store_id = $1 AND external_id = ANY ($3::text[])""",
)


class RelatedOrder(msgspec.Struct):
    """A stored order with the external id of a new one, or by the same contact with the same basket or address."""

    index: int  # of the new order
    same_external_id: bool
    id: int
    number: int
    customer_id: int | None
    email: str | None
    phone: str | None
    basket: bytes
    address: bytes | None
    total: int
    placed_at: datetime


RELATED = Query(
    RelatedOrder,
    """SELECT index, same_external_id, id, number, customer_id, email, phone, basket, address, total, placed_at
         FROM related_orders($1, $2::json)""",
)


class Shortage(msgspec.Struct):
    """The variants with too little stock, and their available units."""

    short: list[int] | None
    available: list[int] | None


PLACE = Query(
    Shortage,
    "SELECT short, available FROM place_orders($1, $2, $3::json, $4::json, $5::json, $6::json, $7::json, $8::json)",
)
LOCK_LEVELS = Query(
    Level,
    """SELECT variant_id, location, available, unlimited
         FROM lock_levels($1, $2::bigint[], $3::bigint[], $4::bigint[])""",
)
ACTIVE_LOCATIONS = Query(str, "SELECT code FROM locations WHERE store_id = $1 AND active")


class LineIds(msgspec.Struct):
    line_ids: list[int]


NEW_LINE_IDS = Query(
    LineIds,
    "SELECT ARRAY(SELECT nextval('order_line_ids') FROM generate_series(1, $1::integer)) AS line_ids",
    unbound="all stores share one sequence",
)


class Offer(msgspec.Struct):
    """A variant that can be ordered, with its current price and stock."""

    id: int
    product_id: int
    sku: str | None
    name: str
    price: int
    available: int
    unlimited: bool  # backorders are allowed, or stock is not tracked
    elsewhere: bool  # some of the stock is at another location than the default
    head: str
    product_head: bytes  # long, and most of it is skipped: text would be decoded here and encoded again


OFFERS = Query(
    Offer,
    """SELECT id, product_id, sku, name, price, available, unlimited, elsewhere, head,
              textsend(product_head) AS product_head
         FROM order_offers($1, $2::bigint[], $3::text[])""",
)


UNTRACKED = Query(
    int,
    """SELECT id FROM variants
        WHERE store_id = $1 AND id = ANY ($2::bigint[]) AND NOT track_inventory AND deleted_at IS NULL""",
)


# One order has a statement of its own: PostgreSQL plans a statement over arrays for each call.
UPDATE = Query(
    Document,
    """SELECT doc, version
         FROM update_order($1, $2, $3, $4, $5::json, $6::json, $7::json, $8::json, $9::text::bigint[])""",
)
# One order after the other, each with its own actor, author and request.
UPDATE_ALL = Query(
    Document,
    """SELECT doc, version
         FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
                  WITH ORDINALITY AS t (actor, author, request_id, changed, lines, entries, events, no_longer_suspected, n)
              CROSS JOIN LATERAL update_order(
                  $1, t.actor, t.author, t.request_id, t.changed::json, t.lines::json, t.entries::json, t.events::json,
                  t.no_longer_suspected::bigint[])
        ORDER BY n""",
)


class NewEntry(msgspec.Struct):
    id: int
    doc: bytes


ADD_COMMENT = Query(
    NewEntry,
    f"""WITH added AS (
            INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, '{{}}', clock_timestamp())
            RETURNING id, order_id, type, visibility, body, author, changes, created_at)
        SELECT id, textsend({_COMMENT}) AS doc FROM added""",
)
# An erasure of the order's customer waits until the comment is committed.
LOCK_SHARED = Query(int, "SELECT id FROM orders WHERE store_id = $1 AND id = $2 FOR SHARE")
