"""Refunds of orders: amounts follow from lines, the payment status from refunds, and no refund exceeds the payment."""

import asyncio
from typing import Any

import httpx
import pytest

from stoa.orders.records import MOST_REFUNDS
from tests.orders.sample_store import SampleStore, codes


def of(order: dict[str, Any], *quantities: int, restock: bool = False) -> list[dict[str, Any]]:
    """The first line items of an order as lines of a refund."""
    pairs = zip(order["line_items"], quantities, strict=False)
    more = {"restock": True} if restock else {}
    return [{"line_item_id": line["id"], "quantity": quantity, **more} for line, quantity in pairs if quantity]


async def refund(store: SampleStore, order: dict[str, Any], **body: Any) -> httpx.Response:
    return await store.put_status(order, refund=body)


async def refunded(store: SampleStore, order: dict[str, Any], **body: Any) -> dict[str, Any]:
    """Refund a part of an order; the refund must be accepted."""
    answer = await refund(store, order, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def shipped(store: SampleStore, *lines: tuple[str, int], **body: Any) -> dict[str, Any]:
    order = await store.place(*lines, status="processing", payment_status="paid", **body)
    return await store.change_status(order, "shipped")


async def test_the_amount_follows_from_the_lines_and_shipping(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), ("POT-B", 1), payment_status="paid", shipping_total="6.50")
    await store.skip_events()
    after = await refunded(
        store, order, line_items=of(order, 2, 1), shipping_amount="6.50", reason="Late", note="Sorry."
    )
    tea, pot = (line["id"] for line in order["line_items"])
    assert after["refunds"] == [
        {
            "id": 1,
            "amount": "67.50",
            "shipping_amount": "6.50",
            "reason": "Late",
            "note": "Sorry.",
            "line_items": [
                {"line_item_id": tea, "quantity": 2, "amount": "16.00", "restock": False, "location": None},
                {"line_item_id": pot, "quantity": 1, "amount": "45.00", "restock": False, "location": None},
            ],
            "actor": {"type": "app", "app_id": store.shop.app_id},
            "created_at": after["refunds"][0]["created_at"],
        }
    ]
    assert (after["payment_status"], after["amount_refunded"], after["balance"]) == (
        "partially_refunded",
        "67.50",
        "0.00",
    )
    assert (after["status"], await store.stock("TEA")) == ("pending", (10, 3))
    events = await store.events()
    assert [event["type"] for event in events] == ["order.payment_status_changed", "order.refunded"]
    assert events[1]["changes"]["refunds"] == [[], after["refunds"]]
    assert events[1]["changes"]["amount_refunded"] == ["0.00", "67.50"]
    assert events[1]["data"] == after
    rest = await refunded(store, order, line_items=of(order, 1))
    assert ([each["id"] for each in rest["refunds"]], rest["payment_status"]) == ([1, 2], "refunded")
    assert (rest["amount_refunded"], rest["amount_paid"]) == ("75.50", "75.50")
    entry = (await store.timeline(order))[1]
    assert (entry["body"], [each["id"] for each in entry["changes"]["refunds"][1]]) == ("Late\nSorry.", [1])
    assert {"reason", "note"}.isdisjoint(entry["changes"]["refunds"][1][0])


async def test_all_units_of_a_line_get_its_total(store: SampleStore) -> None:
    line = {"sku": "TEA", "quantity": 3, "unit_price": "3.00", "tax_total": "1.00"}  # 10.00 for 3 units
    order = await store.place(line_items=[line], payment_status="paid")
    for expected in ("3.33", "3.33", "3.34"):
        after = await refunded(store, order, line_items=of(order, 1))
        assert after["refunds"][-1]["amount"] == expected
    assert (after["payment_status"], after["amount_refunded"]) == ("refunded", "10.00")


async def test_a_given_amount_is_divided_among_the_lines(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), ("POT-B", 1), payment_status="paid", shipping_total="5.00")
    after = await refunded(store, order, line_items=of(order, 3, 1), amount="40.00", shipping_amount="5.00")
    assert after["refunds"][0]["amount"] == "40.00"
    assert [line["amount"] for line in after["refunds"][0]["line_items"]] == ["12.17", "22.83"]
    gift = await store.place(line_items=[{"sku": "TEA", "quantity": 2, "unit_price": "0.00"}], shipping_total="4.00")
    await store.put_status(gift, payment_status="paid")
    after = await refunded(store, gift, line_items=of(gift, 2), amount="3.00")
    assert [line["amount"] for line in after["refunds"][0]["line_items"]] == ["3.00"]
    after = await refunded(store, gift, amount="1.00")
    assert (after["refunds"][1]["line_items"], after["payment_status"]) == ([], "refunded")


async def test_the_older_form_adds_refunds_too(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    for amount in ("4.00", "4.00", "6.00"):
        body = {"payment_status": "partially_refunded", "amount_refunded": amount, "reason": "Dented."}
        assert (await store.put_status(order, **body)).status_code == 200
    last = (await store.put_status(order, payment_status="refunded")).json()["data"]
    assert [(each["id"], each["amount"], each["reason"]) for each in last["refunds"]] == [
        (1, "4.00", "Dented."),
        (2, "2.00", "Dented."),
        (3, "10.00", None),
    ]
    assert last["amount_refunded"] == "16.00"
    again = await store.put_status(order, payment_status="refunded")
    assert again.json()["data"] == last


# --- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        ({}, 422, ("/refund/amount", "required")),
        ({"line_items": []}, 422, ("/refund/amount", "required")),
        ({"amount": "0.00"}, 422, ("/refund/amount", "out_of_range")),
        ({"shipping_amount": "0"}, 422, ("/refund/shipping_amount", "out_of_range")),
        ({"amount": "-1.00"}, 422, ("/refund/amount", "invalid_money")),
        ({"amount": "1.001"}, 422, ("/refund/amount", "invalid_money")),
        ({"amount": "1.00", "shipping_amount": "2.00"}, 422, ("/refund/shipping_amount", "out_of_range")),
        ({"amount": "20.01"}, 409, ("/refund/amount", "refund_exceeds_payment")),
        ({"shipping_amount": "20.01"}, 409, ("/refund/shipping_amount", "refund_exceeds_payment")),
        ({"lines": (2,), "shipping_amount": "4.01"}, 409, ("/refund/line_items", "refund_exceeds_payment")),
        ({"lines": (3,)}, 422, ("/refund/line_items/0/quantity", "out_of_range")),
        ({"lines": (0,)}, 422, ("/refund/line_items/0/quantity", "out_of_range")),
        ({"lines": (1,), "amount": "9999999999999.99"}, 409, ("/refund/amount", "refund_exceeds_payment")),
        ({"line_items": [{"line_item_id": 1, "quantity": 1}]}, 422, ("/refund/line_items/0/line_item_id", "not_found")),
        ({"line_items": [{"quantity": 1}]}, 422, ("/refund/line_items/0/line_item_id", "required")),
        ({"line_items": [{"id": 1, "quantity": 1}]}, 422, ("/refund/line_items/0/id", "unknown_field")),
        ({"lines": (1, 1)}, 422, ("/refund/line_items/1/line_item_id", "invalid_format")),
        ({"lines": (1,), "restock": True}, 422, ("/refund/line_items/0/restock", "out_of_range")),
        ({"amount": "1.00", "reason": "x" * 256}, 422, ("/refund/reason", "too_long")),
        ({"amount": "1.00", "note": "x" * 5_001}, 422, ("/refund/note", "too_long")),
    ],
)
async def test_an_invalid_refund_changes_nothing(
    store: SampleStore, body: dict[str, Any], status: int, fault: tuple[str, str]
) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", shipping_total="4.00")
    await store.skip_events()
    if "lines" in body:
        line, restock = order["line_items"][0]["id"], body.get("restock", False)
        lines = [{"line_item_id": line, "quantity": quantity, "restock": restock} for quantity in body["lines"]]
        body = {name: value for name, value in body.items() if name not in ("lines", "restock")}
        body["line_items"] = lines
    answer = await refund(store, order, **body)
    assert (answer.status_code, fault in codes(answer)) == (status, True), answer.text
    assert answer.json()["code"] == ("refund_exceeds_payment" if status == 409 else "validation_failed")
    assert (await store.get(order), await store.events("")) == (order, [])


async def test_a_refund_of_another_orders_line_is_refused(store: SampleStore) -> None:
    other = await store.place(("TEA", 1), payment_status="paid")
    order = await store.place(("TEA", 1), payment_status="paid")
    answer = await refund(store, order, line_items=of(other, 1))
    assert (answer.status_code, codes(answer)) == (422, [("/refund/line_items/0/line_item_id", "not_found")])


async def test_units_can_be_refunded_once(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), payment_status="paid", shipping_total="50.00")
    await refunded(store, order, line_items=of(order, 2))
    answer = await refund(store, order, line_items=of(order, 2))
    assert codes(answer) == [("/refund/line_items/0/quantity", "out_of_range")]
    assert answer.json()["errors"][0]["meta"] == {"maximum": 1}


async def test_a_refund_is_limited_by_what_is_paid_and_not_refunded(store: SampleStore) -> None:
    unpaid = await store.place(("TEA", 1))
    answer = await refund(store, unpaid, line_items=of(unpaid, 1))
    assert (answer.status_code, answer.json()["refundable"]) == (409, "0.00")
    order = await store.place(("TEA", 2), payment_status="paid")
    await refunded(store, order, amount="10.00")
    answer = await refund(store, order, line_items=of(order, 1))
    assert (answer.status_code, answer.json()["refundable"]) == (409, "6.00")
    assert "6.00" in answer.json()["errors"][0]["detail"]
    await refunded(store, order, line_items=of(order, 1), amount="6.00")
    assert (await refund(store, order, amount="0.01")).json()["refundable"] == "0.00"


@pytest.mark.parametrize(
    "body", [{"payment_status": "refunded"}, {"payment_status": "paid", "amount_refunded": "1.00"}]
)
async def test_a_refund_determines_the_payment_status(store: SampleStore, body: dict[str, Any]) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    answer = await store.put_status(order, refund={"amount": "1.00"}, **body)
    assert (answer.status_code, ("/payment_status", "invalid_format") in codes(answer)) == (422, True)
    assert await store.get(order) == order


async def test_concurrent_refunds_never_exceed_the_payment(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), payment_status="paid")
    bodies: list[dict[str, Any]] = [{"line_items": of(order, 2)}, {"amount": "15.00"}] * 4
    answers = await asyncio.gather(*(refund(store, order, **body) for body in bodies))
    left = await store.get(order)
    made = [float(each["amount"]) for each in left["refunds"]]
    assert sum(answer.status_code == 200 for answer in answers) == len(made) >= 2
    assert {answer.status_code for answer in answers} <= {200, 409, 422}
    assert sum(made) == float(left["amount_refunded"]) <= 40
    assert [each["id"] for each in left["refunds"]] == list(range(1, len(made) + 1))
    assert left["version"] == 1 + len(made)


async def test_a_repeated_request_with_a_key_refunds_once(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    path, body = f"/orders/{order['id']}/status", {"refund": {"line_items": of(order, 1)}}
    first, second = [await store.client.put(path, json=body, headers={"idempotency-key": "r-1"}) for _ in range(2)]
    assert (first.json(), second.headers["idempotent-replayed"]) == (second.json(), "true")
    assert len((await store.get(order))["refunds"]) == 1


async def test_an_order_has_at_most_100_refunds_and_the_last_one_returns_the_rest(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid")
    for _ in range(MOST_REFUNDS - 1):
        await refunded(store, order, amount="0.01")
    answer = await refund(store, order, amount="0.01")
    assert (answer.status_code, codes(answer)) == (422, [("/refund", "too_long")])
    older = await store.put_status(order, payment_status="partially_refunded", amount_refunded="2.00")
    assert (older.status_code, codes(older)) == (422, [("/amount_refunded", "too_long")])
    assert (await refunded(store, order, amount="15.01"))["payment_status"] == "refunded"


# --- stock and status --------------------------------------------------------------------------------------------------


async def test_restocked_units_count_as_returned(store: SampleStore) -> None:
    order = await shipped(store, ("TEA", 3))
    part = await refunded(store, order, line_items=of(order, 1, restock=True))
    assert (part["status"], part["line_items"][0]["returned_quantity"]) == ("shipped", 1)
    assert (await store.stock("TEA"), part["refunds"][0]["line_items"][0]["restock"]) == ((8, 0), True)
    rest = await refunded(store, order, line_items=of(order, 2, restock=True))
    assert (rest["status"], rest["fulfillment_status"], rest["payment_status"]) == ("returned", "returned", "refunded")
    assert (await store.stock("TEA"), [kind for kind, *_ in await store.ledger(order)]) == (
        (10, 0),
        ["reserve", "commit", "restock", "restock"],
    )
    await store.assert_stock_is_consistent()


async def test_only_shipped_units_that_are_not_returned_can_be_restocked(store: SampleStore) -> None:
    order = await store.place(("TEA", 4), status="processing", payment_status="paid")
    line = order["line_items"][0]["id"]
    await store.change_status(order, "shipped", line_items=[{"id": line, "quantity": 3}])
    await store.change_status(order, "returned", line_items=[{"id": line, "quantity": 1}])
    answer = await refund(store, order, line_items=of(order, 3, restock=True))
    assert (answer.status_code, codes(answer)) == (422, [("/refund/line_items/0/restock", "out_of_range")])
    assert answer.json()["errors"][0]["meta"] == {"maximum": 2}
    after = await refunded(store, order, line_items=of(order, 2, restock=True))
    assert (after["status"], after["line_items"][0]["returned_quantity"]) == ("processing", 3)
    assert await store.stock("TEA") == (10, 1)
    await store.assert_stock_is_consistent()


async def test_units_are_returned_and_refunded_in_one_request(store: SampleStore) -> None:
    order = await shipped(store, ("TEA", 3))
    await store.skip_events()
    line = {"id": order["line_items"][0]["id"], "quantity": 2}
    body: dict[str, Any] = {"status": "returned", "line_items": [line], "restock": False}
    answer = await store.put_status(order, **body, refund={"line_items": of(order, 2, restock=True)})
    assert (answer.status_code, codes(answer)) == (422, [("/refund/line_items/0/restock", "invalid_format")])
    answer = await store.put_status(order, **body, refund={"line_items": of(order, 2), "reason": "Stale"})
    after = answer.json()["data"]
    assert (after["status"], after["line_items"][0]["returned_quantity"]) == ("shipped", 2)
    assert (after["amount_refunded"], after["version"], await store.stock("TEA")) == (
        "16.00",
        order["version"] + 1,
        (7, 0),
    )
    assert await store.event_names() == ["status_changed", "payment_status_changed", "refunded"]


async def test_an_order_is_cancelled_and_refunded_in_one_request(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", shipping_total="2.00")
    gone = await store.change_status(order, "cancelled", refund={"line_items": of(order, 2), "shipping_amount": "2.00"})
    assert (gone["status"], gone["payment_status"], gone["balance"]) == ("cancelled", "refunded", "0.00")
    assert await store.stock("TEA") == (10, 0)


async def test_a_refund_stays_when_its_line_is_removed(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), ("POT-B", 1), payment_status="paid")
    after = await refunded(store, order, line_items=of(order, 0, 1))
    line = f"/orders/{order['id']}/products/{order['line_items'][1]['id']}"
    removed = (await store.client.patch(line, json={"quantity": 0})).json()["data"]
    assert (removed["refunds"], removed["balance"]) == (after["refunds"], "0.00")


async def test_a_copy_has_no_payments_refunds_or_fulfillments(store: SampleStore) -> None:
    order = await shipped(store, ("TEA", 2))
    await refunded(store, order, line_items=of(order, 1, restock=True))
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates", json={})).json()["data"]
    assert (copy["refunds"], copy["fulfillments"], copy["tracking"]) == ([], [], [])
    assert (copy["amount_paid"], copy["amount_refunded"], copy["payment_status"]) == ("0.00", "0.00", "unpaid")


async def test_a_refund_lowers_what_the_customer_has_spent(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", customer={"email": "ada.moor@example.com"})
    await refunded(store, order, line_items=of(order, 1))
    person = (await store.client.get(f"/customers/{order['customer_id']}")).json()["data"]
    assert person["total_spent"] == "8.00"


async def test_fulfillments_and_refunds_cannot_be_patched(store: SampleStore) -> None:
    order = await shipped(store, ("TEA", 1))
    echoed: dict[str, Any] = {"fulfillments": order["fulfillments"], "refunds": [], "note": "Ring twice."}
    assert (await store.patch(order, **echoed)).status_code == 200
    answer = await store.patch(order, fulfillments=[], refunds=[{"id": 1}])
    assert sorted(codes(answer)) == [("/fulfillments", "read_only_field"), ("/refunds", "read_only_field")]
    assert "PUT /orders/{order_id}/status" in answer.json()["errors"][0]["detail"]


async def test_a_custom_line_item_is_returned_by_a_refund_without_moving_stock(store: SampleStore) -> None:
    wrapping = {"name": "Gift wrapping", "unit_price": "4.00", "quantity": 2, "requires_shipping": False}
    lines = [wrapping, {"sku": "TEA", "quantity": 1}]
    order = await shipped(store, line_items=lines, prices_include_tax=True, tax_total="1.00")
    assert [line["fulfilled_quantity"] for line in order["line_items"]] == [2, 1]
    after = await refunded(store, order, line_items=of(order, 1, restock=True))
    assert (after["refunds"][0]["amount"], after["line_items"][0]["returned_quantity"]) == ("4.00", 1)
    assert (await store.stock("TEA"), [kind for kind, *_ in await store.ledger(order)]) == (
        (9, 0),
        ["reserve", "commit"],
    )
