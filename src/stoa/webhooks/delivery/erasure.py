"""Erasure of a person from the delivery log: clears response bodies, which may quote the person."""

from stoa.customers.erasure import Person
from stoa.db.query import Command, Executor
from stoa.orders.erasure import ORDERS_OF

# The attempts themselves stay. Import events are included, because the report of an import may name the person.
_CLEARED = """SELECT coalesce(jsonb_agg(a || '{"response_body":null}'), '[]')::text FROM jsonb_array_elements(attempts::jsonb) a"""
_ABOUT = """(resource_type = 'customer' AND resource_id = $2
          OR event_type = 'customer.import_finished'
          OR resource_type = 'order' AND resource_id = ANY($3::bigint[])
          OR resource_type = 'comment' AND resource_id IN (
             SELECT c.id FROM order_comments c WHERE c.store_id = $1 AND c.order_id = ANY($3::bigint[])))"""

FINISHED = Command(f"UPDATE deliveries SET attempts = ({_CLEARED}) WHERE store_id = $1 AND {_ABOUT}")
PENDING = Command(
    f"""UPDATE pending_deliveries SET attempts = ({_CLEARED})
         WHERE store_id = $1 AND attempts <> '[]'
           AND webhook_id IN (SELECT w.id FROM webhooks w WHERE w.store_id = $1) AND {_ABOUT}"""
)


async def erase_from_deliveries(db: Executor, person: Person) -> None:
    orders = await ORDERS_OF.all(db, person.store_id, person.customer_id, sorted(person.emails), sorted(person.phones))
    for command in (FINISHED, PENDING):
        await command.run(db, person.store_id, person.customer_id, orders)
