"""Stores with several locations: opened, stocked, and checked."""

from typing import Any

from stoa.inventory.locations import add_location
from tests.support.shops import Shop

AUDIT = """
    SELECT v.sku, p.code, p.on_hand, p.reserved, coalesce(m.on_hand, 0)::bigint, coalesce(m.reserved, 0)::bigint,
           v.allow_backorder OR NOT v.track_inventory, v.on_hand - v.reserved
      FROM variants v
           CROSS JOIN LATERAL (
               SELECT 'default' AS code, v.on_hand - v.other_on_hand AS on_hand, v.reserved - v.other_reserved AS reserved
                UNION ALL
               SELECT s.location, s.on_hand, s.reserved FROM stock_levels s WHERE s.store_id = $1 AND s.variant_id = v.id) p
           LEFT JOIN (SELECT variant_id, location, sum(delta_on_hand) AS on_hand, sum(delta_reserved) AS reserved
                        FROM stock_movements WHERE store_id = $1 GROUP BY variant_id, location) m
                  ON m.variant_id = v.id AND m.location = p.code
     WHERE v.store_id = $1"""
SUMS = """
    SELECT v.sku FROM variants v LEFT JOIN (
           SELECT variant_id, sum(on_hand) AS on_hand, sum(reserved) AS reserved
             FROM stock_levels WHERE store_id = $1 GROUP BY variant_id) s ON s.variant_id = v.id
     WHERE v.store_id = $1 AND (v.other_on_hand, v.other_reserved) <> (coalesce(s.on_hand, 0), coalesce(s.reserved, 0))"""


async def open_locations(shop: Shop, **priorities: int) -> None:
    """Add locations to a store, by code and priority."""
    for code, priority in priorities.items():
        await add_location(shop.local_operator, shop.store.handle, code, code.title(), priority=priority)
    await shop.settle()


async def spread(shop: Shop, sku: str, **units: int) -> None:
    """Transfer units from the default location to others."""
    items = [
        {"sku": sku, "op": "transfer", "to_location": code, "quantity": quantity} for code, quantity in units.items()
    ]
    answer = await shop.client.post("/products/inventory/adjustments", json={"items": items})
    assert answer.status_code == 200, answer.text


async def levels(shop: Shop, sku: str) -> dict[str, tuple[int, int]]:
    """The units on hand and reserved at each location."""
    params = {"sku": sku, "include": "locations"}
    level: dict[str, Any] = (await shop.client.get("/products/inventory", params=params)).json()["data"][0]
    for name in ("on_hand", "reserved", "available"):
        assert level["stock"][name] == sum(each[name] for each in level["locations"])
    return {each["code"]: (each["on_hand"], each["reserved"]) for each in level["locations"]}


async def assert_books_balance(shop: Shop) -> None:
    """No location is oversold, and the ledger of each location adds up to its level."""
    rows = await shop.db.fetch(AUDIT, shop.store_id)
    assert rows
    for sku, code, on_hand, reserved, moved_on_hand, moved_reserved, unlimited, _ in rows:
        assert (on_hand, reserved) == (moved_on_hand, moved_reserved), f"the ledger of {sku} at {code}"
        assert 0 <= reserved <= on_hand or (unlimited and code == "default"), f"{sku} is oversold at {code}"
    assert await shop.db.fetch(SUMS, shop.store_id) == []
