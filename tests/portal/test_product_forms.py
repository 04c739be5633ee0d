"""Products that a person creates and edits in a form: all fields, the grid of variants, prices as people type them, and races."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from stoa.access import audit
from stoa.db.pool import Database
from stoa.portal.stores.product_forms import LONGEST_DESCRIPTION, MOST_COLLECTIONS, amount
from stoa.products.collection_changes import Details, create_collection
from tests.metadata.support import merchant_defines
from tests.portal.shown_forms import shown_form
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import MUG, SHIRT, Shop


async def stored(shop: Shop, product_id: int) -> dict[str, Any]:
    return (await shop.client.get(f"/products/{product_id}")).json()["data"]


async def shown(user: User, url: str) -> dict[str, Any]:
    """The form of a product as its page shows it."""
    await user.open(url)
    form = shown_form(user.response.text, url)
    assert form is not None
    return {name: value for name, value in form.items() if name not in ("collections", "_token")}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("12.50", "12.50"), ("12,50", "12.50"), ("12", "12"), ("1.234,50", "1234.50"), ("1,234.50", "1234.50"),
        ("1 234,50", "1234.50"), ("1\u202f234,50", "1234.50"), ("1'234.50", "1234.50"), ("1,234,567", "1234567"),
        ("1,234", "1.234"), ("-1", "-1"), ("1,23.4,5", "1,23.4,5"), ("a lot", "a lot"), ("", ""), (",5", ",5"),
    ],
)  # fmt: skip
def test_an_amount_is_read_with_a_comma_or_a_point(typed: str, read: str) -> None:
    assert amount(typed) == read


async def test_a_person_creates_a_product_with_variants(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await maria.open(f"{store_url}/collections")
    await maria.submit(f"{store_url}/collections", title="Gifts", handle="gifts")
    url = f"{store_url}/products/new"
    form = await shown(maria, url)
    filled = {
        **form,
        "name": "Linen Apron",
        "price": "1.234,50",
        "tags": "linen\n kitchen, blue ",
        "brand": "Orravale",
        "category": "Home/Kitchen",
        "description": "Cross-back.\nWashed once.",
        "collections": ["gifts"],
        "option_names[1]": "Size",
        "skus[new1]": "AP-S",
        "option1[new1]": "S",
        "stocks[new1]": "4",
        "gtins[new1]": "4006381333931",
        "skus[new3]": "AP-L",
        "option1[new3]": "L",
        "prices[new3]": "61,00",
        "weights[new3]": "0,4",
        "shipping[new3]": "no",
        "taxed[new3]": "yes",
    }
    await maria.submit(url, {**filled, "gtins[new1]": "123", "name": ""})
    assert maria.faults.keys() == {"name", "gtins[new1]"}
    await maria.submit(url, filled)
    assert maria.notice == "The product was created."
    product = await stored(shop, int(maria.path.rpartition("/")[2]))
    assert (product["name"], product["price"], product["slug"]) == ("Linen Apron", "1234.50", "linen-apron")
    assert product["tags"] == ["linen", "kitchen, blue"]
    assert [each["handle"] for each in product["collections"]] == ["gifts"]
    small, large = product["variants"]
    assert (small["sku"], small["option_values"], small["stock"]["on_hand"], small["gtin"]) == (
        "AP-S",
        {"Size": "S"},
        4,
        "4006381333931",
    )
    assert (large["price"], large["weight"], large["requires_shipping"], large["taxable"]) == (
        "61.00",
        0.4,
        False,
        True,
    )
    await maria.submit(url, filled)
    assert maria.notice == "This form was already submitted. Nothing was done twice."
    [entry] = [each for each in await audit.newest(db, shop.store_id, 3) if each.action == "product.created"]
    assert (entry.subject, entry.actor) == (f"product:{product['id']}", f"account:{maria.account.id}")


async def test_a_name_and_a_price_are_enough(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/products/new"
    await maria.submit(url, {**await shown(maria, url), "name": "Bowl", "price": "9"})
    product = await stored(shop, int(maria.path.rpartition("/")[2]))
    assert (product["price"], product["variants_count"], product["collections"]) == ("9.00", 1, [])


async def test_a_taken_sku_is_shown_beside_its_cell(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(MUG)
    url = f"{store_url}/products/new"
    await maria.submit(url, {**await shown(maria, url), "name": "Bowl", "price": "9", "skus[new1]": "MUG-1"})
    assert maria.faults.keys() == {"skus[new1]"}


async def test_a_page_that_is_saved_unchanged_changes_nothing(shop: Shop, maria: User, store_url: str) -> None:
    [shirt] = await shop.add({**SHIRT, "description": "  Two\nlines"})
    before = await stored(shop, shirt)
    await maria.submit(f"{store_url}/products/{shirt}/edit", await shown(maria, f"{store_url}/products/{shirt}/edit"))
    assert maria.notice == "Saved."
    after = await stored(shop, shirt)
    assert {**after, "description": None} | {"version": 0, "updated_at": ""} == {**before, "description": None} | {
        "version": 0,
        "updated_at": "",
    }


async def test_a_person_edits_a_product_and_its_variants(shop: Shop, maria: User, store_url: str) -> None:
    [shirt] = await shop.add(SHIRT)
    url = f"{store_url}/products/{shirt}/edit"
    first, second = [each["id"] for each in (await stored(shop, shirt))["variants"]]
    form = await shown(maria, url)
    changed = {
        **form,
        "name": "Linen Shirt II",
        "tags": "linen",
        "slug": "",
        "brand": "",
        f"skus[{first}]": "LS-S2",
        f"stocks[{first}]": "9",
        f"gtins[{second}]": "4006381333931",
        f"option1[{second}]": "Medium",
        "skus[new1]": "LS-L",
        "option1[new1]": "L",
        "stocks[new1]": "2",
    }
    await maria.submit(url, {**changed, f"stocks[{first}]": "many", f"gtins[{second}]": "12"})
    assert maria.faults.keys() == {f"gtins[{second}]"}
    await maria.submit(url, {**changed, f"stocks[{first}]": "many"})
    assert maria.faults.keys() == {f"stocks[{first}]"}
    await maria.submit(url, changed)
    assert maria.notice == "Saved."
    product = await stored(shop, shirt)
    assert (product["name"], product["tags"], product["brand"]) == ("Linen Shirt II", ["linen"], None)
    found = [(each["sku"], each["option_values"]["Size"], each["stock"]["on_hand"]) for each in product["variants"]]
    assert found == [("LS-S2", "S", 9), ("LS-M", "Medium", 0), ("LS-L", "L", 2)]
    assert product["variants"][1]["gtin"] == "4006381333931"
    ledger = (await shop.client.get("/products/inventory/adjustments")).json()["data"]
    assert {each["actor"]["type"] for each in ledger[:2]} == {"account"}


async def test_two_tabs_do_not_overwrite_each_other(shop: Shop, maria: User, store_url: str) -> None:
    [mug] = await shop.add(MUG)
    url = f"{store_url}/products/{mug}/edit"
    tabs = [{**await shown(maria, url), "name": name} for name in ("Cup", "Bowl")]
    await maria.submit(url, tabs[0])
    assert maria.notice == "Saved."
    await maria.submit(url, tabs[1])
    assert (maria.response.status_code, maria.faults[""][:8]) == (409, "Somebody")
    assert (await stored(shop, mug))["name"] == "Cup"


async def test_a_page_that_is_submitted_again_does_not_undo_what_it_does_not_show(
    shop: Shop, maria: User, store_url: str
) -> None:
    [mug] = await shop.add(MUG)
    url = f"{store_url}/products/{mug}/edit"
    opened = await shown(maria, url)
    await shop.client.patch(f"/products/{mug}", json={"price": "12.00"})
    await maria.submit(url, {**opened, "name": ""})
    for _ in range(2):
        again = shown_form(maria.response.text, url)
        assert again is not None
        await maria.submit(url, {**again, "collections": [], "name": "Cup"})
        assert (maria.response.status_code, maria.faults[""][:8]) == (409, "Somebody")
        assert f'<a href="{url}" target="_blank">Open the page as it is now</a>' in maria.text
    product = await stored(shop, mug)
    assert (product["name"], product["price"]) == ("Café Mug", "12.00")
    await maria.submit(url, {**await shown(maria, url), "name": "Cup"})
    assert maria.notice == "Saved."
    assert (await stored(shop, mug))["price"] == "12.00"


async def test_a_level_that_somebody_has_changed_can_be_set_after_it_was_shown(
    shop: Shop, maria: User, store_url: str
) -> None:
    [mug] = await shop.add(MUG)
    [variant] = (await stored(shop, mug))["variants"]
    url, cell = f"{store_url}/products/{mug}/edit", f"stocks[{variant['id']}]"
    opened = await shown(maria, url)
    level = {"variant_id": variant["id"], "op": "adjust", "quantity": 4}
    assert (await shop.client.post("/products/inventory/adjustments", json={"items": [level]})).status_code == 200
    await maria.submit(url, {**opened, cell: "77"})
    now = variant["stock"]["on_hand"] + 4
    assert maria.faults == {cell: f"The stock on hand is {now} now. Check it, and submit again."}
    again = shown_form(maria.response.text, url)
    assert again is not None
    await maria.submit(url, {**again, "collections": []})
    assert maria.notice == "Saved.", maria.faults
    assert (await stored(shop, mug))["variants"][0]["stock"]["on_hand"] == 77


async def test_a_form_that_is_sent_twice_at_once_is_done_once(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/products/new"
    form = {**await shown(maria, url), "name": "Bowl", "price": "9,50"}
    token = shown_form(maria.response.text, url)
    assert token is not None
    data = {**form, "_token": token["_token"]}
    answers = await asyncio.gather(*(maria.client.post(url, data=data, headers=SAME_ORIGIN) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [303] * 3
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1


async def test_a_long_description_stays_as_it_is(shop: Shop, maria: User, store_url: str) -> None:
    [mug] = await shop.add({**MUG, "description": "x" * 20_000})
    url = f"{store_url}/products/{mug}/edit"
    form = await shown(maria, url)
    assert "description" not in form
    await maria.submit(url, {**form, "name": "Cup"})
    assert len((await stored(shop, mug))["description"]) == 20_000


@pytest.mark.parametrize("weight", ["1.360777", "1000000", "1e6", "123456.789012", "10"])
async def test_a_page_that_is_saved_keeps_every_digit_of_a_weight(
    shop: Shop, maria: User, store_url: str, weight: str
) -> None:
    headers = {"content-type": "application/json"}
    body = f'{{"name": "Mug", "price": "9.00", "weight": {weight}, "variants": [{{"sku": "M", "weight": {weight}}}]}}'
    made = (await shop.client.post("/products", content=body, headers=headers)).json()["data"]
    url = f"{store_url}/products/{made['id']}"
    await maria.submit(f"{url}/edit", {**await shown(maria, f"{url}/edit"), "name": "Cup"})
    assert maria.notice == "Saved.", maria.faults
    [variant] = (await stored(shop, made["id"]))["variants"]
    assert variant["weight"] == float(weight)
    await maria.open(url)
    assert f"<dd>{Decimal(weight):f} kg</dd>" in maria.text


async def test_a_product_without_stock_is_out_of_stock_and_not_low(shop: Shop, maria: User, store_url: str) -> None:
    variants = [
        {"sku": f"V-{n}", "option_values": {"Size": str(n)}, "low_stock_threshold": 5, "stock": {"on_hand": n}}
        for n in (0, 3)
    ]
    [product] = await shop.add(
        {"name": "Cup", "price": "5.00", "options": [{"name": "Size", "values": ["0", "3"]}], "variants": variants}
    )
    await maria.open(f"{store_url}/products/{product}")
    text = maria.response.text
    assert (text.count("<small>Out of stock</small>"), text.count("<small>Low stock</small>")) == (1, 1)


async def test_a_product_with_an_emoji_of_several_characters_can_be_edited(
    shop: Shop, maria: User, store_url: str
) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    option = {"options": [{"name": "Size", "values": [family]}]}
    variant = {"sku": "M-1", "option_values": {"Size": family}}
    [mug] = await shop.add({"name": "Mug", "price": "9.00", "description": family, **option, "variants": [variant]})
    url = f"{store_url}/products/{mug}/edit"
    await maria.submit(url, {**await shown(maria, url), "price": "10.00"})
    assert maria.notice == "Saved.", maria.faults
    product = await stored(shop, mug)
    assert (product["price"], product["description"]) == ("10.00", family)
    assert product["variants"][0]["option_values"] == {"Size": family}


async def test_a_control_character_in_a_cell_is_a_fault_of_the_cell(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/products/new"
    cells = {"skus[new1]": "M\x071", "barcodes[new2]": "4\n5"}
    await maria.submit(url, {**await shown(maria, url), "name": "Mug", "price": "9.00", **cells})
    assert maria.faults.keys() == cells.keys()


@pytest.mark.parametrize("letter", ["ж", "茶", "\U0001f375"])
async def test_a_long_description_in_any_script_can_be_saved(
    shop: Shop, maria: User, store_url: str, letter: str
) -> None:
    [mug] = await shop.add({**MUG, "description": letter * LONGEST_DESCRIPTION})
    url = f"{store_url}/products/{mug}/edit"
    await maria.submit(url, {**await shown(maria, url), "price": "10.00"})
    assert maria.notice == "Saved.", maria.response.status_code
    product = await stored(shop, mug)
    assert (product["price"], product["description"]) == ("10.00", letter * LONGEST_DESCRIPTION)


async def test_a_full_grid_is_saved_with_every_collection_and_required_key(
    shop: Shop, maria: User, store_url: str
) -> None:
    handles = [f"c{n}" for n in range(MOST_COLLECTIONS)]
    for handle in handles:
        await create_collection(shop.operator, shop.store.handle, handle, Details(handle))
    sizes = [str(n) for n in range(10)]
    variants = [{"sku": f"V-{n}", "option_values": {"Size": n}} for n in sizes]
    body = {"name": "Cup", "price": "5.00", "options": [{"name": "Size", "values": sizes}], "variants": variants}
    [cup] = await shop.add(body)
    keys = [{"resource": "variant", "key": f"k{n}", "type": "string", "required_from": "2020-01-01"} for n in range(20)]
    await merchant_defines(shop, *keys)
    url = f"{store_url}/products/{cup}/edit"
    await maria.submit(url, {**await shown(maria, url), "collections": handles, "price": "6.00"})
    assert maria.notice == "Saved.", maria.response.status_code
    product = await stored(shop, cup)
    assert (product["price"], len(product["collections"])) == ("6.00", MOST_COLLECTIONS)
