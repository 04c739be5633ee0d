"""The GTIN of a variant: created, changed, cleared, found, imported, shown, and always with its check digit."""

from typing import Any

import pytest
from tests.imports.files import CSV, import_file
from tests.support.shops import Shop

from stoa.products.contract import has_check_digit

# Of each length, with the digits that the GS1 rule gives.
VALID = ["40170725", "614141007349", "4006381333931", "10614141000415"]
INVALID = [
    "4006381333932",
    "400638133393",
    "40063813339310",
    "4006381",
    "400638133393X",
    "4006381333931 ",
    "",
    "\uff112345670",
]


async def variants_of(shop: Shop, **parameters: str) -> list[dict[str, Any]]:
    return (await shop.client.get("/products/variants", params=parameters)).json()["data"]


async def created(shop: Shop, sku: str, gtin: str | None) -> dict[str, Any]:
    body = {"name": "Pen", "price": "2.00", "variants": [{"sku": sku, "gtin": gtin}]}
    answer = await shop.client.post("/products", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize("gtin", VALID)
def test_the_check_digit_makes_the_weighted_sum_a_multiple_of_ten(gtin: str) -> None:
    assert has_check_digit(gtin)
    assert [last for last in "0123456789" if has_check_digit(gtin[:-1] + last)] == [gtin[-1]]


@pytest.mark.parametrize("gtin", INVALID)
async def test_a_gtin_with_a_wrong_length_or_check_digit_is_refused(shop: Shop, gtin: str) -> None:
    body = {"name": "Pen", "price": "2.00", "variants": [{"sku": "P-1", "gtin": gtin}]}
    answer = await shop.client.post("/products", json=body)
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/variants/0/gtin"]
    assert await variants_of(shop) == []


async def test_a_gtin_is_created_changed_cleared_and_found(shop: Shop) -> None:
    product = await created(shop, "P-1", VALID[0])
    await created(shop, "P-2", VALID[1])
    await created(shop, "P-3", None)
    path = f"/products/{product['id']}/variants/{product['variants'][0]['id']}"
    assert [each["sku"] for each in await variants_of(shop, gtin=VALID[0])] == ["P-1"]
    assert [each["sku"] for each in await variants_of(shop, gtin=f"{VALID[0]},{VALID[1]}")] == ["P-1", "P-2"]
    found = (await shop.client.get("/products", params={"gtin": VALID[0]})).json()
    assert ([each["id"] for each in found["data"]], found["meta"]["total"]) == ([product["id"]], 1)
    changed = await shop.client.patch(path, json={"gtin": VALID[2]})
    assert (changed.status_code, changed.json()["data"]["gtin"]) == (200, VALID[2])
    assert await variants_of(shop, gtin=VALID[0]) == []
    assert [each["gtin"] for each in await variants_of(shop, gtin=VALID[2])] == [VALID[2]]
    cleared = await shop.client.patch(path, json={"gtin": None})
    assert cleared.json()["data"]["gtin"] is None
    assert await variants_of(shop, gtin=VALID[2]) == []


async def test_a_change_of_a_gtin_is_an_event_with_its_old_and_new_value(shop: Shop) -> None:
    product = await created(shop, "P-1", VALID[0])
    path = f"/products/{product['id']}/variants/{product['variants'][0]['id']}"
    await shop.client.patch(path, json={"gtin": VALID[3]})
    rows = await shop.db.fetch(
        "SELECT type, changes::json ->> 'gtin', data::json ->> 'gtin' FROM events "
        "WHERE store_id = $1 AND resource_type = 'variant' ORDER BY position DESC LIMIT 1",
        shop.store_id,
    )
    assert [tuple(row) for row in rows] == [("product.variant_updated", f'["{VALID[0]}","{VALID[3]}"]', VALID[3])]


async def test_a_column_of_a_file_sets_the_gtin_and_names_a_wrong_one(shop: Shop) -> None:
    text = f"sku,name,price,variant.gtin\nP-1,Pen,2.00,{VALID[2]}\nP-2,Pen,2.00,4006381333932\n"
    job = await import_file(shop, text.encode(), CSV)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 1)
    assert [(each["sku"], each["gtin"]) for each in await variants_of(shop)] == [("P-1", VALID[2])]


async def test_a_writer_that_does_not_know_the_gtin_keeps_column_and_document(shop: Shop) -> None:
    """As the previous release, which calls the function without an edition, and with the document as it read it."""
    product = await created(shop, "P-1", VALID[0])
    variant = product["variants"][0]["id"]
    [rows] = await shop.db.fetch(
        """SELECT json_build_array(json_build_object(
                      'index', 1, 'id', p.id, 'slug', p.slug, 'name', p.name, 'status', p.status, 'price', p.price,
                      'on_hand', p.on_hand, 'reserved', p.reserved, 'in_stock', p.in_stock, 'deleted', false, 'head', p.head,
                      'terms', ''))::text,
                  json_build_array(json_build_object(
                      'index', 1, 'product_index', 1, 'id', v.id, 'position', v.position, 'sku', v.sku, 'barcode', '77',
                      'options_key', v.options_key, 'on_hand', v.on_hand, 'track_inventory', v.track_inventory,
                      'allow_backorder', v.allow_backorder, 'deleted', false, 'head', v.head))::text
             FROM variants v JOIN products p ON p.store_id = v.store_id AND p.id = v.product_id
            WHERE v.store_id = $1 AND v.id = $2""",
        shop.store_id,
        variant,
    )
    await shop.db.execute(
        "SELECT save_products($1, '{}', 'req_old', $2::text::json, $3::text::json, '[]', '[]')", shop.store_id, *rows
    )
    assert [each["gtin"] for each in await variants_of(shop, gtin=VALID[0])] == [VALID[0]]


async def test_a_variant_from_before_the_field_shows_null(shop: Shop) -> None:
    product = await created(shop, "P-1", None)
    await shop.db.execute(
        """UPDATE variants SET head = replace(head, ',"gtin":null', ''), edition = 1 WHERE store_id = $1""",
        shop.store_id,
    )
    [variant] = await variants_of(shop)
    assert variant["gtin"] is None
    shown = (await shop.client.get(f"/products/{product['id']}")).json()["data"]
    assert shown["variants"][0] == variant
