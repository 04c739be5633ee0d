"""Refusals of products and variants, and the pointers of their faults."""

from typing import Any

import httpx
import pytest
from tests.imports.files import import_file, lines
from tests.support.shops import MUG, SHIRT, Shop

NEW: dict[str, Any] = {"name": "Bowl", "price": "9.00"}


def pointers(answer: httpx.Response) -> dict[str, str]:
    return {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]}


async def batch(shop: Shop, *items: dict[str, Any], mode: str = "independent") -> httpx.Response:
    return await shop.client.post("/products/batch", json={"mode": mode, "items": list(items)})


FAULTY: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"variants": [{"sku": "B"}], "stock": {"on_hand": 5}}, {"/stock": "invalid_format"}),
    ({"stock": {"on_hand": -1}}, {"/stock/on_hand": "out_of_range"}),
    ({"name": "  ", "tags": [" "]}, {"/name": "invalid_format", "/tags/0": "invalid_format"}),
    ({"sku": " B"}, {"/sku": "invalid_format"}),
    ({"external_id": ""}, {"/external_id": "invalid_format"}),
    (
        {"options": [{"name": "Size", "values": ["S"]}], "variants": [{"stock": {"on_hand": -1}}]},
        {"/variants/0/option_values": "option_mismatch", "/variants/0/stock/on_hand": "out_of_range"},
    ),
]


@pytest.mark.parametrize(("change", "faults"), FAULTY)
async def test_a_fault_points_to_the_field_in_the_request(
    shop: Shop, change: dict[str, Any], faults: dict[str, str]
) -> None:
    answer = await shop.client.post("/products", json={**NEW, **change})
    assert answer.status_code == 422, answer.text
    assert pointers(answer) == faults


async def test_a_fault_of_a_metadata_value_names_the_allowed_types(shop: Shop) -> None:
    answer = await shop.client.post("/products", json={**NEW, "metadata": {"a": []}})
    assert answer.json()["errors"][0]["detail"] == "must be a string or an integer or a number or true or false"


async def test_true_differs_from_one(shop: Shop) -> None:
    product = (await shop.client.post("/products", json={**NEW, "metadata": {"a": 1}})).json()["data"]
    answer = await shop.client.patch(f"/products/{product['id']}", json={"metadata": {"a": True}})
    assert (answer.json()["data"]["metadata"], answer.json()["data"]["version"]) == ({"a": True}, 2)
    rows = await shop.db.fetch(
        "SELECT type FROM events WHERE store_id = $1 AND type LIKE 'product.%' ORDER BY position", shop.store_id
    )
    assert [row[0] for row in rows] == ["product.created", "product.updated"]


async def test_a_returned_document_can_be_sent_back(shop: Shop) -> None:
    new = {**NEW, "variants": [{"sku": "B", "weight": 1.1, "metadata": {"ratio": 0.3}}]}
    product = (await shop.client.post("/products", json=new)).json()["data"]
    path = f"/products/{product['id']}"
    answer = await shop.client.patch(path, json=product)
    assert (answer.status_code, answer.json()["data"]["version"]) == (200, 1), answer.text
    variant = product["variants"][0]
    answer = await shop.client.patch(f"{path}/variants/{variant['id']}", json=variant)
    assert (answer.status_code, answer.json()["data"]["version"]) == (200, 1), answer.text
    item = {"id": variant["id"], "data": variant}
    answer = await shop.client.patch("/products/variants", json={"items": [item]})
    assert [result["status"] for result in answer.json()["data"]] == ["unchanged"], answer.text


async def test_a_batch_of_variants_refuses_a_changed_read_only_field(shop: Shop) -> None:
    await shop.add(MUG)
    item = {"sku": "MUG-1", "data": {"title": "Large", "stock": {"on_hand": 4, "reserved": 0, "available": 4}}}
    answer = await shop.client.patch("/products/variants", json={"items": [item]})
    assert pointers(answer) == {"/items/0/data/title": "read_only_field", "/items/0/data/stock": "read_only_field"}


async def test_a_taken_key_of_a_variant_is_reported_at_its_field(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    await shop.client.patch("/products/variants", json={"items": [{"sku": "MUG-1", "data": {"external_id": "pos-7"}}]})
    holder = (await shop.client.get("/products/variants", params={"sku": "MUG-1"})).json()["data"][0]["id"]
    path = f"/products/{shirt}/variants"
    small = (await shop.client.get(path)).json()["data"][0]["id"]
    for change, code, existing in (
        ({"sku": "MUG-1"}, "sku_taken", mug),
        ({"sku": "LS-M"}, "sku_taken", shirt),
        ({"external_id": "pos-7"}, "external_id_taken", holder),
    ):
        pointer = "/" + next(iter(change))
        for answer in (
            await shop.client.post(path, json={"option_values": {"Size": "L"}, **change}),
            await shop.client.patch(f"{path}/{small}", json=change),
        ):
            assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (409, code, existing)
            assert pointers(answer) == {pointer: code}
        answer = await shop.client.patch("/products/variants", json={"items": [{"id": small, "data": change}]})
        (fault,) = answer.json()["errors"]
        assert (fault["pointer"], fault["meta"]["existing_id"]) == (f"/items/0/data{pointer}", existing)


async def test_a_taken_key_of_a_nested_variant_is_reported_at_its_field(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    rows = [{"sku": "LS-M"}, {"sku": "MUG-1", "option_values": {"Size": "L"}}]
    answer = await batch(shop, {"op": "update", "id": shirt, "data": {"variants": rows}})
    (fault,) = answer.json()["data"][0]["error"]["errors"]
    assert (fault["pointer"], fault["meta"]["existing_id"]) == ("/items/0/data/variants/1/sku", mug)


async def test_the_keys_of_a_create_item_become_fields_of_the_product(shop: Shop) -> None:
    answer = await batch(shop, {"op": "create", "sku": "BOWL", "external_id": "erp-7", "data": NEW})
    resource = answer.json()["data"][0]["resource"]
    assert (resource["sku"], resource["external_id"]) == ("BOWL", "erp-7")


async def test_a_create_item_must_not_have_an_id_or_version(shop: Shop) -> None:
    answer = await batch(shop, {"op": "create", "id": 5, "if_version": 3, "data": NEW}, mode="atomic")
    assert pointers(answer) == {"/items/0/id": "invalid_format", "/items/0/if_version": "invalid_format"}


async def test_an_upsert_with_if_version_never_creates(shop: Shop) -> None:
    answer = await batch(shop, {"op": "upsert", "sku": "BOWL", "if_version": 3, "data": NEW})
    assert [result["status"] for result in answer.json()["data"]] == ["failed"]
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 0


async def test_an_upsert_can_be_matched_by_the_id_in_its_data(shop: Shop) -> None:
    (mug,) = await shop.add(MUG)
    named = {"op": "upsert", "match_by": "id", "data": {"id": mug, "name": "Tall Mug"}}
    wrong = {"op": "upsert", "match_by": "id", "data": {"id": True, "name": "x"}}
    answer = await batch(shop, named, wrong)
    assert [result["status"] for result in answer.json()["data"]] == ["updated", "failed"]


async def test_a_stale_item_reports_the_current_version(shop: Shop) -> None:
    await shop.add(MUG)
    for path, item in (
        ("/products/batch", {"op": "update", "sku": "MUG-1", "if_version": 9, "data": {"name": "x"}}),
        ("/products/variants", {"sku": "MUG-1", "if_version": 9, "data": {"barcode": "1"}}),
    ):
        method = "POST" if path.endswith("batch") else "PATCH"
        answer = await shop.client.request(method, path, json={"mode": "independent", "items": [item]})
        (fault,) = answer.json()["data"][0]["error"]["errors"]
        assert (fault["pointer"], fault["meta"]) == ("/items/0/if_version", {"current_version": 1})


@pytest.mark.parametrize("variants", [{}, None, "", 0, False])
async def test_variants_must_be_a_list(shop: Shop, variants: Any) -> None:
    (mug,) = await shop.add(MUG)
    answer = await batch(shop, {"op": "update", "id": mug, "data": {"variants": variants}}, mode="atomic")
    assert pointers(answer) == {"/items/0/data/variants": "invalid_type"}


async def test_a_batch_of_variants_can_swap_skus(shop: Shop) -> None:
    first, second = await shop.add({**NEW, "sku": "A"}, {**NEW, "sku": "B"})
    found = (await shop.client.get("/products/variants")).json()["data"]
    one, other = (variant["id"] for variant in found)
    items = [{"id": one, "data": {"sku": "C"}}, {"id": other, "data": {"sku": "A"}}, {"id": one, "data": {"sku": "B"}}]
    answer = await shop.client.patch("/products/variants", json={"items": items})
    assert answer.status_code == 200, answer.text
    page = (await shop.client.get("/products", params={"fields": "id,sku"})).json()["data"]
    assert page == [{"id": first, "sku": "B"}, {"id": second, "sku": "A"}]


async def test_one_product_takes_the_same_includes_as_the_list(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    plain = (await shop.client.get(f"/products/{shirt}")).json()["data"]
    answer = await shop.client.get(f"/products/{shirt}", params={"include": "variants,inventory"})
    assert answer.status_code == 200, answer.text
    assert {name: answer.json()["data"][name] for name in plain} == plain
    assert len(answer.json()["data"]["inventory"]) == 2


async def test_variant_fields_on_a_product_with_several_variants_must_name_one(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for data in ({"sku": "LS-XL", "stock": {"on_hand": 9}}, {"barcode": "7"}, {"stock": {"on_hand": 9}}):
        answer = await batch(shop, {"op": "update", "id": shirt, "data": data}, mode="atomic")
        assert pointers(answer) == {f"/items/0/data/{name}": "unknown_variant" for name in data}
    shown = (await shop.client.get("/products")).json()["data"][0]
    sum_of_yesterday = {**shown, "stock": {"on_hand": 9, "reserved": 0, "available": 9}}
    answer = await batch(shop, {"op": "update", "id": shirt, "data": sum_of_yesterday})
    assert answer.json()["data"][0]["status"] == "unchanged"
    answer = await batch(shop, {"op": "update", "id": shirt, "data": {"sku": "LS-M", "stock": {"on_hand": 9}}})
    assert answer.json()["data"][0]["status"] == "updated"


async def test_a_batch_of_variants_can_swap_option_values(shop: Shop) -> None:
    await shop.add({**SHIRT, "options": [{"name": "Size", "values": ["S", "M", "L"]}]})
    small, medium = (variant["id"] for variant in (await shop.client.get("/products/variants")).json()["data"])
    sizes = [(small, "L"), (medium, "S"), (small, "M")]
    items = [{"id": id_, "data": {"option_values": {"Size": size}}} for id_, size in sizes]
    answer = await shop.client.patch("/products/variants", json={"items": items})
    assert answer.status_code == 200, answer.text
    page = (await shop.client.get("/products/variants")).json()["data"]
    found = [(each["id"], each["option_values"], each["version"]) for each in page]
    assert found == [(small, {"Size": "M"}, 2), (medium, {"Size": "S"}, 2)]


@pytest.mark.parametrize("way", ["batch", "import"])
@pytest.mark.parametrize("order", [["A", "B", "C"], ["C", "B", "A"]])
async def test_the_variants_of_one_row_can_exchange_their_keys(shop: Shop, way: str, order: list[str]) -> None:
    await shop.add(
        {
            "name": "Bowl",
            "price": "1",
            "external_id": "bowl",
            "options": [{"name": "Size", "values": ["A", "B", "C"]}],
            "variants": [{"sku": name, "external_id": name, "option_values": {"Size": name}} for name in "ABC"],
        }
    )
    ids = {each["sku"]: each["id"] for each in (await shop.client.get("/products/variants")).json()["data"]}
    others = {"A": "B", "B": "C", "C": "A"}
    variants = [{"id": ids[name], "sku": others[name], "external_id": others[name]} for name in order]
    if way == "batch":
        item = {"op": "update", "external_id": "bowl", "data": {"variants": variants}}
        answer = await batch(shop, item, mode="atomic")
        assert answer.status_code == 200, answer.text
    else:
        job = await import_file(shop, lines([{"external_id": "bowl", "variants": variants}]), match_by="external_id")
        assert (job["status"], job["counts"]["updated"]) == ("succeeded", 1), job["errors"]
    page = (await shop.client.get("/products/variants")).json()["data"]
    found = {each["id"]: (each["sku"], each["external_id"], each["version"]) for each in page}
    assert found == {ids[name]: (others[name], others[name], 2) for name in ids}
