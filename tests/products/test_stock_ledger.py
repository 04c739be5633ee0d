"""A product write that changes stock adds a row to the stock ledger."""

from typing import Any

import httpx
from tests.support.shops import MUG, SHIRT, Shop

ENTRY = ("sku", "kind", "delta_on_hand", "on_hand_after", "reason")


async def ledger(shop: Shop) -> list[tuple[Any, ...]]:
    """The entries of the ledger, oldest first; the stock levels must be their sums."""
    found = (await shop.client.get("/products/inventory/adjustments", params={"sort": "id"})).json()["data"]
    levels = (await shop.client.get("/products/inventory", params={"limit": 250})).json()["data"]
    for level in levels:
        moved = [entry["delta_on_hand"] for entry in found if entry["variant_id"] == level["variant_id"]]
        assert sum(moved) == level["stock"]["on_hand"], level["sku"]
    return [tuple(entry[name] for name in ENTRY) for entry in found]


async def created(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def test_the_first_stock_of_a_product_is_in_the_ledger(shop: Shop) -> None:
    await created(await shop.client.post("/products", json=SHIRT))
    assert await ledger(shop) == [("LS-S", "set", 4, 4, "other")]


async def test_the_stock_of_an_added_variant_is_in_the_ledger(shop: Shop) -> None:
    product = await created(await shop.client.post("/products", json=SHIRT))
    variant = {"sku": "LS-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 2}}
    await created(await shop.client.post(f"/products/{product['id']}/variants", json=variant))
    assert await ledger(shop) == [("LS-S", "set", 4, 4, "other"), ("LS-L", "set", 2, 2, "other")]


async def test_a_batch_that_sets_stock_writes_one_entry_for_each_changed_variant(shop: Shop) -> None:
    await shop.add(SHIRT, MUG)
    sizes = [{"sku": "LS-S", "stock": {"on_hand": 1}}, {"sku": "LS-M", "stock": {"on_hand": 0}}]
    items = [
        {"op": "upsert", "sku": "MUG-1", "data": {"stock": {"on_hand": 8}}},
        {"op": "update", "sku": "LS-S", "data": {"variants": sizes}},
        {"op": "create", "data": {"name": "Bowl", "price": "9", "sku": "BOWL", "stock": {"on_hand": 5}}},
    ]
    answer = await shop.client.post("/products/batch", json={"mode": "atomic", "items": items})
    assert answer.status_code == 200, answer.text
    assert sorted(await ledger(shop)) == [
        ("BOWL", "set", 5, 5, "other"),
        ("LS-S", "set", -3, 1, "other"),
        ("LS-S", "set", 4, 4, "other"),
        ("MUG-1", "set", 8, 8, "other"),
    ]


async def test_a_write_without_a_change_of_stock_adds_no_entry(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    before = await ledger(shop)
    assert (await shop.client.patch(f"/products/{shirt}", json={"name": "Cotton Shirt"})).status_code == 200
    assert await ledger(shop) == before
