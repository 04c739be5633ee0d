"""Fills the large store with customers and orders: a few created through the service, and copies made by SQL."""

from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from benchmarks.catalog import Loaded
from benchmarks.drive import CannotMeasure
from stoa.access.contract import NewSecret
from stoa.app import Application
from stoa.db.connection import Connection
from stoa.rest.dispatch import PREFIX
from stoa.settings import Settings

CUSTOMERS, ORDERS, MILLION = 10_000, 10_000, 1_000_000
_TEMPLATES, _LINES = 20, 3
ADDRESS = {
    "first_name": "Ada",
    "last_name": "Okafor",
    "address1": "12 Mill Lane",
    "city": "Leeds",
    "postal_code": "LS1 4AP",
    "country_code": "GB",
}
_CUSTOMER_COLUMNS = "store_id, id, email, email_key, first_name, last_name, status, digits, created_at, updated_at, head, shown, edition, terms"
_ORDER_COLUMNS = (
    "store_id, id, number, status, payment_status, fulfillment_status, customer_id, email, total, placed_at, basket, "
    "address, created_at, updated_at, head, lines, person, edition, terms"
)

# The copies get few terms: no measured row reads them, and indexing them would take most of the time.
_MORE_CUSTOMERS = f"""
INSERT INTO customers ({_CUSTOMER_COLUMNS})
SELECT $1, $2::bigint + n, mail.new, mail.new, t.first_name, t.last_name, t.status, t.digits,
       t.created_at + n * interval '1 second', t.created_at + n * interval '2 seconds',
       replace(replace(t.head, '"' || t.email || '"', '"' || mail.new || '"'),
               '"customer_id":' || t.id || ',', '"customer_id":' || $2::bigint + n || ','),
       t.shown, t.edition, array_to_tsvector(ARRAY[$1::bigint || '/w/copy'])
  FROM generate_series(0, $3::bigint - 1) n
       JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM customers WHERE store_id = $1) t
         ON t.place = n % $4::bigint
       CROSS JOIN LATERAL (SELECT 'buyer-' || n || '@example.com') AS mail (new)
 ORDER BY n"""
_MORE_ORDERS = f"""
INSERT INTO orders ({_ORDER_COLUMNS})
SELECT $1, $2::bigint + n, $3::bigint + n, t.status, t.payment_status, t.fulfillment_status, c.id, c.email_key, t.total,
       t.placed_at - n * interval '30 seconds', t.basket, t.address, t.created_at - n * interval '30 seconds',
       t.created_at - n * interval '30 seconds',
       replace(replace(t.head, '"number":' || t.number || ',', '"number":' || $3::bigint + n || ','),
               '"customer_id":' || t.customer_id || ',', '"customer_id":' || c.id || ','),
       t.lines, replace(t.person, '"' || t.email || '"', '"' || c.email || '"'), t.edition,
       array_to_tsvector(ARRAY[$1::bigint || '/w/copy'])
  FROM generate_series(0, $4::bigint - 1) n
       JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM orders WHERE store_id = $1) t
         ON t.place = n % $5::bigint
       JOIN customers c ON c.store_id = $1 AND c.id = $6::bigint + n % $7::bigint
 ORDER BY n"""
_MORE_LINES = """
INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
SELECT $1, o.id, (l ->> 'id')::bigint, (l ->> 'variant_id')::bigint, l ->> 'sku', (l ->> 'quantity')::integer, 0, 0
  FROM orders o, json_array_elements(o.lines::json) l WHERE o.store_id = $1 AND o.id >= $2"""


class Trade(msgspec.Struct, frozen=True):
    """The numbers of customers and orders in the store, and the ids of the copies. The orders have the customers in turn."""

    customers: int
    orders: int
    first_order: int
    last_order: int
    first_customer: int


async def load(db: Connection, settings: Settings, store: Loaded, app: NewSecret, *, million: bool = False) -> Trade:
    """Create the templates through the service, then copy them."""
    rows = await db.fetch(
        """SELECT sku FROM variants WHERE store_id = $1 AND on_hand > 5 AND sku LIKE '%-1' AND deleted_at IS NULL
            ORDER BY id LIMIT $2""",
        store.store_id,
        _TEMPLATES * _LINES,
    )
    await _make_templates(settings, store, app, [row[0] for row in rows])
    orders = MILLION if million else ORDERS
    first_customer = await _reserve_ids(db, "customer_ids", CUSTOMERS)
    await db.execute(_MORE_CUSTOMERS, store.store_id, first_customer, CUSTOMERS, _TEMPLATES)
    first_order = await _reserve_ids(db, "order_ids", orders)
    taken = "UPDATE order_numbers SET last = last + $2 WHERE store_id = $1 RETURNING last - $2 + 1"
    first_number = (await db.fetch(taken, store.store_id, orders))[0][0]
    templates = (_TEMPLATES, first_customer, CUSTOMERS)
    await db.execute(_MORE_ORDERS, store.store_id, first_order, first_number, orders, *templates)
    if not million:
        await db.execute(_MORE_LINES, store.store_id, first_order)
    for resource, count in (("customers", CUSTOMERS), ("orders", orders)):
        counted = "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, $2, $3)"
        await db.execute(counted, store.store_id, resource, count)
    return Trade(CUSTOMERS + _TEMPLATES, orders + _TEMPLATES, first_order, first_order + orders - 1, first_customer)


async def _reserve_ids(db: Connection, sequence: str, count: int) -> int:
    """Reserve this many ids; returns the first."""
    return (await db.fetch(f"SELECT setval('{sequence}', nextval('{sequence}') + $1) - $1", count))[0][0]


async def _make_templates(settings: Settings, store: Loaded, app: NewSecret, skus: Sequence[str]) -> None:
    application = Application(settings)
    base = f"http://localhost/stores/{store.handle}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url=base) as client:
        secret = (app.client_id, app.client_secret)
        form = {"grant_type": "client_credentials"}
        token = (await client.post("/oauth/token", data=form, auth=secret)).json()["access_token"]
        client.headers["authorization"] = f"Bearer {token}"
        for n in range(_TEMPLATES):
            customer = await _post(client, "/customers", _customer(n))
            lines = [{"sku": sku, "quantity": 1 + n % 2} for sku in skus[n * _LINES : (n + 1) * _LINES]]
            await _post(client, "/orders", {**_order(n), "customer_id": customer, "line_items": lines})
    await application.notifier.close()
    await application.database.close()


def _customer(number: int) -> dict[str, Any]:
    return {
        "email": f"template-{number}@example.com",
        "first_name": "Ada",
        "last_name": f"Okafor {number}",
        "company": "Okafor & Daughters",
        "locale": "en-GB",
        "accepts_marketing": number % 2 == 0,
        "tags": ["newsletter", "regular"],
        "note": "Rings twice; leave parcels with the neighbour.",
        "addresses": [{**ADDRESS, "label": "Home"}],
        "metadata": {"tier": "gold", "shared.since": "2019"},
    }


def _order(number: int) -> dict[str, Any]:
    return {
        "payment_status": "paid" if number % 2 else "unpaid",
        "shipping_total": "4.90",
        "shipping_address": ADDRESS,
        "shipping_method": "standard",
        "payment_method": "card",
        "tags": ["web"],
        "note": "Please wrap it.",
        "metadata": {"channel": "web"},
    }


async def _post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> int:
    answer = await client.post(PREFIX + path, json=body)
    if answer.status_code != 201:
        raise CannotMeasure(f"{path}: {answer.status_code} {answer.text[:500]}")
    return answer.json()["data"]["id"]
