"""The statements for orders, their timelines and their duplicates."""

from datetime import datetime

import msgspec

from stoa.db.listing import Listing
from stoa.db.query import InputRow, Query

_TERMS = "terms @@ ({}::text)::tsquery"
_DOCUMENT = """'{"id":' || id || head || ',"line_items":' || lines || person || tail"""

_COMMENT = "comment_document(id, order_id, type, visibility, body, author, changes, created_at)"

LISTING = Listing(
    table="orders",
    doc=_DOCUMENT,
    counted_as="orders",
    sorts={"id": "id", "number": "number", "total": "total", "placed_at": "placed_at", "updated_at": "updated_at"},
    where={
        "ids": "id = ANY({}::bigint[])",
        "status": "status = ANY({}::text[])",
        "payment_status": "payment_status = ANY({}::text[])",
        "fulfillment_status": "fulfillment_status = ANY({}::text[])",
        "customer_id": "customer_id = ANY({}::bigint[])",
        "email": "email = {}",
        "phone": "phone = {}",
        "sku": "id IN (SELECT order_id FROM order_lines WHERE store_id = $1 AND sku = {})",
        "number": "number = {}",
        "external_id": "external_id = {}",
        "total": "total = {}",
        "total[gte]": "total >= {}",
        "total[gt]": "total > {}",
        "total[lte]": "total <= {}",
        "total[lt]": "total < {}",
        "placed_at": "placed_at = {}",
        "placed_at[gte]": "placed_at >= {}",
        "placed_at[gt]": "placed_at > {}",
        "placed_at[lte]": "placed_at <= {}",
        "placed_at[lt]": "placed_at < {}",
        "tag": _TERMS,
        "q": _TERMS,
        "metadata": _TERMS,
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


class Document(msgspec.Struct):
    doc: bytes
    version: int


GET = Query(
    Document,
    f"SELECT convert_to({_DOCUMENT}, 'UTF8') AS doc, version FROM orders WHERE store_id = $1 AND id = $2",
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


_STORED = """SELECT id, version, suspected_duplicates, head, lines, person, clock_timestamp() AS moment
               FROM orders WHERE store_id = $1 AND id = $2"""
# A copy prevents changes of the original, but no other copies.
READ = Query(StoredOrder, f"{_STORED} FOR SHARE")
# All transactions lock in the same order: orders by id, customers by id, products by id.
LOCK = Query(StoredOrder, f"{_STORED} FOR NO KEY UPDATE")
# Several orders are locked in the order of their ids.
LOCK_LIVE = Query(
    int,
    """SELECT o.id FROM unnest($2::bigint[]) AS t (id) JOIN orders o ON o.store_id = $1 AND o.id = t.id
        WHERE o.status <> 'cancelled' ORDER BY o.id FOR NO KEY UPDATE OF o""",
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


class RelatedQuery(InputRow):
    """A new order as the search for related orders takes it."""

    arguments = ("related_orders.in_orders",)

    index: int
    external_id: str | None
    customer_id: int | None
    email: str | None
    phone: str | None
    basket: str
    address: str | None
    since: datetime
    until: datetime


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


class OrderRow(InputRow):
    """A new row of `orders`."""

    arguments = ("place_orders.in_orders",)

    id: int
    number: int
    external_id: str | None
    status: str
    payment_status: str
    customer_id: int | None
    email: str | None
    phone: str | None
    total: int
    placed_at: datetime
    duplicate_of: int | None
    suspected_duplicates: int
    basket: str
    address: str | None
    head: str
    lines: str
    person: str
    terms: str


class PlacementRow(InputRow):
    """What placing an order adds to its customer and its timeline, and who placed it."""

    arguments = ("place_orders.in_placements",)

    order_id: int
    number: int
    customer_id: int | None
    customer_orders: int
    customer_spent: int
    placed_at: datetime
    entry: str
    author: str
    actor: str
    request_id: str


class NewLineRow(InputRow):
    """A line of a new order, and the units of it to reserve."""

    arguments = ("place_orders.in_lines",)

    order_id: int
    id: int
    product_id: int
    variant_id: int
    sku: str | None
    quantity: int
    reserved: int


class NewEventRow(InputRow):
    """An event of a new order; `n` counts the events of the call."""

    arguments = ("place_orders.in_events",)

    order_id: int
    n: int
    id: str
    type: str
    changes: str
    suspected_duplicates: int


class SuspectRow(InputRow):
    """A pair of orders that may be one purchase: the new order, and the one placed before it."""

    arguments = ("place_orders.in_suspects",)

    order_id: int
    other_id: int
    score: int
    reasons: str
    seconds_apart: int


class Shortage(msgspec.Struct):
    """The variants with too little stock, and their available units."""

    short: list[int] | None
    available: list[int] | None


PLACE = Query(
    Shortage, "SELECT short, available FROM place_orders($1, $2, $3::json, $4::json, $5::json, $6::json, $7::json)"
)


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
    head: str


OFFERS = Query(
    Offer,
    "SELECT id, product_id, sku, name, price, available, unlimited, head FROM offers($1, $2::bigint[], $3::text[])",
)


class ChangedOrderRow(InputRow):
    """The changed columns of an order, and the differences that it makes to its customer."""

    arguments = ("update_order.in_order",)

    id: int
    external_id: str | None
    status: str
    payment_status: str
    fulfillment_status: str
    customer_id: int | None
    customer_orders: int
    customer_spent: int
    last_order_at: datetime | None
    email: str | None
    phone: str | None
    total: int
    suspected_duplicates: int
    basket: str
    address: str | None
    head: str
    lines: str
    person: str
    terms: str


class LineRow(InputRow):
    """A line of a changed order."""

    arguments = ("update_order.in_lines",)

    id: int
    variant_id: int
    sku: str | None
    quantity: int
    fulfilled_quantity: int
    returned_quantity: int


class EntryRow(InputRow):
    """A timeline entry for a change."""

    arguments = ("update_order.in_entries",)

    type: str
    body: str | None
    changes: str


class EventRow(InputRow):
    """An event of a changed order; `n` is its position among them."""

    arguments = ("update_order.in_events",)

    n: int
    id: str
    type: str
    changes: str


UPDATE = Query(
    Document, "SELECT doc, version FROM update_order($1, $2, $3, $4, $5::json, $6::json, $7::json, $8::json, $9)"
)


class NewEntry(msgspec.Struct):
    id: int
    doc: bytes


ADD_COMMENT = Query(
    NewEntry,
    f"""INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, '{{}}', clock_timestamp())
        RETURNING id, convert_to({_COMMENT}, 'UTF8') AS doc""",
)
# An erasure of the order's customer waits until the comment is committed.
LOCK_SHARED = Query(int, "SELECT id FROM orders WHERE store_id = $1 AND id = $2 FOR SHARE")
