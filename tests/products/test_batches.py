"""Atomic and independent batches of products and variants."""

from typing import Any

import httpx
from tests.support.shops import MUG, SHIRT, Shop


async def batch(shop: Shop, mode: str, *items: dict[str, Any]) -> httpx.Response:
    return await shop.client.post("/products/batch", json={"mode": mode, "items": list(items)})


async def test_a_batch_creates_updates_and_deletes(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    answer = await batch(
        shop,
        "atomic",
        {"op": "create", "data": {"name": "Bowl", "price": "9", "sku": "BOWL"}},
        {"op": "update", "id": shirt, "if_version": 1, "data": {"price": "50.00"}},
        {"op": "upsert", "sku": "MUG-1", "data": {"name": "Big Mug", "stock": {"on_hand": 8}}},
        {"op": "upsert", "match_by": "external_id", "external_id": "erp-9", "data": {"name": "New", "price": "1"}},
        {"op": "update", "external_id": "erp-1", "data": {"price": "50.00"}},
        {"op": "update", "sku": "BOWL", "data": {"price": "10"}},
        {"op": "delete", "id": mug},
    )
    assert answer.status_code == 200, answer.text
    results = answer.json()["data"]
    assert [r["status"] for r in results] == [
        "created",
        "updated",
        "updated",
        "created",
        "unchanged",
        "updated",
        "deleted",
    ]
    assert answer.json()["meta"] == {"total": 7, "succeeded": 7, "failed": 0}
    assert (results[0]["id"], results[0]["resource"]["price"]) == (results[5]["id"], "10.00")
    assert results[1]["resource"]["price"] == "50.00"
    assert (results[2]["id"], results[6]["id"]) == (mug, mug)
    assert results[6]["resource"] is None
    page = (await shop.client.get("/products", params={"sort": "name"})).json()
    assert [p["name"] for p in page["data"]] == ["Bowl", "Linen Shirt", "New"]
    assert page["meta"]["total"] == 3


async def test_an_atomic_batch_with_faults_writes_nothing_and_reports_all_faults(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    before = (await shop.client.get(f"/products/{shirt}")).json()
    answer = await batch(
        shop,
        "atomic",
        {"op": "update", "id": shirt, "data": {"name": "Changed"}},
        {"op": "create", "data": {"name": "", "price": "1.999"}},
        {"op": "update", "id": 999_999, "data": {"name": "x"}},
        {"op": "delete", "sku": "NOPE"},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    found = {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]}
    assert found == {
        "/items/1/data/name": "invalid_format",
        "/items/1/data/price": "invalid_money",
        "/items/2/id": "not_found",
        "/items/3/sku": "unknown_sku",
    }
    assert (await shop.client.get(f"/products/{shirt}")).json() == before


async def test_faults_of_several_kinds_are_reported_as_batch_failed(shop: Shop) -> None:
    await shop.add(SHIRT)
    answer = await batch(
        shop,
        "atomic",
        {"op": "create", "data": {"name": "x", "price": "1", "sku": "LS-S"}},
        {"op": "create", "data": {"price": "1"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "batch_failed")
    assert [f["pointer"] for f in answer.json()["errors"]] == ["/items/0/data/sku", "/items/1/data/name"]


async def test_independent_items_are_applied_separately(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    answer = await batch(
        shop,
        "independent",
        {"op": "create", "data": {"name": "x", "price": "1", "sku": "LS-S"}},
        {"op": "create", "data": {"name": "y", "price": "1", "sku": "Y"}},
        {"op": "create", "data": {"name": "z", "price": "1", "sku": "Y"}},
        {"op": "update", "id": shirt, "if_version": 7, "data": {"name": "z"}},
        {"op": "update", "id": shirt, "data": {}},
        {"op": "update", "data": {"name": "z"}},
    )
    assert answer.status_code == 207
    results = answer.json()["data"]
    assert [(r["status"], r["error"] and r["error"]["code"]) for r in results] == [
        ("failed", "sku_taken"),
        ("created", None),
        ("failed", "sku_taken"),
        ("failed", "version_conflict"),
        ("unchanged", None),
        ("failed", "validation_failed"),
    ]
    assert answer.json()["meta"] == {"total": 6, "succeeded": 2, "failed": 4}
    assert results[0]["error"]["errors"][0]["pointer"] == "/items/0/data/sku"


async def test_an_item_can_include_variants_and_their_stock(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    rows = [
        {"sku": "LS-S", "stock": {"on_hand": 9}},
        {"option_values": {"Size": "M"}, "barcode": "777"},
        {"sku": "LS-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 1}},
    ]
    answer = await batch(shop, "atomic", {"op": "update", "id": shirt, "data": {"variants": rows}})
    assert answer.status_code == 200, answer.text
    product = answer.json()["data"][0]["resource"]
    assert [(v["sku"], v["barcode"], v["stock"]["on_hand"]) for v in product["variants"]] == [
        ("LS-S", "2000000000015", 9),
        ("LS-M", "777", 0),
        ("LS-L", None, 1),
    ]
    assert product["stock"]["on_hand"] == 10
    again = await batch(shop, "atomic", {"op": "update", "id": shirt, "data": product})
    assert again.json()["data"][0]["status"] == "unchanged", "what was answered may be sent back"


async def test_variants_across_products_are_patched_in_one_call(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    medium = (await shop.client.get("/products/variants", params={"sku": "LS-M"})).json()["data"][0]
    items = [
        {"sku": "LS-S", "data": {"price": "40.00"}},
        {"sku": "MUG-1", "if_version": 1, "data": {"barcode": "123"}},
        {"id": medium["id"], "data": {"price": "61.00"}},
    ]
    answer = await shop.client.patch("/products/variants", json={"items": items})
    assert answer.status_code == 200, answer.text
    assert [r["status"] for r in answer.json()["data"]] == ["updated", "updated", "unchanged"]
    assert answer.json()["data"][0]["resource"]["effective_price"] == "40.00"
    assert (await shop.client.get(f"/products/{mug}")).json()["data"]["barcode"] == "123"
    wrong: list[dict[str, Any]] = [
        {"sku": "NOPE", "data": {}},
        {"id": 999_999, "data": {}},
        {"data": {}},
        {"sku": "LS-S", "data": {"price": "x", "shelf": 1}},
        {"sku": "MUG-1", "data": {"sku": "LS-S"}},
    ]
    answer = await shop.client.patch("/products/variants", json={"mode": "independent", "items": wrong})
    assert answer.status_code == 207
    codes = [[f["code"] for f in r["error"]["errors"]] for r in answer.json()["data"]]
    assert codes == [
        ["unknown_sku"],
        ["unknown_variant"],
        ["required"],
        ["invalid_money", "unknown_field"],
        ["sku_taken"],
    ]
    assert (await shop.client.get(f"/products/{shirt}")).json()["data"]["version"] == 2


async def test_a_batch_has_a_size_limit_and_costs_rate_limit_tokens(shop: Shop) -> None:
    item = {"op": "delete", "id": 1}
    answer = await batch(shop, "atomic", *[item] * 101)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_items")
    assert (await batch(shop, "atomic")).status_code == 422
    shop.client = await shop.client_with(["products:write"])
    first = await batch(shop, "independent", item)
    second = await batch(shop, "independent", *[item] * 100)
    spent = int(first.headers["x-ratelimit-remaining"]) - int(second.headers["x-ratelimit-remaining"])
    assert spent in (3, 2), "one for the request and one for each fifty items, less what has come back meanwhile"


async def test_an_invalid_item_does_not_hide_the_faults_of_other_items(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    answer = await batch(
        shop,
        "atomic",
        {"op": "replace", "id": shirt, "data": {}},
        {"op": "create", "data": {"name": "Bowl", "price": "9.999"}},
        {"op": "update", "id": 999_999, "data": {}},
        {"op": "delete", "id": shirt, "colour": "red"},
        {"op": "update", "id": shirt, "data": {"name": "Changed"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
        ("/items/0/op", "invalid_format"),
        ("/items/1/data/price", "invalid_money"),
        ("/items/2/id", "not_found"),
        ("/items/3/colour", "unknown_field"),
    ]
    assert (await shop.client.get(f"/products/{shirt}")).json()["data"]["name"] == SHIRT["name"]


async def test_an_invalid_item_fails_by_itself_in_an_independent_batch(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    items = [{"op": "replace", "id": shirt}, {"op": "update", "id": shirt, "data": {"name": "Changed"}}, 7]
    answer = await shop.client.post("/products/batch", json={"mode": "independent", "items": items})
    assert answer.status_code == 207
    results = answer.json()["data"]
    assert [(each["index"], each["status"]) for each in results] == [(0, "failed"), (1, "updated"), (2, "failed")]
    pointers = [each["error"]["errors"][0]["pointer"] for each in results if each["error"]]
    assert pointers == ["/items/0/op", "/items/2"]


async def test_an_invalid_adjustment_does_not_hide_the_faults_of_other_items(shop: Shop) -> None:
    await shop.add(SHIRT)
    items = [
        {"sku": "LS-S", "op": "add", "quantity": 1},
        {"sku": "NOPE", "quantity": 1},
        {"quantity": 1},
        {"sku": "LS-S", "quantity": -99},
        {"sku": "LS-S", "quantity": 1},
    ]
    answer = await shop.client.post("/products/inventory/adjustments", json={"items": items})
    assert (answer.status_code, answer.json()["code"]) == (422, "batch_failed")
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
        ("/items/0/op", "invalid_format"),
        ("/items/1/sku", "unknown_sku"),
        ("/items/2/variant_id", "required"),
        ("/items/3/quantity", "insufficient_stock"),
    ]
    answer = await shop.client.post("/products/inventory/adjustments", json={"mode": "independent", "items": items})
    assert [each["status"] for each in answer.json()["data"]] == ["failed"] * 4 + ["updated"]


async def test_a_sku_changes_only_on_its_variant(shop: Shop) -> None:
    (mug,) = await shop.add(MUG)
    variant = (await shop.client.get(f"/products/{mug}/variants")).json()["data"][0]["id"]
    refused = ("/sku", "read_only_field")
    patched = await shop.client.patch(f"/products/{mug}", json={"sku": "MUG-2"})
    assert [(fault["pointer"], fault["code"]) for fault in patched.json()["errors"]] == [refused]
    for sku in ("MUG-2", None):
        item = {"op": "update", "id": mug, "data": {"sku": sku, "name": "Mug"}}
        fault = (await batch(shop, "atomic", item)).json()["errors"][0]
        assert (fault["pointer"], fault["code"]) == ("/items/0/data/sku", "read_only_field")
        assert "PATCH /products/{product_id}/variants/{variant_id}" in fault["detail"]
    same = await batch(shop, "atomic", {"op": "update", "id": mug, "data": {"sku": "MUG-1"}})
    assert same.json()["data"][0]["status"] == "unchanged"
    path = f"/products/{mug}/variants/{variant}"
    assert (await shop.client.patch(path, json={"sku": "MUG-2"})).json()["data"]["sku"] == "MUG-2"
    bulk = {"items": [{"id": variant, "data": {"sku": "MUG-3"}}]}
    assert (await shop.client.patch("/products/variants", json=bulk)).status_code == 200
    nested = {"op": "update", "id": mug, "data": {"variants": [{"id": variant, "sku": "MUG-4"}]}}
    assert (await batch(shop, "atomic", nested)).json()["data"][0]["resource"]["sku"] == "MUG-4"


async def test_keys_of_different_products_are_a_mismatch(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    data = {"name": "Changed"}
    answer = await batch(
        shop,
        "atomic",
        {"op": "update", "id": mug, "sku": "LS-S", "data": data},
        {"op": "delete", "id": mug, "sku": "NOPE"},
        {"op": "upsert", "sku": "MUG-1", "external_id": "erp-1", "data": data},
        {"op": "update", "match_by": "external_id", "id": mug, "external_id": "erp-1", "data": data},
        {"op": "update", "id": shirt, "sku": "LS-M", "external_id": "erp-1", "data": data},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
        ("/items/0/sku", "key_mismatch"),
        ("/items/1/sku", "key_mismatch"),
        ("/items/2/external_id", "key_mismatch"),
        ("/items/3/id", "key_mismatch"),
    ]


async def test_an_id_and_a_sku_of_different_variants_are_a_mismatch(shop: Shop) -> None:
    await shop.add(SHIRT)
    small, medium = (await shop.client.get("/products/variants")).json()["data"]
    items = [
        {"id": small["id"], "sku": "LS-S", "data": {"price": "40.00"}},
        {"id": medium["id"], "sku": "LS-S", "data": {"price": "41.00"}},
    ]
    answer = await shop.client.patch("/products/variants", json={"mode": "independent", "items": items})
    results = answer.json()["data"]
    assert [each["status"] for each in results] == ["updated", "failed"]
    fault = results[1]["error"]["errors"][0]
    assert (fault["pointer"], fault["code"]) == ("/items/1/sku", "key_mismatch")


async def test_a_key_beside_the_data_is_reported_where_it_was_sent(shop: Shop) -> None:
    await shop.add(SHIRT, MUG)
    answer = await batch(
        shop,
        "independent",
        {"op": "create", "sku": "MUG-1", "data": {"name": "Bowl", "price": "1"}},
        {"op": "create", "data": {"name": "Bowl", "price": "1", "sku": "MUG-1"}},
        {"op": "upsert", "match_by": "id", "data": {"id": 999_999}},
        {"op": "create", "data": {"price": "1"}},
    )
    assert [each["error"]["errors"][0]["pointer"] for each in answer.json()["data"]] == [
        "/items/0/sku",
        "/items/1/data/sku",
        "/items/2/data/id",
        "/items/3/data/name",
    ]


async def test_a_variant_inside_an_item_is_refused_if_it_was_read_before_it_changed(shop: Shop) -> None:
    created = await shop.client.post("/products", json={"name": "Mug", "price": "9.00", "variants": [{"sku": "MUG-R"}]})
    product = created.json()["data"]
    [variant] = (await shop.client.get(f"/products/{product['id']}/variants")).json()["data"]
    path = f"/products/{product['id']}/variants/{variant['id']}"
    assert (await shop.client.patch(path, json={"barcode": "123"})).status_code == 200
    for key in ({"id": variant["id"]}, {"sku": "MUG-R"}):
        stale = {"variants": [{**key, "version": variant["version"], "barcode": "456"}]}
        body = {"items": [{"op": "update", "id": product["id"], "data": stale}]}
        refused = await shop.client.post("/products/batch", json=body)
        assert refused.json()["errors"][0]["code"] == "version_conflict", refused.text
        assert refused.json()["errors"][0]["pointer"] == "/items/0/data/variants/0/version"
    foreign = {"items": [{"op": "update", "id": product["id"], "data": {"variants": [{"id": 10**9, "version": 1}]}}]}
    unknown = (await shop.client.post("/products/batch", json=foreign)).json()["errors"][0]
    assert (unknown["pointer"], unknown["code"]) == ("/items/0/data/variants/0/id", "unknown_variant")
    assert (await shop.client.get(path)).json()["data"]["barcode"] == "123"


async def test_a_new_product_without_data_is_refused_at_its_item(shop: Shop) -> None:
    for item in ({"op": "create"}, {"op": "upsert", "sku": "NEW-1"}):
        answer = await shop.client.post("/products/batch", json={"items": [item]})
        assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
            ("/items/0/data", "required")
        ]
