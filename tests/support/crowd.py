"""A database with one large store among many small ones."""

from typing import Any

from stoa.db.connection import Connection
from tests.support.shops import Shop

MANY = 20_000
# The planner knows only the average number of rows per store, which is about ten.
SMALL_STORES, FEW = 2_000, 3

PHONE, NUMBER = 16502530000, 1001
PRODUCT: dict[str, Any] = {
    "name": "row-0-mug",
    "price": "12.00",
    "external_id": "row-0-product",
    "options": [{"name": "Size", "values": ["S"]}],
    "variants": [
        {"option_values": {"Size": "S"}, "sku": "row-0-sku", "barcode": "row-0-barcode", "stock": {"on_hand": 1_000}}
    ],
    "metadata": {"grams": 250},
}
CUSTOMER: dict[str, Any] = {
    "email": "row-0-person@example.com",
    "phone": f"+{PHONE}",
    "external_id": "row-0-customer",
    "last_name": "row-0-name",
    "addresses": [{"address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"}],
    "metadata": {"tier": "gold", "shared.grams": 250},
}
ORDER: dict[str, Any] = {
    "external_id": "row-0-order",
    "customer_id": 1,
    "line_items": [{"sku": "row-0-sku", "quantity": 1}],
    "metadata": {"grams": 250},
}
FIRST = {"/products": PRODUCT, "/customers": CUSTOMER, "/orders": ORDER}

_COLUMNS = """
SELECT attname::text FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
_LATER = "t.{column} - n * interval '1 second'"
_PHONE = "'+' || substr(t.phone, 2)::bigint + n"
# The columns that differ in copy n of the first row: ids by table, where the first is 1; then names and times.
_IDS: dict[str, dict[str, str]] = {
    "products": {"id": "1 + n"},
    "product_terms": {"product_id": "1 + n"},
    "variants": {"id": "1 + n", "product_id": "1 + n"},
    "stock_movements": {
        "id": "t.id + 10 * n",
        "variant_id": "1 + n",
        "product_id": "1 + n",
        "order_id": "t.order_id + n",
        "movement_key": "t.movement_key || n",
    },
    "customers": {"id": "1 + n", "phone": _PHONE},
    "customer_metadata": {"customer_id": "1 + n"},
    "orders": {"id": "1 + n", "number": "t.number + n", "customer_id": "1 + n", "phone": _PHONE},
    "order_lines": {"id": "1 + n", "order_id": "1 + n", "variant_id": "1 + n"},
    "order_comments": {"id": "1 + n", "order_id": "1 + n"},
    "events": {
        "id": "t.id || n",
        "resource_id": "1 + n",
        "routed_on": "current_date",
        "position": "nextval('event_positions')",
    },
    "idempotency_keys": {"key": "t.key || n", "subject_id": "t.subject_id + n"},
}
_NAMES = frozenset("external_id sku barcode slug name email email_key last_name head lines person".split())
_TIMES = frozenset("created_at updated_at placed_at last_order_at".split())
_INSIDE = ('"customer_id":', '"product_id":', '"variant_id":', '[{"id":')  # before an id in a document
_SEQUENCES = "product variant stock_movement customer customer_address order order_line order_comment".split()


def name_of(kind: str, number: int) -> str:
    """The identifier of one row: an id, or a unique text."""
    if kind.endswith("_id"):
        return str(1 + number)
    special = {
        "number": str(NUMBER + number),
        "phone": f"%2B{PHONE + number}",
        "email": f"row-{number}-person@example.com",
    }
    return special.get(kind) or f"row-{number}-{kind}"


async def gather(shop: Shop, db: Connection) -> None:
    """Create the first row of each kind through the service and copies by SQL, and update the statistics."""
    for path, body in FIRST.items():
        answer = await shop.client.post(path, json=body, headers={"idempotency-key": path})
        assert answer.json()["data"]["id"] == 1, answer.text
    await db.execute(
        """INSERT INTO stores (handle, name, currency)
           SELECT 'small-' || n, 'A small store', 'USD' FROM generate_series(1, $1::integer) n""",
        SMALL_STORES,
    )
    for table in _IDS:
        columns = [row[0] for row in await db.fetch(_COLUMNS, table)]
        values = ", ".join(_value(table, column) for column in columns)
        await db.execute(
            f"""INSERT INTO {table} ({", ".join(columns)}) SELECT {values}
                  FROM (SELECT $1::bigint, n FROM generate_series(1, {MANY}) n
                         UNION ALL SELECT s.id, n FROM stores s, generate_series(1, {FEW}) n WHERE s.handle LIKE 'small-%')
                       AS copies (store, n), {table} t
                 WHERE t.store_id = $1""",
            shop.store_id,
        )
    for name in _SEQUENCES:
        await db.execute(f"SELECT setval('{name}_ids', {20 * MANY})")
    await db.execute(f"UPDATE order_numbers SET last = last + {MANY}")
    await db.execute("VACUUM ANALYZE")


def _value(table: str, column: str) -> str:
    """The SQL expression of a column of copy n."""
    if column == "store_id":
        return "store"
    if column in _IDS[table]:
        return _IDS[table][column]
    if column in _TIMES:
        return _LATER.format(column=column)
    text = f"t.{column}"
    if column in _NAMES:
        for before in _INSIDE:
            text = f"replace({text}, '{before}1,', '{before}' || 1 + n || ',')"
        text = f"replace({text}, '\"number\":{NUMBER},', '\"number\":' || {NUMBER} + n || ',')"
        text = f"replace({text}, '+{PHONE}', '+' || {PHONE} + n)"
        text = f"replace({text}, 'row-0-', 'row-' || n || '-')"
    return text
