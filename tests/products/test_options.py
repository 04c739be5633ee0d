"""Changes of options and images, and their effect on variants."""

from typing import Any

import pytest
from tests.support.shops import SHIRT, Shop

PLAIN: dict[str, Any] = {"name": "Scarf", "price": "20.00", "sku": "SCARF"}


async def made(shop: Shop, **fields: Any) -> dict[str, Any]:
    answer = await shop.client.post("/products", json={"name": "Scarf", "price": "20.00", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def patched(shop: Shop, product: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    answer = await shop.client.patch(f"/products/{product['id']}", json=changes)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def values(product: dict[str, Any]) -> list[dict[str, str]]:
    return [variant["option_values"] for variant in product["variants"]]


async def test_options_can_be_added_to_a_product_without_options(shop: Shop) -> None:
    scarf = await made(shop, sku="SCARF")
    after = await patched(shop, scarf, {"options": [{"name": "Colour", "values": ["Red", "Blue"]}]})
    assert [(v["id"], v["title"]) for v in after["variants"]] == [(scarf["variants"][0]["id"], "Red")]
    added = await shop.client.post(f"/products/{scarf['id']}/variants", json={"option_values": {"Colour": "Blue"}})
    assert added.status_code == 201, added.text


async def test_a_default_variant_gets_the_first_value_of_each_option(shop: Shop) -> None:
    scarf = await made(shop, options=[{"name": "Colour", "values": ["Red", "Blue"]}], stock={"on_hand": 2})
    assert values(scarf) == [{"Colour": "Red"}]
    assert scarf["stock"]["on_hand"] == 2


async def test_a_renamed_option_keeps_its_values(shop: Shop) -> None:
    shirt = await made(shop, options=SHIRT["options"], variants=SHIRT["variants"])
    after = await patched(shop, shirt, {"options": [{"name": "Fit", "values": ["S", "M", "L"]}]})
    assert values(after) == [{"Fit": "S"}, {"Fit": "M"}]
    rows = await shop.db.fetch(
        "SELECT type FROM events WHERE store_id = $1 AND type LIKE 'product.%' ORDER BY position", shop.store_id
    )
    types = [row[0] for row in rows]
    assert types == ["product.created", "product.updated", "product.variant_updated", "product.variant_updated"]


async def test_reordered_options_change_the_titles(shop: Shop) -> None:
    options = [{"name": "Size", "values": ["S"]}, {"name": "Colour", "values": ["Red"]}]
    scarf = await made(shop, options=options, variants=[{"option_values": {"Colour": "Red", "Size": "S"}}])
    assert scarf["variants"][0]["title"] == "S / Red", "the product's order, not the sender's"
    after = await patched(shop, scarf, {"options": options[::-1]})
    assert after["variants"][0]["title"] == "Red / S"


async def test_an_option_can_be_removed_while_variants_still_differ(shop: Shop) -> None:
    options = [{"name": "Size", "values": ["S", "M"]}, {"name": "Colour", "values": ["Red"]}]
    variants = [{"option_values": {"Size": size, "Colour": "Red"}} for size in ("S", "M")]
    scarf = await made(shop, options=options, variants=variants)
    after = await patched(shop, scarf, {"options": options[:1]})
    assert values(after) == [{"Size": "S"}, {"Size": "M"}]
    answer = await shop.client.patch(f"/products/{scarf['id']}", json={"options": None})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "option_mismatch")
    assert answer.json()["errors"][0]["pointer"] == "/options"


async def test_a_value_that_a_variant_uses_cannot_be_removed(shop: Shop) -> None:
    shirt = await made(shop, options=SHIRT["options"], variants=SHIRT["variants"])
    answer = await shop.client.patch(
        f"/products/{shirt['id']}", json={"options": [{"name": "Size", "values": ["M", "L"]}]}
    )
    assert [(f["pointer"], f["code"]) for f in answer.json()["errors"]] == [("/options/0/values", "option_mismatch")]


TWICE: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "Size", "values": ["S", "S"]}], "/options/0/values/1"),
    ([{"name": "Size", "values": ["S"]}, {"name": "size", "values": ["S"]}], "/options/1/name"),
]


@pytest.mark.parametrize(("options", "pointer"), TWICE)
async def test_repeated_option_names_and_values_are_refused(
    shop: Shop, options: list[dict[str, Any]], pointer: str
) -> None:
    scarf = await made(shop)
    for answer in (
        await shop.client.post("/products", json={**PLAIN, "options": options}),
        await shop.client.patch(f"/products/{scarf['id']}", json={"options": options}),
    ):
        assert answer.status_code == 422
        assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


async def test_one_of_several_option_values_can_be_patched(shop: Shop) -> None:
    options = [{"name": "Size", "values": ["S", "M"]}, {"name": "Colour", "values": ["Red"]}]
    scarf = await made(shop, options=options, variants=[{"option_values": {"Colour": "Red", "Size": "S"}}])
    path = f"/products/{scarf['id']}/variants/{scarf['variants'][0]['id']}"
    answer = await shop.client.patch(path, json={"option_values": {"Size": "M"}})
    assert answer.status_code == 200, answer.text
    assert list(answer.json()["data"]["option_values"].items()) == [("Size", "M"), ("Colour", "Red")]


async def test_a_removed_image_is_cleared_from_its_variants(shop: Shop) -> None:
    images = [{"url": "https://images.example.com/a.jpg"}, {"url": "https://images.example.com/b.jpg"}]
    scarf = await made(shop, images=images, variants=[{"sku": "SCARF", "image_id": 2}])
    assert scarf["variants"][0]["image_id"] == 2
    after = await patched(shop, scarf, {"images": images[:1]})
    assert after["variants"][0]["image_id"] is None
    path = f"/products/{scarf['id']}/variants/{scarf['variants'][0]['id']}"
    assert (await shop.client.patch(path, json={"barcode": "1"})).status_code == 200


async def test_a_variant_can_use_only_images_of_its_product(shop: Shop) -> None:
    answer = await shop.client.post("/products", json={**PLAIN, "sku": None, "variants": [{"image_id": 1}]})
    assert [f["pointer"] for f in answer.json()["errors"]] == ["/variants/0/image_id"]
    scarf = await made(shop, options=[{"name": "Colour", "values": ["Red"]}])
    new = {"option_values": {"Colour": "Blue"}, "image_id": 7}
    answer = await shop.client.post(f"/products/{scarf['id']}/variants", json=new)
    assert [f["pointer"] for f in answer.json()["errors"]] == ["/image_id"]


async def test_a_product_copied_to_another_store_keeps_the_images_of_its_variants(shop: Shop, other_shop: Shop) -> None:
    images = [{"url": f"https://images.example.com/{name}.jpg"} for name in "abc"]
    scarf = await made(shop, images=images, variants=[{"sku": "SCARF", "image_id": 3}])
    scarf = await patched(shop, scarf, {"images": images[1:]})
    data = {name: value for name, value in scarf.items() if name != "id"}
    answer = await other_shop.client.post("/products/batch", json={"items": [{"op": "create", "data": data}]})
    (there,) = [result["resource"] for result in answer.json()["data"]]
    shown = {image["id"]: image["url"] for image in there["images"]}
    assert shown[there["variants"][0]["image_id"]] == "https://images.example.com/c.jpg"
