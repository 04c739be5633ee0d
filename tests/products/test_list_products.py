"""Lists of products: filters, sorting, includes, and isolation of stores."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.shops import MUG, SHIRT, Shop

LAMP: dict[str, Any] = {
    "name": "Brass Reading Lamp",
    "price": "149.00",
    "brand": "Orravale",
    "category": "Home/Lighting",
    "tags": ["brass"],
    "variants": [{"sku": "LAMP-1", "allow_backorder": True, "stock": {"on_hand": 0}}],
    "metadata": {"material": "brass"},
}
CARD: dict[str, Any] = {"name": "Gift Card", "price": "25.00", "track_inventory": False, "requires_shipping": False}


@pytest.fixture
async def catalog(shop: Shop) -> dict[str, int]:
    """Shirt, mug, lamp and card, by name."""
    ids = await shop.add(SHIRT, MUG, LAMP, CARD)
    return dict(zip(("shirt", "mug", "lamp", "card"), ids, strict=True))


async def names(shop: Shop, **params: Any) -> list[str]:
    answer = await shop.client.get("/products", params=params)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["meta"]["total"] == len(page["data"])
    return [product["name"].split()[-1] for product in page["data"]]


async def test_a_list_has_documents_and_a_total(shop: Shop) -> None:
    await shop.add(*[{**MUG, "name": f"Mug {n}", "sku": f"M-{n}"} for n in range(48)])
    answer = await shop.client.get("/products", headers={"accept": "application/json"})
    assert answer.status_code == 200
    page = answer.json()
    assert page["meta"]["total"] == 48
    first = page["data"][0]
    assert isinstance(first["id"], int)
    assert (first["name"], first["price"]) == ("Mug 0", "12.50")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["Shirt", "Mug", "Lamp", "Card"]),
        ({"status": "draft"}, ["Mug"]),
        ({"status": "active,draft"}, ["Shirt", "Mug", "Lamp", "Card"]),
        ({"sku": "LS-M"}, ["Shirt"]),
        ({"sku": "ls-m"}, []),
        ({"sku": "LS-M,LAMP-1,LS-S,NOPE"}, ["Shirt", "Lamp"]),
        ({"sku": ["LS-M", "LAMP-1"]}, ["Shirt", "Lamp"]),
        ({"barcode": "2000000000015"}, ["Shirt"]),
        ({"barcode": "2000000000015,1"}, ["Shirt"]),
        ({"brand": "Orravale"}, ["Lamp"]),
        ({"brand": "ORRAvale"}, ["Lamp"]),
        ({"brand": "Orra"}, []),
        ({"category": "Clothing/Shirts"}, ["Shirt"]),
        ({"category": "Home"}, ["Lamp"]),
        ({"category": "home/lightING"}, ["Lamp"]),
        ({"tag": "linen"}, ["Shirt"]),
        ({"tag": "LiNen"}, ["Shirt"]),
        ({"tag": "lin"}, []),
        ({"price[gte]": "25", "price[lt]": "149.00"}, ["Shirt", "Card"]),
        ({"price": "12.50"}, ["Mug"]),
        ({"in_stock": "true"}, ["Shirt", "Lamp", "Card"]),
        ({"in_stock": "false"}, ["Mug"]),
        ({"q": "shirt"}, ["Shirt"]),
        ({"q": "LINEN sh"}, ["Shirt"]),
        ({"q": "cafe"}, ["Mug"]),
        ({"q": "CAFÉ"}, ["Mug"]),
        ({"q": "lamp-1"}, ["Lamp"]),
        ({"q": "200000"}, ["Shirt"]),
        ({"q": "shirt lamp"}, []),
        ({"q": "'; drop table products; --"}, []),
        ({"external_id": "erp-1"}, ["Shirt"]),
        ({"metadata[material]": "linen"}, ["Shirt"]),
        ({"metadata[material]": "linen", "metadata[year]": "2026", "metadata[washable]": "true"}, ["Shirt"]),
        ({"metadata[material]": "linen", "metadata[year]": "2025"}, []),
        ({"metadata[it's \\ odd]": "' | '"}, []),
        ({"tag": "linen", "price[gt]": "58.99", "in_stock": "true", "q": "shi"}, ["Shirt"]),
        ({"sort": "price"}, ["Mug", "Card", "Shirt", "Lamp"]),
        ({"sort": "-name"}, ["Shirt", "Card", "Mug", "Lamp"]),
        ({"updated_since": "2020-01-01T00:00:00Z"}, ["Shirt", "Mug", "Lamp", "Card"]),
        ({"updated_since": "2220-01-01T00:00:00+02:00"}, []),
        ({"created_at[lt]": "2020-01-01T00:00:00Z"}, []),
    ],
)
async def test_filters_narrow_the_list(
    shop: Shop, catalog: dict[str, int], params: dict[str, str], expected: list[str]
) -> None:
    found = await names(shop, **params)
    assert (found if "sort" in params else sorted(found)) == (expected if "sort" in params else sorted(expected))


@pytest.mark.parametrize(
    "name", ["metadata[a][b]", "metadata[[a]]", "metadata[a]b]", "metadata[]", "metadata[a", "metadata"]
)
@pytest.mark.parametrize("path", ["/products", "/orders", "/customers"])
async def test_a_filter_of_metadata_takes_one_key(shop: Shop, path: str, name: str) -> None:
    answer = await shop.client.get(path, params={name: "1"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_stores_do_not_see_each_others_products(shop: Shop, other_shop: Shop) -> None:
    mine = await shop.add(SHIRT)
    await other_shop.add(SHIRT, MUG)
    for params in ({}, {"q": "linen"}, {"tag": "linen"}, {"sku": "LS-M"}, {"metadata[material]": "linen"}):
        page = (await shop.client.get("/products", params=params)).json()
        assert [product["id"] for product in page["data"]] == mine


async def test_include_adds_variants_and_stock_to_the_page(shop: Shop, catalog: dict[str, int]) -> None:
    page = (await shop.client.get("/products", params={"include": "variants,inventory"})).json()
    shirt = page["data"][0]
    assert [variant["sku"] for variant in shirt["variants"]] == ["LS-S", "LS-M"]
    assert [level["stock"]["available"] for level in shirt["inventory"]] == [4, 0]
    plain = (await shop.client.get("/products")).json()["data"][0]
    assert "variants" not in plain
    sparse = (await shop.client.get("/products", params={"include": "variants", "fields": "id,variants"})).json()
    assert set(sparse["data"][0]) == {"id", "variants"}


async def test_deleted_products_are_tombstones_even_with_includes(shop: Shop, catalog: dict[str, int]) -> None:
    await shop.db.execute(
        "UPDATE products SET deleted_at = now(), version = 2 WHERE store_id = $1 AND id = $2",
        shop.store_id,
        catalog["mug"],
    )
    await shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND product_id = $2",
        shop.store_id,
        catalog["mug"],
    )
    params = {"include_deleted": "true", "include": "variants", "updated_since": "2020-01-01T00:00:00Z"}
    page = (await shop.client.get("/products", params=params)).json()
    assert page["meta"]["total"] == 4
    tombstone = page["data"][1]
    assert (set(tombstone), tombstone["version"]) == ({"id", "deleted_at", "updated_at", "version"}, 2)
    assert (await shop.client.get(f"/products/{catalog['mug']}")).status_code == 404


async def test_tombstones_expire_after_ninety_days(shop: Shop, catalog: dict[str, int]) -> None:
    await shop.db.execute(
        "UPDATE products SET deleted_at = $3 WHERE store_id = $1 AND id = $2",
        shop.store_id,
        catalog["mug"],
        datetime.now(UTC) - timedelta(days=91),
    )
    page = (await shop.client.get("/products", params={"include_deleted": "true"})).json()
    assert catalog["mug"] not in [row["id"] for row in page["data"]]


async def test_a_single_product_includes_its_variants(shop: Shop, catalog: dict[str, int]) -> None:
    answer = await shop.client.get(f"/products/{catalog['shirt']}")
    product = answer.json()["data"]
    assert answer.json()["meta"] == {}
    assert answer.headers["etag"] == '"1"'
    assert product["stock"] == {"on_hand": 4, "reserved": 0, "available": 4}
    assert (product["sku"], product["variants_count"], product["in_stock"]) == (None, 2, True)
    small, medium = product["variants"]
    assert (small["title"], small["option_values"], small["is_default"]) == ("S", {"Size": "S"}, True)
    assert (small["price"], small["effective_price"]) == (None, "59.00")
    assert (medium["price"], medium["effective_price"], medium["stock"]["available"]) == ("61.00", "61.00", 0)
    assert small["product_id"] == product["id"]


async def test_a_product_shows_the_sku_of_its_only_variant(shop: Shop, catalog: dict[str, int]) -> None:
    mug = (await shop.client.get(f"/products/{catalog['mug']}")).json()["data"]
    assert (mug["sku"], mug["variants_count"], mug["slug"]) == ("MUG-1", 1, "cafe-mug")


async def test_amounts_are_in_the_currency_of_the_store(shop: Shop) -> None:
    from tests.support.shops import open_shop

    tokyo = await open_shop(shop.application, shop.db, currency="JPY")
    kuwait = await open_shop(shop.application, shop.db, currency="KWD")
    await tokyo.add({"name": "Cup", "price": "2800"})
    await kuwait.add({"name": "Cup", "price": "1.25"})
    assert (await tokyo.client.get("/products")).json()["data"][0]["price"] == "2800"
    assert (await kuwait.client.get("/products")).json()["data"][0]["price"] == "1.250"
    wrong = await tokyo.client.get("/products", params={"price[gte]": "1.5"})
    assert wrong.json()["code"] == "invalid_parameter"


async def test_a_sku_with_a_comma_is_found(shop: Shop) -> None:
    await shop.add({**MUG, "name": "Odd Mug", "sku": "A,B"}, {**MUG, "name": "Plain Bowl", "sku": "A"})
    for path, name in (("/products", "name"), ("/products/variants", "sku"), ("/products/inventory", "sku")):
        answer = await shop.client.get(path, params={"sku": "A,B", "sort": "id", "fields": name})
        assert len(answer.json()["data"]) == 2, path
    assert await names(shop, sku="A,C") == ["Bowl"]


@pytest.mark.parametrize("path", ["/products", "/products/variants", "/products/inventory", "/orders"])
@pytest.mark.parametrize("skus", ["", "A,", ",".join(f"S{n}" for n in range(101)), "x" * 101])
async def test_a_set_of_skus_is_limited(shop: Shop, path: str, skus: str) -> None:
    answer = await shop.client.get(path, params={"sku": skus})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "sku")


async def test_tags_keep_their_spelling_and_ignore_case(shop: Shop) -> None:
    long = "Ä" + "b" * 60
    await shop.add({**MUG, "tags": ["Straße", long], "brand": "CAFE\u0301 " + "X" * 240, "category": "Öl/Ähre"})
    for query in ({"tag": "STRASSE"}, {"tag": long.upper()}, {"brand": "Café " + "x" * 240}, {"category": "öL/äHRE"}):
        assert await names(shop, **query) == ["Mug"], query
    product = (await shop.client.get("/products")).json()["data"][0]
    assert (product["tags"][0], product["category"]) == ("Straße", "Öl/Ähre")
