"""Data for random requests: the products that the examples name, and ids for path parameters."""

from typing import Any

import httpx

MANY = 40
SKUS = ["LS-S", "LS-M", "MUG-1", "MUG-2"]  # without LS-L, which the example of a new variant creates
ADDRESS = {"address1": "12 Larch Street", "city": "Portland", "country_code": "US"}


async def fill(client: httpx.AsyncClient) -> dict[str, list[Any]]:
    """Fill the store; returns the ids by their dictionary names in schemathesis.toml."""

    async def make(path: str, body: dict[str, Any]) -> Any:
        answer = await client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    sizes = SKUS + [f"SHELF-{n}" for n in range(MANY)]
    variants = [{"sku": sku, "option_values": {"Size": sku}, "stock": {"on_hand": 100_000}} for sku in sizes]
    options = [{"name": "Size", "values": sizes}]
    shelf = await make("/products", {"name": "Shelf", "price": "10.00", "options": options, "variants": variants})
    shelved = (await client.get(f"/products/{shelf['id']}/variants", params={"limit": 250})).json()["data"]
    products = [await make("/products", {"name": f"Spare {n}", "price": "5.00"}) for n in range(MANY)]
    customers = [await make("/customers", {"email": f"c{n}@example.com", "addresses": [ADDRESS]}) for n in range(MANY)]
    keeper = await make("/customers", {"email": "keeper@example.com", "addresses": [ADDRESS] * MANY})
    lines = [{"sku": sku, "quantity": 3} for sku in sizes]
    ledger = await make("/orders", {"customer_id": keeper["id"], "line_items": lines, "status": "draft"})
    orders = [await make("/orders", {"customer_id": customers[n]["id"], "line_items": lines[:3]}) for n in range(MANY)]
    hooks = [
        await make("/webhooks", {"url": f"http://127.0.0.1:9/{n}", "events": ["webhook.test"]}) for n in range(MANY)
    ]
    imports = {
        kind: await make(f"/{kind}/imports?dry_run=true", {"items": [{"name": "One"}]})
        for kind in ("products", "customers")
    }
    return {
        "shelf": [shelf["id"]],
        "shelved": [variant["id"] for variant in shelved],
        "products": [product["id"] for product in products],
        "skus": SKUS,
        "keeper": [keeper["id"]],
        "addresses": [address["id"] for address in keeper["addresses"]],
        "customers": [customer["id"] for customer in customers],
        "ledger": [ledger["id"]],
        "lines": [line["id"] for line in ledger["line_items"]],
        "orders": [order["id"] for order in orders],
        "hooks": [hook["id"] for hook in hooks],
        "product_imports": [imports["products"]["id"]],
        "customer_imports": [imports["customers"]["id"]],
        "events": ["order.*", "product.created", "webhook.test"],
        "versions": ["*", '"1"', '"2", "1"'],
    }
