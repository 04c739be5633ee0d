"""Membership equals the rule: over arbitrary products without a database, and over random edits of products and rules with one."""

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.products.test_collections import create, listed
from tests.support.shops import Shop

from stoa.db.query import json_of
from stoa.products import collection_changes as changes
from stoa.products.bodies import ProductFields
from stoa.products.collection_rollout import apply_collections
from stoa.products.collections import Rules, checked_condition, memberships

TAGS, BRANDS = ("Linen", "linen", "WOOL", "straße"), (None, "Kiln", "kiln & co")
CATEGORIES = (None, "Home", "Home/Kitchen", "home/kitchen/Knives", "Homeware")
PRICES = ("0.00", "9.99", "10.00", "25.00", "25.01")
CONDITIONS = [
    *(("tag", each) for each in ("LINEN", "wool", "STRASSE")),
    *(("brand", each) for each in ("KILN", "other")),
    *(("category", each) for each in ("HOME", "home/Kitchen", "Home/Kit")),
    *(("price", each) for each in ("10..25", "..9.99", "25,01..", "10.00")),
]
PRODUCTS = st.builds(
    ProductFields,
    name=st.just("Thing"),
    price=st.sampled_from(PRICES),
    tags=st.lists(st.sampled_from(TAGS), max_size=3),
    brand=st.sampled_from(BRANDS),
    category=st.sampled_from(CATEGORIES),
)


def fulfills(product: dict[str, Any], rules: list[tuple[str, str]], match: str) -> bool:
    """The rule in the words of the guide."""

    def one(field: str, value: str) -> bool:
        if field == "tag":
            return value.casefold() in [each.casefold() for each in product["tags"]]
        if field == "brand":
            return (product["brand"] or "").casefold() == value.casefold()
        if field == "category":
            own, wanted = (product["category"] or "").casefold(), value.casefold()
            return own == wanted or own.startswith(f"{wanted}/")
        low, dots, high = value.replace(",", ".").partition("..")
        price = Decimal(product["price"])
        return Decimal(low or 0) <= price <= Decimal((high or "Infinity") if dots else low)

    found = [one(field, value) for field, value in rules]
    return all(found) if match == "all" else any(found)


@given(PRODUCTS, st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4), st.sampled_from(["all", "any"]))
def test_a_product_is_in_a_collection_if_it_fulfills_its_rules(
    product: ProductFields, rules: list[tuple[Any, str]], match: Any
) -> None:
    stored = Rules(tuple(checked_condition(field, value, 2) for field, value in rules), match)
    found = memberships(product, json_of({"picks": stored, "by-hand": None}))
    plain = {name: getattr(product, name) for name in ("tags", "brand", "category", "price")}
    assert [each["handle"] for each in found] == (["picks"] if fulfills(plain, rules, match) else [])


@pytest.mark.parametrize("seed", range(3))
async def test_members_are_those_that_fulfill_the_rules_after_random_edits(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)

    def facts() -> dict[str, Any]:
        return {
            "tags": chance.sample(TAGS, chance.randrange(3)),
            "brand": chance.choice(BRANDS),
            "category": chance.choice(CATEGORIES),
            "price": chance.choice(PRICES),
        }

    def rules() -> dict[str, Any]:
        return {"rules": chance.sample(CONDITIONS, chance.randrange(1, 4)), "match": chance.choice(["all", "any"])}

    ids = await shop.add(*({"name": f"Thing {n}", "sku": f"T-{n}", **facts()} for n in range(12)))
    wanted: dict[str, dict[str, Any]] = {}
    for handle in ("one", "two", "three"):
        await create(shop, handle)
        wanted[handle] = {"rules": [], "match": "all"}
    for _ in range(30):
        if chance.random() < 0.7:
            product = chance.choice(ids)
            assert (await shop.client.patch(f"/products/{product}", json=facts())).is_success
        elif chance.random() < 0.7:
            handle = chance.choice(list(wanted))
            wanted[handle] = rules()
            await changes.update_collection(shop.local_operator, shop.store.handle, handle, **wanted[handle])
        else:
            await apply_collections(shop.db, batch=chance.randrange(1, 20))
    await apply_collections(shop.db)
    products = (await shop.client.get("/products")).json()["data"]
    for handle, rule in wanted.items():
        members = [each["id"] for each in products if rule["rules"] and fulfills(each, rule["rules"], rule["match"])]
        assert await listed(shop, collection=handle) == members
        shown = [each["id"] for each in products if handle in [c["handle"] for c in each["collections"]]]
        assert shown == members
