"""Product pages: the list, one product and its stock ledger."""

import re

import pytest

from tests.portal.store_pages import place_order, rows
from tests.support.people import User
from tests.support.shops import MUG, SHIRT, Shop

MAX_BYTES = 150_000


async def test_products_are_listed_newest_first(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT, MUG)
    await maria.open(f"{store_url}/products")
    assert rows(maria.text) == ["Café Mug", "Linen Shirt"]
    assert "2 products" in maria.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=linen", ["Linen Shirt"]),
        ("q=MUG-1", ["Café Mug"]),
        ("status=draft", ["Café Mug"]),
        ("in_stock=true", ["Linen Shirt"]),
        ("tag=summer", ["Linen Shirt"]),
        ("category=Clothing", ["Linen Shirt"]),
        ("sort=name", ["Café Mug", "Linen Shirt"]),
        ("sort=price", ["Café Mug", "Linen Shirt"]),
        ("q=linen&status=draft", []),
    ],
)
async def test_products_are_found(shop: Shop, maria: User, store_url: str, query: str, found: list[str]) -> None:
    await shop.add(SHIRT, MUG)
    await maria.open(f"{store_url}/products?{query}")
    assert rows(maria.text) == found
    assert ("No results" in maria.text) == (not found)


async def test_the_product_with_exactly_the_sku_comes_first(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add({**MUG, "name": "The one", "sku": "MUG"})
    await shop.add(*({**MUG, "name": f"Mug {n:02}", "sku": f"MUG-{n}"} for n in range(30)))
    await maria.open(f"{store_url}/products?q=mug")
    assert rows(maria.text)[:2] == ["The one", "Mug 29"]
    await maria.open(f"{store_url}/products?q=MUG-7&status=archived")
    assert rows(maria.text) == []
    for hostile in ("MUG,MUG-1", "x" * 200, "%00"):
        await maria.open(f"{store_url}/products?q={hostile}")
        assert maria.response.status_code == 200


async def test_an_archived_product_raises_no_stock_alarm(shop: Shop, maria: User, store_url: str) -> None:
    [mug] = await shop.add({**MUG, "status": "active", "stock": {"on_hand": 0}})
    for alarmed in (True, False):
        for path in ("/products", f"/products/{mug}"):
            await maria.open(f"{store_url}{path}")
            alarms = [word for word in ("bad-figure", 'badge bad">Out of stock', "Low stock") if word in maria.text]
            assert bool(alarms) == alarmed, (path, alarms)
        await shop.client.patch(f"/products/{mug}", json={"status": "archived"})


@pytest.mark.parametrize("query", ["", "?sort=name", "?q=mug&sort=-updated_at"])
async def test_a_long_list_is_paginated(shop: Shop, maria: User, store_url: str, query: str) -> None:
    await shop.add(*({**MUG, "name": f"Mug {n:02}", "sku": f"MUG-{n}"} for n in range(60)))
    names: list[str] = []
    await maria.open(f"{store_url}/products{query}")
    while True:
        names += rows(maria.text)
        following = re.search(r'href="([^"]+)" rel="next"', maria.text)
        if following is None:
            break
        await maria.open(f"{store_url}/products{following[1]}")
    assert len(names) == len(set(names)) == 60
    previous = re.search(r'href="([^"]+)" rel="prev"', maria.text)
    assert previous
    await maria.open(f"{store_url}/products{previous[1]}")
    assert rows(maria.text) == names[25:50]


async def test_a_product_is_shown_with_its_variants_and_stock(shop: Shop, maria: User, store_url: str) -> None:
    [shirt] = await shop.add(SHIRT)
    await maria.open(f"{store_url}/products/{shirt}")
    for expected in ("Linen Shirt", "LS-S", "LS-M", "61.00", "Hearth & Loom", "Woven in a small mill.", "material"):
        assert expected in maria.text
    assert "https://images.example.com/shirt.jpg" in maria.text
    assert "<img" not in maria.text


async def test_the_ledger_shows_all_movements(shop: Shop, maria: User, store_url: str) -> None:
    shirt, _ = await shop.add(SHIRT, MUG)
    items = [{"sku": "LS-S", "op": "adjust", "quantity": n} for n in (2, -1, 3)]
    adjustments = {"reason": "stocktake", "reference": "COUNT-9", "items": items}
    assert (await shop.client.post("/products/inventory/adjustments", json=adjustments)).status_code == 200
    await place_order(shop)
    await maria.open(f"{store_url}/products/{shirt}/ledger")
    assert "COUNT-9" in maria.text
    assert "\N{MINUS SIGN}1" in maria.text
    assert "5 movements" in maria.text
    assert "Reserved" in maria.text
    await maria.open(f"{store_url}/products/{shirt}/ledger?kind=reserve")
    assert "1 movement<" in maria.text
    assert "COUNT-9" not in maria.text


async def test_a_huge_product_stays_a_small_page(shop: Shop, maria: User, store_url: str) -> None:
    long = "&" * 250
    values = [f"{n:03}{long}"[:255] for n in range(200)]
    [huge] = await shop.add(
        {
            "name": "<b>" + long,
            "price": "1.00",
            "description": "<" * 60_000,
            "tags": [f"{n}{'&' * 60}" for n in range(200)],
            "images": [{"url": f"https://example.com/{n}?{'&' * 2000}", "alt": long} for n in range(200)],
            "options": [{"name": "Kind", "values": values}],
            "variants": [{"option_values": {"Kind": value}, "sku": f"{value[:90]}"} for value in values],
            "metadata": {f"key{n}": "&" * 1000 for n in range(100)},
        }
    )
    await maria.open(f"{store_url}/products/{huge}")
    assert maria.response.status_code == 200
    assert len(maria.response.content) < MAX_BYTES
    assert "<b>&" not in maria.response.text
    assert "1\N{EN DASH}50 of 200 variants" in maria.text
    await maria.open(f"{store_url}/products/{huge}?variants=4")
    assert "151\N{EN DASH}200 of 200 variants" in maria.text
    await maria.open(f"{store_url}/products")
    assert len(maria.response.content) < MAX_BYTES
