"""Customers of orders: concurrent orders of one person find or create one customer."""

import asyncio

import pytest

from stoa.customers.lookup import FoundCustomer, InlineCustomer, find_or_create, get_contact
from stoa.events.outbox import Cause
from stoa.rest.problems import ValidationFailed
from tests.customers.people import JUN, MAYA, created, events
from tests.support.shops import Shop


async def found(shop: Shop, wanted: InlineCustomer) -> FoundCustomer:
    async with shop.db.transaction() as db:
        return await find_or_create(db, shop.store_id, wanted, Cause(shop.app_id, "req_tests"))


async def test_a_customer_is_found_by_email_then_by_phone(shop: Shop) -> None:
    maya, jun = await created(shop, MAYA), await created(shop, JUN)
    assert (await found(shop, InlineCustomer(email="MAYA.ORTIZ@example.com"))).id == maya["id"]
    assert (await found(shop, InlineCustomer(phone="+1 555 010 0123"))).id == maya["id"]
    assert (await found(shop, InlineCustomer(email="jun@example.com", phone="+15550100123"))).id == jun["id"]
    by_phone = await found(shop, InlineCustomer(email="new@example.com", phone="+15550100123", first_name="X"))
    assert (by_phone.id, by_phone.first_name) == (maya["id"], "Maya")
    assert len(await events(shop)) == 2


async def test_an_unknown_customer_is_created(shop: Shop) -> None:
    wanted = InlineCustomer(email="New@example.com", phone="+81 3 1234 5678", first_name="Rin", accepts_marketing=True)
    made = await found(shop, wanted)
    assert made == FoundCustomer(made.id, "New@example.com", "+81312345678", "Rin", None)
    seen = (await shop.client.get(f"/customers/{made.id}")).json()["data"]
    assert (seen["email"], seen["accepts_marketing"], seen["version"]) == ("New@example.com", True, 1)
    assert await events(shop) == [("customer.created", made.id, {})]


async def test_concurrent_lookups_return_one_customer(shop: Shop) -> None:
    wanted = [InlineCustomer(email="rin@example.com", phone="+81312345678"), InlineCustomer(phone="+81312345678")]
    people = await asyncio.gather(*(found(shop, wanted[n % 2]) for n in range(10)))
    assert len({person.id for person in people}) == 1
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 1
    assert len(await events(shop)) == 1


async def test_faults_of_an_inline_customer_are_reported(shop: Shop) -> None:
    for wanted, at in ((InlineCustomer(), "/customer/email"), (InlineCustomer(phone="12"), "/customer/phone")):
        with pytest.raises(ValidationFailed) as refused:
            await found(shop, wanted)
        assert refused.value.faults[0].pointer == at


async def test_a_contact_of_another_store_is_not_found(shop: Shop, other_shop: Shop) -> None:
    maya = await created(shop, MAYA)
    async with shop.db.transaction() as db:
        contact = await get_contact(db, shop.store_id, maya["id"])
        assert contact == FoundCustomer(maya["id"], "Maya.Ortiz@Example.com", "+15550100123", "Maya", "Ortiz")
        assert await get_contact(db, other_shop.store_id, maya["id"]) is None
        assert await get_contact(db, shop.store_id, 999_999_999) is None
