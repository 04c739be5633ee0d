"""What line items copy of their product and variant: whether they are shipped and taxed, and their weight."""

from typing import Any

import msgspec
import pytest

from tests.imports.files import CSV, import_file
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


BOOK: dict[str, Any] = {
    "name": "Field Guide",
    "price": "30.00",
    "options": [{"name": "Edition", "values": ["Print", "Download", "Gift"]}],
    "variants": [
        {"option_values": {"Edition": "Print"}, "sku": "BOOK-P"},
        {"option_values": {"Edition": "Download"}, "sku": "BOOK-D", "requires_shipping": False, "taxable": True},
        {"option_values": {"Edition": "Gift"}, "sku": "BOOK-G", "taxable": False},
    ],
    "track_inventory": False,
}


async def add_book(shop: Shop, **changes: Any) -> dict[str, Any]:
    answer = await shop.client.post("/products", json={**BOOK, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def own(variants: list[dict[str, Any]]) -> list[tuple[bool | None, bool | None]]:
    return [(each["requires_shipping"], each["taxable"]) for each in variants]


async def ordered(shop: Shop) -> list[tuple[bool, bool]]:
    order = await place(shop, *({"sku": sku, "quantity": 1} for sku in ("BOOK-P", "BOOK-D", "BOOK-G")))
    return [(line["requires_shipping"], line["taxable"]) for line in order["line_items"]]


async def test_a_variant_says_what_differs_from_its_product(shop: Shop) -> None:
    product = await add_book(shop)
    assert own(product["variants"]) == [(None, None), (False, True), (None, False)]
    assert await ordered(shop) == [(True, True), (False, True), (True, False)]
    await shop.client.patch(f"/products/{product['id']}", json={"requires_shipping": False, "taxable": False})
    assert await ordered(shop) == [(False, False), (False, True), (False, False)]


async def test_a_variant_follows_its_product_again_if_its_value_is_cleared(shop: Shop) -> None:
    product = await add_book(shop)
    path = f"/products/{product['id']}/variants/{product['variants'][1]['id']}"
    changed = await shop.client.patch(path, json={"requires_shipping": None, "taxable": False})
    assert own([changed.json()["data"]]) == [(None, False)]
    assert (await ordered(shop))[1] == (True, False)
    rows = await shop.db.fetch(
        """SELECT changes FROM events WHERE store_id = $1 AND type = 'product.variant_updated'""", shop.store_id
    )
    assert msgspec.json.decode(rows[0][0]) == {"requires_shipping": [False, None], "taxable": [True, False]}


async def test_other_values_are_refused(shop: Shop) -> None:
    answer = await shop.client.post(
        "/products", json={"name": "Pen", "price": "2.00", "variants": [{"sku": "P", "taxable": "no"}]}
    )
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/variants/0/taxable")


async def test_columns_of_a_file_set_and_clear_them(shop: Shop) -> None:
    head = "sku,name,price,variant.requires_shipping,variant.taxable"
    job = await import_file(shop, f"{head}\nP-1,Pen,2.00,false,true\nP-2,Ink,3.00,,\n".encode(), CSV)
    assert job["counts"]["created"] == 2, job
    found = (await shop.client.get("/products/variants")).json()["data"]
    assert own(found) == [(False, True), (None, None)]
    wrong = await import_file(shop, f"{head}\nP-3,Pen,2.00,maybe,true\n".encode(), CSV)
    assert wrong["counts"]["failed"] == 1


async def test_a_variant_of_the_previous_release_follows_its_product(shop: Shop) -> None:
    product = await add_book(shop)
    await shop.db.execute(
        """UPDATE variants SET edition = 2, head = regexp_replace(head, ',"requires_shipping":[a-z]+,"taxable":[a-z]+', '')
            WHERE store_id = $1""",
        shop.store_id,
    )
    assert own((await shop.client.get(f"/products/{product['id']}")).json()["data"]["variants"]) == [(None, None)] * 3
    assert await ordered(shop) == [(True, True)] * 3
