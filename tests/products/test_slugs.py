"""Slugs that Stoa derives from names: readable in every script, and unique in their store."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop

from stoa.events.outbox import Cause
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.products.slugs import slug_of
from stoa.rest.body import convert

IN_LATIN = {
    "Linen Shirt": "linen-shirt",
    "Men's Shirt": "men-s-shirt",
    "Café Mug": "cafe-mug",
    "Smørrebrød Straße": "smorrebrod-strasse",
    "Льняная рубашка": "lnyanaya-rubashka",
    "Λινό πουκάμισο": "lino-poykamiso",
    "亚麻衬衫 XL": "ya-ma-chen-shan-xl",
    "린넨 셔츠": "linnen-syeocheu",
    "ผ้าลินิน": "phalinin",
    "קפה № 5": "kfh-no-5",
    "Mug™ \u2013 blue": "mugtm-blue",
    "☕": "coffee",
    "???": "product",
}


@pytest.mark.parametrize(("name", "slug"), IN_LATIN.items())
def test_a_name_in_any_script_has_a_readable_slug(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@given(st.text(min_size=1, max_size=300))
def test_every_name_has_a_slug_that_a_request_could_send(name: str) -> None:
    slug = slug_of(name)
    assert 1 <= len(slug) <= 255
    assert all(part.isascii() and part.isalnum() and part == part.lower() for part in slug.split("-"))


async def _create(shop: Shop, **fields: Any) -> dict[str, Any]:
    answer = await shop.client.post("/products", json={"price": "1.00", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def test_the_second_product_with_a_name_has_a_number(shop: Shop) -> None:
    slugs = [(await _create(shop, name="Льняная рубашка"))["slug"] for _ in range(3)]
    assert slugs == ["lnyanaya-rubashka", "lnyanaya-rubashka-2", "lnyanaya-rubashka-3"]


async def test_names_of_other_stores_do_not_count(shop: Shop, other_shop: Shop) -> None:
    assert [(await _create(each, name="Mug"))["slug"] for each in (shop, other_shop)] == ["mug", "mug"]


async def test_a_slug_that_is_sent_is_stored_as_it_is(shop: Shop) -> None:
    assert [(await _create(shop, name="Mug", slug="cup"))["slug"] for _ in range(2)] == ["cup", "cup"]


async def test_a_long_slug_has_room_for_its_number(shop: Shop) -> None:
    slugs = [(await _create(shop, name="я" * 255))["slug"] for _ in range(2)]
    assert len(set(slugs)) == 2
    assert slugs[1].endswith("ya-2")


async def test_a_deleted_product_frees_its_slug(shop: Shop) -> None:
    first = await _create(shop, name="Mug")
    assert (await shop.client.delete(f"/products/{first['id']}")).status_code == 204
    assert (await _create(shop, name="Mug"))["slug"] == "mug"


async def test_null_derives_the_slug_again(shop: Shop) -> None:
    await _create(shop, name="Mug")
    product = await _create(shop, name="Cup", slug="something")
    changed = await shop.client.patch(f"/products/{product['id']}", json={"slug": None, "name": "Mug"})
    assert changed.json()["data"]["slug"] == "mug-2"
    again = await shop.client.patch(f"/products/{product['id']}", json={"slug": None})
    assert again.json()["data"] == changed.json()["data"], "nothing changed, so it has the same version"


async def test_products_that_are_created_at_the_same_time_have_different_slugs(shop: Shop) -> None:
    created = await asyncio.gather(*(_create(shop, name="Кружка") for _ in range(12)))
    assert len({each["slug"] for each in created}) == 12


async def test_products_of_one_batch_have_different_slugs(shop: Shop) -> None:
    items = [{"op": "create", "data": {"name": "Кружка", "price": "1.00"}} for _ in range(30)]
    items.append({"op": "create", "data": {"name": "Кружка 2", "price": "1.00"}})
    assert (await shop.client.post("/products/batch", json={"items": items})).status_code == 200
    slugs = [each["slug"] for each in (await shop.client.get("/products?limit=100")).json()["data"]]
    assert len(set(slugs)) == 31
    assert {f"kruzhka-{n}" for n in range(2, 10)} <= set(slugs)


async def test_a_numbered_slug_is_given_once_at_the_same_time(shop: Shop) -> None:
    await _create(shop, name="Mug")
    second = new_product(convert({"name": "Mug 2", "price": "1.00"}, NewProduct, digits=shop.store.digits), shop.store)
    async with shop.db.transaction() as db:
        await save(db, shop.store_id, [second], Cause(shop.app_id, "req_tests"))
        assert (await _create(shop, name="Mug"))["slug"] == "mug-3"
    assert second.fields.slug == "mug-2"
    assert (await _create(shop, name="Mug"))["slug"] == "mug-4"


async def test_a_name_with_a_number_waits_for_the_slug_that_another_product_gets(shop: Shop) -> None:
    await _create(shop, name="Mug")
    other = new_product(convert({"name": "Mug", "price": "1.00"}, NewProduct, digits=shop.store.digits), shop.store)
    async with shop.db.transaction() as db:
        await save(db, shop.store_id, [other], Cause(shop.app_id, "req_tests"))
        waiting = asyncio.create_task(_create(shop, name="Mug 2"))
        await until_somebody_waits(shop.db)
    assert (other.fields.slug, (await waiting)["slug"]) == ("mug-2", "mug-2-2")


async def test_numbers_that_are_taken_are_not_locked(shop: Shop) -> None:
    """The server has room for some thousands of locks, which all stores share."""
    for _ in range(6):
        await _create(shop, name="Mug")
    held: dict[str, int] = {}
    for name in ("Plate", "Mug"):
        made = new_product(convert({"name": name, "price": "1.00"}, NewProduct, digits=shop.store.digits), shop.store)
        async with shop.db.transaction() as db:
            await save(db, shop.store_id, [made], Cause(shop.app_id, "req_tests"))
            rows = await db.fetch(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            )
        held[made.fields.slug] = rows[0][0]
    assert held == {"plate": held["plate"], "mug-7": held["plate"] + 1}
