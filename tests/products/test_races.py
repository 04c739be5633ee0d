"""Keys that another request takes between reading and writing."""

import asyncio
from typing import Any

import pytest
from tests.support.races import rolled_back, until_somebody_waits
from tests.support.shops import MUG, SHIRT, Shop

from stoa.events.outbox import Cause
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert

NAMED: dict[str, Any] = {
    "name": "Lamp",
    "price": "80.00",
    "external_id": "erp-7",
    "variants": [{"sku": "LAMP", "external_id": "erp-7-1"}],
}
NEW: dict[str, Any] = {"name": "Bowl", "price": "9.00"}
LARGE: dict[str, Any] = {"option_values": {"Size": "L"}}
WAYS: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("POST", "/products", {**NEW, "external_id": "erp-7"}, "/external_id", "product"),
    ("POST", "/products", {**NEW, "sku": "LAMP"}, "/sku", "product"),
    ("POST", "/products", {**NEW, "variants": [{"sku": "LAMP"}]}, "/variants/0/sku", "product"),
    ("POST", "/products", {**NEW, "variants": [{"external_id": "erp-7-1"}]}, "/variants/0/external_id", "variant"),
    ("PATCH", "/products/{mug}", {"external_id": "erp-7"}, "/external_id", "product"),
    ("POST", "/products/{shirt}/variants", {**LARGE, "sku": "LAMP"}, "/sku", "product"),
    ("PATCH", "/products/{mug}/variants/{variant}", {"sku": "LAMP"}, "/sku", "product"),
    ("PATCH", "/products/{mug}/variants/{variant}", {"external_id": "erp-7-1"}, "/external_id", "variant"),
]


@pytest.mark.parametrize(("method", "path", "body", "pointer", "existing"), WAYS)
async def test_the_loser_of_a_race_for_a_key_learns_the_winner(
    shop: Shop, method: str, path: str, body: dict[str, Any], pointer: str, existing: str
) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    [variant] = (await shop.client.get(f"/products/{mug}/variants")).json()["data"]
    address = path.format(shirt=shirt, mug=mug, variant=variant["id"])
    lamp = new_product(convert(NAMED, NewProduct, digits=shop.store.digits), shop.store)
    async with shop.db.transaction() as db:
        await save(db, shop.store_id, [lamp], Cause(shop.app_id, "req_tests"))
        losing = asyncio.create_task(shop.client.request(method, address, json=body))
        await until_somebody_waits(shop.db)
    lost = await losing
    code = "sku_taken" if pointer.endswith("sku") else "external_id_taken"
    won = lamp.id if existing == "product" else lamp.variants[0].id
    assert (lost.status_code, lost.json()["code"], lost.json().get("existing_id")) == (409, code, won)
    assert [(fault["pointer"], fault["code"]) for fault in lost.json()["errors"]] == [(pointer, code)]


@pytest.mark.parametrize("key", ["sku", "external_id"])
async def test_a_batch_of_one_that_loses_a_race_names_the_winner(shop: Shop, key: str) -> None:
    body = {"items": [{"op": "create", "data": {**NEW, key: {"sku": "LAMP", "external_id": "erp-7"}[key]}}]}
    lamp = new_product(convert(NAMED, NewProduct, digits=shop.store.digits), shop.store)
    async with shop.db.transaction() as db:
        await save(db, shop.store_id, [lamp], Cause(shop.app_id, "req_tests"))
        losing = asyncio.create_task(shop.client.post("/products/batch", json=body))
        await until_somebody_waits(shop.db)
    lost = await losing
    [fault] = lost.json()["errors"]
    assert (lost.status_code, lost.json()["code"], fault["pointer"]) == (409, f"{key}_taken", f"/items/0/data/{key}")
    assert fault["meta"]["existing_id"] == lamp.id


async def test_a_released_key_can_be_reused(shop: Shop) -> None:
    lamp = new_product(convert(NAMED, NewProduct, digits=shop.store.digits), shop.store)
    async with rolled_back(shop.db) as db:
        await save(db, shop.store_id, [lamp], Cause(shop.app_id, "req_tests"))
        waiting = asyncio.create_task(shop.client.post("/products", json={**NEW, "sku": "LAMP"}))
        await until_somebody_waits(shop.db)
    assert (await waiting).status_code == 201


async def test_search_terms_are_written_only_when_they_change(shop: Shop) -> None:
    made = await shop.client.post("/products", json={"name": "Oak tray", "price": "5.00", "sku": "T-1"})
    product_id = made.json()["data"]["id"]

    async def row_location() -> str:
        rows = await shop.db.fetch(
            "SELECT ctid::text FROM product_terms WHERE store_id = $1 AND product_id = $2", shop.store_id, product_id
        )
        return rows[0][0]

    async def found(word: str) -> int:
        return (await shop.client.get("/products", params={"q": word})).json()["meta"]["total"]

    first = await row_location()
    item = {"sku": "T-1", "op": "set", "quantity": 9}
    moved = await shop.client.post("/products/inventory/adjustments", json={"reason": "restock", "items": [item]})
    assert moved.status_code == 200
    assert (await shop.client.post("/orders", json={"line_items": [{"sku": "T-1", "quantity": 1}]})).status_code == 201
    await shop.client.patch(f"/products/{product_id}", json={"price": "6.00"})
    assert (await row_location(), await found("oak"), await found("elm")) == (first, 1, 0)
    await shop.client.patch(f"/products/{product_id}", json={"name": "Elm tray"})
    assert (await row_location() != first, await found("oak"), await found("elm")) == (True, 0, 1)
