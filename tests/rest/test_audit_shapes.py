"""What `fields` and `include` make of an answer, and how a wrong one is told, alike for one resource and for a list."""

from tests.support.shops import MUG, SHIRT, Shop


async def test_a_tombstone_stays_whole_whatever_fields_are_asked_for(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    variant = (await shop.client.get(f"/products/{mug}/variants")).json()["data"][0]["id"]
    assert (await shop.client.delete(f"/products/{mug}")).status_code == 204
    page = await shop.client.get("/products", params={"fields": "id,name", "include_deleted": "true"})
    alive, gone = page.json()["data"]
    assert alive == {"id": shirt, "name": "Linen Shirt"}
    assert (gone.keys(), gone["id"]) == ({"id", "deleted_at", "version"}, mug)
    levels = await shop.client.get(
        "/products/inventory", params={"variant_id": variant, "fields": "sku", "include_deleted": "true"}
    )
    assert levels.json()["data"][0].keys() == {"id", "deleted_at", "version"}


async def test_a_field_that_is_included_may_be_asked_for_by_fields_alone(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    page = await shop.client.get("/products", params={"fields": "id,variants"})
    assert page.json()["data"][0].keys() == {"id", "variants"}
    one = await shop.client.get(f"/products/{shirt}", params={"fields": "id,inventory"})
    assert one.json()["data"].keys() == {"id", "inventory"}


async def test_wrong_fields_and_includes_are_named_alike(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for path in ("/products", f"/products/{shirt}"):
        answer = await shop.client.get(path, params={"fields": "id,colour", "include": "orders"})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
        assert {fault["pointer"] for fault in answer.json()["errors"]} == {"fields", "include"}


async def test_an_unknown_parameter_is_answered_with_those_there_are(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for path in ("/products", f"/products/{shirt}"):
        problem = (await shop.client.get(path, params={"colour": "red"})).json()
        assert (problem["code"], problem["parameters"]) == ("unknown_parameter", ["colour"])
        assert "fields" in problem["available"]
