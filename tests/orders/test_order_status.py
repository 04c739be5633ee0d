"""Status changes of orders: each moves its stock once; illegal changes are refused and repeated ones change nothing."""

from typing import Any

import pytest

from tests.orders.sample_store import SampleStore, codes


async def test_stock_follows_an_order_through_its_lifecycle(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), ("POT-B", 1), status="draft")
    assert await store.stock("TEA") == (10, 0)
    await store.change_status(order, "pending")
    assert await store.stock("TEA") == (10, 2)
    await store.change_status(order, "on_hold", "processing")
    assert await store.stock("TEA") == (10, 2)
    shipped = await store.change_status(order, "shipped", tracking={"carrier": "Post", "number": "P-1"})
    assert (await store.stock("TEA"), await store.stock("POT-B")) == ((8, 0), (2, 0))
    assert [line["fulfilled_quantity"] for line in shipped["line_items"]] == [2, 1]
    assert (shipped["fulfillment_status"], shipped["tracking"][0]["number"]) == ("fulfilled", "P-1")
    await store.put_status(order, payment_status="paid")
    completed = await store.change_status(order, "delivered", "completed")
    assert completed["completed_at"] is not None
    returned = await store.change_status(order, "returned")
    assert (returned["fulfillment_status"], returned["allowed_transitions"]) == ("returned", [])
    assert (await store.stock("TEA"), await store.stock("POT-B")) == ((10, 0), (3, 0))
    assert [kind for kind, _, _ in await store.ledger(order)] == ["reserve"] * 2 + ["commit"] * 2 + ["restock"] * 2
    await store.assert_stock_is_consistent()


async def test_a_cancelled_order_releases_its_stock(store: SampleStore) -> None:
    order = await store.place(("POT-W", 1))
    cancelled = await store.change_status(order, "cancelled", reason="The customer changed their mind.")
    assert (cancelled["cancel_reason"], cancelled["amount_due"]) == ("The customer changed their mind.", "0.00")
    assert cancelled["cancelled_at"] is not None
    assert await store.stock("POT-W") == (1, 0)
    await store.place(("POT-W", 1))


async def test_a_draft_without_enough_stock_stays_a_draft(store: SampleStore) -> None:
    draft = await store.place(("TEA", 1), ("POT-W", 2), status="draft")
    answer = await store.put_status(draft, status="pending")
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    fault = answer.json()["errors"][0]
    assert (fault["pointer"], fault["meta"]["available"]) == ("/status", 1)
    assert fault["meta"]["line_item_id"] == draft["line_items"][1]["id"]
    assert (await store.get(draft), await store.stock("TEA")) == (draft, (10, 0))


async def test_a_draft_with_a_deleted_product_cannot_be_placed(store: SampleStore) -> None:
    draft = await store.place(("TEA", 1), status="draft")
    await store.client.delete(f"/products/{draft['line_items'][0]['product_id']}")
    assert (await store.put_status(draft, status="pending")).status_code == 409


async def test_an_illegal_transition_lists_the_allowed_ones(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    answer = await store.put_status(order, status="delivered")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")
    assert answer.json()["allowed_transitions"] == ["processing", "on_hold", "cancelled"]
    answer = await store.put_status(order, payment_status="refunded")
    assert answer.json()["allowed_payment_transitions"] == ["authorized", "paid", "failed", "voided"]
    assert await store.get(order) == order


async def test_setting_the_current_status_changes_nothing(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), payment_status="paid")
    await store.skip_events()
    answer = await store.put_status(order, status="pending", payment_status="paid", comment="Again?")
    assert (answer.status_code, answer.json()["data"]) == (200, order)
    assert (await store.events(""), len(await store.timeline(order))) == ([], 1)


async def test_an_order_that_costs_nothing_is_completed_without_a_payment(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), discount_total="8.00")
    assert (order["total"], order["payment_status"]) == ("0.00", "unpaid")
    completed = await store.change_status(order, "processing", "completed")
    assert (completed["status"], completed["payment_status"]) == ("completed", "unpaid")
    order = await store.place(("TEA", 1), status="processing")
    await store.put_status(order, payment_status="voided")
    answer = await store.put_status(order, status="completed")
    assert (answer.status_code, answer.json()["code"]) == (409, "order_not_paid")


async def test_an_unpaid_order_cannot_be_completed(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), status="processing")
    answer = await store.put_status(order, status="completed")
    assert (answer.status_code, answer.json()["code"]) == (409, "order_not_paid")
    assert await store.stock("TEA") == (10, 1)
    answer = await store.put_status(order, status="completed", payment_status="paid")
    assert (answer.status_code, answer.json()["data"]["fulfillment_status"]) == (200, "fulfilled")
    assert await store.stock("TEA") == (9, 0)


async def test_an_order_can_ship_in_parts(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), ("POT-B", 1), status="processing")
    tea, _ = order["line_items"]
    part = await store.change_status(order, "shipped", line_items=[{"id": tea["id"], "quantity": 3}])
    assert (part["status"], part["fulfillment_status"]) == ("processing", "partially_fulfilled")
    assert [line["fulfilled_quantity"] for line in part["line_items"]] == [3, 0]
    assert (await store.stock("TEA"), await store.stock("POT-B")) == ((7, 2), (3, 1))
    rest = await store.change_status(order, "shipped")
    assert (rest["status"], rest["fulfillment_status"]) == ("shipped", "fulfilled")
    assert (await store.stock("TEA"), await store.stock("POT-B")) == ((5, 0), (2, 0))
    assert await store.event_names() == ["created", *["status_changed", "fulfilled"] * 2]
    await store.assert_stock_is_consistent()


async def test_the_last_part_ships_the_order(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    tea = order["line_items"][0]["id"]
    for expected in ("processing", "shipped"):
        moved = await store.change_status(order, "shipped", line_items=[{"id": tea, "quantity": 1}])
        assert moved["status"] == expected


async def test_cancelling_a_partially_shipped_order_releases_the_rest(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), status="processing")
    await store.change_status(order, "shipped", line_items=[{"id": order["line_items"][0]["id"], "quantity": 2}])
    cancelled = await store.change_status(order, "cancelled")
    assert cancelled["fulfillment_status"] == "partially_fulfilled"
    assert await store.stock("TEA") == (8, 0)
    await store.assert_stock_is_consistent()


async def test_invalid_portions_of_a_shipment_are_reported(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    line = order["line_items"][0]["id"]
    answer = await store.put_status(
        order, status="shipped", line_items=[{"id": line, "quantity": 3}, {"id": 1, "quantity": 1}]
    )
    assert codes(answer) == [("/line_items/0/quantity", "out_of_range"), ("/line_items/1/id", "not_found")]
    answer = await store.put_status(order, status="on_hold", line_items=[{"id": line, "quantity": 1}])
    assert codes(answer) == [("/line_items", "invalid_format")]


@pytest.mark.parametrize("status", ["shipped", "returned"])
async def test_an_empty_list_of_lines_is_refused(store: SampleStore, status: str) -> None:
    order = await store.place(("TEA", 2), status="processing")
    if status == "returned":
        await store.change_status(order, "shipped")
    answer = await store.put_status(order, status=status, line_items=[])
    assert (answer.status_code, codes(answer)) == (422, [("/line_items", "out_of_range")])
    assert "omit it" in answer.json()["errors"][0]["detail"]
    assert (await store.get(order))["status"] != status


async def test_a_return_without_restock_does_not_change_stock(store: SampleStore) -> None:
    order = await store.place(("POT-B", 2), status="processing")
    await store.change_status(order, "shipped")
    await store.change_status(order, "returned", restock=False)
    assert await store.stock("POT-B") == (1, 0)


async def test_an_order_can_be_returned_in_parts(store: SampleStore) -> None:
    order = await store.place(("POT-B", 2), status="processing")
    await store.change_status(order, "shipped", "delivered")
    line = order["line_items"][0]["id"]
    part = await store.change_status(order, "returned", line_items=[{"id": line, "quantity": 1}], restock=False)
    assert (part["status"], part["line_items"][0]["returned_quantity"]) == ("delivered", 1)
    rest = await store.change_status(order, "returned")
    assert (rest["status"], await store.stock("POT-B")) == ("returned", (2, 0))


async def test_amounts_follow_the_payment_status(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    steps: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
        ({"payment_status": "authorized"}, ("0.00", "0.00", "16.00")),
        ({"payment_status": "failed"}, ("0.00", "0.00", "16.00")),
        ({"payment_status": "paid"}, ("16.00", "0.00", "0.00")),
        ({"payment_status": "partially_refunded", "amount_refunded": "4.00"}, ("16.00", "4.00", "0.00")),
        ({"payment_status": "partially_refunded", "amount_refunded": "6.00"}, ("16.00", "6.00", "0.00")),
        ({"payment_status": "refunded"}, ("16.00", "16.00", "0.00")),
    ]
    for body, expected in steps:
        moved = (await store.put_status(order, **body)).json()["data"]
        assert (moved["amount_paid"], moved["amount_refunded"], moved["amount_due"]) == expected
    paid = ["created", *["payment_status_changed"] * 3, "payment_recorded"]
    assert await store.event_names() == [*paid, *["payment_status_changed", "refunded"] * 3]


async def test_an_invalid_refund_is_refused(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    for body in (
        {"payment_status": "partially_refunded", "amount_refunded": "16.00"},
        {"payment_status": "refunded", "amount_refunded": "1.00"},
        {"status": "processing", "amount_refunded": "1.00"},
    ):
        answer = await store.put_status(order, **body)
        assert (answer.status_code, codes(answer)[0][0]) == (422, "/amount_refunded")


async def test_status_and_payment_change_in_one_version_with_one_event_each(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    await store.skip_events()
    moved = await store.change_status(order, "processing", payment_status="paid", comment="Paid in cash.")
    assert moved["version"] == 2
    events = await store.events()
    assert [(event["type"], event["version"]) for event in events] == [
        ("order.status_changed", 2),
        ("order.payment_status_changed", 2),
        ("order.payment_recorded", 2),
    ]
    assert events[0]["changes"]["status"] == ["pending", "processing"]
    assert events[1]["changes"]["payment_status"] == ["unpaid", "paid"]
    assert events[0]["data"] == moved
    entry = (await store.timeline(order))[0]
    assert (entry["type"], entry["body"], entry["author"]["name"]) == ("status_change", "Paid in cash.", "Test app")
    assert entry["changes"]["status"] == ["pending", "processing"]


async def test_a_body_without_a_status_is_refused(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    answer = await store.put_status(order, comment="Hello")
    assert codes(answer) == [("/status", "required")]


async def test_tracking_is_recorded_once_and_only_after_a_shipment(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), status="processing")
    parcel = {"carrier": "Post", "number": "P-9", "url": "https://post.example.com/P-9"}
    assert codes(await store.put_status(order, tracking=parcel)) == [("/tracking", "invalid_format")]
    assert codes(await store.put_status(order, status="shipped", tracking={})) == [("/tracking/number", "required")]
    await store.change_status(order, "shipped")
    await store.skip_events()
    for _ in range(2):
        answer = await store.put_status(order, tracking=parcel)
        assert [each["number"] for each in answer.json()["data"]["tracking"]] == ["P-9"]
    assert await store.event_names() == ["updated", "fulfillment_updated"]


async def test_an_order_has_at_most_100_tracking_entries(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), status="processing")
    await store.change_status(order, "shipped")
    answers = [await store.put_status(order, tracking={"number": f"P-{n}"}) for n in range(101)]
    assert [answer.status_code for answer in answers] == [200] * 100 + [422]


async def test_an_outdated_version_is_refused(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    path = f"/orders/{order['id']}/status"
    answer = await store.client.put(path, json={"status": "processing"}, headers={"if-match": '"7"'})
    assert (answer.status_code, answer.json()["current_version"]) == (412, 1)
    answer = await store.client.put(path, json={"status": "processing"}, headers={"if-match": '"1"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')


# --- returned parts ----------------------------------------------------------------------------------------------------


async def test_the_shipped_part_of_a_cancelled_order_can_be_returned(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), status="processing")
    tea = order["line_items"][0]["id"]
    await store.change_status(order, "shipped", line_items=[{"id": tea, "quantity": 2}])
    await store.change_status(order, "cancelled")
    await store.skip_events()
    part = await store.change_status(order, "returned", line_items=[{"id": tea, "quantity": 1}])
    assert (part["status"], part["fulfillment_status"]) == ("cancelled", "partially_fulfilled")
    assert part["line_items"][0]["returned_quantity"] == 1
    rest = await store.change_status(order, "returned", line_items=[{"id": tea, "quantity": 1}], comment="All back.")
    assert (rest["status"], rest["fulfillment_status"], rest["allowed_transitions"]) == ("cancelled", "returned", [])
    assert await store.stock("TEA") == (10, 0)
    assert [kind for kind, *_ in await store.ledger(order)] == ["reserve", "commit", "release", "restock", "restock"]
    assert await store.event_names() == ["status_changed", "status_changed"]
    last = (await store.events())[-1]
    assert last["changes"]["returned_quantity"] == [1, 2]
    assert last["data"] == rest
    entry = (await store.timeline(order))[0]
    assert (entry["type"], entry["body"], entry["changes"]["returned_quantity"]) == (
        "status_change",
        "All back.",
        [1, 2],
    )
    too_many = await store.put_status(order, status="returned", line_items=[{"id": tea, "quantity": 1}])
    assert (too_many.status_code, codes(too_many)) == (422, [("/line_items/0/quantity", "out_of_range")])
    await store.assert_stock_is_consistent()


async def test_a_part_can_be_returned_while_the_rest_is_processing(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), status="processing")
    portion = [{"id": order["line_items"][0]["id"], "quantity": 2}]
    await store.change_status(order, "shipped", line_items=portion)
    returned = await store.change_status(order, "returned", line_items=portion, restock=False)
    assert (returned["status"], returned["fulfillment_status"]) == ("processing", "partially_fulfilled")
    assert await store.stock("TEA") == (8, 3)
    shipped = await store.change_status(order, "shipped")
    assert (shipped["status"], shipped["fulfillment_status"]) == ("shipped", "fulfilled")
    assert (await store.change_status(order, "returned"))["status"] == "returned"
    assert await store.stock("TEA") == (8, 0)
    await store.assert_stock_is_consistent()


async def test_a_whole_order_is_returned_only_where_the_status_allows_it(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    await store.change_status(order, "shipped", line_items=[{"id": order["line_items"][0]["id"], "quantity": 1}])
    answer = await store.put_status(order, status="returned")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")
    assert answer.json()["detail"].endswith("Send line_items to return shipped units.")


# --- balance and refunds -----------------------------------------------------------------------------------------------


async def test_a_partial_refund_requires_its_amount(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    answer = await store.put_status(order, payment_status="partially_refunded")
    assert (answer.status_code, codes(answer)) == (422, [("/amount_refunded", "required")])
    assert await store.get(order) == order
    refunded = await store.put_status(order, payment_status="partially_refunded", amount_refunded="3.00")
    assert refunded.json()["data"]["amount_refunded"] == "3.00"
    repeated = await store.put_status(order, payment_status="partially_refunded")
    assert repeated.json()["data"] == refunded.json()["data"]


async def test_the_balance_is_negative_if_the_shop_owes(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), payment_status="paid", shipping_total="2.40")
    assert (order["total"], order["amount_due"], order["balance"]) == ("26.40", "0.00", "0.00")
    await store.skip_events()
    line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
    await store.patch(order, shipping_total="0.00")
    lowered = (await store.client.patch(line, json={"quantity": 1})).json()["data"]
    assert (lowered["total"], lowered["amount_due"], lowered["balance"]) == ("8.00", "0.00", "-18.40")
    assert (await store.events())[-1]["changes"]["balance"] == ["-2.40", "-18.40"]
    answer = await store.put_status(order, payment_status="partially_refunded", amount_refunded="18.40")
    assert (answer.json()["data"]["balance"], answer.json()["data"]["amount_due"]) == ("0.00", "0.00")
    grown = (await store.client.patch(line, json={"quantity": 4})).json()["data"]
    assert (grown["amount_due"], grown["balance"]) == ("5.60", "5.60")


# --- the customer's last order -----------------------------------------------------------------------------------------


async def last_order_at(store: SampleStore, order: dict[str, Any]) -> str | None:
    return (await store.client.get(f"/customers/{order['customer_id']}")).json()["data"]["last_order_at"]


async def test_the_last_order_of_a_customer_is_the_newest_that_counts(store: SampleStore) -> None:
    ada = {"email": "ada.moor@example.com"}
    first = await store.place(("TEA", 1), customer=ada, placed_at="2026-01-02T09:00:00Z")
    second = await store.place(("TEA", 1), customer=ada, placed_at="2026-01-05T09:00:00Z")
    draft = await store.place(("TEA", 1), customer=ada, placed_at="2026-01-09T09:00:00Z", status="draft")
    assert await last_order_at(store, first) == second["placed_at"]
    await store.change_status(draft, "pending")
    assert await last_order_at(store, first) == draft["placed_at"]
    await store.change_status(draft, "cancelled")
    assert await last_order_at(store, first) == second["placed_at"]
    await store.change_status(first, "cancelled")
    assert await last_order_at(store, first) == second["placed_at"]
    await store.change_status(second, "cancelled")
    assert await last_order_at(store, first) is None
