"""`fields` and `include` select the same way, and are refused the same way, for one resource and for lists."""

from tests.support.shops import MUG, SHIRT, Shop


async def test_fields_does_not_shorten_a_tombstone(shop: Shop) -> None:
    shirt, mug = await shop.add(SHIRT, MUG)
    variant = (await shop.client.get(f"/products/{mug}/variants")).json()["data"][0]["id"]
    assert (await shop.client.delete(f"/products/{mug}")).status_code == 204
    page = await shop.client.get("/products", params={"fields": "id,name", "include_deleted": "true"})
    live, tombstone = page.json()["data"]
    assert live == {"id": shirt, "name": "Linen Shirt"}
    assert (tombstone.keys(), tombstone["id"]) == ({"id", "deleted_at", "updated_at", "version"}, mug)
    levels = await shop.client.get(
        "/products/inventory", params={"variant_id": variant, "fields": "sku", "include_deleted": "true"}
    )
    assert levels.json()["data"][0].keys() == {"id", "deleted_at", "updated_at", "version"}


async def test_fields_alone_includes_related_data(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    page = await shop.client.get("/products", params={"fields": "id,variants"})
    assert page.json()["data"][0].keys() == {"id", "variants"}
    one = await shop.client.get(f"/products/{shirt}", params={"fields": "id,inventory"})
    assert one.json()["data"].keys() == {"id", "inventory"}


async def test_invalid_fields_and_includes_are_reported_together(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for path in ("/products", f"/products/{shirt}"):
        answer = await shop.client.get(path, params={"fields": "id,color", "include": "orders"})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
        assert {fault["pointer"] for fault in answer.json()["errors"]} == {"fields", "include"}


async def test_an_unknown_parameter_is_refused_with_the_known_ones(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for path in ("/products", f"/products/{shirt}"):
        problem = (await shop.client.get(path, params={"color": "red"})).json()
        assert (problem["code"], problem["parameters"]) == ("unknown_parameter", ["color"])
        assert "fields" in problem["available"]
