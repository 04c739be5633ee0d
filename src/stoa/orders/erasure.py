"""Erases a customer's personal data from orders; amounts, products and dates stay."""

from stoa.customers.erasure import EMAILS, PHONES, Person
from stoa.db.query import Command, Executor, Query, json_of
from stoa.events.outbox import ERASED_CHANGES
from stoa.orders.state import NO_CONTACT

_DOCUMENT = """order_document(o.id, order_purchase(o.head, o.lines, o.edition), order_items(o.lines, o.edition),
                             order_person(o.person, o.edition), o.tail)"""

ERASED_PERSON = (
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

# Orders are locked before their customer, including those on which the customer is only the contact.
HOLD = Query(
    int,
    """SELECT id FROM orders WHERE store_id = $1 AND id IN (
              SELECT id FROM orders WHERE store_id = $1 AND customer_id = $2
              UNION SELECT o.id FROM orders o JOIN customers c ON c.store_id = $1 AND c.id = $2 AND c.email_key = o.email
                     WHERE o.store_id = $1
              UNION SELECT o.id FROM orders o JOIN customers c ON c.store_id = $1 AND c.id = $2 AND c.phone = o.phone
                     WHERE o.store_id = $1)
        ORDER BY id FOR NO KEY UPDATE""",
)
# All orders with data of the person: their own, those on which they are the contact, and those on which they once were the
# contact, as the timeline shows.
ORDERS_OF = Query(
    int,
    f"""SELECT id FROM orders WHERE store_id = $1 AND customer_id = $2
        UNION SELECT id FROM orders WHERE store_id = $1 AND email = ANY({EMAILS})
        UNION SELECT id FROM orders WHERE store_id = $1 AND phone = ANY({PHONES})
        UNION SELECT order_id FROM order_comments
               WHERE store_id = $1 AND type = 'edit' AND changes LIKE '%"contact":%'
                 AND (lower(changes::json #>> '{{contact,0,email}}') = ANY({EMAILS})
                      OR changes::json #>> '{{contact,0,phone}}' = ANY({PHONES}))
        ORDER BY id""",
)
# The orders among these that belong to no other person now; for the rest, only the history is erased.
THEIRS = Query(
    int,
    f"""SELECT o.id FROM unnest($5::bigint[]) AS t (id) JOIN orders o ON o.store_id = $1 AND o.id = t.id
        WHERE o.customer_id = $2 OR o.email = ANY({EMAILS}) OR o.phone = ANY({PHONES})
              OR o.customer_id IS NULL AND o.email IS NULL AND o.phone IS NULL
        ORDER BY o.id""",
)
# A later release may have added members about the person, which are gone now: edition 1 lets them be completed.
FORGET = Command(
    """WITH cleared AS MATERIALIZED (
           SELECT id, list_cleared(lines, '{metadata}', '{}') AS lines, head_without_words(head) AS head,
                  coalesce((SELECT array_to_tsvector(array_agg(each)) FROM unnest(tsvector_to_array(terms)) AS each
                             WHERE split_part(each, '/', 2) = 't' OR each = $1::bigint || '/w/' || number), '') AS terms
             FROM orders WHERE store_id = $1 AND id = ANY($2::bigint[]))
       UPDATE orders o
          SET email = NULL, phone = NULL, address = NULL, person = $3, lines = c.lines, head = c.head, edition = 1, terms = c.terms,
              updated_at = greatest(o.updated_at, now()), version = o.version + 1
         FROM cleared c WHERE o.store_id = $1 AND o.id = ANY($2::bigint[]) AND o.id = c.id"""
)
FORGET_COMMENTS = Command(
    """UPDATE order_comments
          SET body = CASE WHEN type = 'system' THEN body WHEN body IS NOT NULL THEN '[erased]' END,
              changes = CASE WHEN type = 'edit' OR changes LIKE '%"tracking"%' OR changes LIKE '%"cancel_reason"%' THEN '{}'
                             ELSE changes END
        WHERE store_id = $1 AND order_id = ANY($2::bigint[])"""
)
FORGET_EVENTS = Command(
    f"""UPDATE events e SET changes = '{ERASED_CHANGES}', data = {_DOCUMENT} FROM orders o
        WHERE e.store_id = $1 AND e.resource_type = 'order' AND e.resource_id = ANY($2::bigint[])
          AND o.store_id = $1 AND o.id = e.resource_id"""
)
FORGET_COMMENT_EVENTS = Command(
    """WITH entry AS MATERIALIZED (
           SELECT id, comment_document(id, order_id, type, visibility, body, author, changes, created_at) AS doc
             FROM order_comments WHERE store_id = $1 AND order_id = ANY($2::bigint[]))
       UPDATE events e SET data = c.doc FROM entry c
        WHERE e.store_id = $1 AND e.resource_type = 'comment' AND e.resource_id = c.id"""
)
# A replay returns the same status, and only the id of the order or comment.
FORGET_RESPONSES = Command(
    """UPDATE idempotency_keys
          SET body = convert_to('{"data":{"id":' || coalesce(
                  substring(encode(substr(body, 1, 64), 'escape') FROM '^.{9}"id":([0-9]+)'), subject_id::text)
              || '},"meta":{}}', 'UTF8')
        WHERE store_id = $1 AND subject_type = 'order' AND subject_id = ANY($2::bigint[]) AND length(body) > 0"""
)


# Apps that receive events of orders but not of customers must erase the data too; the event does not repeat it.
ANNOUNCE = Command(
    f"""INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
       SELECT $1, new_event_id(), 'order.updated', 'order', o.id, o.version, $3, '{{}}', {_DOCUMENT}, $4
         FROM unnest($2::bigint[]) AS t (id) JOIN orders o ON o.store_id = $1 AND o.id = t.id ORDER BY o.id"""
)
# A dry run leaves no order: its stored response is found by the contact in it.
FORGET_DRY_RUNS = Command(
    """WITH of_contacts AS MATERIALIZED (
           SELECT app_id, key, convert_from(body, 'UTF8')::json AS body FROM idempotency_keys
            WHERE store_id = $1 AND subject_type = 'contact')
       UPDATE idempotency_keys k SET body = convert_to('{"data":{"id":0},"meta":{}}', 'UTF8') FROM of_contacts c
        WHERE k.store_id = $1 AND k.app_id = c.app_id AND k.key = c.key
          AND (lower(c.body #>> '{data,contact,email}') = ANY($2::text[])
               OR c.body #>> '{data,contact,phone}' = ANY($3::text[]))"""
)


async def erase_in_orders(db: Executor, person: Person) -> None:
    """Empty every field of orders, timelines, events and stored responses that holds data of the person."""
    names = (person.store_id, person.customer_id, sorted(person.emails), sorted(person.phones))
    await FORGET_DRY_RUNS.run(db, person.store_id, *names[2:])
    found = await ORDERS_OF.all(db, *names)
    if not found:
        return
    theirs = await THEIRS.all(db, *names, found)
    await FORGET.run(db, person.store_id, theirs, ERASED_PERSON)
    for command in (FORGET_COMMENTS, FORGET_EVENTS, FORGET_COMMENT_EVENTS, FORGET_RESPONSES):
        await command.run(db, person.store_id, found)
    await ANNOUNCE.run(db, person.store_id, theirs, person.cause.actor_json, person.cause.request_id)
