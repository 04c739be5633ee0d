"""The orders of an erased customer: amounts and products remain, and no table contains personal data."""

import asyncio
from typing import Any

import pytest

from tests.orders.sample_store import HOME, SampleStore
from tests.support.canaries import traces
from tests.support.races import until_somebody_waits

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
    "parcel-of-wren", "hoots back", "molts in may", "feathers everywhere",
)  # fmt: skip


async def place_with_personal_data(store: SampleStore) -> dict[str, Any]:
    """Place an order whose personal data reaches every field and table that orders use."""
    keyed = {"idempotency-key": "order-1"}
    lines = [{"sku": "TEA", "quantity": 2, "metadata": {"for": "Wrenna"}}, {"sku": "POT-B", "quantity": 1}]
    answer = await store.post(
        line_items=lines, customer=WREN, shipping_address=NEST, note="Chirps at dusk.", metadata={"x": "plumage-1"},
        tags=["kept"], headers=keyed, status="processing",
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
    order = answer.json()["data"]
    path = f"/orders/{order['id']}"
    changes = {"shipping_address": {"address2": "Beaklane"}, "billing_address": NEST}
    assert (await store.client.patch(path, json=changes, headers={"idempotency-key": "patch-1"})).status_code == 200
    comment = {"body": "Wrenna hoots back.", "visibility": "customer"}
    await store.client.post(f"{path}/comments", json=comment, headers={"idempotency-key": "comment-1"})
    await store.client.patch(f"{path}/products/{order['line_items'][1]['id']}", json={"metadata": {"g": "plumage-1"}})
    await store.client.post(
        "/orders?dry_run=true", json={"line_items": lines[1:], "customer": WREN}, headers={"idempotency-key": "dry-1"}
    )
    await store.change_status(order, "shipped", tracking={"number": "parcel-of-wren"}, comment="Gone to Nightjar.")
    further = {"number": "parcel-of-wren-2"}
    await store.put_status(order, tracking=further, payment_status="paid", comment="Nightjar paid.")
    refund = {"amount": "5.00", "reason": "Molts in May", "note": "Feathers everywhere."}
    assert (await store.put_status(order, refund=refund)).status_code == 200
    extra = {"amount": "2.00", "note": "Nightjar tipped.", "external_id": "tr-2"}
    assert (await store.put_status(order, payment=extra)).status_code == 200
    return order


async def erase(store: SampleStore, customer_id: int) -> None:
    answer = await store.client.delete(f"/customers/{customer_id}")
    assert answer.status_code == 204, answer.text


async def test_no_personal_data_of_an_erased_customer_remains(store: SampleStore) -> None:
    order = await place_with_personal_data(store)
    guest = await store.place(("POT-W", 1), contact={"email": "wrenna.nightjar@AVIARY.example"}, shipping_address=NEST)
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates", json={})).json()["data"]
    before = await traces(store.shop.db, WORDS, store_id=store.shop.store.id)
    for column in (
        "orders.person", "orders.lines", "orders.head", "orders.email", "orders.terms", "order_comments.body", "order_comments.changes",
        "events.data", "events.changes", "idempotency_keys.body",
    ):  # fmt: skip
        assert [each for each in before if each.startswith(column)], f"no trace in {column}"
    sent = await store.get(order)
    await erase(store, order["customer_id"])
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []
    left = await store.get(order)
    for name in ("number", "status", "total", "subtotal", "customer_id", "tags", "amount_due", "placed_at"):
        assert left[name] == sent[name], name
    assert left["contact"] == dict.fromkeys(("email", "phone", "first_name", "last_name"))
    assert (left["shipping_address"], left["billing_address"], left["note"], left["tracking"]) == (None, None, None, [])
    assert [(line["sku"], line["total"], line["metadata"]) for line in left["line_items"]] == [
        ("TEA", "16.00", {}),
        ("POT-B", "45.00", {}),
    ]
    assert left["version"] > sent["version"]
    # Quantities and amounts stay: only what people wrote is gone.
    assert [each["number"] for each in sent["tracking"]] == ["parcel-of-wren", "parcel-of-wren-2"]
    assert left["fulfillments"] == [{**sent["fulfillments"][0], "tracking": None}]
    assert left["refunds"] == [{**sent["refunds"][0], "reason": None, "note": None}]
    assert (left["refunds"][0]["amount"], left["amount_refunded"]) == ("5.00", "5.00")
    assert left["payments"] == [{**each, "note": None} for each in sent["payments"]]
    assert [each["note"] for each in sent["payments"]] == [None, "Feathers everywhere.", "Nightjar tipped."]
    assert [(await store.get(each))["contact"]["email"] for each in (guest, copy)] == [None, None]
    entries = await store.timeline(order)
    assert {entry["body"] for entry in entries if entry["type"] in ("comment", "status_change")} == {"[erased]"}
    assert [each["amount"] for each in entries[2]["changes"]["refunds"][1]] == ["5.00"]
    assert [each["amount"] for each in entries[1]["changes"]["payments"][1]] == ["2.00"]
    page = (await store.client.get("/orders", params={"tag": "kept"})).json()
    assert [found["id"] for found in page["data"]] == [order["id"], copy["id"]]


async def test_a_stored_response_is_replayed_without_personal_data(store: SampleStore) -> None:
    order = await place_with_personal_data(store)
    await erase(store, order["customer_id"])
    lines = [{"sku": "TEA", "quantity": 2, "metadata": {"for": "Wrenna"}}, {"sku": "POT-B", "quantity": 1}]
    again = await store.post(
        line_items=lines, customer=WREN, shipping_address=NEST, note="Chirps at dusk.", metadata={"x": "plumage-1"},
        tags=["kept"], headers={"idempotency-key": "order-1"}, status="processing",
    )  # fmt: skip
    assert (again.status_code, again.json()["data"]) == (201, {"id": order["id"]})
    assert (await store.client.get("/orders")).json()["meta"]["total"] == 1


async def test_an_order_of_an_erased_customer_can_be_processed(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), customer=WREN, status="processing", payment_status="paid")
    await erase(store, order["customer_id"])
    shipped = await store.change_status(order, "shipped")
    assert shipped["line_items"][0]["fulfilled_quantity"] == 2
    answer = await store.post(("TEA", 1), customer_id=order["customer_id"])
    assert answer.json()["errors"][0]["code"] == "unknown_customer"
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates", json={})).json()["data"]
    assert copy["customer_id"] is None
    await store.assert_stock_is_consistent()


ANN_AND_BOB = {"email": ("ann@example.com", "Bob@example.com"), "phone": ("+442079460555", "+442079460666")}


async def correct(store: SampleStore, name: str) -> int:
    """Ann, who was created with an identifier of Bob by mistake; returns her id."""
    right, mistaken = ANN_AND_BOB[name]
    ann = (await store.client.post("/customers", json={name: mistaken})).json()["data"]["id"]
    answer = await store.client.patch(f"/customers/{ann}", json={name: right, "metadata": {"tier": "gold"}})
    assert answer.status_code == 200, answer.text
    return ann


@pytest.mark.parametrize("name", ["email", "phone"])
async def test_an_erasure_leaves_the_orders_of_the_customer_who_has_a_former_identifier_now(
    store: SampleStore, name: str
) -> None:
    ann = await correct(store, name)
    mistaken = ANN_AND_BOB[name][1]
    hers = await store.place(("TEA", 1), customer_id=ann, contact={name: mistaken}, shipping_address=NEST)
    bobs = await store.place(("TEA", 1), customer={name: mistaken}, shipping_address=HOME, note="Ring twice.")
    edited = await store.place(("CLASS", 1), contact={name: mistaken}, shipping_address=HOME)
    assert (await store.patch(edited, contact={"phone": None, "email": "new@example.com"})).is_success
    comment = {"body": "Call Bob.", "visibility": "internal"}
    for order in (bobs, edited):
        await store.client.post(f"/orders/{order['id']}/comments", json=comment)
    before = [(await store.get(order), await store.timeline(order)) for order in (bobs, edited)]
    assert bobs["customer_id"] != ann
    await erase(store, ann)
    assert [(await store.get(order), await store.timeline(order)) for order in (bobs, edited)] == before
    assert (await store.get(hers))["contact"] == dict.fromkeys(("email", "phone", "first_name", "last_name"))


async def test_an_order_by_a_former_identifier_is_erased_while_no_customer_has_it(store: SampleStore) -> None:
    ann = await correct(store, "email")
    order = await store.place(("TEA", 1), contact={"email": ANN_AND_BOB["email"][1]}, shipping_address=NEST)
    await erase(store, ann)
    assert (await store.get(order))["shipping_address"] is None


@pytest.mark.parametrize("name", ["email", "phone"])
async def test_an_erasure_leaves_the_order_of_a_customer_who_is_created_meanwhile(
    store: SampleStore, name: str
) -> None:
    ann = await correct(store, name)
    async with store.shop.db.transaction() as db:
        await db.fetch("SELECT key FROM customer_metadata WHERE store_id = $1 FOR UPDATE", store.shop.store_id)
        erasing = asyncio.create_task(store.client.delete(f"/customers/{ann}"))
        await until_somebody_waits(store.shop.db)
        order = await store.place(("TEA", 1), customer={name: ANN_AND_BOB[name][1]}, shipping_address=HOME)
        before = await store.get(order)
    assert (await erasing).status_code == 204
    assert await store.get(order) == before


@pytest.mark.parametrize("head_start", [0, 1, 2])
async def test_erasing_while_an_order_is_placed_leaves_no_trace(store: SampleStore, head_start: int) -> None:
    """Either the order is refused, or the erasure includes it."""
    for n in range(6):
        person = {**WREN, "email": f"wrenna.nightjar.{n}@aviary.example", "phone": None}
        customer = (await store.client.post("/customers", json=person)).json()["data"]["id"]
        placing = [store.post(("CLASS", 1), customer_id=customer, shipping_address=NEST) for _ in range(3)]
        erasing = store.client.delete(f"/customers/{customer}")
        answers = await asyncio.gather(*placing[:head_start], erasing, *placing[head_start:])
        assert {answer.status_code for answer in answers} <= {201, 204, 422}
        assert answers[head_start].status_code == 204
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []


async def test_erasing_while_an_order_is_changed_leaves_no_trace(store: SampleStore) -> None:
    for n in range(6):
        person = {**WREN, "email": f"wrenna.nightjar.{n}@aviary.example", "phone": None}
        order = await store.place(("CLASS", 1), customer=person, shipping_address=NEST)
        path = f"/orders/{order['id']}"
        answers = await asyncio.gather(
            store.put_status(order, status="processing", payment_status="paid"),
            store.client.post(f"{path}/duplicates", json={}),
            store.client.delete(f"/customers/{order['customer_id']}"),
            store.client.patch(path, json={"tags": [f"t{n}"]}),
        )
        assert [answer.status_code for answer in answers] == [200, 201, 204, 200]
    assert await traces(store.shop.db, WORDS, store_id=store.shop.store.id) == []
