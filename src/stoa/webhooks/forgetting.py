"""Forgetting a person in the delivery log: what receivers answered about them is emptied."""

from stoa.customers.erasure import REACHES
from stoa.db.query import Command

# That it was sent, when and with which status stays; what the receiver said may quote the person.
_EMPTIED = """SELECT coalesce(jsonb_agg(a || '{"response_body":null}'), '[]')::text FROM jsonb_array_elements(attempts::jsonb) a"""
_ORDERS = "SELECT o.id FROM orders o WHERE o.store_id = $1 AND o.customer_id = $2"

ANSWERS_ABOUT_CUSTOMER = Command(
    f"""UPDATE deliveries SET attempts = ({_EMPTIED})
         WHERE store_id = $1 AND resource_type = 'customer' AND resource_id = $2"""
)
ANSWERS_ABOUT_ORDERS = Command(
    f"""UPDATE deliveries SET attempts = ({_EMPTIED})
         WHERE store_id = $1 AND resource_type = 'order' AND resource_id IN ({_ORDERS})"""
)
WAITING_ABOUT_CUSTOMER = Command(
    f"""UPDATE pending_deliveries SET attempts = ({_EMPTIED})
         WHERE store_id = $1 AND bucket = ($1 % 64)::smallint AND attempts <> '[]'
           AND webhook_id IN (SELECT w.id FROM webhooks w WHERE w.store_id = $1)
           AND (resource_type = 'customer' AND resource_id = $2
                OR resource_type = 'order' AND resource_id IN ({_ORDERS}))"""
)
# Before an order forgets whose it was.
REACHES[:0] = [ANSWERS_ABOUT_CUSTOMER, ANSWERS_ABOUT_ORDERS, WAITING_ABOUT_CUSTOMER]
