"""Creating and changing customers, and their unique keys."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.customers.people import HOUSE, JUN, MAYA, created, events, patched
from tests.support.shops import Shop, open_shop


async def test_a_customer_is_created_with_addresses_and_found_again(shop: Shop) -> None:
    answer = await shop.client.post("/customers", json=MAYA)
    assert answer.status_code == 201, answer.text
    maya = answer.json()["data"]
    again = await shop.client.get(answer.headers["location"])
    assert again.json()["data"] == maya
    assert again.headers["etag"] == answer.headers["etag"]
    assert again.headers["etag"].startswith('"1.')  # the version, then a digest of the app's own metadata
    assert (maya["email"], maya["phone"]) == ("Maya.Ortiz@Example.com", "+15550100123")
    assert [a["label"] for a in maya["addresses"]] == ["Home", "Work"]
    assert [a["country_code"] for a in maya["addresses"]] == ["US", "US"]
    assert {a["customer_id"] for a in maya["addresses"]} == {maya["id"]}
    assert maya["default_shipping_address_id"] == maya["default_billing_address_id"] == maya["addresses"][0]["id"]
    assert maya["metadata"] == {"tier": "gold", "visits": 3, "vip": True, "shared.loyalty": "L-1"}
    assert (maya["orders_count"], maya["total_spent"], maya["last_order_at"]) == (0, "0.00", None)
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 1
    assert (await shop.client.get("/customers")).json()["data"] == [maya]
    assert await events(shop) == [("customer.created", maya["id"], {})]


async def test_the_event_contains_the_customer_with_shared_metadata_only(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    rows = await shop.db.fetch(
        "SELECT data, actor FROM events WHERE store_id = $1 AND type = 'customer.created'", shop.store_id
    )
    assert msgspec.json.decode(rows[0][0]) == {**maya, "metadata": {"shared.loyalty": "L-1"}}
    assert msgspec.json.decode(rows[0][1]) == {"type": "app", "app_id": shop.app_id}


@pytest.mark.not_in_shard("it opens a store of its own in the directory")
async def test_amounts_have_the_digits_of_the_currency_of_the_store(shop: Shop) -> None:
    yen = await open_shop(shop.application, shop.db, currency="JPY")
    assert (await created(yen, JUN))["total_spent"] == "0"
    dinar = await open_shop(shop.application, shop.db, currency="KWD")
    assert (await created(dinar, JUN))["total_spent"] == "0.000"


async def test_keys_of_a_customer_are_unique(shop: Shop, other_shop: Shop) -> None:
    maya = await created(shop, MAYA)
    for customer, code, at in (
        ({"email": "MAYA.ORTIZ@EXAMPLE.COM"}, "customer_exists", "/email"),
        ({"phone": "0015550100123"}, "customer_exists", "/phone"),
        ({"email": "new@example.com", "external_id": "crm-1"}, "external_id_taken", "/external_id"),
    ):
        answer = await shop.client.post("/customers", json=customer)
        assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (409, code, maya["id"])
        assert answer.json()["errors"][0]["pointer"] == at
    jun = await created(shop, JUN)
    for change, code in (
        ({"email": "maya.ortiz@example.com"}, "customer_exists"),
        ({"phone": "+15550100123"}, "customer_exists"),
        ({"external_id": "crm-1"}, "external_id_taken"),
    ):
        answer = await shop.client.patch(f"/customers/{jun['id']}", json=change)
        assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (409, code, maya["id"])
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 2
    assert (await other_shop.client.post("/customers", json=MAYA)).status_code == 201


async def test_one_of_concurrent_creates_of_one_customer_succeeds(shop: Shop) -> None:
    answers = await asyncio.gather(*(shop.client.post("/customers", json=MAYA) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 11
    made = next(answer.json()["data"]["id"] for answer in answers if answer.status_code == 201)
    assert {answer.json()["existing_id"] for answer in answers if answer.status_code == 409} == {made}
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 1
    assert len(await events(shop)) == 1


async def test_one_of_concurrent_changes_to_one_key_succeeds(shop: Shop) -> None:
    people = [await created(shop, {"email": f"p{n}@example.com"}) for n in range(6)]
    answers = await asyncio.gather(
        *(shop.client.patch(f"/customers/{each['id']}", json={"email": "wanted@example.com"}) for each in people)
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"customer_exists"}


FAULTY: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"email": None, "phone": None}, {"/email": "required"}),
    ({"email": "nobody"}, {"/email": "invalid_format"}),
    ({"email": "a@b.example\n"}, {"/email": "invalid_format"}),
    ({"email": "a b@c.example", "locale": "x"}, {"/email": "invalid_format", "/locale": "invalid_format"}),
    ({"phone": "555 0100"}, {"/phone": "invalid_format"}),
    ({"phone": "+1"}, {"/phone": "invalid_format"}),
    ({"status": "erased"}, {"/status": "invalid_format"}),
    ({"addresses": [{"address1": "x"}]}, {"/addresses/0/country_code": "required"}),
    (
        {"phone": "12", "addresses": [{**HOUSE, "country_code": "XX"}, {**HOUSE, "phone": "1"}]},
        {
            "/phone": "invalid_format",
            "/addresses/0/country_code": "invalid_format",
            "/addresses/1/phone": "invalid_format",
        },
    ),
    (
        {"addresses": [{**HOUSE, "is_default_shipping": True}] * 2},
        {"/addresses/1/is_default_shipping": "invalid_format"},
    ),
    ({"addresses": [{**HOUSE, "latitude": 91}]}, {"/addresses/0/latitude": "out_of_range"}),
    ({"addresses": [HOUSE] * 101}, {"/addresses": "address_limit"}),
    ({"metadata": {f"k{n}": n for n in range(101)}}, {"/metadata": "metadata_limit"}),
    (
        {"metadata": {"Tier!": 1, "deep": {}, "long": "x" * 1001, "": 1}},
        {
            "/metadata/Tier!": "invalid_format",
            "/metadata/deep": "invalid_type",
            "/metadata/long": "too_long",
            "/metadata/": "invalid_format",
        },
    ),
    ({"id": 7, "orders_count": 3}, {"/id": "read_only_field", "/orders_count": "read_only_field"}),
]


@pytest.mark.parametrize(("change", "faults"), FAULTY)
async def test_faults_of_a_new_customer_are_named(shop: Shop, change: dict[str, Any], faults: dict[str, str]) -> None:
    answer = await shop.client.post("/customers", json={**MAYA, **change})
    assert answer.status_code == 422, answer.text
    assert {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]} == faults
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 0
    assert await events(shop) == []


async def test_an_event_contains_exactly_the_changes_of_a_patch(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    after = await patched(shop, f"/customers/{maya['id']}", {"last_name": "Ortiz Vega", "note": None, "tags": None})
    assert (after["last_name"], after["note"], after["tags"], after["version"]) == ("Ortiz Vega", None, [], 2)
    assert after["addresses"] == maya["addresses"]
    assert after["updated_at"] > maya["updated_at"]
    assert (await events(shop))[1:] == [
        (
            "customer.updated",
            maya["id"],
            {
                "last_name": ["Ortiz", "Ortiz Vega"],
                "tags": [["wholesale", "ceramics"], []],
                "note": ["Rings twice.", None],
            },
        )
    ]


async def test_a_patch_without_effect_writes_nothing(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    sent = {"phone": "+1-555-010-0123", "metadata": {"tier": "gold", "visits": 3, "gone": None}, "tags": MAYA["tags"]}
    assert await patched(shop, f"/customers/{maya['id']}", sent) == maya
    assert len(await events(shop)) == 1


async def test_a_customer_sent_back_as_it_was_read_is_unchanged(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    assert await patched(shop, f"/customers/{maya['id']}", maya) == maya


async def test_a_read_only_field_that_would_change_is_refused(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    answer = await shop.client.patch(f"/customers/{maya['id']}", json={"orders_count": 9, "addresses": []})
    assert answer.status_code == 422
    assert {f["pointer"]: f["code"] for f in answer.json()["errors"]} == {
        "/orders_count": "read_only_field",
        "/addresses": "read_only_field",
    }


async def test_an_email_or_a_phone_number_is_required(shop: Shop) -> None:
    jun = await created(shop, JUN)
    path = f"/customers/{jun['id']}"
    answer = await shop.client.patch(path, json={"email": None})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "required")
    after = await patched(shop, path, {"email": None, "phone": "+81312345678"})
    assert (after["email"], after["phone"]) == (None, "+81312345678")


async def test_true_and_one_are_different_metadata(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"flag": 1}})
    after = await patched(shop, f"/customers/{jun['id']}", {"metadata": {"flag": True}})
    assert after["metadata"]["flag"] is True
    assert [name for name, _, _ in await events(shop)] == ["customer.created", "customer.metadata_changed"]


async def test_a_stale_version_is_refused(shop: Shop) -> None:
    jun = await created(shop, JUN)
    path = f"/customers/{jun['id']}"
    await patched(shop, path, {"note": "a"})
    for method, body in (("PATCH", {"note": "b"}), ("DELETE", None)):
        answer = await shop.client.request(method, path, headers={"if-match": '"1"'}, json=body)
        assert (answer.status_code, answer.json()["current_version"]) == (412, 2)
    fresh = await shop.client.patch(path, json={"note": "b"}, headers={"if-match": '"2"'})
    assert fresh.status_code == 200
    assert (await shop.client.get(path, headers={"if-none-match": fresh.headers["etag"]})).status_code == 304
