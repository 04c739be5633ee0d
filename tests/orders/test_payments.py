"""Payments as records of an order: deposits and parts, payment after refunds and edits, and what is refused."""

import asyncio
from typing import Any

import httpx
import pytest

from stoa.orders.records import MOST_PAYMENTS
from tests.orders.sample_store import SampleStore, codes

Order = dict[str, Any]


async def pay(store: SampleStore, order: Order, amount: str, **body: Any) -> httpx.Response:
    return await store.put_status(order, payment={"amount": amount, **body})


async def paid(store: SampleStore, order: Order, amount: str, **body: Any) -> Order:
    """Record a payment, which must be accepted."""
    answer = await pay(store, order, amount, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def money(order: Order) -> tuple[str, ...]:
    return tuple(order[name] for name in ("payment_status", "amount_paid", "amount_refunded", "amount_due", "balance"))


async def test_a_deposit_and_the_rest_are_records(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_method="card")
    await store.skip_events()
    deposit = await paid(store, order, "6.00", method="cash", external_id="tr-1", note="Deposit")
    assert money(deposit) == ("partially_paid", "6.00", "0.00", "10.00", "10.00")
    rest = (await store.put_status(order, payment_status="paid")).json()["data"]
    assert money(rest) == ("paid", "16.00", "0.00", "0.00", "0.00")
    actor = {"type": "app", "app_id": store.shop.app_id}
    assert rest["payments"] == [
        {
            "id": 1, "kind": "payment", "amount": "6.00", "method": "cash", "external_id": "tr-1", "note": "Deposit",
            "actor": actor, "created_at": deposit["payments"][0]["created_at"],
        },
        {
            "id": 2, "kind": "payment", "amount": "10.00", "method": "card", "external_id": None, "note": None,
            "actor": actor, "created_at": rest["payments"][1]["created_at"],
        },
    ]  # fmt: skip
    events = await store.events()
    assert [event["type"] for event in events] == ["order.payment_status_changed", "order.payment_recorded"] * 2
    assert events[1]["changes"] == {
        "payments": [[], deposit["payments"]],
        "payment_status": ["unpaid", "partially_paid"],
        "amount_paid": ["0.00", "6.00"],
        "amount_due": ["16.00", "10.00"],
        "balance": ["16.00", "10.00"],
    }
    assert events[3]["changes"]["payments"] == [[], rest["payments"][1:]]
    entry = (await store.timeline(order))[1]
    assert (entry["body"], "note" in entry["changes"]["payments"][1][0]) == ("Deposit", False)


async def test_a_new_order_that_is_paid_has_one_record(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", placed_at="2026-03-01T10:00:00Z")
    [record] = order["payments"]
    assert (record["kind"], record["amount"], record["created_at"]) == ("payment", "16.00", order["placed_at"])
    dry = await store.client.post(
        "/orders?dry_run=true", json={"line_items": [{"sku": "TEA", "quantity": 1}], "payment_status": "paid"}
    )
    [record] = dry.json()["data"]["payments"]
    assert (record["amount"], record["created_at"]) == ("8.00", dry.json()["data"]["placed_at"])


async def test_an_order_that_grew_after_a_refund_is_paid_and_completed(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", status="processing")
    goodwill = (await store.put_status(order, refund={"amount": "3.00"})).json()["data"]
    assert money(goodwill) == ("partially_refunded", "16.00", "3.00", "0.00", "0.00")
    added = {"line_items": [{"sku": "CLASS", "quantity": 1}]}
    grown = (await store.client.post(f"/orders/{order['id']}/products", json=added)).json()["data"]
    assert money(grown) == ("partially_refunded", "16.00", "3.00", "30.00", "30.00")
    refused = await store.put_status(order, status="completed")
    assert (refused.status_code, refused.json()["code"], refused.json()["amount_due"]) == (
        409,
        "order_not_paid",
        "30.00",
    )
    done = (await store.put_status(order, status="completed", payment={"amount": "30.00"})).json()["data"]
    assert (done["status"], *money(done)) == ("completed", "partially_refunded", "46.00", "3.00", "0.00", "0.00")


async def test_the_balance_after_a_return_and_a_cancellation(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), payment_status="paid", status="processing", shipping_total="2.00")
    await store.change_status(order, "shipped")
    back = await store.change_status(order, "returned")
    assert money(back) == ("paid", "18.00", "0.00", "0.00", "-18.00")
    gone = (await store.put_status(order, payment_status="refunded")).json()["data"]
    assert money(gone) == ("refunded", "18.00", "18.00", "0.00", "0.00")
    other = await store.place(("TEA", 2))
    await paid(store, other, "5.00")
    cancelled = await store.change_status(other, "cancelled")
    assert money(cancelled) == ("paid", "5.00", "0.00", "0.00", "-5.00")
    late = await paid(store, cancelled, "11.00")
    assert money(late) == ("paid", "16.00", "0.00", "0.00", "-16.00")


async def test_more_than_what_is_due_makes_the_order_overpaid(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    over = await paid(store, order, "10.00")
    assert money(over) == ("overpaid", "10.00", "0.00", "0.00", "-2.00")
    settled = (await store.put_status(order, refund={"amount": "2.00"})).json()["data"]
    assert money(settled) == ("partially_refunded", "10.00", "2.00", "0.00", "0.00")


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("0", "out_of_range"),
        ("0.00", "out_of_range"),
        ("-1.00", "invalid_money"),
        ("1.005", "invalid_money"),
        ("10000000000000.00", "invalid_money"),
        ("9999999999999.99", "out_of_range"),
        ("ten", "invalid_money"),
    ],
)
async def test_an_amount_that_cannot_be_paid_is_refused(store: SampleStore, amount: str, code: str) -> None:
    order = await store.place(("TEA", 1), payment_status="paid")
    await store.skip_events()
    answer = await pay(store, order, amount)
    assert (answer.status_code, codes(answer)) == (422, [("/payment/amount", code)])
    assert await store.get(order) == order
    assert await store.events() == []


async def test_an_external_id_is_recorded_once_on_an_order(store: SampleStore) -> None:
    order, other = await store.place(("TEA", 1)), await store.place(("TEA", 2))
    first = await paid(store, order, "3.00", external_id="tr-1")
    answer = await pay(store, order, "5.00", external_id="tr-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "payment_already_recorded")
    assert codes(answer) == [("/payment/external_id", "payment_already_recorded")]
    assert answer.json()["payment"] == first["payments"][0]
    refund = await store.put_status(order, refund={"amount": "1.00", "external_id": "tr-1"})
    assert codes(refund) == [("/refund/external_id", "payment_already_recorded")]
    assert await store.get(order) == first
    made = await store.put_status(order, refund={"amount": "1.00", "external_id": "re-1", "method": "cash"})
    record = made.json()["data"]["payments"][1]
    assert (record["kind"], record["external_id"], record["method"]) == ("refund", "re-1", "cash")
    again = await store.put_status(order, refund={"amount": "1.00", "external_id": "re-1"})
    assert again.json()["payment"] == record
    await paid(store, other, "3.00", external_id="tr-1")


async def test_of_many_requests_with_one_external_id_one_is_recorded(store: SampleStore) -> None:
    order = await store.place(("TEA", 5))
    answers = await asyncio.gather(*(pay(store, order, "4.00", external_id="tr-9") for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    assert (await store.get(order))["amount_paid"] == "4.00"


async def test_a_payment_determines_the_payment_status(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    answer = await store.put_status(order, payment_status="paid", payment={"amount": "1.00"})
    assert codes(answer) == [("/payment_status", "invalid_format")]
    for status in ("partially_paid", "overpaid"):
        answer = await store.put_status(order, payment_status=status)
        assert (answer.status_code, [pointer for pointer, _ in codes(answer)]) == (422, ["/payment_status"])
    await paid(store, order, "1.00")
    answer = await store.put_status(order, payment_status="voided")
    assert codes(answer) == [("/payment_status", "illegal_transition")]
    read_only = await store.patch(order, payments=[])
    assert codes(read_only) == [("/payments", "read_only_field")]


async def test_an_order_has_at_most_a_hundred_payments(store: SampleStore) -> None:
    order = await store.place(("CLASS", 10))
    for _ in range(MOST_PAYMENTS):
        await paid(store, order, "1.00")
    answer = await pay(store, order, "1.00")
    assert codes(answer) == [("/payment/amount", "too_long")]
    answer = await store.put_status(order, payment_status="paid")
    assert codes(answer) == [("/payment_status", "too_long")]


async def test_orders_are_found_by_the_times_of_their_newest_records(store: SampleStore) -> None:
    async def found(query: str) -> list[int]:
        answer = await store.client.get(f"/orders?{query}")
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["data"]]

    unpaid, once, twice = [await store.place(("TEA", 2)) for _ in range(3)]
    first = (await paid(store, once, "3.00"))["payments"][0]["created_at"]
    await paid(store, twice, "3.00")
    last = (await paid(store, twice, "4.00"))["payments"][1]["created_at"]
    refund = (await store.put_status(once, refund={"amount": "1.00"})).json()["data"]["payments"][1]["created_at"]
    assert await found("paid_at[gte]=2020-01-01T00:00:00Z") == [once["id"], twice["id"]]
    assert await found(f"paid_at={first}") == [once["id"]]
    assert await found(f"paid_at[gt]={first}&paid_at[lte]={last}") == [twice["id"]]
    assert await found(f"refunded_at[gte]={refund}") == [once["id"]]
    assert await found(f"refunded_at[lt]={refund}") == []
    await store.patch(once, note="Changed")
    assert await found(f"paid_at={first}") == [once["id"]]
    assert unpaid["id"] not in await found("payment_status=partially_paid,partially_refunded")


async def test_a_copy_has_none_of_the_payments(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), payment_status="paid")
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates")).json()["data"]
    assert (copy["payments"], *money(copy)) == ([], "unpaid", "0.00", "0.00", "8.00", "8.00")


# --- units that were paid and removed --------------------------------------------------------------------------------


async def change(store: SampleStore, order: Order, index: int, **body: Any) -> Order:
    line = order["line_items"][index]["id"]
    answer = await store.client.patch(f"/orders/{order['id']}/products/{line}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def refund_units(store: SampleStore, order: Order, index: int, units: int, **more: Any) -> httpx.Response:
    line = {"line_item_id": order["line_items"][index]["id"], "quantity": units, **more}
    return await store.put_status(order, refund={"line_items": [line]})


async def test_units_that_were_paid_and_removed_are_refunded_by_line(store: SampleStore) -> None:
    order = await store.place(("TEA", 4), ("POT-B", 1), payment_status="paid")
    await store.skip_events()
    fewer = await change(store, order, 0, quantity=1)
    gone = await change(store, order, 1, quantity=0)
    tea, pot = (line["id"] for line in order["line_items"])
    assert gone["removed_line_items"] == [
        {"line_item_id": tea, "sku": "TEA", "name": "Green Tea", "quantity": 3, "amount": "24.00"},
        {"line_item_id": pot, "sku": "POT-B", "name": "Tea Pot", "quantity": 1, "amount": "45.00"},
    ]
    assert (*money(fewer), *money(gone)) == (
        *("overpaid", "77.00", "0.00", "0.00", "-24.00"),
        *("overpaid", "77.00", "0.00", "0.00", "-69.00"),
    )
    events = await store.events()
    changed = next(event for event in events if event["type"] == "order.products_changed")
    assert changed["changes"]["removed_line_items"] == [[], fewer["removed_line_items"]]
    assert "order.updated" not in [event["type"] for event in events]
    assert (await refund_units(store, order, 0, 3)).status_code == 200
    settled = (await refund_units(store, order, 1, 1)).json()["data"]
    assert [refund["amount"] for refund in settled["refunds"]] == ["24.00", "45.00"]
    assert money(settled) == ("partially_refunded", "77.00", "69.00", "0.00", "0.00")
    again = await refund_units(store, order, 1, 1)
    assert codes(again) == [("/refund/line_items/0/quantity", "out_of_range")]
    last = (await refund_units(store, order, 0, 1)).json()["data"]  # the unit that is left
    assert (last["refunds"][-1]["amount"], last["payment_status"]) == ("8.00", "refunded")


async def test_removed_units_are_not_restocked_by_a_refund(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), ("POT-B", 1), payment_status="paid")
    await change(store, order, 1, quantity=0)
    answer = await refund_units(store, order, 1, 1, restock=True)
    assert codes(answer) == [("/refund/line_items/0/restock", "out_of_range")]


async def test_units_that_are_added_again_are_not_refunded_twice(store: SampleStore) -> None:
    order = await store.place(("TEA", 4), payment_status="paid")
    assert (await change(store, order, 0, quantity=1))["removed_line_items"][0]["quantity"] == 3
    assert (await refund_units(store, order, 0, 1)).status_code == 200
    back = await change(store, order, 0, quantity=4)
    [entry] = back["removed_line_items"]
    assert (entry["quantity"], entry["amount"]) == (1, "8.00")
    assert (await change(store, order, 0, quantity=5))["removed_line_items"] == [entry]


async def test_units_that_are_removed_before_a_payment_are_not_listed(store: SampleStore) -> None:
    order = await store.place(("TEA", 4))
    await change(store, order, 0, quantity=2)
    after = await paid(store, order, "16.00")
    assert (after["removed_line_items"], after["payment_status"]) == ([], "paid")


async def test_removed_units_cannot_be_worth_more_than_the_largest_amount(store: SampleStore) -> None:
    line = {"name": "Palace", "unit_price": "4999999999990.00", "quantity": 2}
    order = await store.place(("TEA", 1), payment_status="paid")
    added = await store.client.post(f"/orders/{order['id']}/products", json={"line_items": [line]})
    assert added.status_code == 201, added.text
    order = added.json()["data"]
    await change(store, order, 1, quantity=1)
    dearer = await change(store, order, 1, unit_price="9000000000000.00")
    path = f"/orders/{order['id']}/products/{order['line_items'][1]['id']}"
    refused = await store.client.patch(path, json={"quantity": 0})
    assert (refused.status_code, codes(refused)) == (422, [("/quantity", "out_of_range")])
    assert await store.get(order) == dearer
    assert (await store.change_status(order, "cancelled"))["status"] == "cancelled"
    assert await store.stock("TEA") == (10, 0)


async def test_removed_units_share_the_rounding_of_the_others(store: SampleStore) -> None:
    line = {"name": "Linen", "unit_price": "118.50", "quantity": 7, "discount_total": "0.02"}
    order = await store.place(line_items=[line], payment_status="paid")
    await change(store, order, 0, quantity=4)
    amounts = [(await refund_units(store, order, 0, 1)).json()["data"]["refunds"][-1]["amount"] for _ in range(7)]
    assert amounts == ["118.50", "118.50", "118.50", "118.49", "118.50", "118.49", "118.50"]
