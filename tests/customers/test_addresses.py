"""Addresses: stable ids, and one default for each purpose under concurrent changes."""

import asyncio
from typing import Any

from tests.customers.people import HOUSE, JUN, MAYA, created, events, patched
from tests.support.shops import Shop


async def added(shop: Shop, customer_id: int, **more: Any) -> dict[str, Any]:
    answer = await shop.client.post(f"/customers/{customer_id}/addresses", json={**HOUSE, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def customer_of(shop: Shop, customer_id: int) -> dict[str, Any]:
    return (await shop.client.get(f"/customers/{customer_id}")).json()["data"]


def defaults(customer: dict[str, Any]) -> tuple[list[int], list[int]]:
    shipping = [a["id"] for a in customer["addresses"] if a["is_default_shipping"]]
    billing = [a["id"] for a in customer["addresses"] if a["is_default_billing"]]
    assert customer["default_shipping_address_id"] == (shipping[0] if shipping else None)
    assert customer["default_billing_address_id"] == (billing[0] if billing else None)
    return shipping, billing


async def test_the_first_address_is_the_default_for_both(shop: Shop) -> None:
    jun = await created(shop, JUN)
    assert defaults(jun) == ([], [])
    first = await added(shop, jun["id"])
    second = await added(shop, jun["id"])
    assert (first["is_default_shipping"], first["is_default_billing"]) == (True, True)
    assert (second["is_default_shipping"], second["is_default_billing"]) == (False, False)
    assert defaults(await customer_of(shop, jun["id"])) == ([first["id"]], [first["id"]])


async def test_an_address_is_the_same_alone_and_in_its_customer(shop: Shop) -> None:
    jun = await created(shop, JUN)
    answer = await shop.client.post(f"/customers/{jun['id']}/addresses", json={**HOUSE, "phone": "+32 2 555 12 12"})
    address = answer.json()["data"]
    assert answer.headers["location"].endswith(f"/customers/{jun['id']}/addresses/{address['id']}")
    assert address["phone"] == "+3225551212"
    assert (await customer_of(shop, jun["id"]))["addresses"] == [address]


async def test_a_new_default_unsets_the_previous_one(shop: Shop) -> None:
    jun = await created(shop, JUN)
    first = await added(shop, jun["id"])
    second = await added(shop, jun["id"], is_default_shipping=True)
    after = await customer_of(shop, jun["id"])
    assert defaults(after) == ([second["id"]], [first["id"]])
    assert after["addresses"][0]["version"] == 2
    path = f"/customers/{jun['id']}/addresses"
    changed = await patched(shop, f"{path}/{first['id']}", {"is_default_shipping": True, "city": "Bruges"})
    assert (changed["city"], changed["version"], changed["created_at"]) == ("Bruges", 3, first["created_at"])
    assert defaults(await customer_of(shop, jun["id"])) == ([first["id"]], [first["id"]])


async def test_a_default_cannot_be_unset(shop: Shop) -> None:
    jun = await created(shop, JUN)
    first = await added(shop, jun["id"])
    path = f"/customers/{jun['id']}/addresses/{first['id']}"
    answer = await shop.client.patch(path, json={"is_default_billing": False})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/is_default_billing"


async def test_inline_addresses_can_set_the_default(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE, {**HOUSE, "is_default_billing": True}]})
    first, second = jun["addresses"]
    assert defaults(jun) == ([first["id"]], [second["id"]])


async def test_after_the_default_is_deleted_the_oldest_address_becomes_the_default(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE, HOUSE, {**HOUSE, "is_default_shipping": True}]})
    first, second, third = (address["id"] for address in jun["addresses"])
    assert defaults(jun) == ([third], [first])
    assert (await shop.client.delete(f"/customers/{jun['id']}/addresses/{third}")).status_code == 204
    assert defaults(await customer_of(shop, jun["id"])) == ([first], [first])
    assert (await shop.client.delete(f"/customers/{jun['id']}/addresses/{first}")).status_code == 204
    assert defaults(await customer_of(shop, jun["id"])) == ([second], [second])
    assert (await shop.client.delete(f"/customers/{jun['id']}/addresses/{second}")).status_code == 204
    assert defaults(await customer_of(shop, jun["id"])) == ([], [])
    assert (await shop.client.delete(f"/customers/{jun['id']}/addresses/{second}")).status_code == 404


async def test_concurrent_changes_leave_exactly_one_default(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE] * 8})
    path = f"/customers/{jun['id']}/addresses"
    answers = await asyncio.gather(
        *(
            shop.client.patch(f"{path}/{address['id']}", json={"is_default_shipping": True, "is_default_billing": True})
            for address in jun["addresses"]
        )
    )
    assert {answer.status_code for answer in answers} == {200}
    shipping, billing = defaults(await customer_of(shop, jun["id"]))
    assert len(shipping) == len(billing) == 1


async def test_concurrent_additions_are_all_kept(shop: Shop) -> None:
    jun = await created(shop, JUN)
    made = await asyncio.gather(*(added(shop, jun["id"], label=f"L{n}", is_default_shipping=True) for n in range(10)))
    after = await customer_of(shop, jun["id"])
    assert {address["id"] for address in after["addresses"]} == {address["id"] for address in made}
    shipping, billing = defaults(after)
    assert len(shipping) == len(billing) == 1
    assert after["version"] == 11


async def test_a_customer_has_at_most_a_hundred_addresses(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE] * 99})
    answers = await asyncio.gather(
        *(shop.client.post(f"/customers/{jun['id']}/addresses", json=HOUSE) for _ in range(3))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422]
    refused = next(answer for answer in answers if answer.status_code == 422)
    assert refused.json()["errors"][0]["code"] == "address_limit"


async def test_one_event_contains_the_changed_addresses(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    home, work = maya["addresses"]
    changed = await patched(shop, f"/customers/{maya['id']}/addresses/{home['id']}", {"city": "Salem"})
    await patched(shop, f"/customers/{maya['id']}/addresses/{home['id']}", {"city": "Salem"})  # changes nothing
    await shop.client.delete(f"/customers/{maya['id']}/addresses/{work['id']}")
    assert (await events(shop))[1:] == [
        ("customer.address_changed", maya["id"], {"addresses": [[home], [changed]]}),
        ("customer.address_changed", maya["id"], {"addresses": [[work], []]}),
    ]


async def test_an_address_has_its_own_version(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "addresses": [HOUSE]})
    path = f"/customers/{jun['id']}/addresses/{jun['addresses'][0]['id']}"
    fresh = await shop.client.patch(path, json={"city": "Aalst"}, headers={"if-match": '"1"'})
    assert (fresh.status_code, fresh.headers["etag"]) == (200, '"2"')
    stale = await shop.client.patch(path, json={"city": "Ath"}, headers={"if-match": '"1"'})
    assert (stale.status_code, stale.json()["current_version"]) == (412, 2)
    assert (await shop.client.delete(path, headers={"if-match": '"1"'})).status_code == 412


async def test_an_address_sent_back_as_it_was_read_is_unchanged(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    for address in maya["addresses"]:
        assert await patched(shop, f"/customers/{maya['id']}/addresses/{address['id']}", address) == address
    assert (await customer_of(shop, maya["id"]))["version"] == 1


async def test_an_address_of_another_customer_is_not_found(shop: Shop) -> None:
    maya, jun = await created(shop, MAYA), await created(shop, JUN)
    path = f"/customers/{jun['id']}/addresses/{maya['addresses'][0]['id']}"
    assert (await shop.client.patch(path, json={"city": "x"})).status_code == 404
    assert (await shop.client.delete(path)).status_code == 404
