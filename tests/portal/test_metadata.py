"""Definitions are managed in the portal, and defined keys of products, customers and orders have proper inputs."""

import re
from typing import Any

import msgspec
import pytest

from stoa.access import audit
from stoa.access.grants import install
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.store_data.definitions import definitions_of_app, definitions_of_store
from tests.metadata.support import WARRANTY, app_defines, merchant_defines
from tests.portal.shown_forms import shown_form
from tests.portal.store_pages import hidden
from tests.support.people import User
from tests.support.shops import Shop

FORM = {"resource": "product", "definition_key": "warranty_months", "type": "integer", "min": "0", "max": "120"}
DEFINED: list[dict[str, Any]] = [
    {"key": "months", "type": "integer", "max": 120, "description": "Warranty in months."},
    {"key": "weight", "type": "decimal"},
    {"key": "fragile", "type": "boolean"},
    {"key": "until", "type": "date"},
    {"key": "manual", "type": "url"},
    {"key": "care", "type": "choice", "choices": ["wash", "dry clean"]},
    {"key": "fabrics", "type": "list"},
    {"key": "origin", "type": "string"},
]
TEXTS = {
    "months": "24",
    "weight": "1.5",
    "fragile": "true",
    "until": "2027-01-31",
    "manual": "https://example.com/manual",
    "care": "dry clean",
    "fabrics": "wool, linen",
    "origin": "Ghent",
}
VALUES = TEXTS | {"months": 24, "weight": 1.5, "fragile": True, "fabrics": "wool,linen"}


async def test_a_merchant_manages_definitions(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await maria.open(f"{store_url}/metadata")
    assert "No definitions" in maria.text
    await maria.submit(f"{store_url}/metadata", FORM)
    assert maria.notice == "warranty_months is defined. It takes effect within a second."
    assert [(each.key, each.max) for each in await definitions_of_store(db, shop.store_id)] == [
        ("warranty_months", 120)
    ]
    assert "0 to 120" in maria.text
    await maria.submit(f"{store_url}/metadata/remove", resource="product", definition_key="warranty_months")
    assert maria.notice == "warranty_months is no longer defined. Its values stay."
    entries = await audit.page(db, shop.store_id, 0, 100)
    found = [(each.action, each.actor) for each in entries if each.action.startswith("metadata.")]
    actor = f"account:{maria.account.id}"
    assert found == [("metadata.defined", actor), ("metadata.undefined", actor)]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"max": "-1"}, "max"),
        ({"min": "few"}, "min"),
        ({"definition_key": "no spaces"}, "definition_key"),
        ({"type": "choice", "min": "", "max": ""}, "choices"),
        ({"resource": "customer"}, "definition_key"),
        ({"required_from": "soon"}, "required_from"),
    ],
)
async def test_a_fault_of_a_definition_is_shown_beside_its_field(
    maria: User, store_url: str, changed: dict[str, str], field: str
) -> None:
    await maria.open(f"{store_url}/metadata")
    await maria.submit(f"{store_url}/metadata", {**FORM, **changed})
    assert (maria.response.status_code, set(maria.faults)) == (422, {field})


async def test_stored_values_that_violate_a_definition_are_counted(shop: Shop, maria: User, store_url: str) -> None:
    [mug] = await shop.add({"name": "Mug", "price": "9.00", "metadata": {"warranty_months": "long"}})
    await maria.open(f"{store_url}/metadata")
    await maria.submit(f"{store_url}/metadata", FORM)
    assert maria.response.status_code == 422
    assert "1 stored value violates the definition of product.warranty_months" in maria.text
    assert f"product {mug}" in maria.text


async def test_the_page_shows_definitions_of_apps_except_private_ones(shop: Shop, maria: User, store_url: str) -> None:
    private = {"resource": "customer", "key": "hidden_tier", "type": "string"}
    await app_defines(shop, WARRANTY, {**WARRANTY, "key": "score"}, private)
    await merchant_defines(shop, WARRANTY)
    await maria.open(f"{store_url}/metadata")
    assert "score" in maria.text
    assert "Not in force" in maria.text
    assert "hidden_tier" not in maria.text


async def test_a_developer_manages_the_definitions_of_an_app(shop: Shop, maria: User, db: Database) -> None:
    await give(shop.operator, maria.account.email, app=shop.client_id)
    url = f"/portal/apps/{shop.app_id}/metadata"
    await maria.open(url)
    await maria.submit(url, FORM)
    assert maria.notice == "warranty_months is defined on all stores of the app."
    assert [each.key for each in await definitions_of_app(db, shop.app_id)] == ["warranty_months"]
    await maria.submit(f"{url}/remove", resource="product", definition_key="warranty_months")
    assert await definitions_of_app(db, shop.app_id) == []


@pytest.mark.parametrize("resource", ["product", "customer", "order"])
async def test_defined_keys_have_inputs_of_their_types(shop: Shop, maria: User, store_url: str, resource: str) -> None:
    prefix = "shared." if resource == "customer" else ""
    for each in DEFINED:
        await merchant_defines(shop, {**each, "resource": resource, "key": f"{prefix}{each['key']}"})
    bodies: dict[str, Any] = {
        "product": {"name": "Mug", "price": "9.00"},
        "customer": {"email": "jun@example.com"},
        "order": {"line_items": [{"name": "Repair", "unit_price": "1.00", "quantity": 1}]},
    }
    made = (await shop.client.post(f"/{resource}s", json=bodies[resource])).json()["data"]["id"]
    page = f"{store_url}/{resource}s/{made}"
    form = f"{store_url}/order-metadata/{made}" if resource == "order" else f"{page}/metadata"
    edit = f"{page}/edit" if resource == "product" else page
    keys = {"shown": [f"{prefix}{each['key']}" for each in DEFINED]}
    await maria.open(edit)
    for kind in ('type="number"', 'type="date"', 'type="url"', "dry clean</option>", "Warranty in months."):
        assert kind in maria.text
    wrong = {**keys, **{f"values[{prefix}{name}]": text for name, text in (TEXTS | {"months": "121"}).items()}}
    key = hidden(maria.text)["key"]
    await maria.submit(form, wrong, key=key)
    assert (maria.response.status_code, set(maria.faults)) == (422, {f"values[{prefix}months]"})
    await maria.open(edit)
    sent = {f"values[{prefix}{name}]": text for name, text in TEXTS.items()}
    await maria.submit(form, {**keys, **sent}, key=hidden(maria.text)["key"])
    assert maria.notice == "Saved."
    stored = (await shop.client.get(f"/{resource}s/{made}")).json()["data"]["metadata"]
    assert stored == {f"{prefix}{name}": value for name, value in VALUES.items()}
    await shop.client.patch(f"/{resource}s/{made}", json={"metadata": {"shared.free": "any value"}})
    await maria.open(page)
    assert 'href="https://example.com/manual"' in maria.text
    assert "any value" in maria.text
    await maria.open(edit)
    one = {
        "shown": [f"{prefix}care", f"{prefix}months"],
        f"seen[{prefix}months]": "24",
        f"seen[{prefix}care]": "dry clean",
    }
    await shop.client.patch(f"/{resource}s/{made}", json={"metadata": {f"{prefix}months": 36}})
    await maria.submit(form, {**one, f"values[{prefix}months]": "24"}, key=hidden(maria.text)["key"])
    stored = (await shop.client.get(f"/{resource}s/{made}")).json()["data"]["metadata"]
    assert (stored.get(f"{prefix}care"), stored[f"{prefix}months"]) == (None, 36)


NEW: dict[str, dict[str, str]] = {
    "product": {"name": "Mug", "price": "9.00"},
    "customer": {"email": "jun@example.com"},
    "order": {"then": "draft", "email": "jun@example.com"},
}


@pytest.mark.parametrize("resource", NEW)
async def test_a_new_resource_has_inputs_for_defined_keys(
    shop: Shop, maria: User, store_url: str, resource: str
) -> None:
    """A person can fill in a required key, which would otherwise forbid every new resource in the portal."""
    [mug] = await shop.add({"name": "Mug", "price": "9.00"})
    variant = (await shop.client.get(f"/products/{mug}")).json()["data"]["variants"][0]["id"]
    prefix = "shared." if resource == "customer" else ""
    required = {"resource": resource, "key": f"{prefix}origin", "type": "string", "required_from": "2020-01-01"}
    months = {"resource": resource, "key": f"{prefix}months", "type": "integer", "max": 120}
    await merchant_defines(shop, required, months)
    url = f"{store_url}/{resource}s/new"
    defined = {"defined": [f"{prefix}months", f"{prefix}origin"]}
    sent: dict[str, Any] = {**NEW[resource], **defined, **({f"units[{variant}]": "1"} if resource == "order" else {})}
    await maria.open(url)
    assert f'name="metadata[{prefix}origin]"' in maria.text
    await maria.submit(url, {**sent, f"metadata[{prefix}months]": "121"}, key=hidden(maria.text)["key"])
    assert maria.response.status_code == 422
    assert set(maria.faults) == {f"metadata[{prefix}origin]", f"metadata[{prefix}months]"}, maria.faults
    values = {f"metadata[{prefix}months]": "24", f"metadata[{prefix}origin]": "Ghent"}
    await maria.open(url)
    await maria.submit(url, {**sent, **values}, key=hidden(maria.text)["key"])
    newest = (await shop.client.get(f"/{resource}s?sort=-id&limit=1")).json()["data"][0]
    assert newest["metadata"] == {f"{prefix}months": 24, f"{prefix}origin": "Ghent"}


async def test_a_new_variant_has_inputs_for_required_keys(shop: Shop, maria: User, store_url: str) -> None:
    required = {"resource": "variant", "key": "months", "type": "integer", "required_from": "2020-01-01"}
    await merchant_defines(shop, required)
    url = f"{store_url}/products/new"
    sent = {"name": "Mug", "price": "9.00", "variants": ["new1", "new2"], "skus[new1]": "MUG-1"}
    await maria.open(url)
    assert 'name="variant_metadata[new1.months]"' in maria.text
    await maria.submit(url, {**sent, "variant_metadata[new1.months]": "many"}, key=hidden(maria.text)["key"])
    assert (maria.response.status_code, set(maria.faults)) == (422, {"variant_metadata[new1.months]"})
    await maria.open(url)
    await maria.submit(url, {**sent, "variant_metadata[new1.months]": "24"}, key=hidden(maria.text)["key"])
    made = (await shop.client.get("/products?sort=-id&limit=1&include=variants")).json()["data"][0]
    [only] = made["variants"]
    assert (only["sku"], only["metadata"]) == ("MUG-1", {"months": 24})
    edit = f"{store_url}/products/{made['id']}/edit"
    await maria.open(edit)
    fields = hidden(maria.text)
    more = {
        **{name: fields[name] for name in ("key", "seen")}, "name": "Mug", "price": "9.00",
        "variants": [str(only["id"]), "new1"], f"skus[{only['id']}]": "MUG-1", "skus[new1]": "MUG-2",
        "option_names[1]": "Size", f"option1[{only['id']}]": "S", "option1[new1]": "L",
        "variant_metadata[new1.months]": "12",
    }  # fmt: skip
    await maria.submit(edit, more)
    assert maria.notice == "Saved.", maria.faults
    variants = (await shop.client.get(f"/products/{made['id']}")).json()["data"]["variants"]
    assert [each["metadata"] for each in variants] == [{"months": 24}, {"months": 12}]


async def test_a_form_keeps_values_that_do_not_fit_their_definitions(
    shop: Shop, other_shop: Shop, maria: User, store_url: str
) -> None:
    values = {"care": "summer 25", "months": "two years", "until": "soon", "fragile": "perhaps", "origin": "two\nlines"}
    [mug] = await shop.add({"name": "Mug", "price": "9.00", "metadata": values})
    await app_defines(other_shop, *({"resource": "product", **each} for each in DEFINED))
    await install(shop.operator, other_shop.client_id, shop.store.handle, ["products:read"])
    url, form = f"{store_url}/products/{mug}", f"{store_url}/products/{mug}/metadata"
    await maria.open(f"{url}/edit")
    assert not re.search(r'type="(number|date)" value="[^"]', maria.text), "browsers send such values as empty"
    assert ">two\nlines</textarea>" in maria.response.text, "browsers send other inputs without line breaks"
    sent = shown_form(maria.response.text, form)
    assert sent is not None
    await maria.submit(form, {**sent, "values[manual]": "https://example.com/manual"})
    assert maria.notice == "Saved.", maria.faults
    stored = (await shop.client.get(f"/products/{mug}")).json()["data"]["metadata"]
    assert stored == {**values, "manual": "https://example.com/manual"}


async def test_the_audit_log_names_only_the_keys_that_a_form_changes(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    for key in ("shared.tier", "shared.size"):
        await merchant_defines(shop, {"resource": "customer", "key": key, "type": "string"})
    customer = (await shop.client.post("/customers", json={"email": "jun@example.com"})).json()["data"]["id"]
    page, before = f"{store_url}/customers/{customer}", await audit.head(db, shop.store_id)
    shown = {"shown": ["shared.tier", "shared.size"]}
    for forged in ({}, {"shown": [*shown["shown"], "shared.Jun Ito"], "values[shared.Jun Ito]": "yes"}):
        await maria.open(page)
        await maria.submit(f"{page}/metadata", {**shown, **forged}, key=hidden(maria.text)["key"])
        assert await audit.head(db, shop.store_id) == before
    assert maria.faults[""].startswith("This page is incomplete.")
    await maria.open(page)
    await maria.submit(f"{page}/metadata", {**shown, "values[shared.tier]": "gold"}, key=hidden(maria.text)["key"])
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, msgspec.json.decode(entry.detail)) == ("customer.changed", {"metadata": ["shared.tier"]})
