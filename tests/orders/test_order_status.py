"""Moving an order on: each step with its stock, once; everything else refused or nothing at all."""

from typing import Any

import pytest

from tests.orders.counter import Counter, codes


async def test_an_order_goes_its_way_and_its_stock_with_it(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), ("POT-B", 1), status="draft")
    assert await counter.stock("TEA") == (10, 0)
    await counter.move(order, "pending")
    assert await counter.stock("TEA") == (10, 2)
    await counter.move(order, "on_hold", "processing")
    assert await counter.stock("TEA") == (10, 2)
    shipped = await counter.move(order, "shipped", tracking={"carrier": "Post", "number": "P-1"})
    assert (await counter.stock("TEA"), await counter.stock("POT-B")) == ((8, 0), (2, 0))
    assert [line["fulfilled_quantity"] for line in shipped["line_items"]] == [2, 1]
    assert (shipped["fulfillment_status"], shipped["tracking"][0]["number"]) == ("fulfilled", "P-1")
    await counter.put(order, payment_status="paid")
    completed = await counter.move(order, "delivered", "completed")
    assert completed["completed_at"] is not None
    returned = await counter.move(order, "returned")
    assert (returned["fulfillment_status"], returned["allowed_transitions"]) == ("returned", [])
    assert (await counter.stock("TEA"), await counter.stock("POT-B")) == ((10, 0), (3, 0))
    assert [kind for kind, _, _ in await counter.ledger(order)] == ["reserve"] * 2 + ["commit"] * 2 + ["restock"] * 2
    await counter.assert_books_balance()


async def test_a_cancelled_order_gives_back_what_it_held(counter: Counter) -> None:
    order = await counter.place(("POT-W", 1))
    cancelled = await counter.move(order, "cancelled", reason="The customer changed their mind.")
    assert (cancelled["cancel_reason"], cancelled["amount_due"]) == ("The customer changed their mind.", "0.00")
    assert cancelled["cancelled_at"] is not None
    assert await counter.stock("POT-W") == (1, 0)
    await counter.place(("POT-W", 1))


async def test_a_draft_that_cannot_be_had_stays_a_draft(counter: Counter) -> None:
    draft = await counter.place(("TEA", 1), ("POT-W", 2), status="draft")
    answer = await counter.put(draft, status="pending")
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    fault = answer.json()["errors"][0]
    assert (fault["pointer"], fault["meta"]["available"]) == ("/status", 1)
    assert fault["meta"]["line_item_id"] == draft["line_items"][1]["id"]
    assert (await counter.get(draft), await counter.stock("TEA")) == (draft, (10, 0))


async def test_a_draft_whose_product_is_gone_cannot_be_placed(counter: Counter) -> None:
    draft = await counter.place(("TEA", 1), status="draft")
    await counter.client.delete(f"/products/{draft['line_items'][0]['product_id']}")
    assert (await counter.put(draft, status="pending")).status_code == 409


async def test_what_is_not_allowed_says_what_is(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    answer = await counter.put(order, status="delivered")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")
    assert answer.json()["allowed_transitions"] == ["processing", "on_hold", "cancelled"]
    answer = await counter.put(order, payment_status="refunded")
    assert answer.json()["allowed_payment_transitions"] == ["authorized", "paid", "failed", "voided"]
    assert await counter.get(order) == order


async def test_where_it_is_already_nothing_happens(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), payment_status="paid")
    await counter.forget()
    answer = await counter.put(order, status="pending", payment_status="paid", comment="Again?")
    assert (answer.status_code, answer.json()["data"]) == (200, order)
    assert (await counter.events(""), len(await counter.timeline(order))) == ([], 1)


async def test_an_unpaid_order_is_not_completed(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), status="processing")
    answer = await counter.put(order, status="completed")
    assert (answer.status_code, answer.json()["code"]) == (409, "order_not_paid")
    assert await counter.stock("TEA") == (10, 1)
    answer = await counter.put(order, status="completed", payment_status="paid")
    assert (answer.status_code, answer.json()["data"]["fulfillment_status"]) == (200, "fulfilled")
    assert await counter.stock("TEA") == (9, 0)


async def test_a_part_is_shipped_and_then_the_rest(counter: Counter) -> None:
    order = await counter.place(("TEA", 5), ("POT-B", 1), status="processing")
    tea, _ = order["line_items"]
    part = await counter.move(order, "shipped", line_items=[{"id": tea["id"], "quantity": 3}])
    assert (part["status"], part["fulfillment_status"]) == ("processing", "partially_fulfilled")
    assert [line["fulfilled_quantity"] for line in part["line_items"]] == [3, 0]
    assert (await counter.stock("TEA"), await counter.stock("POT-B")) == ((7, 2), (3, 1))
    rest = await counter.move(order, "shipped")
    assert (rest["status"], rest["fulfillment_status"]) == ("shipped", "fulfilled")
    assert (await counter.stock("TEA"), await counter.stock("POT-B")) == ((5, 0), (2, 0))
    assert await counter.event_names() == ["created", "status_changed", "status_changed"]
    await counter.assert_books_balance()


async def test_the_last_part_ships_the_order(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), status="processing")
    tea = order["line_items"][0]["id"]
    for expected in ("processing", "shipped"):
        moved = await counter.move(order, "shipped", line_items=[{"id": tea, "quantity": 1}])
        assert moved["status"] == expected


async def test_cancelling_what_was_shipped_in_part_releases_the_rest(counter: Counter) -> None:
    order = await counter.place(("TEA", 5), status="processing")
    await counter.move(order, "shipped", line_items=[{"id": order["line_items"][0]["id"], "quantity": 2}])
    cancelled = await counter.move(order, "cancelled")
    assert cancelled["fulfillment_status"] == "partially_fulfilled"
    assert await counter.stock("TEA") == (8, 0)
    await counter.assert_books_balance()


async def test_portions_that_cannot_be_shipped_are_named(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), status="processing")
    line = order["line_items"][0]["id"]
    answer = await counter.put(
        order, status="shipped", line_items=[{"id": line, "quantity": 3}, {"id": 1, "quantity": 1}]
    )
    assert codes(answer) == [("/line_items/0/quantity", "out_of_range"), ("/line_items/1/id", "not_found")]
    answer = await counter.put(order, status="on_hold", line_items=[{"id": line, "quantity": 1}])
    assert codes(answer) == [("/line_items", "invalid_format")]


@pytest.mark.parametrize("status", ["shipped", "returned"])
async def test_an_empty_list_of_lines_moves_nothing(counter: Counter, status: str) -> None:
    order = await counter.place(("TEA", 2), status="processing")
    if status == "returned":
        await counter.move(order, "shipped")
    answer = await counter.put(order, status=status, line_items=[])
    assert (answer.status_code, codes(answer)) == (422, [("/line_items", "out_of_range")])
    assert "omit it" in answer.json()["errors"][0]["detail"]
    assert (await counter.get(order))["status"] != status


async def test_what_comes_back_broken_is_not_put_back(counter: Counter) -> None:
    order = await counter.place(("POT-B", 2), status="processing")
    await counter.move(order, "shipped")
    await counter.move(order, "returned", restock=False)
    assert await counter.stock("POT-B") == (1, 0)


async def test_a_part_comes_back_and_then_the_rest(counter: Counter) -> None:
    order = await counter.place(("POT-B", 2), status="processing")
    await counter.move(order, "shipped", "delivered")
    line = order["line_items"][0]["id"]
    part = await counter.move(order, "returned", line_items=[{"id": line, "quantity": 1}], restock=False)
    assert (part["status"], part["line_items"][0]["returned_quantity"]) == ("delivered", 1)
    rest = await counter.move(order, "returned")
    assert (rest["status"], await counter.stock("POT-B")) == ("returned", (2, 0))


async def test_a_payment_goes_its_way(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    steps: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
        ({"payment_status": "authorized"}, ("0.00", "0.00", "16.00")),
        ({"payment_status": "failed"}, ("0.00", "0.00", "16.00")),
        ({"payment_status": "paid"}, ("16.00", "0.00", "0.00")),
        ({"payment_status": "partially_refunded", "amount_refunded": "4.00"}, ("16.00", "4.00", "0.00")),
        ({"payment_status": "partially_refunded", "amount_refunded": "6.00"}, ("16.00", "6.00", "0.00")),
        ({"payment_status": "refunded"}, ("16.00", "16.00", "0.00")),
    ]
    for body, expected in steps:
        moved = (await counter.put(order, **body)).json()["data"]
        assert (moved["amount_paid"], moved["amount_refunded"], moved["amount_due"]) == expected
    assert await counter.event_names() == ["created", *["payment_status_changed"] * 6]


async def test_a_refund_that_cannot_be_is_refused(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), payment_status="paid")
    for body in (
        {"payment_status": "partially_refunded", "amount_refunded": "16.00"},
        {"payment_status": "refunded", "amount_refunded": "1.00"},
        {"status": "processing", "amount_refunded": "1.00"},
    ):
        answer = await counter.put(order, **body)
        assert (answer.status_code, codes(answer)[0][0]) == (422, "/amount_refunded")


async def test_both_move_at_once_with_one_version_and_one_event_each(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    await counter.forget()
    moved = await counter.move(order, "processing", payment_status="paid", comment="Paid in cash.")
    assert moved["version"] == 2
    events = await counter.events()
    assert [(event["type"], event["version"]) for event in events] == [
        ("order.status_changed", 2),
        ("order.payment_status_changed", 2),
    ]
    assert events[0]["changes"]["status"] == ["pending", "processing"]
    assert events[1]["changes"]["payment_status"] == ["unpaid", "paid"]
    assert events[0]["data"] == moved
    entry = (await counter.timeline(order))[0]
    assert (entry["type"], entry["body"], entry["author"]["name"]) == ("status_change", "Paid in cash.", "Test app")
    assert entry["changes"]["status"] == ["pending", "processing"]


async def test_a_body_without_a_move_is_refused(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    answer = await counter.put(order, comment="Hello")
    assert codes(answer) == [("/status", "required")]


async def test_a_parcel_is_noted_once_and_only_when_something_left(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), status="processing")
    parcel = {"carrier": "Post", "number": "P-9", "url": "https://post.example.com/P-9"}
    assert codes(await counter.put(order, tracking=parcel)) == [("/tracking", "invalid_format")]
    assert codes(await counter.put(order, status="shipped", tracking={})) == [("/tracking/number", "required")]
    await counter.move(order, "shipped")
    await counter.forget()
    for _ in range(2):
        answer = await counter.put(order, tracking=parcel)
        assert [each["number"] for each in answer.json()["data"]["tracking"]] == ["P-9"]
    assert await counter.event_names() == ["updated"]


async def test_parcels_have_an_end(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), status="processing")
    await counter.move(order, "shipped")
    answers = [await counter.put(order, tracking={"number": f"P-{n}"}) for n in range(101)]
    assert [answer.status_code for answer in answers] == [200] * 100 + [422]


async def test_a_version_that_is_not_current_is_refused(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    path = f"/orders/{order['id']}/status"
    answer = await counter.client.put(path, json={"status": "processing"}, headers={"if-match": '"7"'})
    assert (answer.status_code, answer.json()["current_version"]) == (412, 1)
    answer = await counter.client.put(path, json={"status": "processing"}, headers={"if-match": '"1"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
