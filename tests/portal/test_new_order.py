"""An order that a person writes: priced, checked and placed by the rules of the API, once, and with the total that was shown."""

import asyncio
import re
from typing import Any

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.store_pages import hidden, place_order
from tests.support.locations import levels
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import MUG, PERSON, SHIRT, Shop

ADDRESS = {"address[address1]": "1 Mill Lane", "address[city]": "Ghent", "address[country_code]": "BE"}


async def opened(shop: Shop, user: User, url: str) -> str:
    """Open the page; return the field of the units of a shirt."""
    await shop.add(SHIRT)
    await user.open(url)
    found = re.search(r'Linen Shirt</label><small>S · LS-S</small>.*?name="(units\[\d+\])"', user.text)
    assert found, user.text
    return found[1]


async def orders(shop: Shop) -> list[dict[str, Any]]:
    return (await shop.client.get("/orders")).json()["data"]


async def test_a_written_order_is_placed_with_the_total_that_the_page_showed(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    written = {
        units: "2",
        "discount": "10",
        "discount_title": "Spring",
        "shipping_total": "5.00",
        "note": "By phone.",
        "email": "ada@example.com",
        "first_name": "Ada",
        "paid": "on",
        **ADDRESS,
    }
    await maria.submit(url, {**hidden(maria.text), **written, "then": "place"})
    assert maria.response.status_code == 200
    assert ">Place order for 111.20 USD</button>" in maria.text
    assert await orders(shop) == [], "nothing is placed before the page showed the total"
    await maria.submit(url, {**hidden(maria.text), **written, "then": "place"})
    [placed] = await orders(shop)
    assert maria.notice == f"Order #{placed['number']} is placed."
    assert maria.path == f"{store_url}/orders/{placed['id']}"
    assert (placed["status"], placed["total"], placed["payment_status"]) == ("pending", "111.20", "paid")
    assert placed["discounts"][0]["title"] == "Spring"
    assert placed["shipping_address"]["city"] == "Ghent"
    assert placed["contact"]["email"] == "ada@example.com"
    assert placed["source"] == {"app_id": None, "name": "Maria Stone"}
    assert await levels(shop, "LS-S") == {"default": (4, 2)}, "the stock is reserved"
    [event] = await db.fetch("SELECT actor FROM events WHERE store_id = $1 AND type = 'order.created'", shop.store_id)
    assert event[0] == '{"type":"account"}'
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.subject) == ("order.placed", f"order:{placed['id']}")


async def test_a_draft_reserves_nothing(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    await maria.submit(url, {**hidden(maria.text), units: "9", "then": "draft"})
    [draft] = await orders(shop)
    assert maria.notice == f"Order #{draft['number']} is kept as a draft."
    assert (draft["status"], draft["total"]) == ("draft", "531.00")
    assert await levels(shop, "LS-S") == {"default": (4, 0)}


async def test_a_stored_customer_is_found_and_their_default_address_used(
    shop: Shop, maria: User, store_url: str
) -> None:
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    await maria.submit(url, {**hidden(maria.text), units: "1", "customer_q": "ada", "q": "nothing"})
    assert f'name="customer_id" value="{customer["id"]}"' in maria.text
    assert f'name="{units}"' in maria.text, "a search keeps the lines so far"
    await maria.submit(url, {**hidden(maria.text), units: "1", "customer_id": str(customer["id"]), "then": "draft"})
    [draft] = await orders(shop)
    assert (draft["customer_id"], draft["shipping_address"]["address1"]) == (customer["id"], "1 Mill Lane")
    await maria.open(f"{url}?customer_id={customer['id']}")
    assert re.search(rf'value="{customer["id"]}" checked', maria.text)


async def test_faults_are_beside_their_fields_and_nothing_is_placed(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    price = units.replace("units", "prices")
    before = await audit.head(db, shop.store_id)
    for fields, fault in (
        ({}, "units"),
        ({units: "two"}, units),
        ({units: "5"}, units),
        ({units: "1", price: "cheap"}, price),
        ({units: "1", "discount": "101"}, "discount"),
        ({units: "1", "shipping_total": "-1"}, "shipping_total"),
        ({units: "1", "email": "nobody"}, "email"),
        ({units: "1", "customer_id": "999"}, "customer_id"),
        ({units: "1", "address[country_code]": "ZZ"}, "address[country_code]"),
        ({"units[999]": "1"}, None),
    ):
        await maria.open(url)
        await maria.submit(url, {**hidden(maria.text), **fields, "then": "place"})
        assert maria.response.status_code == 422, (fields, maria.text)
        assert fault is None or maria.faults.keys() == {fault}, (fields, maria.faults)
    assert await orders(shop) == []
    assert await audit.head(db, shop.store_id) == before


async def test_a_written_order_is_placed_once_and_not_for_another_total(
    shop: Shop, maria: User, store_url: str
) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    form = {"_token": maria.token, **hidden(maria.text), units: "1", "then": "place", "shown_amount": "58.00"}
    stale = await maria.client.post(url, data=form, headers=SAME_ORIGIN)
    assert (stale.status_code, "The total has changed" in stale.text) == (409, True)
    form["shown_amount"] = "59.00"
    answers = await asyncio.gather(*(maria.client.post(url, data=form, headers=SAME_ORIGIN) for _ in range(3)))
    assert {each.status_code for each in answers} == {303}
    assert len(await orders(shop)) == 1
    other = await maria.client.post(url, data={**form, "note": "Other"}, headers=SAME_ORIGIN)
    assert other.status_code == 409


async def test_a_script_gets_the_total_and_places_nothing(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    form = {"_token": maria.token, **hidden(maria.text), "then": "place"}
    headers = {**SAME_ORIGIN, "accept": "application/json"}
    answers: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({units: "2"}, {"amount": "118.00"}),
        ({units: "2", "shown_amount": "118.00"}, {"amount": "118.00"}),
        ({"then": "show"}, {"faults": {}}),
    ]
    for fields, answer in answers:
        assert (await maria.client.post(url, data={**form, **fields}, headers=headers)).json() == answer
    assert await orders(shop) == []


async def test_a_suspected_duplicate_is_named_before_the_order_is_placed(
    shop: Shop, maria: User, store_url: str
) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    placed = await place_order(shop)
    await maria.submit(
        url, {**hidden(maria.text), units: "1", "email": "ada@example.com", "address[postal_code]": "9000", **ADDRESS}
    )
    assert re.search(
        rf'Suspected duplicate of <a href="[^"]+/orders/{placed["id"]}">#{placed["number"]}</a>', maria.text
    )


async def test_a_product_that_is_not_active_is_not_offered(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(MUG)
    await maria.open(f"{store_url}/orders/new")
    assert "Café Mug" not in maria.text


async def test_an_address_with_a_wide_space_is_accepted(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    written = {units: "1", "email": "ada@example.com", **ADDRESS, "address[address1]": "東京都\u3000千代田区"}
    await maria.submit(url, {**hidden(maria.text), **written, "then": "draft"})
    [draft] = await orders(shop)
    assert draft["shipping_address"]["address1"] == "東京都\u3000千代田区"


async def test_a_suspected_duplicate_is_placed_only_after_the_page_named_it(
    shop: Shop, maria: User, store_url: str
) -> None:
    url = f"{store_url}/orders/new"
    units = await opened(shop, maria, url)
    await place_order(shop)
    written = {units: "1", "email": "ada@example.com", "address[postal_code]": "9000", **ADDRESS, "then": "place"}
    headers = {**SAME_ORIGIN, "accept": "application/json"}
    form = {**hidden(maria.text), "_token": maria.token, **written}
    answer = await maria.client.post(url, data=form, headers=headers)
    await maria.submit(url, {**form, "shown_amount": answer.json()["amount"]})
    assert (maria.response.status_code, "Suspected duplicate of" in maria.text) == (409, True)
    assert "may be the same order" in maria.faults[""]
    assert len(await orders(shop)) == 1
    await maria.submit(url, {**hidden(maria.text), **written})
    assert maria.notice.endswith("is placed."), maria.faults
    assert len(await orders(shop)) == 2


async def test_more_products_than_the_page_shows_are_refused(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/orders/new"
    await opened(shop, maria, url)
    many = {f"units[{n}]": "1" for n in range(1_000, 1_061)}
    await maria.submit(url, {**hidden(maria.text), **many, "then": "draft"})
    assert maria.faults == {"units": "An order on this page has at most 60 products."}
