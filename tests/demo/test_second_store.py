"""The second sample store: several locations that ship, a voided shipment, an order that is held, and orders of its old shop."""

from stoa.db.pool import Database
from stoa.demo.past import Past
from stoa.demo.stock import fill, open_sample_store
from tests.support.shops import Shop


async def open_atelier(shop: Shop) -> None:
    if await open_sample_store(shop.operator, "second.json") is not None:
        await fill(shop.operator, "atelier", "second.json", Past())


async def test_the_second_store_ships_from_two_locations_and_holds_an_order(shop: Shop, db: Database) -> None:
    await open_atelier(shop)
    rows = await db.fetch(
        """SELECT o.status, o.expires_at IS NOT NULL, o.shipped_at IS NOT NULL,
                  (SELECT array_agg(a.location ORDER BY a.location) FROM order_allocations a
                    WHERE a.store_id = o.store_id AND a.order_id = o.id)
             FROM orders o WHERE o.store_id = (SELECT id FROM stores WHERE handle = 'atelier') AND o.number > 1000 ORDER BY o.id"""
    )
    assert [tuple(row) for row in rows] == [
        ("shipped", False, True, ["ginza", "osaka"]),
        ("processing", False, False, ["osaka"]),
        ("pending", True, False, ["osaka"]),
    ]


async def test_the_second_store_has_the_orders_of_its_old_shop(shop: Shop, db: Database) -> None:
    await open_atelier(shop)
    rows = await db.fetch(
        """SELECT o.number, o.status, o.payment_status, o.placed_at::date::text, o.refunded_at::date::text
             FROM orders o WHERE o.store_id = (SELECT id FROM stores WHERE handle = 'atelier') AND o.number < 1000 ORDER BY o.number"""
    )
    assert [tuple(row) for row in rows] == [
        (412, "completed", "paid", "2024-03-09", None),
        (413, "returned", "refunded", "2024-06-21", "2024-07-02"),
        (414, "cancelled", "unpaid", "2024-11-03", None),
    ]
