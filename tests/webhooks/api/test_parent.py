"""Events of variants name their product and its version, whatever caused them and however they are read."""

from typing import Any

import pytest

from tests.support.shops import MUG, SHIRT, Shop
from tests.webhooks.subscriptions import deliveries, route, subscribe


async def received(shop: Shop, webhook_id: int, **query: Any) -> list[dict[str, Any]]:
    await route(shop)
    page = await deliveries(shop, webhook_id, include="payload", limit=250, **query)
    return [each["payload"] for each in page["data"]]


async def product_of(shop: Shop, product_id: int) -> dict[str, Any]:
    return (await shop.client.get(f"/products/{product_id}")).json()["data"]


async def parent_of(shop: Shop, product_id: int) -> dict[str, Any]:
    return {"type": "product", "id": product_id, "version": (await product_of(shop, product_id))["version"]}


@pytest.mark.parametrize("payload", ["full", "thin"])
async def test_an_event_of_a_variant_names_its_product_and_version(shop: Shop, payload: str) -> None:
    hook = await subscribe(shop, payload=payload)
    [shirt] = await shop.add(SHIRT)
    variant = (await product_of(shop, shirt))["variants"][0]
    path = f"/products/{shirt}/variants/{variant['id']}"
    adjustment = {"reason": "correction", "items": [{"variant_id": variant["id"], "quantity": 3}]}
    steps: list[tuple[str, str, dict[str, Any] | None, str]] = [
        ("PATCH", path, {"barcode": "b"}, "product.variant_updated"),
        ("POST", "/products/inventory/adjustments", adjustment, "product.inventory_changed"),
        ("POST", "/orders", {"line_items": [{"sku": "LS-S", "quantity": 2}]}, "product.inventory_changed"),
        ("POST", f"/products/{shirt}/variants", {"option_values": {"Size": "L"}}, "product.variant_created"),
        ("DELETE", path, None, "product.variant_deleted"),
    ]
    after = 0
    for method, address, body, name in steps:
        answer = await shop.client.request(method, address, json=body)
        assert answer.is_success, answer.text
        events = [each for each in await received(shop, hook["id"], after=after) if each["type"] == name]
        assert [each["parent"] for each in events] == [await parent_of(shop, shirt)], name
        after = events[-1]["sequence"]


async def test_other_events_have_no_parent(shop: Shop) -> None:
    hook = await subscribe(shop, events=["*"])
    await shop.add(MUG)
    await shop.client.post("/customers", json={"email": "ada@example.com"})
    events = {each["type"]: each["parent"] for each in await received(shop, hook["id"], after=0)}
    assert events == {"app.installed": None, "product.created": None, "customer.created": None}


async def test_an_import_and_a_batch_name_the_product_too(shop: Shop) -> None:
    hook = await subscribe(shop)
    shirt, _ = await shop.add(SHIRT, MUG)
    items = [{"sku": "LS-S", "data": {"price": "9.00"}}, {"sku": "LS-M", "data": {"price": "8.00"}}]
    assert (await shop.client.patch("/products/variants", json={"items": items})).is_success
    data = {"variants": [{"sku": "LS-S", "barcode": "77", "stock": {"on_hand": 40}}]}
    body = {"items": [{"op": "update", "id": shirt, "data": data}]}
    assert (await shop.client.post("/products/batch", json=body)).is_success
    events = [each for each in await received(shop, hook["id"], after=0) if each["resource"]["type"] == "variant"]
    versions = [(each["type"], each["parent"]["id"], each["parent"]["version"]) for each in events]
    assert versions[:2] == [("product.variant_updated", shirt, 2)] * 2
    assert set(versions[2:]) == {("product.variant_updated", shirt, 3), ("product.inventory_changed", shirt, 3)}


async def test_an_app_that_reads_only_stock_sees_the_parent(shop: Shop) -> None:
    client = await shop.client_with(["inventory:read", "webhooks:write"])
    made = await client.post("/webhooks", json={"events": ["product.*"]})
    [shirt] = await shop.add(SHIRT)
    await shop.client.post(
        "/products/inventory/adjustments", json={"reason": "correction", "items": [{"sku": "LS-S", "quantity": 1}]}
    )
    await route(shop)
    query = {"after": 0, "include": "payload"}
    page = (await client.get(f"/webhooks/{made.json()['data']['id']}/deliveries", params=query)).json()
    assert [each["payload"]["parent"] for each in page["data"]] == [await parent_of(shop, shirt)]
