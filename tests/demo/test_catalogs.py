"""The catalogs of both sample stores: every product shows pictures that Stoa serves, and collections have their products."""

import httpx
import pytest

from stoa.db.pool import Database
from stoa.demo.past import Past
from stoa.demo.stock import fill
from stoa.products.collection_changes import list_collections
from tests.pictures.samples import opened
from tests.support.shops import Shop, open_shop


@pytest.mark.parametrize(("catalog", "currency"), [("catalog.json", "USD"), ("second.json", "JPY")])
async def test_products_have_pictures_and_collections(shop: Shop, db: Database, catalog: str, currency: str) -> None:
    sample = await open_shop(shop.application, db, currency=currency)
    await fill(sample.operator, sample.store.handle, catalog, Past())
    products = (await sample.client.get("/products", params={"limit": 250})).json()["data"]
    assert len(products) > 10
    for product in products:
        assert product["images"], product["name"]
        for image in product["images"]:
            answer = await sample.service.get(httpx.URL(image["url"]).path)
            assert (answer.status_code, len(answer.content) < 10_000) == (200, True), image
            assert opened(answer.content).size == (image["width"], image["height"])
    collections = await list_collections(sample.operator, sample.store.handle)
    assert len(collections) > 2
    for each in collections:
        query = {"collection": each.handle, "sort": "position"}
        found = (await sample.client.get("/products", params=query)).json()["data"]
        members = [entry for product in found for entry in product["collections"] if entry["handle"] == each.handle]
        assert len(members) == each.products > 1, each.handle
        if each.rules:
            assert (await sample.service.get(httpx.URL(each.picture or "").path)).status_code == 200
        else:
            assert [entry["position"] for entry in members] == [*range(1, len(members) + 1)]
    await sample.client.aclose()
