"""Any batch of items on few keys has the outcomes, and leaves the products, of the same items sent one after another."""

from dataclasses import dataclass
from typing import Any, cast

import httpx
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.event_chains import assert_events_follow
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database

SKUS, EXTERNAL_IDS = ["A", "B", "C"], ["e1", "e2"]
KNOWN: list[dict[str, Any]] = [
    {"name": "Single", "price": "1.00", "sku": "A", "external_id": "e1"},
    {
        "name": "Double",
        "price": "2.00",
        "options": [{"name": "Size", "values": ["S", "M"]}],
        "variants": [{"sku": "B", "option_values": {"Size": "S"}}, {"option_values": {"Size": "M"}}],
    },
]
sku, external_id = st.sampled_from(SKUS), st.sampled_from(EXTERNAL_IDS)
product = st.sampled_from(range(len(KNOWN)))  # its id differs between the stores
versions = st.integers(1, 3)
price = st.sampled_from(["1.00", "2.00"])
on_hand = st.fixed_dictionaries({"on_hand": st.integers(0, 1)})


def optional(**members: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return members


DATA = st.fixed_dictionaries(
    {},
    optional=optional(
        price=price,
        sku=sku,
        external_id=external_id,
        stock=on_hand,
        version=st.integers(1, 2),
        variants=st.lists(
            st.fixed_dictionaries(
                {"option_values": st.sampled_from([{"Size": "S"}, {"Size": "M"}])},
                optional=optional(sku=sku, external_id=external_id, stock=on_hand, version=st.integers(1, 2)),
            ),
            max_size=2,
        ),
    ),
)


def item(*operations: str, data: st.SearchStrategy[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"op": st.sampled_from(operations), "data": data}, optional=more)


def named(data: dict[str, Any]) -> dict[str, Any]:
    return {"name": "New", "price": "3.00", **data}


KEYS = {"id": product, "sku": sku, "external_id": external_id}
ITEMS = st.one_of(
    item("create", data=DATA.map(named)),
    item("upsert", data=DATA.map(named), **KEYS),
    item("update", data=DATA, if_version=versions, **KEYS),
    item("delete", data=st.just({}), if_version=versions, **KEYS),
)
PATCHES = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {},
            optional=optional(
                sku=sku, price=price, external_id=external_id, version=st.integers(1, 2), effective_price=price
            ),
        )
    },
    optional=optional(id=st.integers(0, 2), sku=sku, if_version=versions),
)
NEW = {"name": "New", "price": "3.00", "sku": "C"}
CREATED = {"op": "create", "data": NEW}


@dataclass
class Side:
    """A store with the known products, whose ids differ from those of the other store."""

    shop: Shop
    products: list[int]
    variants: list[int]

    @classmethod
    async def open(cls, application: Application, db: Database) -> "Side":
        shop = await open_shop(application, db)
        ids = await shop.add(*KNOWN)
        side = cls(shop, ids, [])
        side.variants = [variant["id"] for each in await side.state() for variant in each["variants"]]
        return side

    async def send(self, method: str, path: str, items: list[dict[str, Any]], mode: str) -> httpx.Response:
        ids = self.products if path == "/products/batch" else self.variants
        sent: list[dict[str, Any]] = [{**each, "id": ids[each["id"]]} if "id" in each else each for each in items]
        answer = await self.shop.client.request(method, path, json={"mode": mode, "items": sent})
        assert answer.status_code < 500, answer.text
        return answer

    async def state(self) -> list[dict[str, Any]]:
        answer = await self.shop.client.get("/products", params={"include": "variants", "sort": "id"})
        return answer.json()["data"]


async def compare(
    together: Side, separately: Side, method: str, path: str, items: list[dict[str, Any]], *, atomic: bool
) -> None:
    before = await together.state()
    answer = await together.send(method, path, items, "atomic" if atomic else "independent")
    expected = [(await separately.send(method, path, [item], "independent")).json()["data"][0] for item in items]
    if atomic and any(each["status"] == "failed" for each in expected):
        assert answer.status_code in (409, 412, 422), answer.text
        assert await together.state() == before
        return
    results = answer.json()["data"]
    assert [outcome(each) for each in results] == [outcome(each) for each in expected]
    assert [without_ids(each) for each in await together.state()] == [
        without_ids(each) for each in await separately.state()
    ]
    check_ids(results)
    for side in (together, separately):
        await assert_events_follow(side.shop)


def outcome(result: dict[str, Any]) -> tuple[str, str | None]:
    return result["status"], result["error"] and result["error"]["code"]


def check_ids(results: list[dict[str, Any]]) -> None:
    """Every item that was applied names its resource, and contains it unless it is deleted."""
    for each in results:
        if each["status"] == "failed":
            assert each["id"] is None
        else:
            assert each["id"] is not None
            assert each["resource"] is None or each["resource"]["id"] == each["id"]


def without_ids(value: Any) -> Any:
    """A document without what differs between two stores, or with the number of writes."""
    if isinstance(value, list):
        return [without_ids(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        hidden = ("id", "product_id", "version", "created_at", "updated_at")
        return {n: without_ids(v) for n, v in cast("dict[str, Any]", value).items() if n not in hidden}
    return value


@given(items=st.lists(ITEMS, min_size=1, max_size=6), atomic=st.booleans())
@example(items=[CREATED, {"op": "delete", "sku": "C"}], atomic=True)
@example(items=[{"op": "upsert", "sku": "C", "data": NEW}, {"op": "delete", "sku": "C"}], atomic=False)
@example(items=[CREATED, {"op": "update", "sku": "C", "if_version": 1, "data": {"price": "4"}}], atomic=True)
@example(items=[{"op": "update", "id": 0, "if_version": 1, "data": {"price": each}} for each in "23"], atomic=False)
async def test_a_batch_of_products_equals_its_items_one_after_another(
    application: Application, db: Database, items: list[dict[str, Any]], *, atomic: bool
) -> None:
    together, separately = await Side.open(application, db), await Side.open(application, db)
    await compare(together, separately, "POST", "/products/batch", items, atomic=atomic)


@given(items=st.lists(PATCHES, min_size=1, max_size=5), atomic=st.booleans())
@example(items=[{"sku": "A", "if_version": 1, "data": {"price": each}} for each in "23"], atomic=True)
@example(items=[{"sku": "A", "data": {"price": "2"}}, {"sku": "A", "data": {"effective_price": "1.00"}}], atomic=False)
async def test_a_batch_of_variants_equals_its_items_one_after_another(
    application: Application, db: Database, items: list[dict[str, Any]], *, atomic: bool
) -> None:
    together, separately = await Side.open(application, db), await Side.open(application, db)
    await compare(together, separately, "PATCH", "/products/variants", items, atomic=atomic)
