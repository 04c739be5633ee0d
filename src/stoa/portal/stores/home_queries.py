"""The statements of a store's home page. Each reads a bounded number of rows through an index, however large the store is."""

import msgspec

from stoa.db.query import Query

MOST_COUNTED, MOST_SUMMED, MOST_PRODUCTS, RECENT_ORDERS = 1000, 500, 50, 1000


class Waiting(msgspec.Struct):
    """What waits for somebody; each number stops at MOST_COUNTED."""

    to_ship: int
    on_hold: int
    expiring: int
    duplicates: int
    failed_imports: int


WAITING_ON_STORE = Query(
    Waiting,
    f"""SELECT (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND status IN ('pending', 'processing')
                                       LIMIT {MOST_COUNTED}) o) AS to_ship,
               (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND status = 'on_hold'
                                       LIMIT {MOST_COUNTED}) o) AS on_hold,
               (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND expires_at < $2
                                       LIMIT {MOST_COUNTED}) o) AS expiring,
               (SELECT count(*) FROM (SELECT 1 FROM orders WHERE store_id = $1 AND (suspected_duplicates > 0) = true
                                       LIMIT {MOST_COUNTED}) o) AS duplicates,
               (SELECT count(*) FROM (SELECT 1 FROM imports
                                       WHERE store_id = $1 AND status IN ('failed', 'partially_succeeded')
                                             AND options::json ->> 'dry_run' <> 'true'
                                             AND finished_at > now() - interval '7 days'
                                       LIMIT {MOST_COUNTED}) i) AS failed_imports""",
)


class MoneyDue(msgspec.Struct):
    """The open orders with money due, of the newest MOST_SUMMED in each payment status."""

    orders: int
    amount: str


_NEWEST = f"""(SELECT status, order_purchase(head, lines, edition) AS head FROM orders
                WHERE store_id = $1 AND payment_status = '{{}}' ORDER BY id DESC LIMIT {MOST_SUMMED})"""
MONEY_DUE = Query(
    MoneyDue,
    f"""SELECT count(*) AS orders,
               coalesce(sum((('{{{{' || substr(head, 2) || '}}}}')::json ->> 'amount_due')::numeric), 0)::text AS amount
          FROM ({_NEWEST} UNION ALL {_NEWEST} UNION ALL {_NEWEST}) newest
         WHERE status IN ('pending', 'processing', 'on_hold', 'shipped', 'delivered')""".format(
        "unpaid", "partially_paid", "failed"
    ),
)


class ScarceProducts(msgspec.Struct):
    """Active products that cannot be bought now, and others of which a variant is low; at most MOST_PRODUCTS each."""

    out_of_stock: list[int]
    low_stock: list[int]


_SCARCE = f"""ARRAY(SELECT DISTINCT s.product_id FROM scarce s
                      JOIN products p ON p.store_id = $1 AND p.id = s.product_id
                     WHERE p.status = 'active' AND p.deleted_at IS NULL AND {{}} LIMIT {MOST_PRODUCTS})"""
SCARCE_PRODUCTS = Query(
    ScarceProducts,
    f"""WITH scarce AS MATERIALIZED (
            SELECT product_id FROM variants
             WHERE store_id = $1 AND deleted_at IS NULL AND track_inventory
                   AND on_hand - reserved <= coalesce(low_stock_threshold, 0)
             ORDER BY product_id DESC LIMIT {MOST_COUNTED})
        SELECT {_SCARCE.format("NOT p.in_stock")} AS out_of_stock, {_SCARCE.format("p.in_stock")} AS low_stock""",
)


class DaySales(msgspec.Struct):
    """The orders of one of the days that begin at the given moments, counted from 1."""

    number: int
    orders: int
    total: int


# The index contains all columns, so that the orders themselves are not read.
SALES = Query(
    DaySales,
    """SELECT width_bucket(placed_at, $2::timestamptz[]) AS number, count(*) AS orders, sum(total)::bigint AS total
         FROM orders
        WHERE store_id = $1 AND placed_at >= $3 AND placed_at < $4 AND status NOT IN ('draft', 'cancelled')
        GROUP BY 1""",
)


class TopProduct(msgspec.Struct):
    """A product, the units of it that were sold and kept, and its stock."""

    id: int
    name: str
    units: int
    available: int
    in_stock: bool
    image: str | None


TOP_PRODUCTS = Query(
    TopProduct,
    f"""WITH recent AS MATERIALIZED (
            SELECT id FROM orders
             WHERE store_id = $1 AND placed_at >= $2 AND status NOT IN ('draft', 'cancelled')
             ORDER BY placed_at DESC LIMIT {RECENT_ORDERS}),
        sold AS MATERIALIZED (
            SELECT v.product_id, sum(l.quantity - l.returned_quantity)::bigint AS units
              FROM recent r JOIN order_lines l ON l.store_id = $1 AND l.order_id = r.id
                   JOIN variants v ON v.store_id = $1 AND v.id = l.variant_id
             GROUP BY v.product_id ORDER BY units DESC, v.product_id LIMIT 6)
        SELECT p.id, p.name, s.units, p.on_hand - p.reserved AS available, p.in_stock,
               ('{{' || substr(p.head, 2) || '}}')::json -> 'images' -> 0 ->> 'url' AS image
          FROM sold s JOIN products p ON p.store_id = $1 AND p.id = s.product_id
         WHERE p.deleted_at IS NULL AND s.units > 0 ORDER BY s.units DESC, p.id""",
)
ANY_PRODUCT = Query(int, "SELECT id FROM products WHERE store_id = $1 AND deleted_at IS NULL LIMIT 1")
ANY_ORDER = Query(int, "SELECT id FROM orders WHERE store_id = $1 LIMIT 1")
