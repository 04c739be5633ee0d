"""The statements for customers."""

from datetime import datetime

import msgspec

from stoa.db.documents import TOMBSTONE, Document
from stoa.db.listing import Listing, comparisons
from stoa.db.query import Query

_TERMS = "terms @@ ({}::text)::tsquery"
_COMPARED = "comparable_terms(terms) @@ ({}::text)::tsquery"

LISTING = Listing(
    table="customers",
    # Removing the start of the caller's section makes its metadata visible; the handler removes the other sections.
    doc="""'{"id":' || id || customer_head(head, edition) || replace(shown, {caller}, '') || tail""",
    tombstone=TOMBSTONE,
    counted_as="customers",
    deletable=True,
    sorts={
        "id": "id",
        "last_name": "coalesce(last_name, '')",
        "orders_count": "orders_count",
        "total_spent": "total_spent",
        "last_order_at": "coalesce(last_order_at, '1970-01-01 00:00:00+00'::timestamptz)",
        "created_at": "created_at",
        "updated_at": "updated_at",
    },
    where={
        "ids": "id = ANY({}::bigint[])",
        "email": "email_key = {}",
        "phone": "phone = {}",
        "external_id": "external_id = {}",
        "name": _TERMS,
        "tag": _TERMS,
        "q": _TERMS,
        "metadata": _TERMS,
        "metadata compared": _COMPARED,
        "metadata listed": f"({_TERMS} OR {_COMPARED})",
        "status": "status = ANY({}::text[])",
        "email_consent": "email_consent = ANY({}::text[])",
        "sms_consent": "sms_consent = ANY({}::text[])",
        # With the state that is not stored; without it, the index of the column applies.
        "email_consent or none": "coalesce(email_consent, 'not_subscribed') = ANY({}::text[])",
        "sms_consent or none": "coalesce(sms_consent, 'not_subscribed') = ANY({}::text[])",
        **comparisons("orders_count"),
        **comparisons("total_spent"),
        **comparisons("created_at"),
        "updated_since": "updated_at >= {}",
    },
)


GET = Query(
    Document,
    """SELECT textsend('{"id":' || id || customer_head(head, edition) || shown || tail) AS doc, version
         FROM customers WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL""",
)


class StoredCustomer(msgspec.Struct):
    id: int
    version: int
    head: str
    shown: str


# All customers with one of these keys, in the order of their ids.
READ = Query(
    StoredCustomer,
    """SELECT id, version, customer_head(head, edition) AS head, shown FROM customers
        WHERE store_id = $1 AND deleted_at IS NULL AND id IN (
              SELECT unnest($2::bigint[])
              UNION SELECT id FROM customers WHERE store_id = $1 AND email_key = ANY($3::text[]) AND deleted_at IS NULL
              UNION SELECT id FROM customers WHERE store_id = $1 AND phone = ANY($4::text[]) AND deleted_at IS NULL
              UNION SELECT id FROM customers WHERE store_id = $1 AND external_id = ANY($5::text[]) AND deleted_at IS NULL)
        ORDER BY id""",
)
LOCK = Query(StoredCustomer, f"{READ.sql} FOR NO KEY UPDATE")


class Drawn(msgspec.Struct):
    customer_ids: list[int]
    address_ids: list[int]
    moment: str


DRAW = Query(
    Drawn,
    """SELECT ARRAY(SELECT nextval('customer_ids') FROM generate_series(1, $1::integer)) AS customer_ids,
              ARRAY(SELECT nextval('customer_address_ids') FROM generate_series(1, $2::integer)) AS address_ids,
              rfc3339(clock_timestamp()) AS moment""",
    unbound="a sequence belongs to no store",
)


class Saved(msgspec.Struct):
    customer_ids: list[int]  # null: not created


SAVE = Query(Saved, "SELECT customer_ids FROM save_customers($1, $2, $3, $4, $5, $6::json, $7::json, $8::json)")


class StoredEntry(msgspec.Struct):
    key: str
    value: str
    updated_at: datetime
    updated_by: int | None


ENTRIES = Query(
    StoredEntry,
    """SELECT key, value, updated_at, updated_by FROM customer_metadata
        WHERE store_id = $1 AND customer_id = $2 AND (app_id IS NULL OR app_id = $3) ORDER BY key""",
)


class FoundCustomer(msgspec.Struct):
    """A customer as orders need it."""

    id: int
    email: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None


# Without a lock: saving an order locks its customer first and detects an erasure.
CONTACTS = Query(
    FoundCustomer,
    """SELECT id, email, phone, first_name, last_name FROM customers
        WHERE store_id = $1 AND id = ANY($2::bigint[]) AND deleted_at IS NULL""",
)
CONTACT = Query(
    FoundCustomer,
    """SELECT id, email, phone, first_name, last_name FROM customers
        WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL""",
)
# Locked against erasure, for writes about the customer other than orders.
LOCK_CONTACT = Query(FoundCustomer, f"{CONTACT.sql} FOR KEY SHARE")


class IndexedCustomer(msgspec.Struct):
    index: int
    id: int
    email: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None


# Several at once, by email address, else by phone number. `index` is the position in the request, from 1.
# OFFSET keeps the planner from repeating the lookups for each customer of the store.
FIND = Query(
    IndexedCustomer,
    """SELECT t.index::integer, c.id, c.email, c.phone, c.first_name, c.last_name
         FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS t (email_key, phone, index)
              CROSS JOIN LATERAL (SELECT coalesce(
                  (SELECT e.id FROM customers e WHERE e.store_id = $1 AND e.email_key = t.email_key AND e.deleted_at IS NULL),
                  (SELECT p.id FROM customers p WHERE p.store_id = $1 AND p.phone = t.phone AND p.deleted_at IS NULL)) AS id
                  OFFSET 0) k
              JOIN customers c ON c.store_id = $1 AND c.deleted_at IS NULL AND c.id = k.id""",
)
CURRENCY = Query(str, "SELECT currency FROM stores WHERE id = $1")
