"""Every way to write metadata follows the definitions of the store, or is refused with a pointer and writes nothing."""

from typing import Any

import msgspec
import pytest

from stoa.imports.runner import run_pending
from stoa.rest.metadata_types import Resource
from tests.metadata.support import WARRANTY, app_defines, faults, in_force, merchant_defines
from tests.support.shops import SHIRT, Shop

MUG = {"name": "Mug", "price": "9.00", "sku": "MUG"}
NDJSON = {"content-type": "application/x-ndjson"}
CSV = {"content-type": "text/csv"}


def required(resource: Resource, key: str = "origin", day: str = "2020-01-01") -> dict[str, Any]:
    return {"resource": resource, "key": key, "type": "string", "required_from": day}


async def imported(shop: Shop, path: str, content: str, headers: dict[str, str]) -> dict[str, Any]:
    """Upload a file, run its job, and return the finished job."""
    await run_pending(shop.db)
    answer = await shop.client.post(path, content=content.encode(), headers=headers)
    assert answer.status_code == 202, answer.text
    await run_pending(shop.db)
    address = f"{path}/{answer.json()['data']['id']}"
    job = (await shop.client.get(address)).json()["data"]
    report = await shop.client.get(address, headers={"accept": "application/x-ndjson"})
    rows = [msgspec.json.decode(line) for line in report.content.splitlines()]
    return {**job, "pointers": sorted(each["pointer"] for row in rows for each in row.get("errors", []))}


async def test_products_follow_the_definition(shop: Shop) -> None:
    await merchant_defines(shop, WARRANTY)
    wrong = {**MUG, "metadata": {"warranty_months": "24", "free": "24"}}
    assert faults(await shop.client.post("/products", json=wrong)) == [("/metadata/warranty_months", "invalid_type")]
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 0
    right = await shop.client.post("/products", json={**MUG, "metadata": {"warranty_months": 24, "free": "24"}})
    assert right.status_code == 201
    path = f"/products/{right.json()['data']['id']}"
    refused = await shop.client.patch(path, json={"name": "Cup", "metadata": {"warranty_months": 121}})
    assert faults(refused) == [("/metadata/warranty_months", "out_of_range")]
    assert refused.json()["errors"][0]["meta"] == {"max": 120}
    assert (await shop.client.get(path)).json()["data"]["name"] == "Mug"
    assert (await shop.client.patch(path, json={"metadata": {"warranty_months": None}})).status_code == 200


async def test_items_of_a_batch_are_refused_one_by_one(shop: Shop) -> None:
    await merchant_defines(shop, WARRANTY)
    items = [
        {"op": "create", "data": {**MUG, "metadata": {"warranty_months": 12}}},
        {"op": "upsert", "sku": "CUP", "data": {**MUG, "sku": "CUP", "metadata": {"warranty_months": -1}}},
    ]
    answer = await shop.client.post("/products/batch", json={"items": items, "mode": "independent"})
    results = answer.json()["data"]
    assert [each["status"] for each in results] == ["created", "failed"], answer.text
    assert results[1]["error"]["errors"][0]["pointer"] == "/items/1/data/metadata/warranty_months"
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1


async def test_variants_follow_their_own_definitions(shop: Shop) -> None:
    await merchant_defines(
        shop, {"resource": "variant", "key": "fabric", "type": "choice", "choices": ["linen", "wool"]}
    )
    variants = [{**each, "metadata": {"fabric": "silk"}} for each in SHIRT["variants"]]
    answer = await shop.client.post("/products", json={**SHIRT, "variants": variants})
    assert [pointer for pointer, _ in faults(answer)] == [f"/variants/{n}/metadata/fabric" for n in (0, 1)]
    [shirt] = await shop.add(SHIRT)
    path = f"/products/{shirt}/variants"
    variant = (await shop.client.get(path)).json()["data"][0]["id"]
    patch = {"metadata": {"fabric": "silk"}}
    assert faults(await shop.client.patch(f"{path}/{variant}", json=patch)) == [("/metadata/fabric", "invalid_format")]
    new = {"option_values": {"Size": "L"}, **patch}
    assert faults(await shop.client.post(path, json=new)) == [("/metadata/fabric", "invalid_format")]
    items = [{"id": variant, "data": patch}]
    batch = await shop.client.patch("/products/variants", json={"items": items})
    assert "/items/0/data/metadata/fabric" in batch.text
    assert (await shop.client.patch(f"{path}/{variant}", json={"metadata": {"fabric": "wool"}})).status_code == 200


async def test_orders_follow_the_definition(shop: Shop) -> None:
    await merchant_defines(shop, {"resource": "order", "key": "deliver_on", "type": "date", "min": "2026-01-01"})
    lines = {"line_items": [{"name": "Repair", "unit_price": "10.00", "quantity": 1}]}
    wrong = {**lines, "metadata": {"deliver_on": "soon"}}
    assert faults(await shop.client.post("/orders", json=wrong)) == [("/metadata/deliver_on", "invalid_format")]
    dry = await shop.client.post("/orders?dry_run=true", json=wrong)
    assert faults(dry) == [("/metadata/deliver_on", "invalid_format")]
    order = await shop.client.post("/orders", json={**lines, "metadata": {"deliver_on": "2026-12-24"}})
    path = f"/orders/{order.json()['data']['id']}"
    early = await shop.client.patch(path, json={"metadata": {"deliver_on": "2025-12-24"}})
    assert faults(early) == [("/metadata/deliver_on", "out_of_range")]
    assert (await shop.client.get("/orders")).json()["meta"]["total"] == 1


async def test_historical_orders_follow_the_definition(shop: Shop) -> None:
    await merchant_defines(shop, {"resource": "order", "key": "channel", "type": "choice", "choices": ["web", "pos"]})
    past = {
        "placed_at": "2020-05-01T10:00:00Z",
        "status": "pending",
        "line_items": [{"name": "Repair", "unit_price": "10.00", "quantity": 1}],
    }
    items = [{**past, "metadata": {"channel": channel}} for channel in ("fax", "pos")]
    answer = await shop.client.post("/orders", json={"historical": True, "items": items})
    first, second = answer.json()["data"]
    assert first["error"]["errors"][0]["pointer"] == "/items/0/metadata/channel", answer.text
    assert second["status"] == "created"
    one = await shop.client.post("/orders", json={"historical": True, **items[0]})
    assert faults(one) == [("/metadata/channel", "invalid_format")]


async def test_customers_follow_the_definitions_of_shared_keys(shop: Shop) -> None:
    await merchant_defines(shop, {"resource": "customer", "key": "shared.points", "type": "integer", "min": 0})
    jun = {"email": "jun@example.com"}
    wrong = {**jun, "metadata": {"shared.points": -5}}
    assert faults(await shop.client.post("/customers", json=wrong)) == [("/metadata/shared.points", "out_of_range")]
    created = (await shop.client.post("/customers", json={**jun, "metadata": {"shared.points": 5}})).json()["data"]
    path = f"/customers/{created['id']}"
    patch = {"metadata": {"shared.points": 1.5}}
    assert faults(await shop.client.patch(path, json=patch)) == [("/metadata/shared.points", "invalid_type")]
    merged = await shop.client.patch(f"{path}/metadata", json=patch["metadata"])
    assert faults(merged) == [("/shared.points", "invalid_type")]
    assert (await shop.client.get(path)).json()["data"]["metadata"] == {"shared.points": 5}


async def test_an_app_cannot_see_or_set_the_private_definitions_of_another(shop: Shop) -> None:
    await app_defines(shop, {"resource": "customer", "key": "tier", "type": "choice", "choices": ["gold", "iron"]})
    theirs = await shop.client_with(["customers:write"])
    jun = {"email": "jun@example.com", "metadata": {"tier": "wood"}}
    assert faults(await shop.client.post("/customers", json=jun)) == [("/metadata/tier", "invalid_format")]
    created = await theirs.post("/customers", json=jun)
    assert created.json()["data"]["metadata"] == {"tier": "wood"}
    assert "gold" not in created.text


@pytest.mark.parametrize("resource", ["product", "order"])
async def test_a_definition_of_an_app_binds_every_writer_of_the_key(shop: Shop, resource: Resource) -> None:
    await app_defines(shop, {"resource": resource, "key": "score", "type": "decimal", "max": 1})
    theirs = await shop.client_with(["products:write", "orders:write"])
    bodies = {"product": MUG, "order": {"line_items": [{"name": "Repair", "unit_price": "1.00", "quantity": 1}]}}
    for client in (shop.client, theirs):
        answer = await client.post(f"/{resource}s", json={**bodies[resource], "metadata": {"score": 1.25}})
        assert faults(answer) == [("/metadata/score", "out_of_range")]


async def test_the_merchant_precedes_an_app(shop: Shop) -> None:
    await app_defines(shop, {"resource": "product", "key": "score", "type": "integer"})
    await merchant_defines(shop, {"resource": "product", "key": "score", "type": "string"})
    assert (await shop.client.post("/products", json={**MUG, "metadata": {"score": "A"}})).status_code == 201


async def test_a_required_key_is_required_from_its_date(shop: Shop) -> None:
    await merchant_defines(shop, required("product"), required("variant", day="2999-01-01"))
    assert faults(await shop.client.post("/products", json=SHIRT)) == [("/metadata/origin", "required")]
    assert faults(await shop.client.post("/products", json=MUG)) == [("/metadata", "required")]
    made = await shop.client.post("/products", json={**MUG, "metadata": {"origin": "Ghent"}})
    path = f"/products/{made.json()['data']['id']}"
    assert (await shop.client.patch(path, json={"name": "Cup"})).status_code == 200
    for patch, pointer in (({"origin": None}, "/metadata/origin"), (None, "/metadata")):
        assert faults(await shop.client.patch(path, json={"metadata": patch})) == [(pointer, "required")]


async def test_an_app_requires_its_keys_only_of_itself(shop: Shop) -> None:
    await app_defines(shop, required("product"))
    theirs = await shop.client_with(["products:write"])
    assert (await theirs.post("/products", json=MUG)).status_code == 201
    assert faults(await shop.client.post("/products", json={**MUG, "sku": "CUP"})) == [("/metadata", "required")]


async def test_an_order_may_create_a_customer_without_a_required_key(shop: Shop) -> None:
    await merchant_defines(shop, required("customer", "shared.origin"))
    line = {"name": "Repair", "unit_price": "10.00", "quantity": 1}
    order = {"line_items": [line], "customer": {"email": "jun@example.com"}}
    assert (await shop.client.post("/orders", json=order)).status_code == 201


async def test_a_change_takes_effect_within_a_second(shop: Shop) -> None:
    body = {**MUG, "metadata": {"warranty_months": "long"}}
    assert (await shop.client.post("/products", json={**body, "metadata": {}})).status_code == 201
    await merchant_defines(shop, WARRANTY)
    await in_force()
    assert faults(await shop.client.post("/products", json={**body, "sku": "CUP"}))


async def test_a_value_that_is_not_sent_is_not_checked(shop: Shop) -> None:
    """A value that an earlier release wrote after the definition stays until it is written again."""
    [mug] = await shop.add({**MUG, "price": "9.00", "metadata": {}})
    await merchant_defines(shop, WARRANTY)
    await shop.db.execute(
        """UPDATE products SET head = replace(head, '"metadata":{}', '"metadata":{"warranty_months":"long"}')
            WHERE store_id = $1 AND id = $2""",
        shop.store_id,
        mug,
    )
    changed = await shop.client.patch(f"/products/{mug}", json={"name": "Cup"})
    assert changed.json()["data"]["metadata"] == {"warranty_months": "long"}
    again = await shop.client.patch(f"/products/{mug}", json={"metadata": {"warranty_months": "long"}})
    assert faults(again) == [("/metadata/warranty_months", "invalid_type")]


# --- files -----------------------------------------------------------------------------------------------------------


async def test_rows_of_a_file_are_refused_one_by_one(shop: Shop) -> None:
    await merchant_defines(shop, WARRANTY, {"resource": "variant", "key": "fragile", "type": "boolean"})
    rows = (
        "sku,name,price,metadata.warranty_months,variant.metadata.fragile\nA,Mug,9.00,24,true\nB,Cup,9.00,long,maybe\n"
    )
    job = await imported(shop, "/products/imports", rows, CSV)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 1), job
    assert job["pointers"] == ["/metadata/warranty_months", "/variants/0/metadata/fragile"]
    [mug] = (await shop.client.get("/products?include=variants")).json()["data"]
    assert mug["metadata"] == {"warranty_months": 24}
    assert mug["variants"][0]["metadata"] == {"fragile": True}


async def test_json_rows_of_a_file_have_the_types_of_json(shop: Shop) -> None:
    await merchant_defines(shop, {"resource": "customer", "key": "shared.points", "type": "integer"})
    rows = '{"email":"a@example.com","metadata":{"shared.points":5}}\n{"email":"b@example.com","metadata":{"shared.points":"5"}}\n'
    await shop.client.get("/customers")
    job = await imported(shop, "/customers/imports", rows, NDJSON)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 1), job
    assert job["pointers"] == ["/metadata/shared.points"]
