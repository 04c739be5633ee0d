"""Placing an order: priced, checked, reserved and told of, or refused with every fault at once."""

from typing import Any

import pytest

from tests.orders.counter import ADA, HOME, Counter, codes
from tests.support.shops import Shop, open_shop


async def test_an_order_is_priced_numbered_and_reserved(counter: Counter) -> None:
    order = await counter.place(
        ("TEA", 2), ("POT-W", 1), shipping_total="6.50", discount_total="1.00", tax_total="0.25"
    )
    assert order["number"] == 1001
    assert (order["status"], order["payment_status"], order["fulfillment_status"]) == (
        "pending",
        "unpaid",
        "unfulfilled",
    )
    assert order["allowed_transitions"] == ["processing", "on_hold", "cancelled"]
    assert (order["subtotal"], order["total"], order["amount_due"]) == ("64.50", "70.25", "70.25")
    assert [(line["sku"], line["unit_price"], line["total"]) for line in order["line_items"]] == [
        ("TEA", "8.00", "16.00"),
        ("POT-W", "48.50", "48.50"),
    ]
    pot = order["line_items"][1]
    assert (pot["name"], pot["variant_title"], pot["option_values"]) == ("Tea Pot", "White", {"Colour": "White"})
    assert order["source"] == {"app_id": counter.shop.app_id, "name": "Test app"}
    assert (await counter.stock("TEA"), await counter.stock("POT-W")) == ((10, 2), (1, 1))
    assert await counter.ledger(order) == [("reserve", 0, 2), ("reserve", 0, 1)]
    assert await counter.get(order) == order
    await counter.assert_books_balance()


async def test_an_order_is_told_of_with_its_document(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    (event,) = await counter.events()
    assert (event["type"], event["resource_type"], event["resource_id"]) == ("order.created", "order", order["id"])
    assert (event["version"], event["changes"], event["data"]) == (1, {}, order)


async def test_a_draft_reserves_nothing(counter: Counter) -> None:
    draft = await counter.place(("POT-B", 99), status="draft")
    assert draft["allowed_transitions"] == ["pending", "processing", "cancelled"]
    assert await counter.stock("POT-B") == (3, 0)


async def test_an_order_may_begin_paid_and_in_work(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), status="processing", payment_status="paid")
    assert (order["status"], order["payment_status"]) == ("processing", "paid")
    assert (order["amount_paid"], order["amount_due"]) == ("8.00", "0.00")


async def test_lines_say_what_they_cost_in_their_own_way(counter: Counter) -> None:
    lines = [
        {
            "variant_id": counter.variants["TEA"],
            "quantity": 3,
            "unit_price": 7.5,
            "discount_total": "2.50",
            "tax_total": "1.99",
        },
        {"sku": "TEA", "quantity": 1, "unit_price": "0", "metadata": {"gift": True}},
    ]
    order = await counter.place(line_items=lines, total="21.99")
    assert [line["total"] for line in order["line_items"]] == ["21.99", "0.00"]
    assert order["line_items"][1]["metadata"] == {"gift": True}
    assert await counter.stock("TEA") == (10, 4)


async def test_all_lines_are_had_or_none(counter: Counter) -> None:
    answer = await counter.post(("TEA", 1), ("POT-W", 2), ("CLASS", 99), ("POT-B", 4))
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    assert codes(answer) == [
        ("/line_items/1/quantity", "insufficient_stock"),
        ("/line_items/3/quantity", "insufficient_stock"),
    ]
    assert [fault["meta"]["available"] for fault in answer.json()["errors"]] == [1, 3]
    assert (await counter.stock("TEA"), await counter.events()) == ((10, 0), [])


async def test_two_lines_of_one_variant_share_what_there_is(counter: Counter) -> None:
    answer = await counter.post(("TEA", 6), ("TEA", 5))
    assert codes(answer) == [("/line_items/1/quantity", "insufficient_stock")]
    await counter.place(("TEA", 6), ("TEA", 4))
    assert await counter.stock("TEA") == (10, 10)


async def test_every_fault_is_named_at_once(counter: Counter) -> None:
    lines = [
        {"sku": "TEA", "quantity": 1},
        {"sku": "NOPE", "quantity": 1},
        {"variant_id": 999_999_999, "quantity": 1},
        {"quantity": 1},
        {"sku": "TEA", "variant_id": counter.variants["TEA"], "quantity": 1},
    ]
    answer = await counter.post(
        line_items=lines,
        currency="EUR",
        customer_id=999_999_999,
        contact={"phone": "12"},
        placed_at="2999-01-01T00:00:00Z",
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert set(codes(answer)) == {
        ("/line_items/1/sku", "unknown_sku"),
        ("/line_items/2/variant_id", "unknown_variant"),
        ("/line_items/3/variant_id", "required"),
        ("/line_items/4/sku", "invalid_format"),
        ("/currency", "currency_mismatch"),
        ("/customer_id", "unknown_customer"),
        ("/contact/phone", "invalid_format"),
        ("/placed_at", "out_of_range"),
    }


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"quantity": 0}, ("/line_items/0/quantity", "out_of_range")),
        ({"quantity": -1}, ("/line_items/0/quantity", "out_of_range")),
        ({"quantity": 1_000_001}, ("/line_items/0/quantity", "out_of_range")),
        ({"quantity": 2**63 - 1}, ("/line_items/0/quantity", "out_of_range")),
        ({"quantity": 1.5}, ("/line_items/0/quantity", "invalid_type")),
        ({"quantity": 1, "unit_price": "-1.00"}, ("/line_items/0/unit_price", "invalid_money")),
        ({"quantity": 1, "unit_price": "1.001"}, ("/line_items/0/unit_price", "invalid_money")),
        ({"quantity": 1, "discount_total": "8.01"}, ("/line_items/0/discount_total", "out_of_range")),
        ({"quantity": 1_000_000, "unit_price": "9999999999.99"}, ("/line_items/0/quantity", "out_of_range")),
    ],
)
async def test_a_line_that_cannot_be_is_refused(counter: Counter, body: dict[str, Any], fault: tuple[str, str]) -> None:
    answer = await counter.post(line_items=[{"sku": "TEA", **body}], status="draft")
    assert answer.status_code == 422
    assert codes(answer) == [fault]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"total": "7.99"}, ("/total", "total_mismatch")),
        ({"discount_total": "8.01"}, ("/discount_total", "out_of_range")),
        ({"shipping_total": "9999999999999.99", "tax_total": "9999999999999.99"}, ("/line_items", "out_of_range")),
        ({"tax_total": "-0.01"}, ("/tax_total", "invalid_money")),
        ({"status": "shipped"}, ("/status", "invalid_format")),
        ({"payment_status": "refunded"}, ("/payment_status", "invalid_format")),
        ({"line_items": []}, ("/line_items", "out_of_range")),
        ({"customer": {"first_name": "Ada"}}, ("/customer/email", "required")),
        ({"customer": ADA, "customer_id": 1}, ("/customer", "invalid_format")),
        ({"window_hours": 169}, ("/window_hours", "out_of_range")),
        ({"placed_at": "1969-12-31T23:59:59Z"}, ("/placed_at", "out_of_range")),
    ],
)
async def test_an_order_that_cannot_be_is_refused(
    counter: Counter, body: dict[str, Any], fault: tuple[str, str]
) -> None:
    answer = await counter.post(("TEA", 1), **body)
    assert answer.status_code == 422
    assert fault in codes(answer)


async def test_a_total_that_differs_is_told_what_it_should_be(counter: Counter) -> None:
    answer = await counter.post(("TEA", 2), total="15.00", tax_total="0.50")
    assert answer.json()["errors"][0]["meta"] == {"expected": "16.50"}
    await counter.place(("TEA", 2), total="16.50", tax_total="0.50")


async def test_money_has_the_digits_of_the_stores_currency(shop: Shop) -> None:
    tokyo = await open_shop(shop.application, shop.db, currency="JPY")
    counter = await Counter(tokyo).open({"name": "Cup", "price": "1500", "sku": "CUP", "stock": {"on_hand": 5}})
    order = await counter.place(("CUP", 2), tax_total="300")
    assert (order["currency"], order["total"], order["line_items"][0]["unit_price"]) == ("JPY", "3300", "1500")
    assert (await counter.get(await counter.move(order, "processing")))["total"] == "3300"
    answer = await counter.post(("CUP", 1), shipping_total="1.5")
    assert codes(answer) == [("/shipping_total", "invalid_money")]
    await tokyo.client.aclose()


# --- whose it is -----------------------------------------------------------------------------------------------------


async def test_an_inline_customer_is_made_once_and_found_again(counter: Counter) -> None:
    first = await counter.place(("TEA", 1), customer=ADA)
    again = await counter.place(("POT-B", 1), customer={"email": "ADA.Moor@example.com"})
    by_phone = await counter.place(("POT-B", 1), customer={"phone": "+44 20 7946 0018"})
    assert first["customer_id"] == again["customer_id"] == by_phone["customer_id"]
    assert first["contact"] == ADA
    assert (await counter.client.get("/customers")).json()["meta"]["total"] == 1


async def test_a_customers_contact_is_kept_unless_the_order_says_otherwise(counter: Counter) -> None:
    customer = (await counter.client.post("/customers", json=ADA)).json()["data"]
    order = await counter.place(("TEA", 1), customer_id=customer["id"], contact={"first_name": "Augusta"})
    assert order["contact"] == {**ADA, "first_name": "Augusta"}
    await counter.client.patch(f"/customers/{customer['id']}", json={"first_name": "Anne"})
    assert (await counter.get(order))["contact"]["first_name"] == "Augusta"


async def test_a_guest_needs_no_customer(counter: Counter) -> None:
    order = await counter.place(
        ("TEA", 1), contact={"phone": "+44 20 7946 0018"}, shipping_address={"country_code": "gb"}
    )
    assert (order["customer_id"], order["contact"]["phone"]) == (None, "+442079460018")
    assert order["shipping_address"]["country_code"] == "GB"
    assert (await counter.client.get("/customers")).json()["meta"]["total"] == 0


async def test_a_refused_order_makes_no_customer(counter: Counter) -> None:
    assert (await counter.post(("POT-W", 2), customer=ADA)).status_code == 409
    assert (await counter.post(("NOPE", 2), customer=ADA)).status_code == 422
    assert (await counter.client.get("/customers")).json()["meta"]["total"] == 0


async def test_a_customers_orders_and_spending_keep_in_step(counter: Counter) -> None:
    async def known() -> tuple[int, str]:
        customer = (await counter.client.get("/customers")).json()["data"][0]
        return customer["orders_count"], customer["total_spent"]

    draft = await counter.place(("TEA", 1), customer=ADA, status="draft")
    assert await known() == (0, "0.00")
    await counter.move(draft, "pending")
    assert await known() == (1, "0.00")
    paid = await counter.place(("TEA", 2), customer=ADA, payment_status="paid")
    assert await known() == (2, "16.00")
    await counter.put(paid, payment_status="partially_refunded", amount_refunded="5.50")
    assert await known() == (2, "10.50")
    await counter.put(paid, status="cancelled", payment_status="refunded")
    assert await known() == (1, "0.00")
    await counter.put(draft, payment_status="paid")
    assert await known() == (1, "8.00")


# --- its own names -----------------------------------------------------------------------------------------------------


async def test_an_external_id_is_taken_once(counter: Counter) -> None:
    first = await counter.place(("TEA", 1), external_id="erp-7")
    answer = await counter.post(("TEA", 1), external_id="erp-7")
    assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (
        409,
        "external_id_taken",
        first["id"],
    )
    assert (await counter.client.get("/orders", params={"external_id": "erp-7"})).json()["meta"]["total"] == 1


async def test_numbers_rise_and_refusals_that_can_be_foreseen_take_none(counter: Counter) -> None:
    assert (await counter.place(("TEA", 1)))["number"] == 1001
    for lines in ([("NOPE", 1)], [("TEA", 99)]):
        assert (await counter.post(*lines)).status_code in (409, 422)
    assert (await counter.place(("TEA", 1)))["number"] == 1002


async def test_a_time_in_the_past_is_kept_to_the_microsecond(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), placed_at="2024-02-29T23:59:59.123456+02:00")
    assert order["placed_at"] == "2024-02-29T21:59:59.123456Z"


async def test_products_that_go_leave_the_order_as_it_was(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), ("POT-B", 1))
    product_id = order["line_items"][0]["product_id"]
    await counter.client.patch(f"/products/{product_id}", json={"name": "Black Tea", "price": "99.00"})
    await counter.client.delete(f"/products/{product_id}")
    assert await counter.get(order) == order
    shipped = await counter.move(order, "processing", "shipped")
    assert shipped["line_items"][0]["name"] == "Green Tea"


# --- trying it out -----------------------------------------------------------------------------------------------------


async def test_a_dry_run_tells_everything_and_writes_nothing(counter: Counter) -> None:
    before = await counter.place(("TEA", 1), customer=ADA, shipping_address=HOME)
    await counter.forget()
    body: dict[str, Any] = {
        "line_items": [{"sku": "TEA", "quantity": 1}],
        "customer": {**ADA, "email": "new@example.com"},
        "shipping_address": HOME,
        "total": "8.00",
    }
    answer = await counter.client.post("/orders", json=body, params={"dry_run": "true"})
    assert answer.status_code == 200
    assert "location" not in answer.headers
    order, meta = answer.json()["data"], answer.json()["meta"]
    assert (order["id"], order["number"], order["version"], order["total"]) == (0, 0, 0, "8.00")
    assert order.keys() == before.keys()
    assert [each["order_id"] for each in meta["suspected_duplicates"]] == [before["id"]]
    assert (await counter.event_names(), await counter.stock("TEA")) == ([], (10, 1))
    assert (await counter.client.get("/orders")).json()["meta"]["total"] == 1
    assert (await counter.client.get("/customers")).json()["meta"]["total"] == 1
    assert (await counter.place(("TEA", 1)))["number"] == 1002


async def test_a_dry_run_is_refused_as_the_order_would_be(counter: Counter) -> None:
    for lines, status in (([{"sku": "POT-W", "quantity": 2}], 409), ([{"sku": "NOPE", "quantity": 2}], 422)):
        answer = await counter.client.post("/orders", json={"line_items": lines}, params={"dry_run": "true"})
        assert answer.status_code == status
    answer = await counter.client.post("/orders", json={"line_items": []}, params={"dry_run": "maybe"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
