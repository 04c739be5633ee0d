"""What an erased customer leaves of their orders: sums, products and dates, and nobody's name."""

from stoa.customers.erasure import HOLDS, SEARCHES, Person
from stoa.db.query import Command, Executor, Query
from stoa.orders.documents import NO_CONTACT
from stoa.products.documents import json_of

NOBODY = (
    ","
    + json_of(
        {
            "contact": NO_CONTACT,
            "shipping_address": None,
            "billing_address": None,
            "tracking": [],
            "note": None,
            "metadata": {},
        }
    )[1:-1]
)

# The house's one order of locks: orders before their customer, those too that they placed as a guest.
HOLD = Query(
    int,
    """SELECT id FROM orders WHERE store_id = $1 AND id IN (
              SELECT id FROM orders WHERE store_id = $1 AND customer_id = $2
              UNION SELECT o.id FROM orders o JOIN customers c ON c.store_id = $1 AND c.id = $2 AND c.email_key = o.email
                     WHERE o.store_id = $1 AND o.customer_id IS NULL
              UNION SELECT o.id FROM orders o JOIN customers c ON c.store_id = $1 AND c.id = $2 AND c.phone = o.phone
                     WHERE o.store_id = $1 AND o.customer_id IS NULL)
        ORDER BY id FOR NO KEY UPDATE""",
)
# Their own orders, and those they placed as a guest.
ORDERS_OF = Query(
    int,
    """SELECT id FROM orders WHERE store_id = $1 AND customer_id = $2
        UNION SELECT id FROM orders WHERE store_id = $1 AND customer_id IS NULL AND email = ANY($3::text[])
        UNION SELECT id FROM orders WHERE store_id = $1 AND customer_id IS NULL AND phone = ANY($4::text[])
        ORDER BY id""",
)
FORGET = Command(
    """UPDATE orders
          SET email = NULL, phone = NULL, address = NULL, person = $3, lines = lines_without_notes(lines),
              head = head_without_reason(head),
              terms = coalesce((SELECT array_to_tsvector(array_agg(each)) FROM unnest(tsvector_to_array(terms)) AS each
                                 WHERE split_part(each, '/', 2) = 't'), ''),
              updated_at = greatest(updated_at, now()), version = version + 1
        WHERE store_id = $1 AND id = ANY($2::bigint[])"""
)
FORGET_COMMENTS = Command(
    """UPDATE order_comments
          SET body = CASE WHEN type = 'system' THEN body WHEN body IS NOT NULL THEN '[erased]' END,
              changes = CASE WHEN type = 'edit' OR changes LIKE '%"tracking"%' OR changes LIKE '%"cancel_reason"%' THEN '{}'
                             ELSE changes END
        WHERE store_id = $1 AND order_id = ANY($2::bigint[])"""
)
FORGET_EVENTS = Command(
    """UPDATE events e SET changes = '{}', data = order_document(o) FROM orders o
        WHERE e.store_id = $1 AND e.resource_type = 'order' AND e.resource_id = ANY($2::bigint[])
          AND o.store_id = $1 AND o.id = e.resource_id"""
)
FORGET_COMMENT_EVENTS = Command(
    """UPDATE events e SET data = comment_document(c) FROM order_comments c
        WHERE e.store_id = $1 AND e.resource_type = 'comment' AND e.resource_id = c.id
          AND c.store_id = $1 AND c.order_id = ANY($2::bigint[])"""
)
# A replay answers the same status, and only which order or entry it was. An order's answers are kept as concerning a
# person below zero, minus its id, because an order need not have a customer.
FORGET_ANSWERS = Command(
    """UPDATE idempotency_keys
          SET body = convert_to('{"data":{"id":' || coalesce(
                  substring(encode(substr(body, 1, 64), 'escape') FROM '^.{9}"id":([0-9]+)'), (-person_id)::text)
              || '},"meta":{}}', 'UTF8')
        WHERE store_id = $1 AND person_id = ANY(SELECT -unnest($2::bigint[])) AND length(body) > 0"""
)


# Apps that hear of orders and not of customers must forget too; what it was is not told again.
TELL = Command(
    """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
       SELECT $1, new_event_id(), 'order.updated', 'order', o.id, o.version, $3, '{}', order_document(o), $4
         FROM orders o WHERE o.store_id = $1 AND o.id = ANY($2::bigint[]) ORDER BY o.id"""
)
# A trial leaves no order: it is known by the contact in what was answered.
FORGET_TRIALS = Command(
    """UPDATE idempotency_keys SET body = convert_to('{"data":{"id":0},"meta":{}}', 'UTF8')
        WHERE store_id = $1 AND person_id = 0 AND CASE WHEN person_id = 0 THEN
              lower(convert_from(body, 'UTF8')::json #>> '{data,contact,email}') = ANY($2::text[])
              OR convert_from(body, 'UTF8')::json #>> '{data,contact,phone}' = ANY($3::text[]) END"""
)


async def forget_in_orders(db: Executor, person: Person) -> None:
    """Empty every place where orders name a person."""
    await FORGET_TRIALS.run(db, person.store_id, sorted(person.emails), sorted(person.phones))
    found = await ORDERS_OF.all(db, person.store_id, person.customer_id, sorted(person.emails), sorted(person.phones))
    if not found:
        return
    await FORGET.run(db, person.store_id, found, NOBODY)
    for command in (FORGET_COMMENTS, FORGET_EVENTS, FORGET_COMMENT_EVENTS, FORGET_ANSWERS):
        await command.run(db, person.store_id, found)
    await TELL.run(db, person.store_id, found, person.cause.actor, person.cause.request_id)


HOLDS.append(HOLD)
SEARCHES.append(forget_in_orders)
