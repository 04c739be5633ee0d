"""The measured writes, each with the recorded statements of its handler as the limit."""

import json
from typing import Any

import msgspec

from benchmarks.catalog import Loaded
from benchmarks.drive import NUMBER, CannotMeasure, Request
from benchmarks.measures import Access, Measure, Wanted
from benchmarks.recording import FIRST_NEW_ID, as_transaction, record
from benchmarks.trade import ADDRESS, Trade
from stoa.db.connection import Connection, connect
from stoa.rest.dispatch import PREFIX
from stoa.settings import Settings

ENDLESS = 100_000_000  # units in stock of each variant, so that no run sells out
NEW_PRODUCT: dict[str, Any] = {
    "name": f"Brushed oak tray {NUMBER}",
    "price": "59.00",
    "external_id": f"new-{NUMBER}",
    "description": "Made in small batches by people who have done little else for thirty years. We ship it folded in "
    "recycled paper, without a plastic bag anywhere.",
    "brand": "Kiln Street",
    "category": "Home/Kitchen",
    "tags": ["gift", "handmade", "new"],
    "images": [{"url": f"https://images.example.com/{NUMBER}/front.jpg", "alt": "A tray, seen from the front"}],
    "options": [{"name": "Size", "values": ["Small", "Large"]}],
    "variants": [
        {"sku": f"NEW-{NUMBER}-1", "option_values": {"Size": "Small"}, "stock": {"on_hand": 12}},
        {"sku": f"NEW-{NUMBER}-2", "option_values": {"Size": "Large"}, "price": "61.00", "stock": {"on_hand": 4}},
    ],
    "seo": {"title": "Brushed oak tray | buy online", "description": "Delivered in two days, returned for free."},
    "metadata": {"material": "oak", "pieces": 2},
}
_BUYER = {"first_name": "Ada", "last_name": "Okafor"}
NEW_ORDER: dict[str, Any] = {
    "external_id": f"web-{NUMBER}",
    "contact": {"email": f"new-{NUMBER}@example.com", **_BUYER},
    "line_items": [
        {"sku": "SKU-%d-1", "quantity": 2},
        {"sku": "SKU-%e-1", "quantity": 1},
        {"sku": "SKU-%f-1", "quantity": 1},
    ],
    "shipping_total": "4.90",
    "shipping_address": ADDRESS,
    "shipping_method": "standard",
    "payment_method": "card",
    "tags": ["web"],
    "metadata": {"channel": "web"},
}

MOVED = 100  # historical orders in one call
OLD_ORDERS: dict[str, Any] = {
    "historical": True,
    "items": [
        {
            **NEW_ORDER,
            "external_id": f"old-{NUMBER}-{n}",
            "contact": {"email": f"old-{NUMBER}-{n}@example.com", **_BUYER},
            "status": "processing",
            "placed_at": "2022-06-01T09:00:00Z",
        }
        for n in range(MOVED)
    ],
}

ADJUSTMENT: dict[str, Any] = {
    "reason": "restock",
    "reference": f"R-{NUMBER}",
    "items": [{"sku": "SKU-%d-1", "op": "adjust", "quantity": 1}],
}


# A status is set once; any order takes a further payment.
PAYMENT: dict[str, Any] = {"payment": {"amount": "0.01", "method": "card", "external_id": f"pay-{NUMBER}"}}


async def prepare(db: Connection, store: Loaded, *, baseline: bool) -> None:
    """Give the store endless stock and new ids; refuses a server that would lose acknowledged writes."""
    await _check_durability(db)
    await raise_sequences(db)
    await _fill_stock(db, store, baseline=baseline)


async def of_store(
    settings: Settings, store: Loaded, places: Loaded, trade: Trade, access: Access, *, baseline: bool = True
) -> list[Measure]:
    """The rows that write to the store, and to the one with several locations; each transaction is durable before its response."""
    db = await connect(settings.database_url, statement_timeout_ms=0)
    try:
        await prepare(db, store, baseline=baseline)
    finally:
        await db.close()
    create = post(store, access, "/products", NEW_PRODUCT)
    adjust = post(store, access, "/products/inventory/adjustments", ADJUSTMENT)
    order = post(store, access, "/orders", NEW_ORDER)
    unknown = {**NEW_ORDER, "external_id": f"unknown-{NUMBER}", "contact": _BUYER}
    unasked = post(store, access, "/orders", unknown, "unasked")
    same = {
        **NEW_ORDER,
        "external_id": f"hot-{NUMBER}",
        "contact": {"email": f"hot-{NUMBER}@example.com", **_BUYER},
        "line_items": [{"sku": f"SKU-{store.last_id}-1", "quantity": 1}],
    }
    hot = post(store, access, "/orders", same, "hot")
    placed = post(places, access, "/orders", NEW_ORDER)
    moved = post(store, access, "/orders", OLD_ORDERS, "moved")
    paid = pay(store, trade, access)
    return [
        Measure(
            "create-product",
            "a product with two variants, its ledger, event and key",
            create,
            as_transaction(await record(settings, create), {}),
            baseline=create if baseline else None,
            wanted=Wanted(of_limit=0.5, of_baseline=3, aim_of_baseline=8),
        ),
        Measure(
            "adjust",
            f"one of {store.products:,} variants, its ledger, event and key",
            adjust,
            as_transaction(await record(settings, adjust), *_chosen(store)),
            baseline=adjust if baseline else None,
            wanted=Wanted(of_limit=0.5, of_baseline=4, aim_of_baseline=8),
        ),
        Measure(
            "create-order",
            "an order with three line items, its stock, ledger, events and key, with duplicate detection",
            order,
            as_transaction(await record(settings, order), *_chosen(store)),
            baseline=order if baseline else None,
            wanted=Wanted(of_limit=0.5, of_baseline=8, aim_of_baseline=12, like="unasked-order", of_like=0.85),
        ),
        Measure(
            "create-order-locations",
            "the same in a store with stock at five locations",
            placed,
            as_transaction(await record(settings, placed), *_chosen(places)),
            wanted=Wanted(like="create-order", of_like=0.9),
        ),
        Measure(
            "historical-orders",
            f"{MOVED} historical orders with three line items in one call, their events excepted",
            moved,
            None,  # its arguments are too long for pgbench
            wanted=Wanted(like="create-order", of_like=10 / MOVED),  # ten times as many orders
        ),
        Measure(
            "pay-order",
            f"a payment for one of {trade.orders:,} orders, its customer, timeline, events and key",
            paid,
            as_transaction(await record(settings, paid), *any_order(trade)),
            wanted=Wanted(of_limit=0.5),
        ),
        Measure(
            "unasked-order",
            "the same without a contact, and so without duplicate detection",
            unasked,
            as_transaction(await record(settings, unasked), *_chosen(store)),
        ),
        Measure(
            "hot-order",
            "an order with one line item, always of the same SKU",
            hot,
            as_transaction(await record(settings, hot), {}),
            wanted=Wanted(per_second=80, like="create-order", of_like=1.8),
        ),
    ]


def post(store: Loaded, access: Access, path: str, body: dict[str, Any], name: str = "") -> Request:
    return Request(
        f"/stores/{store.handle}{PREFIX}{path}",
        method="POST",
        first_id=store.first_id,
        last_id=store.last_id,
        headers={
            "Authorization": f"Bearer {access.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"{name or path}-{NUMBER}",
        },
        body=json.dumps(body),
    )


def pay(store: Loaded, trade: Trade, access: Access) -> Request:
    request = post(store, access, "/orders/%d/status", PAYMENT, "pay")
    return msgspec.structs.replace(request, method="PUT", first_id=trade.first_order, last_id=trade.last_order)


def any_order(trade: Trade) -> tuple[dict[str | int, str], list[str]]:
    """The replacements for the ids of an order and its customer: as the parameter of a lock, and in the row to change."""
    order, customer = trade.first_order, trade.first_customer
    varied: dict[str | int, str] = {order: ":d::bigint"}
    for name, first, expression in (
        ("id", order, ":d"),
        ("customer_id", customer, f"(:d::bigint + {customer - order})"),
    ):
        varied[f'"{name}":{first},'] = f"""'"{name}":' || {expression}::text || ','"""
    return varied, [f"\\set d random({order}, {trade.last_order})"]


def _chosen(store: Loaded) -> tuple[dict[str | int, str], list[str]]:
    """The replacements for SKUs, variants and ids of three products, chosen as for the service."""
    recorded = Request("", first_id=store.first_id, last_id=store.last_id)
    varied: dict[str | int, str] = {}
    for name in "def":
        number = recorded.text(f"%{name}")
        varied[f'"SKU-{number}-1"'] = f"""'"SKU-' || :{name}::text || '-1"'"""
        varied[f'"{number}"'] = f"""'"' || :{name}::text || '"'"""  # the product, and its first variant
        varied[f'"{number}1"'] = f"""'"' || :{name}::text || '1"'"""
        varied[f'"product_id":{number},'] = f"""'"product_id":' || :{name}::text || ','"""
        varied[f'"variant_id":{number}1,'] = f"""'"variant_id":' || :{name}::text || '1,'"""
    first, span = store.first_id, store.products
    choose = [f"\\set d random({first}, {store.last_id})"]
    choose += [f"\\set {name} {first} + (:d - {first} + {span // 3 * n}) % {span}" for n, name in ((1, "e"), (2, "f"))]
    return varied, choose


async def _fill_stock(db: Connection, store: Loaded, *, baseline: bool) -> None:
    for table in ("variants", "baseline.variants") if baseline else ("variants",):
        await db.execute(
            f"UPDATE {table} SET on_hand = {ENDLESS} WHERE product_id BETWEEN {store.first_id} AND {store.last_id}"
        )
        await db.execute(f"VACUUM ANALYZE {table}")


async def _check_durability(db: Connection) -> None:
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        if (await db.fetch(f"SHOW {name}"))[0][0] != "on":
            raise CannotMeasure(f"{name} is off: acknowledged writes would not be durable")


async def raise_sequences(db: Connection) -> None:
    """Raise the sequences, so that new ids are larger than all other numbers and each kind has its own range."""
    await db.fetch(
        """SELECT setval((schemaname || '.' || sequencename)::regclass, $1 * row_number() OVER (ORDER BY sequencename))
             FROM pg_sequences WHERE schemaname = 'public' AND coalesce(last_value, 0) < $1""",
        FIRST_NEW_ID,
    )
    await db.execute(
        """INSERT INTO order_numbers (store_id, last) SELECT id, $1 FROM stores
           ON CONFLICT (store_id) DO UPDATE SET last = excluded.last""",
        900 * FIRST_NEW_ID,
    )
