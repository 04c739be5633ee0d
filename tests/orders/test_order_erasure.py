"""An erased customer's orders: sums and products stay, the person is gone from every place it was written."""

import asyncio
from typing import Any

import pytest

from tests.orders.counter import Counter
from tests.support.canaries import traces

WREN: dict[str, Any] = {
    "email": "Wrenna.Nightjar@aviary.example",
    "phone": "+442079460777",
    "first_name": "Wrenna",
    "last_name": "Nightjar",
}
NEST: dict[str, Any] = {
    "address1": "9 Owlhoot Row",
    "city": "Kestrelham",
    "postal_code": "KE5 7RL",
    "country_code": "GB",
}
WORDS = (
    "wrenna", "nightjar", "2079460777", "owlhoot", "kestrelham", "ke5 7rl", "chirps at dusk", "beaklane", "plumage-1",
    "parcel-of-wren", "hoots back",
)  # fmt: skip


async def chirped(counter: Counter) -> dict[str, Any]:
    """An order whose buyer's data went through every door that orders have."""
    keyed = {"idempotency-key": "order-1"}
    lines = [{"sku": "TEA", "quantity": 2, "metadata": {"for": "Wrenna"}}, {"sku": "POT-B", "quantity": 1}]
    answer = await counter.post(
        line_items=lines, customer=WREN, shipping_address=NEST, note="Chirps at dusk.", metadata={"x": "plumage-1"},
        tags=["kept"], headers=keyed, status="processing",
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
    order = answer.json()["data"]
    path = f"/orders/{order['id']}"
    changes = {"shipping_address": {"address2": "Beaklane"}, "billing_address": NEST}
    assert (await counter.client.patch(path, json=changes, headers={"idempotency-key": "patch-1"})).status_code == 200
    comment = {"body": "Wrenna hoots back.", "visibility": "customer"}
    await counter.client.post(f"{path}/comments", json=comment, headers={"idempotency-key": "comment-1"})
    await counter.client.patch(f"{path}/products/{order['line_items'][1]['id']}", json={"metadata": {"g": "plumage-1"}})
    await counter.client.post(
        "/orders?dry_run=true", json={"line_items": lines[1:], "customer": WREN}, headers={"idempotency-key": "dry-1"}
    )
    await counter.move(order, "shipped", tracking={"number": "parcel-of-wren"}, comment="Gone to Nightjar.")
    return order


async def erase(counter: Counter, customer_id: int) -> None:
    answer = await counter.client.delete(f"/customers/{customer_id}")
    assert answer.status_code == 204, answer.text


async def test_nothing_of_a_buyer_is_left_anywhere(counter: Counter) -> None:
    order = await chirped(counter)
    guest = await counter.place(
        ("POT-W", 1), contact={"email": "wrenna.nightjar@AVIARY.example"}, shipping_address=NEST
    )
    copy = (await counter.client.post(f"/orders/{order['id']}/duplicates", json={})).json()["data"]
    before = await traces(counter.shop.db, WORDS)
    for place in (
        "orders.person", "orders.lines", "orders.email", "orders.terms", "order_comments.body", "order_comments.changes",
        "events.data", "events.changes", "idempotency_keys.body",
    ):  # fmt: skip
        assert [each for each in before if each.startswith(place)], f"nothing ever reached {place}"
    sent = await counter.get(order)
    await erase(counter, order["customer_id"])
    assert await traces(counter.shop.db, WORDS) == []
    left = await counter.get(order)
    for name in ("number", "status", "total", "subtotal", "customer_id", "tags", "amount_due", "placed_at"):
        assert left[name] == sent[name], name
    assert left["contact"] == dict.fromkeys(("email", "phone", "first_name", "last_name"))
    assert (left["shipping_address"], left["billing_address"], left["note"], left["tracking"]) == (None, None, None, [])
    assert [(line["sku"], line["total"], line["metadata"]) for line in left["line_items"]] == [
        ("TEA", "16.00", {}),
        ("POT-B", "45.00", {}),
    ]
    assert left["version"] > sent["version"]
    assert [(await counter.get(each))["contact"]["email"] for each in (guest, copy)] == [None, None]
    entries = await counter.timeline(order)
    assert {entry["body"] for entry in entries if entry["type"] in ("comment", "status_change")} == {"[erased]"}
    page = (await counter.client.get("/orders", params={"tag": "kept"})).json()
    assert [found["id"] for found in page["data"]] == [order["id"], copy["id"]]


async def test_what_was_answered_before_is_replayed_without_the_person(counter: Counter) -> None:
    order = await chirped(counter)
    await erase(counter, order["customer_id"])
    lines = [{"sku": "TEA", "quantity": 2, "metadata": {"for": "Wrenna"}}, {"sku": "POT-B", "quantity": 1}]
    again = await counter.post(
        line_items=lines, customer=WREN, shipping_address=NEST, note="Chirps at dusk.", metadata={"x": "plumage-1"},
        tags=["kept"], headers={"idempotency-key": "order-1"}, status="processing",
    )  # fmt: skip
    assert (again.status_code, again.json()["data"]) == (201, {"id": order["id"]})
    assert (await counter.client.get("/orders")).json()["meta"]["total"] == 1


async def test_an_erased_buyers_order_still_goes_its_way(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), customer=WREN, status="processing", payment_status="paid")
    await erase(counter, order["customer_id"])
    shipped = await counter.move(order, "shipped")
    assert shipped["line_items"][0]["fulfilled_quantity"] == 2
    answer = await counter.post(("TEA", 1), customer_id=order["customer_id"])
    assert answer.json()["errors"][0]["code"] == "unknown_customer"
    copy = (await counter.client.post(f"/orders/{order['id']}/duplicates", json={})).json()["data"]
    assert copy["customer_id"] is None
    await counter.assert_books_balance()


@pytest.mark.parametrize("head_start", [0, 1, 2])
async def test_erasing_while_an_order_is_placed_leaves_no_trace(counter: Counter, head_start: int) -> None:
    """Either the order finds nobody, or the erasure finds the order."""
    for n in range(6):
        person = {**WREN, "email": f"wrenna.nightjar.{n}@aviary.example", "phone": None}
        customer = (await counter.client.post("/customers", json=person)).json()["data"]["id"]
        placing = [counter.post(("CLASS", 1), customer_id=customer, shipping_address=NEST) for _ in range(3)]
        erasing = counter.client.delete(f"/customers/{customer}")
        answers = await asyncio.gather(*placing[:head_start], erasing, *placing[head_start:])
        assert {answer.status_code for answer in answers} <= {201, 204, 422}
        assert answers[head_start].status_code == 204
    assert await traces(counter.shop.db, WORDS) == []


async def test_erasing_while_an_order_is_moved_and_written_on_leaves_no_trace(counter: Counter) -> None:
    for n in range(6):
        person = {**WREN, "email": f"wrenna.nightjar.{n}@aviary.example", "phone": None}
        order = await counter.place(("CLASS", 1), customer=person, shipping_address=NEST)
        path = f"/orders/{order['id']}"
        answers = await asyncio.gather(
            counter.put(order, status="processing", payment_status="paid"),
            counter.client.post(f"{path}/duplicates", json={}),
            counter.client.delete(f"/customers/{order['customer_id']}"),
            counter.client.patch(path, json={"tags": [f"t{n}"]}),
        )
        assert [answer.status_code for answer in answers] == [200, 201, 204, 200]
    assert await traces(counter.shop.db, WORDS) == []
