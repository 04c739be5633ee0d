"""Stock needs `inventory:write` wherever a product or variant can carry it; without stock, `products:write` is enough."""

from typing import Any

import httpx
import pytest
from tests.support.shops import SHIRT, Shop

LAMP: dict[str, Any] = {"name": "Lamp", "price": "35.00", "sku": "LAMP"}
STOCK: dict[str, Any] = {"stock": {"on_hand": 5}}
SIZES: dict[str, Any] = {"options": [{"name": "Size", "values": ["S", "M"]}]}


@pytest.fixture
async def catalog_app(shop: Shop) -> httpx.AsyncClient:
    return await shop.client_with(["products:write"])


async def written(shop: Shop) -> tuple[int, int, int]:
    """The numbers of products, variants and stock movements of the store."""
    [row] = await shop.db.fetch(
        """SELECT (SELECT count(*) FROM products WHERE store_id = $1), (SELECT count(*) FROM variants WHERE store_id = $1),
                  (SELECT count(*) FROM stock_movements WHERE store_id = $1)""",
        shop.store_id,
    )
    return row[0], row[1], row[2]


def item(op: str, **data: Any) -> dict[str, Any]:
    return {"op": op, **({"sku": "LS-S"} if op != "create" else {}), "data": data}


def in_batch(mode: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"mode": mode, "items": list(items)}


REFUSED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a product": ("/products", LAMP | STOCK, ["/stock"]),
    "no units": ("/products", LAMP | {"stock": {"on_hand": 0}}, ["/stock"]),
    "variants": ("/products", SHIRT, ["/variants/0/stock", "/variants/1/stock"]),
    "an added variant": ("/products/{}/variants", {"option_values": {"Size": "L"}} | STOCK, ["/stock"]),
    "an atomic batch": (
        "/products/batch",
        in_batch("atomic", item("create", **LAMP, **STOCK)),
        ["/items/0/data/stock"],
    ),
    "an independent batch": (
        "/products/batch",
        in_batch("independent", item("create", **LAMP), item("update", **STOCK)),
        ["/items/1/data/stock"],
    ),
    "variants in a batch": (
        "/products/batch",
        in_batch("atomic", item("upsert", variants=[{"sku": "LS-M"}, {"sku": "LS-S", **STOCK}])),
        ["/items/0/data/variants/1/stock"],
    ),
}


@pytest.mark.parametrize(("path", "body", "pointers"), REFUSED.values(), ids=REFUSED)
async def test_stock_needs_the_inventory_scope(
    shop: Shop, catalog_app: httpx.AsyncClient, path: str, body: dict[str, Any], pointers: list[str]
) -> None:
    product_id = (await shop.add(SHIRT | {"external_id": None}))[0]
    before = await written(shop)
    answer = await catalog_app.post(path.format(product_id), json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (403, "insufficient_scope")
    assert problem["required_scope"] == "inventory:write"
    assert 'scope="inventory:write"' in answer.headers["www-authenticate"]
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        (pointer, "insufficient_scope") for pointer in pointers
    ]
    assert await written(shop) == before


async def test_the_refusal_comes_before_the_faults_of_the_body(catalog_app: httpx.AsyncClient) -> None:
    answer = await catalog_app.post("/products", json={"price": "free", "stock": "plenty"})
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")


async def test_both_scopes_together_set_stock(shop: Shop) -> None:
    app = await shop.client_with(["products:write", "inventory:write"])
    created = (await app.post("/products", json=LAMP | STOCK)).json()["data"]
    assert created["stock"]["on_hand"] == 5
    answer = await app.post("/products/batch", json=in_batch("atomic", {"op": "update", "sku": "LAMP", "data": STOCK}))
    assert answer.status_code == 200
    answer = await app.post("/products", json=SHIRT)
    assert answer.status_code == 201, answer.text


async def test_products_without_stock_need_only_the_product_scope(catalog_app: httpx.AsyncClient) -> None:
    created = await catalog_app.post("/products", json=LAMP)
    assert created.status_code == 201
    assert created.json()["data"]["stock"] == {"on_hand": 0, "reserved": 0, "available": 0}
    sized = await catalog_app.post(
        "/products", json={**LAMP, "sku": None, **SIZES, "variants": [{"option_values": {"Size": "S"}}]}
    )
    assert sized.status_code == 201, sized.text
    variant = await catalog_app.post(
        f"/products/{sized.json()['data']['id']}/variants", json={"option_values": {"Size": "M"}}
    )
    assert variant.json()["data"]["stock"]["on_hand"] == 0
    batch = in_batch("atomic", {"op": "update", "sku": "LAMP", "data": {"brand": "Hearth"}})
    assert (await catalog_app.post("/products/batch", json=batch)).status_code == 200


async def test_an_echoed_stock_stays_read_only(shop: Shop, catalog_app: httpx.AsyncClient) -> None:
    [product_id] = await shop.add(LAMP | STOCK)
    product = (await catalog_app.get(f"/products/{product_id}")).json()["data"]
    product["name"] = "Desk lamp"
    answer = await catalog_app.patch(f"/products/{product_id}", json=product)
    assert answer.status_code == 200
    product = answer.json()["data"]
    product["stock"]["on_hand"] = 50
    answer = await catalog_app.patch(f"/products/{product_id}", json=product)
    faults = {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]}
    assert faults["/stock"] == "read_only_field"
    variants = in_batch("atomic", {"sku": "LAMP", "data": {"stock": {"on_hand": 50}}})
    assert (await catalog_app.patch("/products/variants", json=variants)).status_code == 422
    assert (await catalog_app.get(f"/products/{product_id}")).json()["data"]["stock"]["on_hand"] == 5
