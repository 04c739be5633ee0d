"""The order of a product's variants and its default variant: positions without gaps, exactly one default."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.imports.files import CSV, import_file
from tests.support.shops import Shop

from stoa.openapi_examples.fixtures import STORE
from stoa.products.bodies import NewProduct, NewVariant, VariantChanges
from stoa.products.rules import add_variant, change_variant, new_product, remove_variant
from stoa.rest.body import convert

SIZES = ["S", "M", "L", "XL"]
SHIRT: dict[str, Any] = {
    "name": "Shirt",
    "price": "59.00",
    "options": [{"name": "Size", "values": SIZES}],
    "variants": [{"sku": size, "option_values": {"Size": size}} for size in SIZES],
}


async def created(shop: Shop, **change: Any) -> dict[str, Any]:
    answer = await shop.client.post("/products", json={**SHIRT, **change})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def arranged(shop: Shop, product: dict[str, Any]) -> str:
    """The SKUs in their order, with an asterisk after the default; checks that positions have no gaps."""
    variants = (await shop.client.get(f"/products/{product['id']}")).json()["data"]["variants"]
    assert [each["position"] for each in variants] == list(range(1, len(variants) + 1))
    return " ".join(each["sku"] + "*" * each["is_default"] for each in variants)


async def patched(shop: Shop, product: dict[str, Any], sku: str, **change: Any) -> Any:
    variant = next(each for each in product["variants"] if each["sku"] == sku)
    return await shop.client.patch(f"/products/{product['id']}/variants/{variant['id']}", json=change)


async def test_new_variants_take_their_positions(shop: Shop) -> None:
    variants = [
        {**each, "position": position} for each, position in zip(SHIRT["variants"], (3, None, 1, 9), strict=True)
    ]
    variants[1]["is_default"] = True
    shirt = await created(shop, variants=variants)
    assert await arranged(shop, shirt) == "L M* S XL"
    added = {"sku": "XS", "option_values": {"Size": "XS"}, "position": 2, "is_default": True}
    answer = await shop.client.post(f"/products/{shirt['id']}/variants", json=added)
    assert (answer.json()["data"]["position"], answer.json()["data"]["is_default"]) == (2, True)
    assert await arranged(shop, shirt) == "L XS* M S XL"


async def test_a_variant_is_moved_and_made_the_default(shop: Shop) -> None:
    shirt = await created(shop)
    assert await arranged(shop, shirt) == "S* M L XL"
    moved = (await patched(shop, shirt, "L", position=1)).json()["data"]
    assert (moved["position"], moved["is_default"], moved["version"]) == (1, False, 2)
    assert await arranged(shop, shirt) == "L S* M XL"
    assert (await patched(shop, shirt, "S", position=200)).json()["data"]["position"] == 4
    await patched(shop, shirt, "M", is_default=True)
    assert await arranged(shop, shirt) == "L M* XL S"
    unchanged = await patched(shop, shirt, "M", is_default=True, position=2)
    assert unchanged.json()["data"]["version"] == 4
    rows = await shop.db.fetch(
        "SELECT resource_id, changes FROM events WHERE store_id = $1 AND type = 'product.variant_updated' ORDER BY position",
        shop.store_id,
    )
    skus = {each["id"]: each["sku"] for each in shirt["variants"]}
    assert [(skus[row[0]], msgspec.json.decode(row[1])) for row in rows] == [
        ("L", {"position": [3, 1]}),
        ("S", {"position": [2, 4]}),
        ("M", {"is_default": [False, True]}),
        ("S", {"is_default": [True, False]}),
    ]


async def test_a_deleted_default_is_replaced_by_the_first_variant(shop: Shop) -> None:
    shirt = await created(shop)
    await patched(shop, shirt, "L", is_default=True, position=2)
    variant = next(each for each in shirt["variants"] if each["sku"] == "L")
    assert (await shop.client.delete(f"/products/{shirt['id']}/variants/{variant['id']}")).status_code == 204
    assert await arranged(shop, shirt) == "S* M XL"


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"position": 0}, "/position", "out_of_range"),
        ({"position": 201}, "/position", "out_of_range"),
        ({"position": None}, "/position", "invalid_type"),
        ({"is_default": False}, "/is_default", "invalid_format"),
        ({"is_default": "yes"}, "/is_default", "invalid_type"),
    ],
)
async def test_an_impossible_position_is_refused(shop: Shop, change: dict[str, Any], pointer: str, code: str) -> None:
    shirt = await created(shop)
    answer = await patched(shop, shirt, "S", **change)
    assert answer.status_code == 422
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [(pointer, code)]
    assert await arranged(shop, shirt) == "S* M L XL"


async def test_a_request_gives_each_position_once(shop: Shop) -> None:
    variants = [{**each, "position": 2, "is_default": True} for each in SHIRT["variants"][:2]]
    answer = await shop.client.post("/products", json={**SHIRT, "variants": variants})
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [
        ("/variants/1/position", "invalid_format"),
        ("/variants/1/is_default", "invalid_format"),
    ]
    shirt = await created(shop)
    rows = [{"sku": "S", "position": 4}, {"sku": "M", "position": 4}]
    body = {"items": [{"op": "update", "id": shirt["id"], "data": {"variants": rows}}]}
    answer = await shop.client.post("/products/batch", json=body)
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/items/0/data/variants/1/position"]


async def test_batches_arrange_variants(shop: Shop) -> None:
    shirt = await created(shop)
    # The rows of one product are a whole new order, in whatever order they are sent.
    positions = {"S": 2, "M": 4, "L": 1, "XL": 3}
    rows = [{"sku": sku, "position": position, "is_default": sku == "XL"} for sku, position in positions.items()]
    body: dict[str, Any] = {"items": [{"op": "update", "id": shirt["id"], "data": {"variants": rows}}]}
    assert (await shop.client.post("/products/batch", json=body)).status_code == 200
    assert await arranged(shop, shirt) == "L S XL* M"
    items = [{"sku": "M", "data": {"position": 1}}, {"sku": "L", "data": {"position": 1, "is_default": True}}]
    answer = await shop.client.patch("/products/variants", json={"items": items})
    assert [each["resource"]["sku"] for each in answer.json()["data"]] == ["M", "L"]
    assert await arranged(shop, shirt) == "L* M S XL"


async def test_a_file_arranges_variants(shop: Shop) -> None:
    shirt = await created(shop, external_id="erp-1")
    content = b"external_id,sku,option.Size,variant.position,variant.is_default\nerp-1,L,L,1,true\nerp-1,S,S,4,false\n"
    job = await import_file(shop, content, CSV, match_by="external_id")
    assert job["status"] == "succeeded", job
    assert await arranged(shop, shirt) == "L* M XL S"


async def test_concurrent_moves_leave_no_gap_and_one_default(shop: Shop) -> None:
    shirt = await created(shop)
    moves = [
        patched(shop, shirt, sku, position=position, is_default=True)
        for sku, position in zip(SIZES * 3, [4, 3, 2, 1, 1, 2, 3, 4, 2, 2, 1, 1], strict=True)
    ]
    answers = await asyncio.gather(*moves)
    assert {answer.status_code for answer in answers} == {200}
    assert (await arranged(shop, shirt)).count("*") == 1


_PLACES = st.tuples(st.integers(0, 9), st.none() | st.integers(1, 9), st.booleans())


@given(st.lists(st.tuples(st.sampled_from(["move", "add", "remove"]), _PLACES), max_size=12))
def test_any_changes_keep_positions_dense_and_one_default(
    steps: list[tuple[str, tuple[int, int | None, bool]]],
) -> None:
    product = new_product(convert(SHIRT, NewProduct, digits=2), STORE)
    for number, (step, (chosen, position, default)) in enumerate(steps):
        variant = product.live[chosen % len(product.live)]
        patch: dict[str, Any] = {"position": position} if position else {}
        patch |= {"is_default": True} if default else {}
        if step == "add":
            new = {**patch, "option_values": {"Size": f"{number}"}}
            variant = add_variant(product, convert(new, NewVariant, digits=2), STORE)
        elif step == "move":
            change_variant(product, variant, convert(patch, VariantChanges, digits=2), patch, STORE)
        elif len(product.live) > 1:
            remove_variant(product, variant)
        if step != "remove":
            assert position is None or variant.fields.position == min(position, len(product.live))
            assert not default or variant.fields.is_default
        assert sorted(each.fields.position for each in product.live) == list(range(1, len(product.live) + 1))
        assert sum(each.fields.is_default for each in product.live) == 1
