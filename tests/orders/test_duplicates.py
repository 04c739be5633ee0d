"""Suspected duplicates and copies of orders."""

import asyncio
from typing import Any

from tests.orders.sample_store import ADA, HOME, SampleStore
from tests.support.races import until_somebody_waits


async def duplicates_of(store: SampleStore, order: dict[str, Any], **params: Any) -> list[dict[str, Any]]:
    return (await store.client.get(f"/orders/{order['id']}/duplicates", params=params)).json()["data"]


# --- suspected duplicates --------------------------------------------------------------------------------------------


async def test_a_repeated_purchase_is_suspected_on_both_orders(store: SampleStore) -> None:
    first = await store.place(("TEA", 2), customer=ADA, shipping_address=HOME)
    await store.skip_events()
    second = await store.place(("TEA", 1), ("TEA", 1), customer=ADA, shipping_address=HOME)
    assert second["suspected_duplicates_count"] == 1
    seen = await store.get(first)
    assert (seen["suspected_duplicates_count"], seen["version"]) == (1, 2)
    (of_first,), (of_second,) = await duplicates_of(store, first), await duplicates_of(store, second)
    assert (of_first["order_id"], of_second["order_id"]) == (second["id"], first["id"])
    assert (of_second["kind"], of_second["score"], of_second["number"]) == ("suspected", 1.0, first["number"])
    assert set(of_second["reasons"]) == {
        "same_phone", "same_email", "same_customer", "same_address", "same_basket", "same_total"
    }  # fmt: skip
    assert (of_second["status"], of_second["total"], of_second["seconds_apart"]) == ("pending", "16.00", 0)
    emitted = [(event["type"], event["resource_id"], event["version"]) for event in await store.events()]
    assert emitted == [
        ("order.created", second["id"], 1),
        ("order.duplicate_suspected", second["id"], 1),
        ("order.duplicate_suspected", first["id"], 2),
    ]
    found = await store.client.get("/orders", params={"has_suspected_duplicates": "true"})
    assert found.json()["meta"]["total"] == 2


async def test_a_guest_is_recognized_by_phone_or_email(store: SampleStore) -> None:
    first = await store.place(("TEA", 2), contact={"phone": ADA["phone"]}, shipping_address=HOME)
    second = await store.place(
        ("POT-B", 1), contact={"phone": "+44 20 79460018"}, shipping_address={**HOME, "city": "bath"}
    )
    (found,) = await duplicates_of(store, second)
    assert (found["order_id"], found["reasons"], found["score"]) == (first["id"], ["same_phone", "same_address"], 0.45)


async def test_a_postal_code_may_be_written_with_or_without_its_space(store: SampleStore) -> None:
    await store.place(("TEA", 2), contact={"email": ADA["email"]}, shipping_address=HOME)
    second = await store.place(
        ("POT-B", 1), contact={"email": ADA["email"]}, shipping_address={**HOME, "postal_code": "ba11aa"}
    )
    (found,) = await duplicates_of(store, second)
    assert found["reasons"] == ["same_email", "same_address"]


async def test_other_contacts_and_other_baskets_are_not_suspected(store: SampleStore) -> None:
    await store.place(("TEA", 2), customer=ADA, shipping_address=HOME)
    for lines, body in (
        ([("TEA", 2)], {"contact": {"email": "bo@example.com"}, "shipping_address": HOME}),
        ([("TEA", 3)], {"customer": ADA, "shipping_address": {**HOME, "address1": "4 Well Street"}}),
        ([("TEA", 2)], {"shipping_address": HOME}),
    ):
        assert (await store.place(*lines, **body))["suspected_duplicates_count"] == 0


async def test_orders_far_apart_are_not_suspected(store: SampleStore) -> None:
    first = await store.place(("TEA", 1), customer=ADA, placed_at="2025-05-01T12:00:00Z")
    for placed_at, hours, expected in (
        ("2025-05-02T12:00:01Z", 24, 0),
        ("2025-04-30T11:59:59Z", 24, 0),
        ("2025-05-04T12:00:00Z", 168, 3),
    ):
        later = await store.place(("TEA", 1), customer=ADA, placed_at=placed_at, window_hours=hours)
        assert later["suspected_duplicates_count"] == expected, placed_at
    assert [each["seconds_apart"] for each in await duplicates_of(store, first)] == [3 * 86_400]


async def test_a_cancelled_order_is_not_a_suspected_duplicate(store: SampleStore) -> None:
    first, second = [await store.place(("TEA", 1), customer=ADA) for _ in range(2)]
    await store.skip_events()
    cancelled = await store.change_status(first, "cancelled")
    assert cancelled["suspected_duplicates_count"] == 0
    seen = await store.get(second)
    assert (seen["suspected_duplicates_count"], seen["version"]) == (0, 2)
    emitted = {(event["type"], event["resource_id"]) for event in await store.events()}
    assert emitted == {("order.status_changed", first["id"]), ("order.updated", second["id"])}
    assert [each["status"] for each in await duplicates_of(store, second)] == ["cancelled"]
    third = await store.place(("TEA", 1), customer=ADA)
    assert [each["order_id"] for each in await duplicates_of(store, third)] == [second["id"]]


async def test_a_suspected_duplicate_is_refused_on_request(store: SampleStore) -> None:
    first = await store.place(("TEA", 1), customer=ADA)
    await store.skip_events()
    answer = await store.post(("TEA", 1), customer=ADA, reject_suspected_duplicates=True)
    assert (answer.status_code, answer.json()["code"]) == (409, "duplicate_order_suspected")
    assert (answer.json()["existing_id"], answer.json()["score"]) == (first["id"], 0.85)
    assert answer.json()["existing_number"] == first["number"]
    assert f"Order number {first['number']}" in answer.json()["detail"]
    assert (await store.get(first), await store.events("")) == (first, [])
    assert (await store.place(("POT-B", 1), customer=ADA, reject_suspected_duplicates=True))["number"] == 1002


async def test_one_of_several_concurrent_refusable_duplicates_is_placed(store: SampleStore) -> None:
    answers = await asyncio.gather(
        *(store.post(("TEA", 1), customer=ADA, reject_suspected_duplicates=True) for _ in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 9]
    assert await store.stock("TEA") == (10, 1)


async def test_every_pair_of_concurrent_duplicates_is_found(store: SampleStore) -> None:
    orders = await asyncio.gather(*(store.place(("TEA", 1), customer=ADA) for _ in range(8)))
    counts = [(await store.get(order))["suspected_duplicates_count"] for order in orders]
    assert counts == [7] * 8


async def test_an_order_has_at_most_ten_suspected_duplicates_when_placed(store: SampleStore) -> None:
    orders = [await store.place(("CLASS", 1), customer=ADA) for _ in range(13)]
    assert [order["suspected_duplicates_count"] for order in orders] == [*range(11), 10, 10]


async def test_duplicates_that_are_cancelled_concurrently_are_no_longer_suspected(store: SampleStore) -> None:
    orders = [await store.place(("CLASS", 1), customer=ADA) for _ in range(6)]
    answers = await asyncio.gather(*(store.put_status(order, status="cancelled") for order in orders[:5]))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [(await store.get(order))["suspected_duplicates_count"] for order in orders] == [0] * 6


async def test_an_order_that_is_cancelled_while_its_duplicate_is_placed_is_not_suspected(store: SampleStore) -> None:
    cancelled, kept = [await store.place(("TEA", 1), customer=ADA) for _ in range(2)]
    await store.skip_events()
    async with store.shop.db.transaction() as db:
        # The new order finds both, and then waits for the lock of the one that is being cancelled.
        await db.execute(
            "UPDATE orders SET status = 'cancelled' WHERE store_id = $1 AND id = $2",
            store.shop.store_id,
            cancelled["id"],
        )
        placing = asyncio.create_task(store.place(("TEA", 1), customer=ADA))
        await until_somebody_waits(store.shop.db)
    placed = await placing
    assert placed["suspected_duplicates_count"] == 1
    assert [each["order_id"] for each in await duplicates_of(store, placed)] == [kept["id"]]
    emitted = [(event["type"], event["resource_id"], event["changes"]) for event in await store.events()]
    assert emitted == [
        ("order.created", placed["id"], {}),
        ("order.duplicate_suspected", placed["id"], {"suspected_duplicates_count": [0, 1]}),
        ("order.duplicate_suspected", kept["id"], {"suspected_duplicates_count": [1, 2]}),
    ]


# --- copies ----------------------------------------------------------------------------------------------------------


async def copy_order(store: SampleStore, order: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = await store.client.post(f"/orders/{order['id']}/duplicates", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"].endswith(f"/orders/{answer.json()['data']['id']}")
    return answer.json()


async def test_a_copy_keeps_prices_and_contact_but_not_progress(store: SampleStore) -> None:
    order = await store.place(
        line_items=[{"sku": "TEA", "quantity": 2, "unit_price": "7.00", "tax_total": "1.00", "metadata": {"k": "v"}}],
        status="processing",
        payment_status="paid",
        customer=ADA,
        shipping_address=HOME,
        shipping_total="3.00",
        discount_total="2.00",
        external_id="erp-1",
        note="Ring twice.",
        tags=["web"],
        metadata={"a": 1},
    )
    await store.change_status(order, "shipped", tracking={"number": "P-1"})
    await store.skip_events()
    document = await copy_order(store, order)
    copy = document["data"]
    assert document["meta"] == {"skipped_line_items": []}
    assert (copy["status"], copy["payment_status"], copy["fulfillment_status"]) == ("draft", "unpaid", "unfulfilled")
    assert (copy["duplicate_of"], copy["external_id"], copy["tracking"]) == (order["id"], None, [])
    for name in ("customer_id", "contact", "shipping_address", "note", "tags", "metadata", "total", "shipping_total"):
        assert copy[name] == order[name], name
    assert copy["amount_paid"] == "0.00"
    line = copy["line_items"][0]
    assert (line["unit_price"], line["tax_total"], line["metadata"], line["fulfilled_quantity"]) == (
        "7.00",
        "1.00",
        {"k": "v"},
        0,
    )
    assert line["id"] != order["line_items"][0]["id"]
    assert await store.stock("TEA") == (8, 0)
    assert await store.event_names() == ["created", "duplicated"]
    assert (await store.timeline(copy))[0]["body"] == f"Copied from order {order['number']}."
    assert (await store.timeline(order))[0]["body"] == f"Copied to order {copy['number']}."
    assert (copy["suspected_duplicates_count"], (await store.get(order))["suspected_duplicates_count"]) == (0, 0)
    (entry,) = await duplicates_of(store, order)
    assert (entry["order_id"], entry["kind"]) == (copy["id"], "copy")
    assert (await duplicates_of(store, copy), await duplicates_of(store, order, kind="suspected")) == ([], [])


async def test_a_copy_of_a_refunded_order_has_no_payments(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    await store.put_status(order, payment_status="partially_refunded", amount_refunded="3.00")
    for status in ("draft", "pending"):
        copy = (await copy_order(store, order, status=status))["data"]
        assert (copy["payment_status"], copy["amount_paid"], copy["amount_refunded"]) == ("unpaid", "0.00", "0.00")
        assert (copy["amount_due"], copy["balance"]) == ("16.00", "16.00")


async def test_a_repriced_copy_drops_old_discounts_and_taxes(store: SampleStore) -> None:
    lines = [{"sku": "TEA", "quantity": 2, "unit_price": "7.00", "discount_total": "1.00", "tax_total": "1.00"}]
    order = await store.place(line_items=lines, discount_total="2.00", shipping_total="3.00")
    copy = (await copy_order(store, order, reprice=True))["data"]
    assert (copy["line_items"][0]["unit_price"], copy["subtotal"], copy["total"]) == ("8.00", "16.00", "19.00")


async def test_a_copy_lists_the_lines_whose_variants_are_deleted(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), ("POT-B", 2), discount_total="50.00")
    tea, pot = order["line_items"]
    await store.client.delete(f"/products/{pot['product_id']}")
    document = await copy_order(store, order)
    assert [line["sku"] for line in document["data"]["line_items"]] == ["TEA"]
    assert document["meta"]["skipped_line_items"] == [
        {"id": pot["id"], "variant_id": pot["variant_id"], "sku": "POT-B", "name": "Tea Pot", "quantity": 2, "reason": "variant_deleted"}
    ]  # fmt: skip
    assert document["data"]["total"] == "0.00"
    await store.client.delete(f"/products/{tea['product_id']}")
    answer = await store.client.post(f"/orders/{order['id']}/duplicates", json={})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")


async def test_a_pending_copy_reserves_stock_or_is_refused(store: SampleStore) -> None:
    order = await store.place(("POT-B", 2))
    answer = await store.client.post(f"/orders/{order['id']}/duplicates", json={"status": "pending"})
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    await store.change_status(order, "cancelled")
    copy = (await copy_order(store, order, status="pending"))["data"]
    assert (copy["status"], await store.stock("POT-B")) == ("pending", (3, 2))
    await store.assert_stock_is_consistent()


async def test_a_copy_needs_no_body_and_checks_the_version(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    path = f"/orders/{order['id']}/duplicates"
    assert (await store.client.post(path, headers={"if-match": '"1"'})).status_code == 201
    answer = await store.client.post(path, headers={"if-match": '"2"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
