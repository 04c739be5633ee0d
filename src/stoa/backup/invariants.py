"""The invariants of the data, checked after a restore and in a drill."""

import msgspec

from stoa.access import audit, audit_heads
from stoa.db.query import Executor, Query
from stoa.secret_keys import Keys

_EVERY_STORE = "all stores of a restored database are checked"

TOTALS = Query(
    int,
    """SELECT count(*) FROM (
           SELECT store_id, resource, sum(delta) AS total FROM row_counts GROUP BY store_id, resource) c
         FULL JOIN (
           SELECT store_id, 'products' AS resource, count(*) AS found FROM products
            WHERE deleted_at IS NULL GROUP BY store_id
           UNION ALL
           SELECT store_id, 'customers', count(*) FROM customers WHERE deleted_at IS NULL GROUP BY store_id
           UNION ALL
           SELECT store_id, 'orders', count(*) FROM orders GROUP BY store_id) r USING (store_id, resource)
        WHERE coalesce(c.total, 0) <> coalesce(r.found, 0) AND resource IN ('products', 'customers', 'orders')""",
    unbound=_EVERY_STORE,
    over="shard",
)
STOCK = Query(
    int,
    """SELECT count(*) FROM variants v LEFT JOIN (
           SELECT store_id, variant_id, sum(delta_on_hand) AS on_hand, sum(delta_reserved) AS reserved
             FROM stock_movements GROUP BY store_id, variant_id) m ON m.store_id = v.store_id AND m.variant_id = v.id
        WHERE (v.on_hand, v.reserved) <> (coalesce(m.on_hand, 0), coalesce(m.reserved, 0))""",
    unbound=_EVERY_STORE,
    over="shard",
)
LEVELS = Query(
    int,
    """SELECT count(*) FROM variants v LEFT JOIN (
           SELECT store_id, variant_id, sum(on_hand) AS on_hand, sum(reserved) AS reserved
             FROM stock_levels GROUP BY store_id, variant_id) s ON s.store_id = v.store_id AND s.variant_id = v.id
        WHERE (v.other_on_hand, v.other_reserved) <> (coalesce(s.on_hand, 0), coalesce(s.reserved, 0))""",
    unbound=_EVERY_STORE,
    over="shard",
)
# The default location has no levels of its own: what holds for the variant and for all others holds for it.
LOCATIONS = Query(
    int,
    """SELECT count(*) FROM stock_levels s FULL JOIN (
           SELECT store_id, variant_id, location, sum(delta_on_hand) AS on_hand, sum(delta_reserved) AS reserved
             FROM stock_movements WHERE location <> 'default' GROUP BY store_id, variant_id, location) m
           USING (store_id, variant_id, location)
        WHERE (coalesce(s.on_hand, 0), coalesce(s.reserved, 0)) <> (coalesce(m.on_hand, 0), coalesce(m.reserved, 0))""",
    unbound=_EVERY_STORE,
    over="shard",
)
OVERSOLD = Query(
    int,
    """SELECT (SELECT count(*) FROM variants
                WHERE track_inventory AND NOT allow_backorder AND reserved - other_reserved > on_hand - other_on_hand)
            + (SELECT count(*) FROM stock_levels WHERE reserved > on_hand)""",
    unbound=_EVERY_STORE,
    over="shard",
)
RESERVED = Query(
    int,
    """SELECT count(*) FROM variants v LEFT JOIN (
           SELECT o.store_id, (line ->> 'variant_id')::bigint AS variant_id,
                  sum(greatest(0, a.allocated - (line ->> 'fulfilled_quantity')::bigint)) AS reserved
             FROM orders o
                  CROSS JOIN LATERAL json_array_elements(o.lines::json) AS line
                  CROSS JOIN LATERAL (
                      SELECT sum((each ->> 'quantity')::bigint) AS allocated
                        FROM json_array_elements(line -> 'allocations') AS each) a
            WHERE o.status IN ('pending', 'processing', 'on_hold')
            GROUP BY 1, 2) l ON l.store_id = v.store_id AND l.variant_id = v.id
        WHERE v.reserved <> coalesce(l.reserved, 0)""",
    unbound=_EVERY_STORE,
    over="shard",
)
LINES = Query(
    int,
    """SELECT count(*) FROM order_lines l
        WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.store_id = l.store_id AND o.id = l.order_id)""",
    unbound=_EVERY_STORE,
    over="shard",
)
SUMS = Query(
    int,
    """SELECT count(*) FROM (SELECT lines, ('{' || substr(head, 2) || '}')::json AS document FROM orders) o
        WHERE (document ->> 'subtotal')::numeric
              <> (SELECT coalesce(sum((line ->> 'total')::numeric), 0) FROM json_array_elements(o.lines::json) AS line)
           OR (document ->> 'total')::numeric <> (document ->> 'subtotal')::numeric - (document ->> 'discount_total')::numeric
              + (document ->> 'shipping_total')::numeric
              + CASE WHEN (document ->> 'prices_include_tax')::boolean THEN 0 ELSE (document ->> 'tax_total')::numeric END
           OR document ->> 'total' <> document #>> '{totals,total}'""",
    unbound=_EVERY_STORE,
    over="shard",
)
REFUNDS = Query(
    int,
    """SELECT count(*) FROM (SELECT ('{' || substr(head, 2) || '}')::json AS document FROM orders) o
        WHERE (document ->> 'amount_refunded')::numeric
              <> (SELECT coalesce(sum((refund ->> 'amount')::numeric), 0) FROM json_array_elements(document -> 'refunds') AS refund)
           OR (document ->> 'amount_refunded')::numeric > (document ->> 'amount_paid')::numeric
           -- An order that release 0.3.0 wrote may lack the records; they are derived when it is read.
           OR EXISTS (SELECT 1 FROM json_array_elements(document -> 'payments') AS record GROUP BY record ->> 'kind'
                       HAVING sum((record ->> 'amount')::numeric) > (document ->> CASE record ->> 'kind'
                              WHEN 'payment' THEN 'amount_paid' ELSE 'amount_refunded' END)::numeric)""",
    unbound=_EVERY_STORE,
    over="shard",
)
FULFILLMENTS = Query(
    int,
    """SELECT count(*) FROM order_lines l LEFT JOIN (
           SELECT o.store_id, o.id AS order_id, (part ->> 'line_item_id')::bigint AS id, sum((part ->> 'quantity')::bigint) AS shipped
             FROM orders o, json_array_elements(('{' || substr(o.head, 2) || '}')::json -> 'fulfillments') AS fulfillment,
                  json_array_elements(fulfillment -> 'line_items') AS part
            GROUP BY 1, 2, 3) f ON f.store_id = l.store_id AND f.order_id = l.order_id AND f.id = l.id
        WHERE l.fulfilled_quantity <> coalesce(f.shipped, 0)""",
    unbound=_EVERY_STORE,
    over="shard",
)
CHAINS = Query(int, "SELECT DISTINCT store_id FROM audit_entries ORDER BY 1", unbound=_EVERY_STORE, over="shard")

_COUNTED = {
    "totals equal the number of rows": TOTALS,
    "the stock ledger adds up to the stock levels": STOCK,
    "the stock of other locations adds up": LEVELS,
    "the stock ledger adds up to the levels of each location": LOCATIONS,
    "nothing is oversold at any location": OVERSOLD,
    "reserved stock equals the allocated units that are not shipped": RESERVED,
    "every line item belongs to an order": LINES,
    "the totals of orders add up": SUMS,
    "refunds add up and do not exceed payments": REFUNDS,
    "fulfillments add up to the shipped units": FULFILLMENTS,
}


class Found(msgspec.Struct, frozen=True):
    """One invariant and how often it is violated."""

    invariant: str
    broken: int


async def check(db: Executor, keys: Keys) -> list[Found]:
    """Check every invariant."""
    found = [Found(name, await query.one(db)) for name, query in _COUNTED.items()]
    chains = [await audit_heads.verify(db, keys, store_id) for store_id in [audit.SERVICE, *await CHAINS.all(db)]]
    return [*found, Found("the audit chains verify", sum(chain.first_bad is not None for chain in chains))]
