"""Customers that a person creates and changes: the rules and events of the API, once, and on what the page showed."""

from typing import Any

import pytest

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.shown_forms import shown_form
from tests.portal.store_pages import hidden, place_order
from tests.support.people import User
from tests.support.shops import PERSON, SHIRT, Shop

STREET = {"address[address1]": "1 Mill Lane", "address[city]": "Ghent", "address[country_code]": "be"}


async def only_customer(shop: Shop) -> dict[str, Any]:
    [customer] = (await shop.client.get("/customers")).json()["data"]
    return customer


async def submit(user: User, page: str, url: str, fields: dict[str, str]) -> None:
    """Submit a form of a page; several forms of it may have a key and a version."""
    await user.open(page)
    start = user.response.text.index(f'action="{url}"')
    shown = hidden(user.response.text[start : user.response.text.index("</form>", start)])
    await user.submit(url, {**shown, **fields})


async def test_a_person_creates_a_customer_with_an_address(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    url = f"{store_url}/customers/new"
    await maria.open(url)
    fields = {"email": "Ada@example.com", "first_name": "Ada", "tags": "vip\nlinen", "note": "Rings <twice>."}
    await maria.submit(url, {**hidden(maria.text), **fields, **STREET})
    assert maria.notice == "The customer was created."
    customer = await only_customer(shop)
    assert maria.path == f"{store_url}/customers/{customer['id']}"
    assert (customer["tags"], customer["note"]) == (["vip", "linen"], "Rings <twice>.")
    [address] = customer["addresses"]
    assert (address["address1"], address["country_code"], address["is_default_shipping"]) == ("1 Mill Lane", "BE", True)
    events = await db.fetch("SELECT type, actor FROM events WHERE store_id = $1", shop.store_id)
    assert ("customer.created", '{"type":"account"}') in [tuple(each) for each in events]
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.subject) == ("customer.created", f"customer:{customer['id']}")


async def test_faults_of_a_new_customer_are_beside_their_fields(shop: Shop, maria: User, store_url: str) -> None:
    assert (await shop.client.post("/customers", json=PERSON)).status_code == 201
    url = f"{store_url}/customers/new"
    for fields, fault in (
        ({}, "email"),
        ({"email": "nobody"}, "email"),
        ({"phone": "12"}, "phone"),
        ({"email": "zeno@example.com", **STREET, "address[country_code]": "ZZ"}, "address[country_code]"),
        ({"email": "zeno@example.com", "address[city]": "Ghent"}, "address[address1]"),
        ({"email": PERSON["email"]}, "email"),
    ):
        await maria.open(url)
        await maria.submit(url, {**hidden(maria.text), **fields})
        assert maria.response.status_code == 422, fields
        assert fault in maria.faults, (fields, maria.faults)
    assert len((await shop.client.get("/customers")).json()["data"]) == 1


async def test_a_person_changes_a_customer_that_nobody_else_changed(shop: Shop, maria: User, store_url: str) -> None:
    customer = (await shop.client.post("/customers", json={**PERSON, "metadata": {"own": 1}})).json()["data"]
    url = f"{store_url}/customers/{customer['id']}/edit"
    await maria.open(url)
    stale = hidden(maria.response.text.partition('id="addresses"')[0])
    await shop.add(SHIRT)
    await place_order(shop)  # a new version of the customer, which does not concern the form
    changed = {"email": PERSON["email"], "first_name": "Augusta", "phone": "+32470123456", "status": "disabled"}
    await maria.submit(url, {**stale, **changed})
    assert maria.notice == "Saved."
    now = await only_customer(shop)
    assert (now["first_name"], now["phone"], now["status"]) == ("Augusta", "+32470123456", "disabled")
    assert (now["metadata"], now["orders_count"]) == ({"own": 1}, 1), "an app's metadata and the orders stay"
    await maria.open(url)
    await maria.submit(url, {**stale, "key": "another-tab", **changed, "first_name": "Ada"})
    assert maria.response.status_code == 409
    assert maria.faults[""].startswith("Somebody changed this while your page was open.")


async def test_a_second_submit_does_not_undo_what_somebody_else_changed(
    shop: Shop, maria: User, store_url: str
) -> None:
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]
    [address], at = customer["addresses"], f"/customers/{customer['id']}"
    url = f"{store_url}{at}/edit"
    for form, changed, path in (
        (url, {"note": "Call first."}, at),
        (f"{store_url}{at}/addresses/{address['id']}", {"company": "Mill"}, f"{at}/addresses/{address['id']}"),
    ):
        await maria.open(url)
        sent = shown_form(maria.response.text, form)
        assert (await shop.client.patch(path, json=changed)).status_code == 200
        for _ in range(2):
            assert sent is not None
            await maria.submit(form, {**sent, "first_name": "Augusta", "address[city]": "Bruges"})
            assert maria.response.status_code == 409
            assert maria.faults[""].startswith("Somebody changed this while your page was open.")
            sent = shown_form(maria.response.text, form)
    now = await only_customer(shop)
    assert (now["note"], now["addresses"][0]["company"]) == ("Call first.", "Mill")
    assert (now["first_name"], now["addresses"][0]["city"]) == (PERSON["first_name"], address["city"])


async def test_a_person_adds_changes_and_removes_addresses(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]
    page = f"{store_url}/customers/{customer['id']}/edit"
    base = f"{store_url}/customers/{customer['id']}/addresses"
    fields = {**STREET, "address[address1]": "2 Dock Road", "label": "Office", "is_default_billing": "on"}
    await submit(maria, page, base, fields)
    assert maria.notice == "The address was added."
    first, second = (await only_customer(shop))["addresses"]
    assert (second["label"], second["is_default_billing"], first["is_default_shipping"]) == ("Office", True, True)
    await submit(maria, page, f"{base}/{second['id']}", {**STREET, "address[address1]": "3 Dock Road"})
    assert maria.notice == "Saved."
    second = (await only_customer(shop))["addresses"][1]
    assert (second["address1"], second["label"], second["is_default_billing"]) == ("3 Dock Road", None, True)
    await submit(maria, page, f"{base}/{second['id']}", {**STREET, "address[address1]": ""})
    assert "address[address1]" in maria.faults
    await submit(maria, page, f"{base}/{second['id']}", {**STREET, "version": "1"})
    assert maria.response.status_code == 409
    await submit(maria, page, f"{base}/{first['id']}/remove", {})
    assert maria.notice == "The address was removed."
    assert [each["id"] for each in (await only_customer(shop))["addresses"]] == [second["id"]]
    entries = await audit.newest(db, shop.store_id, 3)
    assert {each.action for each in entries} == {"customer.address_changed"}
    assert "Dock" not in "".join(each.detail for each in entries), "the audit log outlives an erasure"


@pytest.mark.parametrize(
    "name", ["山田\u3000太郎", "\u0645\u06cc\u200c\u062e\u0648", "Ada\u00a0B", "\U0001f468\u200d\U0001f469"]
)
async def test_a_customer_with_unseen_characters_of_ordinary_text_can_be_edited(
    shop: Shop, maria: User, store_url: str, name: str
) -> None:
    street = {"address1": f"1 {name}", "city": "Ghent", "country_code": "BE"}
    body = {**PERSON, "first_name": name, "note": name, "tags": [name], "addresses": [street]}
    customer = (await shop.client.post("/customers", json=body)).json()["data"]
    url = f"{store_url}/customers/{customer['id']}"
    address = f"{url}/addresses/{customer['addresses'][0]['id']}"
    for form, changed in ((f"{url}/edit", {"last_name": "Byron"}), (address, {"label": "Home"})):
        await maria.open(f"{url}/edit")
        shown = shown_form(maria.response.text, form)
        assert shown is not None
        await maria.submit(form, {**shown, **changed})
        assert maria.notice == "Saved.", maria.faults
    now = await only_customer(shop)
    assert (now["first_name"], now["note"], now["tags"], now["last_name"]) == (name, name, [name], "Byron")
    assert (now["addresses"][0]["address1"], now["addresses"][0]["label"]) == (f"1 {name}", "Home")


async def test_a_control_character_in_an_address_is_a_fault_of_its_field(
    shop: Shop, maria: User, store_url: str
) -> None:
    url = f"{store_url}/customers/new"
    await maria.open(url)
    sent = {**hidden(maria.text), "email": "ada@example.com", **STREET, "address[city]": "Gh\x07ent"}
    await maria.submit(url, sent)
    assert maria.faults == {"address[city]": "Remove the line breaks and control characters."}


@pytest.mark.parametrize("tags", [["linen, blue", "vip"], [f"{n:03}{'x' * 61}" for n in range(250)]])
async def test_an_edited_customer_keeps_all_tags(shop: Shop, maria: User, store_url: str, tags: list[str]) -> None:
    customer = (await shop.client.post("/customers", json={**PERSON, "tags": tags})).json()["data"]
    url = f"{store_url}/customers/{customer['id']}/edit"
    await maria.open(url)
    sent = shown_form(maria.response.text, url)
    assert sent is not None
    await maria.submit(url, {**sent, "first_name": "Augusta"})
    assert maria.notice == "Saved.", maria.faults
    assert (await only_customer(shop))["tags"] == tags


async def test_a_customer_that_is_saved_unchanged_leaves_no_audit_entry(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    customer = (await shop.client.post("/customers", json=PERSON)).json()["data"]
    url, before = f"{store_url}/customers/{customer['id']}/edit", await audit.head(db, shop.store_id)
    await maria.open(url)
    await maria.submit(url, shown_form(maria.response.text, url))
    assert maria.notice == "Saved."
    assert await audit.head(db, shop.store_id) == before
