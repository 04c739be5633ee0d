"""What line items copy of their product and variant: whether they are shipped and taxed, and their weight."""

from typing import Any

import msgspec
import pytest

from tests.support.shops import Shop

TRAY: dict[str, Any] = {
    "name": "Oak Tray",
    "price": "24.00",
    "weight": 1.25,
    "weight_unit": "lb",
    "options": [{"name": "Size", "values": ["S", "L"]}],
    "variants": [
        {"option_values": {"Size": "S"}, "sku": "TRAY-S", "stock": {"on_hand": 9}},
        {"option_values": {"Size": "L"}, "sku": "TRAY-L", "stock": {"on_hand": 9}, "weight": 2},
    ],
}
CARD: dict[str, Any] = {
    "name": "Gift Card",
    "price": "25.00",
    "sku": "CARD",
    "track_inventory": False,
    "requires_shipping": False,
    "taxable": False,
}


@pytest.fixture
async def catalog(shop: Shop) -> dict[str, int]:
    found: dict[str, int] = {}
    for product in (TRAY, CARD):
        answer = await shop.client.post("/products", json=product)
        assert answer.status_code == 201, answer.text
        found[product["name"]] = answer.json()["data"]["id"]
    return found


async def place(shop: Shop, *lines: dict[str, Any]) -> dict[str, Any]:
    answer = await shop.client.post("/orders", json={"line_items": lines})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def copied(order: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("requires_shipping", "taxable", "weight", "weight_unit")
    return [tuple(line[name] for name in names) for line in order["line_items"]]


async def test_a_line_item_copies_the_properties_of_its_product_and_variant(
    shop: Shop, catalog: dict[str, int]
) -> None:
    lines = [{"sku": sku, "quantity": 1} for sku in ("TRAY-S", "TRAY-L", "CARD")]
    order = await place(shop, *lines, {"name": "Engraving", "unit_price": "4.00", "quantity": 1, "taxable": False})
    expected = [
        (True, True, 1.25, "lb"),
        (True, True, 2, "lb"),
        (False, False, None, None),
        (True, False, None, None),
    ]
    assert copied(order) == expected
    rows = await shop.db.fetch("SELECT data FROM events WHERE store_id = $1 AND type = 'order.created'", shop.store_id)
    assert copied(msgspec.json.decode(rows[0][0])) == expected


async def test_later_changes_of_the_product_do_not_affect_it(shop: Shop, catalog: dict[str, int]) -> None:
    order = await place(shop, {"sku": "TRAY-S", "quantity": 1})
    changes = {"weight": 9, "weight_unit": "kg", "requires_shipping": False, "taxable": False}
    changed = await shop.client.patch(f"/products/{catalog['Oak Tray']}", json=changes)
    assert changed.status_code == 200
    line = order["line_items"][0]["id"]
    edited = await shop.client.patch(f"/orders/{order['id']}/products/{line}", json={"quantity": 2})
    assert copied(edited.json()["data"]) == copied(order)
    added = await shop.client.post(
        f"/orders/{order['id']}/products", json={"line_items": [{"sku": "TRAY-S", "quantity": 1, "merge": False}]}
    )
    assert copied(added.json()["data"]) == [*copied(order), (False, False, 9, "kg")]


async def test_a_copy_of_an_order_keeps_them(shop: Shop, catalog: dict[str, int]) -> None:
    order = await place(shop, {"sku": "TRAY-L", "quantity": 1}, {"sku": "CARD", "quantity": 1})
    copy = await shop.client.post(f"/orders/{order['id']}/duplicates", json={})
    assert copy.status_code == 201, copy.text
    assert copied(copy.json()["data"]) == copied(order)


async def test_an_order_of_the_previous_release_has_no_weight(shop: Shop, catalog: dict[str, int]) -> None:
    order = await place(shop, {"sku": "TRAY-L", "quantity": 1})
    await shop.db.execute(
        """UPDATE orders SET edition = 1, lines = regexp_replace(lines, ',"weight":2,"weight_unit":"lb"', '')
            WHERE store_id = $1""",
        shop.store_id,
    )
    shown = (await shop.client.get(f"/orders/{order['id']}")).json()["data"]
    assert copied(shown) == [(True, True, None, None)]
