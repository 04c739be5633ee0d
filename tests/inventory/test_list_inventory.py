"""Lists of stock levels: filters, sorting, pages, and isolation of stores."""

from typing import Any

import jsonschema
import pytest

from stoa.inventory.endpoints import routes
from stoa.rest.openapi.document import document
from tests.inventory.shelves import SOCKS, Shelves
from tests.support.locations import open_locations
from tests.support.shops import Shop


async def skus(shelves: Shelves, **params: Any) -> list[str]:
    answer = await shelves.shop.client.get("/products/inventory", params=params)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["meta"]["total"] == len(page["data"])
    return [level["sku"] for level in page["data"]]


async def test_a_level_shows_the_stock_and_its_settings(shelves: Shelves) -> None:
    level = await shelves.level("SOCK-S")
    assert level == {
        "variant_id": shelves.variants["SOCK-S"],
        "product_id": shelves.products["SOCK-S"],
        "sku": "SOCK-S",
        "track_inventory": True,
        "allow_backorder": False,
        "low_stock_threshold": 3,
        "stock": {"on_hand": 10, "reserved": 0, "available": 10},
        "updated_at": level["updated_at"],
        "version": 1,
    }


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["SOCK-S", "SOCK-L", "LAMP", "CARD"]),
        ({"sku": "LAMP"}, ["LAMP"]),
        ({"sku": "lamp"}, []),
        ({"low_stock": "true"}, []),
        ({"low_stock": "false"}, ["SOCK-S", "SOCK-L", "LAMP", "CARD"]),
        ({"in_stock": "true"}, ["SOCK-S", "LAMP", "CARD"]),
        ({"in_stock": "false"}, ["SOCK-L"]),
        ({"sort": "-id"}, ["CARD", "LAMP", "SOCK-L", "SOCK-S"]),
        ({"updated_since": "2020-01-01T00:00:00Z", "sort": "updated_at"}, ["SOCK-S", "SOCK-L", "LAMP", "CARD"]),
        ({"updated_since": "2220-01-01T00:00:00Z"}, []),
    ],
)
async def test_filters_narrow_the_levels(shelves: Shelves, params: dict[str, str], expected: list[str]) -> None:
    assert await skus(shelves, **params) == expected


async def test_levels_of_some_variants_or_products(shelves: Shelves) -> None:
    socks, lamp = shelves.products["SOCK-S"], shelves.products["LAMP"]
    assert await skus(shelves, product_id=socks) == ["SOCK-S", "SOCK-L"]
    assert await skus(shelves, product_id=f"{socks},{lamp}", in_stock="true") == ["SOCK-S", "LAMP"]
    assert await skus(shelves, variant_id=f"{shelves.variants['LAMP']},999999999") == ["LAMP"]


async def test_low_stock_is_what_is_tracked_and_at_its_threshold(shelves: Shelves) -> None:
    await shelves.adjusted({"sku": "SOCK-S", "op": "set", "quantity": 3}, {"sku": "LAMP", "op": "set", "quantity": 0})
    assert await skus(shelves, low_stock="true") == ["SOCK-S", "LAMP"]
    await shelves.adjusted({"sku": "SOCK-S", "quantity": 1})
    assert await skus(shelves, low_stock="true") == ["LAMP"]


async def test_sorting_by_updated_at_returns_the_latest_change_last(shelves: Shelves) -> None:
    await shelves.adjusted({"sku": "SOCK-L", "quantity": 1})
    assert (await skus(shelves, sort="updated_at"))[-1] == "SOCK-L"
    since = (await shelves.level("SOCK-L"))["updated_at"]
    assert await skus(shelves, updated_since=since) == ["SOCK-L"]


async def test_pages_follow_one_another(shelves: Shelves) -> None:
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 3, "fields": "sku"}
    while True:
        page = (await shelves.shop.client.get("/products/inventory", params=params)).json()
        seen += [level["sku"] for level in page["data"]]
        assert page["meta"]["total"] == 4
        if page["meta"]["next_cursor"] is None:
            break
        params = {"cursor": page["meta"]["next_cursor"]}
    assert seen == ["SOCK-S", "SOCK-L", "LAMP", "CARD"]


async def test_a_deleted_variant_has_a_tombstone_instead_of_a_level(shelves: Shelves) -> None:
    await shelves.shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND sku = 'SOCK-L'", shelves.shop.store_id
    )
    assert await skus(shelves) == ["SOCK-S", "LAMP", "CARD"]
    page = (await shelves.shop.client.get("/products/inventory", params={"include_deleted": "true"})).json()
    tombstone = page["data"][1]
    assert (set(tombstone), tombstone["id"]) == (
        {"id", "deleted_at", "updated_at", "version"},
        shelves.variants["SOCK-L"],
    )


async def test_a_tombstone_has_no_locations(shelves: Shelves) -> None:
    await open_locations(shelves.shop, east=1)
    adjusted = await shelves.adjust({"sku": "SOCK-L", "op": "set", "quantity": 3, "location": "east"})
    assert adjusted.status_code == 200, adjusted.text
    path = f"/products/{shelves.products['SOCK-L']}/variants/{shelves.variants['SOCK-L']}"
    assert (await shelves.shop.client.delete(path)).status_code == 204
    params = {"include_deleted": "true", "include": "locations"}
    levels = (await shelves.shop.client.get("/products/inventory", params=params)).json()["data"]
    assert [sorted(level) for level in levels if "deleted_at" in level] == [
        ["deleted_at", "id", "updated_at", "version"]
    ]
    assert all("locations" in level for level in levels if "deleted_at" not in level)


async def test_levels_of_another_store_are_not_listed(shelves: Shelves, other_shop: Shop) -> None:
    await other_shop.add(SOCKS)
    for params in (
        {"sku": "SOCK-S"},
        {"variant_id": shelves.variants["SOCK-S"]},
        {"product_id": shelves.products["SOCK-S"]},
    ):
        page = (await other_shop.client.get("/products/inventory", params=params)).json()
        assert shelves.variants["SOCK-S"] not in [level["variant_id"] for level in page["data"]]


@pytest.mark.parametrize(
    "params", [{"low_stock": "1"}, {"variant_id": "a"}, {"sku": ""}, {"sort": "sku"}, {"updated_since": "now"}]
)
async def test_an_invalid_filter_is_refused(shelves: Shelves, params: dict[str, str]) -> None:
    answer = await shelves.shop.client.get("/products/inventory", params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_responses_match_the_openapi_document(shelves: Shelves) -> None:
    described = document(routes.endpoints, prefix="", version="3.0", summary="", description="", scopes={}, groups={})

    def check(answer: Any, path: str, method: str) -> None:
        content = described["paths"][path][method]["responses"][str(answer.status_code)]["content"]
        schema = {**content["application/json"]["schema"], "components": described["components"]}
        jsonschema.validate(answer.json(), schema, cls=jsonschema.Draft202012Validator)

    items = [{"sku": "SOCK-S", "quantity": 1}, {"sku": "SOCK-S", "quantity": 0}, {"sku": "NOPE", "quantity": 1}]
    ledger = "/products/inventory/adjustments"
    check(await shelves.adjust(*items[:2]), ledger, "post")
    check(await shelves.adjust(*items, mode="independent"), ledger, "post")
    check(await shelves.shop.client.get(ledger), ledger, "get")
    check(await shelves.shop.client.get("/products/inventory"), "/products/inventory", "get")
