"""Erasure of a person who is only the contact of an order, or once was."""

from typing import Any

from tests.orders.sample_store import ADA, HOME, SampleStore
from tests.support.canaries import traces

FINCH: dict[str, Any] = {
    "email": "Brambling.Finch@aviary.example",
    "phone": "+442079460555",
    "first_name": "Brambling",
    "last_name": "Finch",
}
WORDS = ("brambling", "finch", "2079460555")


async def erase(store: SampleStore, person: dict[str, Any]) -> int:
    """Create the customer unless it exists, and erase it."""
    created = await store.client.post("/customers", json=person)
    customer_id = created.json()["data"]["id"] if created.status_code == 201 else created.json()["existing_id"]
    answer = await store.client.delete(f"/customers/{customer_id}")
    assert answer.status_code == 204, answer.text
    return customer_id


async def test_a_contact_is_erased_from_orders_of_other_customers(store: SampleStore) -> None:
    gift = {"shipping_address": {**HOME, "first_name": "Brambling", "last_name": "Finch"}}
    order = await store.place(("TEA", 1), customer=ADA, contact=FINCH, **gift)
    await store.client.post(f"/orders/{order['id']}/comments", json={"body": "Finch rang."})
    await erase(store, FINCH)
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []
    left = await store.get(order)
    assert (left["customer_id"], left["total"]) == (order["customer_id"], order["total"])
    buyer = (await store.client.get(f"/customers/{order['customer_id']}")).json()["data"]
    assert (buyer["email"], buyer["orders_count"]) == (ADA["email"], 1)


async def test_a_former_contact_is_erased_from_the_timeline(store: SampleStore) -> None:
    order = (await store.post(("TEA", 1), contact=FINCH, headers={"idempotency-key": "one"})).json()["data"]
    changed = await store.patch(order, contact=ADA, note="Ring twice.")
    assert changed.status_code == 200, changed.text
    await erase(store, FINCH)
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []
    left = await store.get(order)
    assert (left["contact"], left["note"]) == (ADA, "Ring twice.")


async def test_an_order_whose_contact_was_cleared_is_erased_with_its_customer(store: SampleStore) -> None:
    home = {**HOME, "first_name": "Brambling", "last_name": "Finch"}
    order = await store.place(("TEA", 1), contact=FINCH, shipping_address=home)
    assert (await store.patch(order, contact=None)).status_code == 200
    await erase(store, FINCH)
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []
    assert (await store.get(order))["shipping_address"] is None


async def test_an_order_of_an_erased_customer_is_found_by_its_number(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=FINCH, tags=["kept"])
    await erase(store, FINCH)
    page = (await store.client.get("/orders", params={"q": str(order["number"])})).json()
    assert [each["id"] for each in page["data"]] == [order["id"]]
