"""Erasure of a person who is only the contact of an order, or once was."""

from typing import Any

from tests.orders.counter import ADA, HOME, Counter
from tests.support.canaries import traces

FINCH: dict[str, Any] = {
    "email": "Brambling.Finch@aviary.example",
    "phone": "+442079460555",
    "first_name": "Brambling",
    "last_name": "Finch",
}
WORDS = ("brambling", "finch", "2079460555")


async def erase(counter: Counter, person: dict[str, Any]) -> int:
    """Create the customer unless it exists, and erase it."""
    made = await counter.client.post("/customers", json=person)
    customer_id = made.json()["data"]["id"] if made.status_code == 201 else made.json()["existing_id"]
    answer = await counter.client.delete(f"/customers/{customer_id}")
    assert answer.status_code == 204, answer.text
    return customer_id


async def test_the_contact_of_another_customers_order_is_erased_there_too(counter: Counter) -> None:
    gift = {"shipping_address": {**HOME, "first_name": "Brambling", "last_name": "Finch"}}
    order = await counter.place(("TEA", 1), customer=ADA, contact=FINCH, **gift)
    await counter.client.post(f"/orders/{order['id']}/comments", json={"body": "Finch rang."})
    await erase(counter, FINCH)
    assert await traces(counter.shop.db, WORDS) == []
    left = await counter.get(order)
    assert (left["customer_id"], left["total"]) == (order["customer_id"], order["total"])
    buyer = (await counter.client.get(f"/customers/{order['customer_id']}")).json()["data"]
    assert (buyer["email"], buyer["orders_count"]) == (ADA["email"], 1)


async def test_a_former_contact_is_erased_from_the_timeline(counter: Counter) -> None:
    order = (await counter.post(("TEA", 1), contact=FINCH, headers={"idempotency-key": "one"})).json()["data"]
    changed = await counter.patch(order, contact=ADA, note="Ring twice.")
    assert changed.status_code == 200, changed.text
    await erase(counter, FINCH)
    assert await traces(counter.shop.db, WORDS) == []
    left = await counter.get(order)
    assert (left["contact"], left["note"]) == (ADA, "Ring twice.")


async def test_an_order_whose_contact_was_cleared_is_erased_with_its_customer(counter: Counter) -> None:
    home = {**HOME, "first_name": "Brambling", "last_name": "Finch"}
    order = await counter.place(("TEA", 1), contact=FINCH, shipping_address=home)
    assert (await counter.patch(order, contact=None)).status_code == 200
    await erase(counter, FINCH)
    assert await traces(counter.shop.db, WORDS) == []
    assert (await counter.get(order))["shipping_address"] is None


async def test_an_order_of_an_erased_customer_is_found_by_its_number(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), customer=FINCH, tags=["kept"])
    await erase(counter, FINCH)
    page = (await counter.client.get("/orders", params={"q": str(order["number"])})).json()
    assert [each["id"] for each in page["data"]] == [order["id"]]
