"""The second sample store: several locations that ship, a voided shipment, and an order that is held."""

from stoa.db.pool import Database
from stoa.demo.stock import create_sample_store
from tests.support.shops import Shop


async def test_the_second_store_ships_from_two_locations_and_holds_an_order(shop: Shop, db: Database) -> None:
    await create_sample_store(shop.operator, "second.json")
    rows = await db.fetch(
        """SELECT o.status, o.expires_at IS NOT NULL, o.shipped_at IS NOT NULL,
                  (SELECT array_agg(a.location ORDER BY a.location) FROM order_allocations a
                    WHERE a.store_id = o.store_id AND a.order_id = o.id)
             FROM orders o WHERE o.store_id = (SELECT max(id) FROM stores) ORDER BY o.id"""
    )
    assert [tuple(row) for row in rows] == [
        ("shipped", False, True, ["ginza", "osaka"]),
        ("processing", False, False, ["osaka"]),
        ("pending", True, False, ["osaka"]),
    ]
