"""Parts of the public contract of customers that no other test covers."""

from typing import Any

import pytest

from tests.customers.people import HOUSE, JUN, MAYA, created, patched
from tests.support.shops import Shop

CUSTOMER = (
    "id external_id email phone first_name last_name company locale status accepts_marketing consents tags note addresses "
    "default_shipping_address_id default_billing_address_id metadata orders_count total_spent last_order_at created_at "
    "updated_at version deleted_at"
).split()
ADDRESS = (
    "id customer_id label first_name last_name company phone address1 address2 city district province province_code "
    "postal_code country_code latitude longitude is_default_shipping is_default_billing created_at updated_at version"
).split()
ENTRY = ["key", "value", "updated_at", "updated_by"]


async def merged(shop: Shop, customer_id: int, keys: dict[str, Any]) -> list[dict[str, Any]]:
    """Merge metadata and return the resulting entries."""
    answer = await shop.client.patch(f"/customers/{customer_id}/metadata", json=keys)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_customers_addresses_and_entries_have_exactly_these_members(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    assert list(maya) == CUSTOMER
    assert [list(each) for each in maya["addresses"]] == [ADDRESS, ADDRESS]
    listed = (await shop.client.get("/customers")).json()["data"][0]
    assert listed == maya == (await shop.client.get(f"/customers/{maya['id']}")).json()["data"]
    entries = await merged(shop, maya["id"], {"tier": "iron"})
    assert [list(each) for each in entries] == [ENTRY] * 4
    assert {tuple(each["updated_by"].items()) for each in entries} == {(("app_id", shop.app_id),)}


async def test_location_is_the_url_of_the_created_resource(shop: Shop) -> None:
    made = await shop.client.post("/customers", json=JUN)
    assert (await shop.client.get(made.headers["location"])).json() == made.json()
    path = f"/customers/{made.json()['data']['id']}"
    added = await shop.client.post(f"{path}/addresses", json=HOUSE)
    assert added.status_code == 201
    assert (await patched(shop, added.headers["location"].partition("/app")[2], {}))["city"] == "Ghent"
    row, media = b'{"email":"jun@example.com"}\n', {"content-type": "application/x-ndjson"}
    sent = await shop.client.post("/customers/imports", content=row, headers=media)
    assert sent.status_code == 202
    assert (await shop.client.get(sent.headers["location"])).json()["data"]["id"] == sent.json()["data"]["id"]


async def test_an_unchanged_resource_is_not_sent_again(shop: Shop) -> None:
    jun = await created(shop, JUN)
    path = f"/customers/{jun['id']}"
    tag = (await shop.client.get(path)).headers["etag"]
    known = await shop.client.get(path, headers={"if-none-match": tag})
    assert (known.status_code, known.content) == (304, b"")
    await patched(shop, f"{path}/metadata", {"tier": "gold"})
    assert (await shop.client.get(path, headers={"if-none-match": tag})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "{customer}", {"note": "x"}),
        ("PATCH", "{customer}/addresses/{address}", {"city": "x"}),
        ("DELETE", "{customer}/addresses/{address}", None),
        ("PATCH", "{customer}/metadata", {"tier": "x"}),
        ("DELETE", "{customer}", None),
    ],
)
async def test_if_match_limits_a_change_to_one_version(shop: Shop, method: str, path: str, body: Any) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE]})
    customer = f"/customers/{jun['id']}"
    address = jun["addresses"][0]["id"]
    await patched(shop, f"{customer}/addresses/{address}", {"label": "Home"})
    address_of = path.format(customer=customer, address=address)
    stale = await shop.client.request(method, address_of, json=body, headers={"if-match": '"1"'})
    assert (stale.status_code, stale.json()["code"], stale.json()["current_version"]) == (412, "version_conflict", 2)
    fresh = await shop.client.request(method, address_of, json=body, headers={"if-match": '"2"'})
    assert fresh.is_success, fresh.text


async def test_an_order_keeps_an_address_that_its_customer_changes_or_deletes(shop: Shop) -> None:
    await shop.add({"name": "Mug", "price": "5.00", "sku": "MUG", "stock": {"on_hand": 3}})
    jun = await created(shop, {**JUN, "addresses": [HOUSE]})
    body = {
        "customer_id": jun["id"],
        "line_items": [{"sku": "MUG", "quantity": 1}],
        "shipping_address": HOUSE,
        "billing_address": HOUSE,
    }
    order = (await shop.client.post("/orders", json=body)).json()["data"]
    address = f"/customers/{jun['id']}/addresses/{jun['addresses'][0]['id']}"
    await patched(shop, address, {"city": "Leuven"})
    assert (await shop.client.delete(address)).status_code == 204
    after = (await shop.client.get(f"/orders/{order['id']}")).json()["data"]
    for name in ("shipping_address", "billing_address"):
        assert after[name] == order[name]
        assert after[name]["city"] == "Ghent"


async def test_a_deleted_address_is_not_found(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE]})
    path = f"/customers/{jun['id']}/addresses/{jun['addresses'][0]['id']}"
    assert (await shop.client.delete(path)).status_code == 204
    for method in ("PATCH", "DELETE"):
        body = {"city": "x"} if method == "PATCH" else None
        assert (await shop.client.request(method, path, json=body)).status_code == 404
    assert (await shop.client.get(f"/customers/{jun['id']}")).json()["data"]["default_shipping_address_id"] is None


async def test_metadata_keys_and_values_are_accepted_up_to_their_limits(shop: Shop) -> None:
    jun = await created(shop, JUN)
    most = {"a" * 64: "x" * 1_000, "0_.-": 1.5, "N": -3, "yes": True, "shared." + "b" * 57: "", "plain": "é€\U0001d54f"}
    entries = await merged(shop, jun["id"], most)
    assert {each["key"]: each["value"] for each in entries} == most
    wrongs: list[dict[str, Any]] = [
        *({key: 1} for key in ("a" * 65, "a/b", "a b", "")),
        {"k": "x" * 1_001},
        {"k": []},
        {"k": {}},
    ]
    for wrong in wrongs:
        refused = await shop.client.patch(f"/customers/{jun['id']}/metadata", json=wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "validation_failed"), wrong
    one = (await shop.client.get(f"/customers/{jun['id']}")).json()["data"]
    assert one["metadata"] == most


async def test_every_list_shows_an_app_its_own_metadata(shop: Shop) -> None:
    """Apps whose ids share a prefix, customers with and without metadata, and an erased customer."""
    theirs = await shop.client_with(["customers:write"])
    people = [await created(shop, {"email": f"p{n}@example.com", "metadata": {"mine": n}}) for n in range(3)]
    await created(shop, JUN)
    for person in people[1:]:
        await theirs.patch(f"/customers/{person['id']}/metadata", json={"theirs": "x", "shared.both": True})
    await shop.client.delete(f"/customers/{people[0]['id']}")
    both = {"shared.both": True}
    for client, own in ((shop.client, [{"mine": 1}, {"mine": 2}]), (theirs, [{"theirs": "x"}] * 2)):
        wanted = [both | own[0], both | own[1], {}]
        first = (await client.get("/customers", params={"limit": 2})).json()
        last = (await client.get("/customers", params={"cursor": first["meta"]["next_cursor"]})).json()
        before = (await client.get("/customers", params={"cursor": last["meta"]["prev_cursor"]})).json()
        narrow = (await client.get("/customers", params={"fields": "metadata"})).json()
        deleted = (await client.get("/customers", params={"include_deleted": "true"})).json()["data"]
        assert [each["metadata"] for each in first["data"] + last["data"]] == wanted
        assert before["data"] == first["data"]
        assert narrow["data"] == [{"metadata": each} for each in wanted]
        assert list(deleted[0]) == ["id", "deleted_at", "updated_at", "version"]
        assert [each["metadata"] for each in deleted[1:]] == wanted


async def test_customer_imports_are_refused_and_reported_like_product_imports(shop: Shop) -> None:
    other = await shop.client.post("/customers/imports", content=b"<x/>", headers={"content-type": "text/xml"})
    assert (other.status_code, other.json()["code"]) == (415, "unsupported_media_type")
    many = b'{"items":[' + b"{}," * 1_000 + b"{}]}"
    refused = await shop.client.post("/customers/imports", content=many, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_many_rows")
    missing = await shop.client.get("/customers/imports/imp_0000000000000000000z")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    media = {"content-type": "application/x-ndjson"}
    answers = [
        await shop.client.post("/customers/imports", content=b'{"email":"a@example.com"}\n', headers=media)
        for _ in range(23)
    ]
    assert [each.status_code for each in answers] == [202] * 22 + [429]
    assert answers[-1].json()["code"] == "too_many_imports"
    await shop.db.execute("DELETE FROM import_queue WHERE store_id = $1", shop.store_id)
    path = f"/customers/imports/{answers[0].json()['data']['id']}"
    await shop.db.execute("UPDATE imports SET expired = true, status = 'succeeded' WHERE store_id = $1", shop.store_id)
    gone = await shop.client.get(path, headers={"accept": "application/x-ndjson"})
    assert (gone.status_code, gone.json()["code"]) == (410, "gone")


@pytest.mark.parametrize("name", ["email", "phone", "external_id"])
async def test_a_taken_key_names_the_existing_customer(shop: Shop, name: str) -> None:
    maya = await created(shop, MAYA)
    jun = await created(shop, JUN)
    code = "external_id_taken" if name == "external_id" else "customer_exists"
    others = {**JUN, "email": "new@example.com", name: MAYA[name]}
    for refused in (
        await shop.client.post("/customers", json=others),
        await shop.client.patch(f"/customers/{jun['id']}", json={name: MAYA[name]}),
    ):
        assert (refused.status_code, refused.json()["code"], refused.json()["existing_id"]) == (409, code, maya["id"])


async def test_a_misspelled_field_gets_a_suggestion(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE]})
    path = f"/customers/{jun['id']}"
    for where, body, pointer, meant in (
        (path, {"frist_name": "x"}, "/frist_name", "first_name"),
        (f"{path}/addresses/{jun['addresses'][0]['id']}", {"postcode": "x"}, "/postcode", "postal_code"),
    ):
        [fault] = (await shop.client.patch(where, json=body)).json()["errors"]
        assert (fault["pointer"], fault["code"], fault["meta"]["did_you_mean"]) == (pointer, "unknown_field", meant)
