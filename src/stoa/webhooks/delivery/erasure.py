"""Erasure of a person from deliveries: clears response bodies, which may quote the person, and keeps workers from sending what they
have read before."""

from stoa.customers.erasure import Person
from stoa.db.query import Command, Executor
from stoa.events.outbox import ERASED_CHANGES
from stoa.orders.erasure import ORDERS_OF

# The attempts themselves stay. Import events are included, because the report of an import may name the person.
_CLEARED = "list_cleared(attempts, '{response_body}', 'null')"
_ABOUT = """(resource_type = 'customer' AND resource_id = $2
          OR event_type = 'customer.import_finished'
          OR resource_type = 'order' AND resource_id = ANY($3::bigint[])
          OR resource_type = 'comment' AND resource_id IN (
             SELECT c.id FROM order_comments c WHERE c.store_id = $1 AND c.order_id = ANY($3::bigint[])))"""

# A router may have taken these events: it waits for the erasure, and then route_events refuses what it has read.
UNROUTED = Command(
    f"""UPDATE events SET changes = '{ERASED_CHANGES}'
         WHERE store_id = $1 AND routed_on = 'infinity' AND {_ABOUT.replace("event_type", "type")}"""
)
_WAITING = f"""store_id = $1 AND webhook_id IN (SELECT w.id FROM webhooks w WHERE w.store_id = $1) AND {_ABOUT}"""
# A worker may be sending a delivery that is due, and as a probe of an open breaker also a later one. The response may quote the
# person, and the worker still has the earlier responses: settle_deliveries recognizes the delivery by this time, and keeps none.
# A worker that has read the delivery and not sent it yet recognizes it, too, and reads it again.
IN_FLIGHT = Command(
    f"""UPDATE pending_deliveries SET due_at = '-infinity'
         WHERE {_WAITING}
           AND (due_at < now() + interval '1 minute'
                OR due_at < 'infinity' AND webhook_id IN (
                   SELECT l.webhook_id FROM lanes l WHERE l.store_id = $1 AND l.breaker = 'open'))"""
)
PENDING = Command(f"UPDATE pending_deliveries SET attempts = {_CLEARED} WHERE {_WAITING} AND attempts <> '[]'")
FINISHED = Command(f"UPDATE deliveries SET attempts = {_CLEARED} WHERE store_id = $1 AND {_ABOUT}")


async def erase_from_deliveries(db: Executor, person: Person) -> None:
    orders = await ORDERS_OF.all(db, person.store_id, person.customer_id, sorted(person.emails), sorted(person.phones))
    # In the direction in which deliveries move: one that is settled meanwhile is found where it arrives.
    for command in (UNROUTED, IN_FLIGHT, PENDING, FINISHED):
        await command.run(db, person.store_id, person.customer_id, orders)
