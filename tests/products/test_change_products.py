"""Changes of the catalog: create, patch and delete products and variants, and their events."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.shops import MUG, SHIRT, Shop


async def created(shop: Shop, product: dict[str, Any]) -> dict[str, Any]:
    answer = await shop.client.post("/products", json=product)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def events(shop: Shop) -> list[tuple[str, int, dict[str, Any]]]:
    """The outbox in order: type, resource and changes."""
    rows = await shop.db.fetch(
        "SELECT type, resource_id, changes FROM events WHERE store_id = $1 AND type LIKE 'product.%' ORDER BY position",
        shop.store_id,
    )
    return [(row[0], row[1], msgspec.json.decode(row[2])) for row in rows]


async def test_a_product_is_created_with_its_variants_and_found_again(shop: Shop) -> None:
    answer = await shop.client.post("/products", json=SHIRT)
    assert answer.status_code == 201
    product = answer.json()["data"]
    again = await shop.client.get(answer.headers["location"])
    assert again.json()["data"] == product
    assert product["slug"] == "linen-shirt"
    assert product["stock"] == {"on_hand": 4, "reserved": 0, "available": 4}
    assert [variant["title"] for variant in product["variants"]] == ["S", "M"]
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1
    assert await events(shop) == [("product.created", product["id"], {})]
    rows = await shop.db.fetch(
        "SELECT sku, kind, delta_on_hand, on_hand_after FROM stock_movements WHERE store_id = $1", shop.store_id
    )
    assert [tuple(row) for row in rows] == [("LS-S", "set", 4, 4)]


async def test_the_event_contains_the_product_as_the_api_returns_it(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    rows = await shop.db.fetch(
        "SELECT data, actor, request_id FROM events WHERE store_id = $1 AND type = 'product.created'", shop.store_id
    )
    data, actor, request_id = rows[0]
    assert msgspec.json.decode(data) == product
    assert msgspec.json.decode(actor) == {"type": "app", "app_id": shop.app_id}
    assert request_id.startswith("req_")


async def test_a_product_without_variants_gets_a_default_variant(shop: Shop) -> None:
    mug = await created(shop, {"name": "Mug", "price": "5", "sku": "M", "barcode": "b", "stock": {"on_hand": 7}})
    (only,) = mug["variants"]
    assert (mug["sku"], mug["barcode"], only["sku"], only["title"], only["is_default"]) == (
        "M",
        "b",
        "M",
        "Default",
        True,
    )
    assert only["stock"]["on_hand"] == mug["stock"]["on_hand"] == 7


async def test_skus_and_external_ids_are_unique(shop: Shop, other_shop: Shop) -> None:
    first = await created(shop, SHIRT)
    for product, code in (
        ({"name": "x", "price": 1, "sku": "LS-M"}, "sku_taken"),
        ({"name": "x", "price": 1, "external_id": "erp-1"}, "external_id_taken"),
    ):
        answer = await shop.client.post("/products", json=product)
        assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (409, code, first["id"])
        assert answer.json()["errors"][0]["code"] == code
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1
    assert (await other_shop.client.post("/products", json=SHIRT)).status_code == 201


FAULTY: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"variants": [{"option_values": {"Size": "XL"}}]}, {"/variants/0/option_values/Size": "option_mismatch"}),
    ({"variants": [{"option_values": {}}]}, {"/variants/0/option_values": "option_mismatch"}),
    ({"variants": [{"option_values": {"Size": "S"}}] * 2}, {"/variants/1/option_values": "option_mismatch"}),
    ({"options": [], "variants": [{"option_values": {"Size": "S"}}]}, {"/variants/0/option_values": "option_mismatch"}),
    (
        {"name": "", "price": None, "status": "gone"},
        {"/name": "invalid_format", "/price": "invalid_type", "/status": "invalid_format"},
    ),
    ({"images": [{"url": "ftp://x"}], "weight": -1}, {"/images/0/url": "invalid_format", "/weight": "out_of_range"}),
    (
        {"metadata": {"not a key!": 1, "deep": {}}},
        {"/metadata/not a key!": "invalid_format", "/metadata/deep": "invalid_type"},
    ),
    ({"sku": "X"}, {"/sku": "invalid_format"}),
    (
        {"variants": [{"option_values": {"Size": "S"}, "stock": {"on_hand": -1}}]},
        {"/variants/0/stock/on_hand": "out_of_range"},
    ),
    ({"id": 7, "version": 3}, {"/id": "read_only_field", "/version": "read_only_field"}),
]


@pytest.mark.parametrize(("change", "faults"), FAULTY)
async def test_faults_of_a_new_product_are_named(shop: Shop, change: dict[str, Any], faults: dict[str, str]) -> None:
    answer = await shop.client.post("/products", json={**SHIRT, **change})
    assert answer.status_code == 422, answer.text
    assert {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]} == faults
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 0
    assert await events(shop) == []


async def test_an_event_contains_exactly_the_changes_of_a_patch(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    path = f"/products/{product['id']}"
    answer = await shop.client.patch(
        path, json={"price": "60", "tags": None, "metadata": {"year": None, "lot": "B"}, "seo": {"title": "Shirt"}}
    )
    after = answer.json()["data"]
    assert (after["price"], after["tags"], after["version"]) == ("60.00", [], 2)
    assert after["metadata"] == {"material": "linen", "washable": True, "lot": "B"}
    assert after["seo"] == {"title": "Shirt", "description": None}
    assert after["updated_at"] > product["updated_at"]
    assert after["variants"][0]["effective_price"] == "60.00", "a variant without a price of its own follows"
    assert after["variants"][1]["effective_price"] == "61.00"
    kind, resource, changes = (await events(shop))[-1]
    assert (kind, resource) == ("product.updated", product["id"])
    assert changes["price"] == ["59.00", "60.00"]
    assert set(changes) == {"price", "tags", "metadata", "seo"}
    same = await shop.client.patch(path, json={"price": 60.00, "name": "Linen Shirt", "tags": []})
    assert same.json()["data"] == after, "nothing changed, so nothing moved"
    assert len(await events(shop)) == 2


async def test_a_whole_product_may_be_sent_back_with_a_change(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    path = f"/products/{product['id']}"
    answer = await shop.client.patch(path, json={**product, "name": "Renamed"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["images"] == product["images"]
    answer = await shop.client.patch(path, json={"sku": "new", "stock": {"on_hand": 9}, "currency": "EUR"})
    assert {f["pointer"]: f["code"] for f in answer.json()["errors"]} == dict.fromkeys(
        ("/sku", "/stock", "/currency"), "read_only_field"
    )


async def test_images_keep_their_identity(shop: Shop) -> None:
    product = await created(shop, {**MUG, "images": [{"url": "https://a.example/1"}, {"url": "https://a.example/2"}]})
    path = f"/products/{product['id']}"
    sent = [{"url": "https://a.example/3"}, {"url": "https://a.example/2", "alt": "two"}]
    images = (await shop.client.patch(path, json={"images": sent})).json()["data"]["images"]
    assert [(i["id"], i["position"], i["alt"]) for i in images] == [(3, 1, None), (2, 2, "two")]


async def test_options_that_variants_use_cannot_be_removed(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    answer = await shop.client.patch(
        f"/products/{product['id']}", json={"options": [{"name": "Size", "values": ["S"]}]}
    )
    assert answer.json()["errors"][0]["code"] == "option_mismatch"


async def test_a_deleted_product_leaves_a_tombstone_and_frees_its_skus(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    path = f"/products/{product['id']}"
    assert (await shop.client.delete(path)).status_code == 204
    assert (await shop.client.get(path)).status_code == (await shop.client.delete(path)).status_code == 404
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 0
    gone = (await shop.client.get("/products", params={"include_deleted": "true"})).json()["data"]
    assert (gone[0]["id"], gone[0]["version"]) == (product["id"], 2)
    assert (await events(shop))[-1][:2] == ("product.deleted", product["id"])
    assert (await shop.client.post("/products", json=SHIRT)).status_code == 201


async def test_variants_are_added_and_deleted(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    path = f"/products/{product['id']}"
    new = {"sku": "LS-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 2}, "weight": 0.25}
    answer = await shop.client.post(f"{path}/variants", json=new)
    assert answer.status_code == 201, answer.text
    large = answer.json()["data"]
    assert (large["title"], large["position"], large["is_default"], large["weight"]) == ("L", 3, False, 0.25)
    assert (await shop.client.get(answer.headers["location"])).json()["data"] == large
    after = (await shop.client.get(path)).json()["data"]
    assert after["options"][0]["values"] == ["S", "M", "L"]
    assert (after["stock"]["on_hand"], after["variants_count"], after["version"]) == (6, 3, 2)
    again = await shop.client.post(f"{path}/variants", json={"option_values": {"Size": "L"}})
    assert (again.status_code, again.json()["code"]) == (409, "duplicate_variant")
    wrong = await shop.client.post(f"{path}/variants", json={"option_values": {"Colour": "L"}})
    assert wrong.json()["errors"][0]["code"] == "option_mismatch"
    taken = await shop.client.post(f"{path}/variants", json={"option_values": {"Size": "XL"}, "sku": "LS-S"})
    assert (taken.status_code, taken.json()["code"]) == (409, "sku_taken")
    listed = (await shop.client.get(f"{path}/variants")).json()
    assert (listed["meta"]["total"], [v["sku"] for v in listed["data"]]) == (3, ["LS-S", "LS-M", "LS-L"])
    for sku in ("LS-S", "LS-M"):
        variant = (await shop.client.get("/products/variants", params={"sku": sku})).json()["data"][0]
        assert (await shop.client.delete(f"{path}/variants/{variant['id']}")).status_code == 204
    last = await shop.client.delete(f"{path}/variants/{large['id']}")
    assert (last.status_code, last.json()["code"]) == (409, "last_variant")
    only = (await shop.client.get(path)).json()["data"]
    assert (only["sku"], only["stock"]["on_hand"], only["variants"][0]["id"]) == ("LS-L", 2, large["id"])
    kinds = [kind for kind, _, _ in await events(shop)]
    assert kinds.count("product.variant_created") == 1
    assert kinds.count("product.variant_deleted") == 2
    assert kinds.count("product.updated") == 1, (
        "only the new value of its option; other fields follow from the variants"
    )


async def test_a_variant_is_patched_with_its_own_version(shop: Shop) -> None:
    product = await created(shop, SHIRT)
    small, medium = product["variants"]
    path = f"/products/{product['id']}/variants/{medium['id']}"
    answer = await shop.client.patch(path, json={"price": None, "low_stock_threshold": 3}, headers={"if-match": '"1"'})
    after = answer.json()["data"]
    assert (after["price"], after["effective_price"], after["low_stock_threshold"], after["version"]) == (
        None,
        "59.00",
        3,
        2,
    )
    stale = await shop.client.patch(path, json={"barcode": "x"}, headers={"if-match": '"1"'})
    assert (stale.status_code, stale.json()["current_version"]) == (412, 2)
    untouched = await shop.client.get(f"/products/{product['id']}/variants/{small['id']}")
    assert untouched.json()["data"] == small
    assert (await shop.client.get(f"/products/{product['id']}")).json()["data"]["version"] == 2
    refused = await shop.client.patch(path, json={"stock": {"on_hand": 5}})
    assert refused.json()["errors"][0]["code"] == "read_only_field"
    kind, resource, changes = (await events(shop))[-1]
    assert (kind, resource, set(changes)) == (
        "product.variant_updated",
        medium["id"],
        {"price", "effective_price", "low_stock_threshold"},
    )
    elsewhere = await shop.client.get(f"/products/{product['id'] + 1}/variants/{medium['id']}")
    assert elsewhere.status_code == 404


async def test_one_of_concurrent_creates_with_one_sku_succeeds(shop: Shop) -> None:
    answers = await asyncio.gather(*(shop.client.post("/products", json={**MUG, "name": f"m{n}"}) for n in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"sku_taken"}
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1


async def test_concurrent_variants_of_one_product_are_all_counted(shop: Shop) -> None:
    product = await created(shop, {**SHIRT, "variants": [{"option_values": {"Size": "S"}, "stock": {"on_hand": 1}}]})
    path = f"/products/{product['id']}/variants"
    answers = await asyncio.gather(
        *(shop.client.post(path, json={"option_values": {"Size": f"T{n}"}, "stock": {"on_hand": 1}}) for n in range(10))
    )
    assert {answer.status_code for answer in answers} == {201}
    after = (await shop.client.get(f"/products/{product['id']}")).json()["data"]
    assert (after["variants_count"], after["stock"]["on_hand"], after["version"]) == (11, 11, 11)


async def test_stock_below_zero_requires_backorders(shop: Shop) -> None:
    variant = {"sku": "B", "allow_backorder": True, "stock": {"on_hand": -3}}
    product = await created(shop, {"name": "Lamp", "price": "9", "variants": [variant]})
    assert product["in_stock"] is True
    path = f"/products/{product['id']}"
    answer = await shop.client.patch(f"{path}/variants/{product['variants'][0]['id']}", json={"allow_backorder": False})
    assert {f["pointer"]: f["code"] for f in answer.json()["errors"]} == {"/allow_backorder": "out_of_range"}
    assert (await shop.client.patch(path, json={"track_inventory": False})).status_code == 200


async def test_metadata_has_at_most_a_hundred_keys(shop: Shop) -> None:
    product = await created(shop, {**MUG, "metadata": {f"k{n}": n for n in range(99)}})
    path = f"/products/{product['id']}"
    assert (await shop.client.patch(path, json={"metadata": {"one": 1}})).status_code == 200
    full = await shop.client.patch(path, json={"metadata": {"two": 2}})
    assert full.json()["errors"][0]["code"] == "metadata_limit"
    swapped = await shop.client.patch(path, json={"metadata": {"two": 2, "one": None}})
    assert swapped.status_code == 200
