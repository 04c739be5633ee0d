"""Historical orders: stored as they were, without stock, duplicates and events; what contradicts itself is refused."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.orders.test_order_races import concurrent_shop
from tests.support.moved_shop import sent, shop_of, shown
from tests.support.shops import MUG, Shop

assert concurrent_shop  # the fixture
PLACED = "2022-06-01T09:00:00.000000Z"
LINE: dict[str, Any] = {"name": "Mug, blue", "quantity": 2, "unit_price": "11.00"}
PAYMENT: dict[str, Any] = {"amount": "22.00", "created_at": "2022-06-01T09:00:05Z", "external_id": "ch_1"}
SHIPMENT: dict[str, Any] = {
    "line_items": [{"line_item": 0, "quantity": 2}],
    "shipped_at": "2022-06-02T15:00:00Z",
    "delivered_at": "2022-06-04T10:00:00Z",
}
REFUND: dict[str, Any] = {"amount": "5.00", "created_at": "2022-06-09T16:00:00Z"}


def old_order(**changes: Any) -> dict[str, Any]:
    return {"historical": True, "status": "pending", "placed_at": PLACED, "line_items": [LINE], **changes}


def completed(**changes: Any) -> dict[str, Any]:
    order = old_order(
        status="completed", completed_at="2022-06-07T12:00:00Z", payments=[PAYMENT], fulfillments=[SHIPMENT]
    )
    return {**order, **changes}


async def move(shop: Shop, **order: Any) -> dict[str, Any]:
    answer = await shop.client.post("/orders", json=order)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def refused(shop: Shop, **order: Any) -> list[tuple[str, str]]:
    answer = await shop.client.post("/orders", json=order)
    assert answer.status_code in (409, 422), answer.text
    assert (await shop.client.get("/orders")).json()["meta"]["total"] == 0
    return [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]


async def move_many(shop: Shop, *orders: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    answer = await shop.client.post("/orders", json={"historical": True, "items": orders, **more})
    assert answer.status_code in (200, 207), answer.text
    return answer.json()["data"]


async def events(shop: Shop) -> list[str]:
    rows = await shop.db.fetch(
        "SELECT type FROM events WHERE store_id = $1 AND type <> 'app.installed' ORDER BY position", shop.store_id
    )
    return [row[0] for row in rows]


async def test_an_order_is_stored_as_it_was(shop: Shop) -> None:
    order = await move(shop, **completed(number=77, refunds=[REFUND], tags=["moved"]))
    assert (order["number"], order["placed_at"], order["status"]) == (77, PLACED, "completed")
    assert order["completed_at"] == "2022-06-07T12:00:00.000000Z"
    assert (order["payment_status"], order["amount_paid"], order["amount_refunded"]) == (
        "partially_refunded", "22.00", "5.00",
    )  # fmt: skip
    assert order["fulfillment_status"] == "fulfilled"
    assert [each["kind"] for each in order["payments"]] == ["payment", "refund"]
    assert order["fulfillments"][0]["delivered_at"] == "2022-06-04T10:00:00.000000Z"
    assert order["line_items"][0]["fulfilled_quantity"] == 2
    again = (await shop.client.get(f"/orders/{order['id']}")).json()["data"]
    assert again == order
    dates = {
        "paid_at": "2022-06-01",
        "shipped_at": "2022-06-02",
        "refunded_at": "2022-06-09",
        "placed_at": "2022-06-01",
    }
    found = {f"{name}[gte]": f"{day}T00:00:00Z" for name, day in dates.items()}
    found |= {f"{name}[lt]": f"{day}T23:00:00Z" for name, day in dates.items()}
    found |= {"fulfillment_status": "fulfilled", "status": "completed"}
    assert (await shop.client.get("/orders", params=found)).json()["data"] == [order]
    rows = await shop.db.fetch(
        "SELECT fulfilled_quantity, returned_quantity FROM order_lines WHERE store_id = $1", shop.store_id
    )
    assert [tuple(row) for row in rows] == [(2, 0)]


async def test_a_small_shop_moves_unchanged(shop: Shop) -> None:
    moved = shop_of(50, 20, 60)
    for row in moved.products:
        made = await shop.client.post("/products", json={n: v for n, v in row.items() if n != "created_at"})
        assert made.status_code == 201
    before = await shop.db.fetch(
        "SELECT id, on_hand, reserved, version FROM variants WHERE store_id = $1", shop.store_id
    )
    await shop.db.execute("DELETE FROM events WHERE store_id = $1", shop.store_id)
    results = await move_many(shop, *moved.orders)
    assert [each["error"] for each in results] == [None] * 60
    found = (await shop.client.get("/orders?limit=250&sort=number")).json()["data"]
    assert [shown(each) for each in found] == [sent(each) for each in moved.orders]
    assert [(each["id"], each["resource"]) for each in results] == [(order["id"], None) for order in found]
    after = await shop.db.fetch(
        "SELECT id, on_hand, reserved, version FROM variants WHERE store_id = $1", shop.store_id
    )
    assert list(map(tuple, after)) == list(map(tuple, before))
    assert await events(shop) == []
    assert (await shop.client.get("/customers")).json()["meta"]["total"] > 0, "unknown customers are created"


async def test_later_orders_have_higher_numbers(shop: Shop) -> None:
    await move(shop, **old_order(number=5_000))
    placed = await shop.client.post("/orders", json={"line_items": [LINE]})
    assert placed.json()["data"]["number"] == 5_001
    assert (await move(shop, **old_order()))["number"] == 5_002
    assert (await move(shop, **old_order(number=12)))["number"] == 12
    placed = await shop.client.post("/orders", json={"line_items": [LINE]})
    assert placed.json()["data"]["number"] == 5_003
    await move(shop, **old_order(number=9_000))
    placed = await shop.client.post("/orders", json={"line_items": [LINE]})
    assert placed.json()["data"]["number"] == 9_001


async def test_an_order_counts_for_its_customer(shop: Shop) -> None:
    customer = (await shop.client.post("/customers", json={"email": "maya@example.com"})).json()["data"]
    order = await move(shop, **completed(customer={"email": "Maya@example.com"}))
    assert order["customer_id"] == customer["id"]
    now = (await shop.client.get(f"/customers/{customer['id']}")).json()["data"]
    assert (now["orders_count"], now["total_spent"], now["last_order_at"]) == (1, "22.00", PLACED)


async def test_new_customers_of_one_batch_are_created_once(shop: Shop) -> None:
    orders = [old_order(customer={"email": "jun@example.com"}) for _ in range(3)]
    await move_many(shop, *orders)
    [customer] = (await shop.client.get("/customers")).json()["data"]
    assert customer["orders_count"] == 3
    assert await events(shop) == []


async def test_events_are_sent_if_the_caller_wants_them(shop: Shop) -> None:
    await move(shop, **old_order(send_events=True, customer={"email": "a@example.com"}))
    await move_many(shop, old_order(), old_order(), send_events=True)
    assert await events(shop) == ["customer.created", *["order.created"] * 3]
    rows = await shop.db.fetch(
        "SELECT data, resource_id FROM events WHERE store_id = $1 AND type = 'order.created'", shop.store_id
    )
    for data, order_id in rows:
        assert msgspec.json.decode(data) == (await shop.client.get(f"/orders/{order_id}")).json()["data"]


async def test_orders_alike_are_no_suspected_duplicates(shop: Shop) -> None:
    person = {"email": "a@example.com"}
    placed = await shop.client.post("/orders", json={"line_items": [LINE], "customer": person, "placed_at": PLACED})
    assert placed.status_code == 201
    order = await move(shop, **old_order(customer=person))
    assert order["suspected_duplicates_count"] == 0


async def test_stock_does_not_change_in_later_steps(shop: Shop) -> None:
    product = (await shop.client.post("/products", json=MUG)).json()["data"]
    sku, before = product["sku"], product["stock"]
    order = await move(
        shop, **old_order(status="processing", line_items=[{"sku": sku, "quantity": 2, "unit_price": "3.00"}])
    )
    assert (order["line_items"][0]["variant_id"], order["line_items"][0]["allocations"]) == (
        product["variants"][0]["id"],
        [],
    )
    for change in ({"status": "shipped"}, {"status": "delivered"}, {"status": "returned"}):
        changed = await shop.client.put(f"/orders/{order['id']}/status", json=change)
        assert changed.status_code == 200, changed.text
    assert (await shop.client.get(f"/products/{product['id']}")).json()["data"]["stock"] == before


async def test_a_line_item_shows_what_it_was(shop: Shop) -> None:
    await shop.client.post("/products", json=MUG)
    known = {
        "sku": MUG["sku"],
        "name": "As it was called",
        "quantity": 1,
        "unit_price": "3.00",
        "weight": 2,
        "weight_unit": "oz",
    }
    gone = {
        "sku": "GONE",
        "name": "Discontinued",
        "variant_title": "Red",
        "quantity": 1,
        "unit_price": "4.00",
        "taxable": False,
    }
    first, second = (await move(shop, **old_order(line_items=[known, gone])))["line_items"]
    assert (first["name"], first["weight"], first["weight_unit"]) == ("As it was called", 2, "oz")
    assert first["variant_id"] is not None
    assert (second["sku"], second["variant_id"], second["variant_title"], second["taxable"]) == (
        "GONE",
        None,
        "Red",
        False,
    )
    answer = await shop.client.post("/orders", json=old_order(line_items=[{"sku": "GONE", "quantity": 1}]))
    assert answer.json()["errors"][0]["code"] == "unknown_sku"


async def test_completion_hands_over_what_was_not_shipped(shop: Shop) -> None:
    order = await move(shop, **completed(fulfillments=[]))
    [only] = order["fulfillments"]
    assert (only["status"], only["shipped_at"], only["delivered_at"]) == (
        "delivered",
        order["completed_at"],
        order["completed_at"],
    )


REFUSED: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "a future order": (old_order(placed_at="2999-01-01T00:00:00Z"), [("/placed_at", "out_of_range")]),
    "an order of 1969": (old_order(placed_at="1969-12-31T00:00:00Z"), [("/placed_at", "out_of_range")]),
    "shipped before it was placed": (
        completed(fulfillments=[{**SHIPMENT, "shipped_at": "2022-05-01T00:00:00Z"}]),
        [("/fulfillments/0/shipped_at", "out_of_range")],
    ),
    "delivered before it was shipped": (
        completed(fulfillments=[{**SHIPMENT, "delivered_at": "2022-06-02T14:00:00Z"}]),
        [("/fulfillments/0/delivered_at", "out_of_range")],
    ),
    "completed before it was delivered": (
        completed(completed_at="2022-06-03T00:00:00Z"), [("/completed_at", "out_of_range")],
    ),
    "completed without a date": (completed(completed_at=None), [("/completed_at", "required") ]),
    "cancelled without a date": (old_order(status="cancelled"), [("/cancelled_at", "required")]),
    "cancelled and not": (
        old_order(cancelled_at="2022-06-02T00:00:00Z", cancel_reason="x"),
        [("/cancelled_at", "invalid_format"), ("/cancel_reason", "invalid_format")],
    ),
    "a total that differs": (old_order(total="21.00"), [("/total", "total_mismatch")]),
    "a paid sum that differs": (completed(amount_paid="21.00"), [("/amount_paid", "total_mismatch")]),
    "a refunded sum that differs": (
        completed(refunds=[REFUND], amount_refunded="4.00"), [("/amount_refunded", "total_mismatch")],
    ),
    "a payment status that differs": (completed(payment_status="unpaid"), [("/payment_status", "illegal_transition")]),
    "paid without a payment": (old_order(payment_status="paid"), [("/payment_status", "illegal_transition")]),
    "completed with money due": (
        completed(payments=[{**PAYMENT, "amount": "21.99"}]), [("/status", "order_not_paid")],
    ),
    "a payment of zero": (completed(payments=[{**PAYMENT, "amount": "0.00"}]), [("/payments/0/amount", "out_of_range")]),
    "a payment with too many digits": (
        completed(payments=[{**PAYMENT, "amount": "22.001"}]), [("/payments/0/amount", "invalid_money")],
    ),
    "one transaction twice": (
        completed(payments=[PAYMENT, PAYMENT]), [("/payments/1/external_id", "payment_already_recorded")],
    ),
    "refunded before it was paid": (
        completed(refunds=[{**REFUND, "created_at": "2022-06-01T09:00:01Z"}]), [("/refunds/0/amount", "out_of_range")],
    ),
    "refunded more than paid": (
        completed(refunds=[{**REFUND, "amount": "22.01"}]), [("/refunds/0/amount", "out_of_range")],
    ),
    "a refund whose parts differ": (
        completed(refunds=[{**REFUND, "line_items": [{"line_item": 0, "quantity": 1, "amount": "4.00"}]}]),
        [("/refunds/0/amount", "total_mismatch")],
    ),
    "more units refunded than ordered": (
        completed(refunds=[{**REFUND, "line_items": [{"line_item": 0, "quantity": 3, "amount": "5.00"}]}]),
        [("/refunds/0/line_items/0/quantity", "out_of_range")],
    ),
    "more units shipped than ordered": (
        completed(fulfillments=[SHIPMENT, SHIPMENT]), [("/line_items/0/quantity", "out_of_range")],
    ),
    "more units returned than shipped": (
        old_order(line_items=[{**LINE, "returned_quantity": 1}]),
        [("/line_items/0/returned_quantity", "out_of_range")],
    ),
    "a line item that is not there": (
        completed(fulfillments=[{**SHIPMENT, "line_items": [{"line_item": 1, "quantity": 1}]}]),
        [("/fulfillments/0/line_items/0/line_item", "not_found")],
    ),
    "a line item twice": (
        completed(fulfillments=[{**SHIPMENT, "line_items": [{"line_item": 0, "quantity": 1}] * 2}]),
        [("/fulfillments/0/line_items/1/line_item", "invalid_format")],
    ),
    "an unknown location": (
        completed(fulfillments=[{**SHIPMENT, "location": "moon"}]), [("/fulfillments/0/location", "unknown_location")],
    ),
    "shipped without shipments": (old_order(status="shipped"), [("/status", "illegal_transition")]),
    "delivered without delivery": (
        old_order(status="delivered", fulfillments=[{**SHIPMENT, "delivered_at": None}]),
        [("/status", "illegal_transition")],
    ),
    "pending and shipped": (old_order(fulfillments=[SHIPMENT]), [("/status", "illegal_transition")]),
    "a draft": (old_order(status="draft"), [("/status", "illegal_transition")]),
    "a shipped draft": (old_order(status="draft", fulfillments=[SHIPMENT]), [("/status", "illegal_transition")]),
    "returned and kept": (old_order(status="returned", fulfillments=[SHIPMENT]), [("/status", "illegal_transition")]),
    "a reservation": (
        old_order(location="default", window_hours=2), [("/location", "invalid_format"), ("/window_hours", "invalid_format")],
    ),
    "a hold": (old_order(payment_status="unpaid", hold_for=3600), [("/hold_for", "invalid_format")]),
    "a hold that has ended": (
        old_order(payment_status="unpaid", expires_at="2022-06-02T09:00:00Z"), [("/expires_at", "invalid_format")],
    ),
    "a hold of a completed order": (
        completed(hold_for=60, expires_at=PLACED, window_hours=2),
        [("/window_hours", "invalid_format"), ("/expires_at", "invalid_format"), ("/hold_for", "invalid_format")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_an_order_that_contradicts_itself_is_refused(shop: Shop, case: str) -> None:
    order, faults = REFUSED[case]
    assert await refused(shop, **order) == faults
    [result] = await move_many(shop, order)
    assert result["error"]["errors"][0]["pointer"] == f"/items/0{faults[0][0]}"
    assert await events(shop) == []


async def test_a_number_that_exists_is_refused(shop: Shop) -> None:
    first = await move(shop, **old_order(number=9))
    answer = await shop.client.post("/orders", json=old_order(number=9))
    assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (
        409,
        "number_taken",
        first["id"],
    )
    results = await move_many(shop, old_order(number=9), old_order(number=10), old_order(number=10))
    assert [each["status"] for each in results] == ["failed", "created", "failed"]
    assert [each["error"]["errors"][0]["pointer"] for each in results if each["error"]] == [
        "/items/0/number",
        "/items/2/number",
    ]


async def test_an_external_id_that_exists_is_refused(shop: Shop) -> None:
    results = await move_many(shop, *[old_order(external_id="x")] * 2)
    assert [each["status"] for each in results] == ["created", "failed"]
    assert results[1]["error"]["code"] == "external_id_taken"


async def test_faults_of_one_item_do_not_affect_the_others(shop: Shop) -> None:
    no_time = "2022-06-01T09:00:00+14:60"
    wrong: list[dict[str, Any]] = [
        {**old_order(), "status": "gone"}, {**old_order(), "color": 1}, {"number": "7"}, {**old_order(), "placed_at": no_time},
    ]  # fmt: skip
    answer = await shop.client.post("/orders", json={"historical": True, "items": [old_order(), *wrong, completed()]})
    assert answer.status_code == 207
    assert [each["status"] for each in answer.json()["data"]] == ["created", *["failed"] * 4, "created"]
    assert answer.json()["meta"] == {"total": 6, "succeeded": 2, "failed": 4}
    assert (await shop.client.get("/orders")).json()["meta"]["total"] == 2


async def test_a_batch_has_at_most_a_hundred_items(shop: Shop) -> None:
    answer = await shop.client.post("/orders", json={"historical": True, "items": [old_order()] * 101})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_items")
    answer = await shop.client.post("/orders", json={"historical": True, "items": []})
    assert answer.status_code == 422


async def test_the_orders_of_a_batch_have_at_most_two_thousand_line_items_together(shop: Shop) -> None:
    lines = [{"name": "Button", "quantity": 1, "unit_price": "0.10"}] * 400
    item = {"status": "pending", "placed_at": PLACED, "line_items": lines}
    answer = await shop.client.post("/orders", json={"historical": True, "items": [item] * 6})
    assert (answer.status_code, answer.json()["code"], answer.json()["max_line_items"]) == (413, "too_many_items", 2000)
    moved = await move_many(shop, *[item] * 5)
    assert [each["status"] for each in moved] == ["created"] * 5


async def test_every_item_of_a_batch_with_very_many_faults_is_refused(shop: Shop) -> None:
    wrong = {"status": "pending", "placed_at": PLACED, "line_items": [LINE], **{f"unknown{n}": 1 for n in range(7)}}
    moved = await move_many(shop, *[wrong] * 99, {"status": "pending", "placed_at": PLACED, "line_items": [LINE]})
    assert [each["status"] for each in moved] == ["failed"] * 99 + ["created"]
    assert moved[98]["error"]["errors"][0]["pointer"] == "/items/98/unknown0"


async def test_a_batch_costs_a_request_for_every_fifty(shop: Shop) -> None:
    before = int((await shop.client.get("/orders?limit=1")).headers["x-ratelimit-remaining"])
    answer = await shop.client.post("/orders", json={"historical": True, "items": [old_order()] * 100})
    assert before - int(answer.headers["x-ratelimit-remaining"]) in (2, 3, 4)


async def test_a_dry_run_stores_nothing(shop: Shop) -> None:
    order = completed(number=5_000, customer={"email": "jun@example.com"})
    checked = await shop.client.post("/orders?dry_run=true", json=order)
    assert checked.status_code == 200, checked.text
    assert (checked.json()["data"]["id"], checked.json()["data"]["number"], checked.json()["meta"]["dry_run"]) == (
        0,
        5_000,
        True,
    )
    many = await shop.client.post(
        "/orders?dry_run=true", json={"historical": True, "items": [order, {**order, "number": 5_001, "total": "1.00"}]}
    )
    assert [(each["status"], each["id"]) for each in many.json()["data"]] == [("created", None), ("failed", None)]
    assert [(await shop.client.get(path)).json()["meta"]["total"] for path in ("/orders", "/customers")] == [0, 0]
    placed = await shop.client.post("/orders", json={"line_items": [LINE]})
    assert placed.json()["data"]["number"] == 1_001


async def test_the_scope_is_required(shop: Shop) -> None:
    limited = await shop.client_with(["orders:write", "customers:read"])
    for body in (old_order(), {"historical": True, "items": [old_order()]}):
        answer = await limited.post("/orders", json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert answer.json()["required_scope"] == "orders:import"


async def test_only_historical_orders_come_as_items(shop: Shop) -> None:
    for body in ({"items": [old_order()]}, {"historical": False, "items": [old_order()]}):
        answer = await shop.client.post("/orders", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == "/historical"


async def test_a_repeated_batch_is_replayed(shop: Shop) -> None:
    body = {"historical": True, "items": [old_order(number=3), old_order(number=3)]}
    first, second = [
        await shop.client.post("/orders", json=body, headers={"idempotency-key": "move-1"}) for _ in range(2)
    ]
    assert (second.status_code, second.content) == (207, first.content)
    assert (await shop.client.get("/orders")).json()["meta"]["total"] == 1


async def test_calls_that_move_the_same_orders_store_each_once(concurrent_shop: Shop) -> None:
    items = [old_order(number=n, customer={"email": f"p{n}@example.com"}) for n in range(1, 31)]
    answers = await asyncio.gather(
        *(
            concurrent_shop.client.post("/orders", json={"historical": True, "items": items[::step]})
            for step in (1, -1, 1, -1)
        )
    )
    done = [each["status"] for answer in answers for each in answer.json()["data"]]
    assert done.count("created") == 30
    listed = (await concurrent_shop.client.get("/orders?limit=250")).json()["data"]
    assert sorted(each["number"] for each in listed) == list(range(1, 31))


async def test_new_orders_beside_a_move_never_share_a_number(concurrent_shop: Shop) -> None:
    calls = [concurrent_shop.client.post("/orders", json={"line_items": [LINE]}) for _ in range(20)]
    batches = [
        concurrent_shop.client.post(
            "/orders", json={"historical": True, "items": [old_order(number=1_000 + 10 * n + i) for i in range(10)]}
        )
        for n in range(4)
    ]
    answers = await asyncio.gather(*calls, *batches)
    assert {answer.status_code for answer in answers} <= {200, 201, 207}
    listed = (await concurrent_shop.client.get("/orders?limit=250")).json()["data"]
    numbers = [each["number"] for each in listed]
    assert len(numbers) == len(set(numbers)) >= 20
