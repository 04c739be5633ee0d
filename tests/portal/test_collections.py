"""The pages of collections: created, given rules, filled by hand, and deleted by a person."""

import re
from typing import Any

import pytest

from stoa.access import audit
from stoa.db.pool import Database
from stoa.products.collection_changes import LONGEST_DESCRIPTION
from stoa.products.collection_rollout import apply_collections
from tests.pictures.samples import picture
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import MUG, SHIRT, Shop


async def listed(shop: Shop, **query: Any) -> list[str]:
    answer = await shop.client.get("/products", params={"sort": "position", **query})
    return [each["name"] for each in answer.json()["data"]]


async def test_a_person_creates_a_collection_with_rules_and_products(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT, MUG)
    url = f"{store_url}/collections"
    await maria.open(url)
    assert "No collections yet." in maria.text
    await maria.submit(url, title="Summer <b>", handle="summer")
    assert maria.notice == "Summer <b> was created. Add rules or products."
    rules = {
        "rule_fields[1]": "tag",
        "rule_values[1]": "Linen",
        "rule_fields[2]": "price",
        "rule_values[2]": "50,00..60",
    }
    form = {"title": "Summer", "version": "1", "description": "Two\nlines", "match": "all", **rules}
    await maria.submit(f"{url}/summer", {**form, "rule_values[2]": "cheap"})
    assert maria.faults.keys() == {"rule_values[2]"}
    await maria.submit(f"{url}/summer", {**form, "picture": "nowhere"})
    assert maria.faults.keys() == {"picture"}
    await maria.submit(f"{url}/summer", form)
    assert maria.notice == "Saved."
    assert "are being applied" in maria.text
    await maria.submit(f"{url}/summer", {**form, "title": "Winter"})
    assert (maria.response.status_code, maria.faults[""][:8]) == (409, "Somebody")
    assert f'<a href="{url}/summer" target="_blank">Open the page as it is now</a>' in maria.text
    await apply_collections(db)
    await maria.open(f"{url}/summer")
    assert ("Linen Shirt" in maria.text, "By a rule" in maria.text, "50.00..60.00" in maria.text) == (True, True, True)
    await maria.submit(f"{url}/summer/products", sku_list="NOPE")
    assert "NOPE" in maria.faults["sku_list"]
    await maria.submit(f"{url}/summer/products", sku_list="MUG-1\nLS-S", position="1")
    assert maria.notice == "Saved. Summer has 2 products."
    assert await listed(shop, collection="summer") == ["Café Mug", "Linen Shirt"]
    await maria.submit(f"{url}/summer/products", sku_list="MUG-1", remove="on")
    assert maria.notice == "Saved. Summer has 1 products."
    await maria.open(url)
    assert "tag" in maria.text
    await maria.submit(f"{url}/summer/delete")
    assert maria.faults.keys() == {"confirmed"}
    await maria.submit(f"{url}/summer/delete", confirmed="on")
    assert maria.notice == "Summer was deleted."
    entries = [each for each in await audit.page(db, shop.store_id, 0, 100) if each.action.startswith("collection.")]
    assert {each.actor for each in entries} == {f"account:{maria.account.id}"}
    rows = await db.fetch("SELECT actor FROM events WHERE store_id = $1 AND type = 'product.updated'", shop.store_id)
    assert {row[0] for row in rows} == {'{"type":"system"}', '{"type":"account"}'}


@pytest.mark.parametrize(
    ("field", "value"), [("handle", "No handle"), ("handle", "x" * 65), ("handle", "summer"), ("title", "x" * 256)]
)
async def test_a_fault_is_shown_beside_its_field(maria: User, store_url: str, field: str, value: str) -> None:
    await maria.open(f"{store_url}/collections")
    await maria.submit(f"{store_url}/collections", title="Summer", handle="summer")
    await maria.open(f"{store_url}/collections")
    await maria.submit(f"{store_url}/collections", {"title": "Other", "handle": "other", field: value})
    assert (maria.response.status_code, set(maria.faults)) == (422, {field})


async def test_products_show_and_filter_by_their_collections(shop: Shop, maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/collections")
    await maria.submit(f"{store_url}/collections", title="Gifts", handle="gifts")
    mug, _ = await shop.add({**MUG, "collections": [{"handle": "gifts"}]}, SHIRT)
    await maria.open(f"{store_url}/products/{mug}")
    assert f'href="{store_url}/collections/gifts"' in maria.text
    await maria.open(f"{store_url}/products?collection=gifts")
    assert ("Café Mug" in maria.text, "Linen Shirt" in maria.text) == (True, False)
    await maria.open(f"{store_url}/collections/nothing")
    assert maria.response.status_code == 404


async def test_a_person_uploads_the_picture_of_a_collection(maria: User, store_url: str) -> None:
    url = f"{store_url}/collections"
    await maria.open(url)
    await maria.submit(url, title="Gifts", handle="gifts")

    async def save(version: str, data: bytes, **fields: str) -> None:
        sent = {"_token": maria.token, "title": "Gifts", "version": version, **fields}
        files = {"file": ("gifts.png", data, "image/png")}
        maria.response = await maria.client.post(
            f"{url}/gifts", data=sent, files=files, headers=SAME_ORIGIN, follow_redirects=True
        )

    await save("1", b"Dear reader, ...")
    assert maria.faults == {"file": "The file is not a JPEG, PNG, WebP, GIF or AVIF file."}
    await save("1", picture(kind="PNG"))
    assert maria.notice == "Saved.", maria.faults
    [address] = re.findall(r'name="picture"[^>]* value="([^"]+)"', maria.text)
    path = address[address.index("/media/") :]
    assert f'src="{path}?w=320"' in maria.text
    await maria.open(url)
    assert f'src="{path}?w=160"' in maria.text
    await maria.open(f"{url}/gifts")
    await save("2", b"", picture=address)
    assert (maria.notice, f'src="{path}?w=320"' in maria.text) == ("Saved.", True), "without a file, the picture stays"
    await save("2", b"", picture="")
    assert (maria.notice, "/media/" in maria.text) == ("Saved.", False)


async def test_the_longest_description_of_a_collection_can_be_saved_in_any_script(maria: User, store_url: str) -> None:
    url = f"{store_url}/collections"
    await maria.open(url)
    await maria.submit(url, title="Tea", handle="tea")
    form = {"title": "Tea", "version": "1", "description": "茶" * LONGEST_DESCRIPTION}
    await maria.submit(f"{url}/tea", form)
    assert maria.notice == "Saved.", maria.response.status_code
    await maria.submit(f"{url}/tea", {**form, "version": "2", "description": "茶" * (LONGEST_DESCRIPTION + 1)})
    assert maria.faults == {"description": "Enter at most 65,535 characters."}
