"""Placing an order: prices, checks, reservation and events, or a refusal with all faults."""

from typing import Any

import pytest

from tests.orders.sample_store import ADA, HOME, SampleStore, codes
from tests.support.shops import Shop, open_shop


async def test_an_order_is_priced_numbered_and_reserved(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), ("POT-W", 1), shipping_total="6.50", discount_total="1.00", tax_total="0.25")
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
    assert order["source"] == {"app_id": store.shop.app_id, "name": "Test app"}
    assert (await store.stock("TEA"), await store.stock("POT-W")) == ((10, 2), (1, 1))
    assert await store.ledger(order) == [("reserve", 0, 2), ("reserve", 0, 1)]
    assert await store.get(order) == order
    await store.assert_stock_is_consistent()


async def test_a_new_order_emits_an_event_with_its_document(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    (event,) = await store.events()
    assert (event["type"], event["resource_type"], event["resource_id"]) == ("order.created", "order", order["id"])
    assert (event["version"], event["changes"], event["data"]) == (1, {}, order)


async def test_a_draft_reserves_nothing(store: SampleStore) -> None:
    draft = await store.place(("POT-B", 99), status="draft")
    assert draft["allowed_transitions"] == ["pending", "processing", "cancelled"]
    assert await store.stock("POT-B") == (3, 0)


async def test_an_order_can_be_created_paid_and_processing(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), status="processing", payment_status="paid")
    assert (order["status"], order["payment_status"]) == ("processing", "paid")
    assert (order["amount_paid"], order["amount_due"]) == ("8.00", "0.00")


async def test_lines_can_set_their_own_price_discount_and_tax(store: SampleStore) -> None:
    lines = [
        {
            "variant_id": store.variants["TEA"],
            "quantity": 3,
            "unit_price": 7.5,
            "discount_total": "2.50",
            "tax_total": "1.99",
        },
        {"sku": "TEA", "quantity": 1, "unit_price": "0", "metadata": {"gift": True}},
    ]
    order = await store.place(line_items=lines, total="21.99")
    assert [line["total"] for line in order["line_items"]] == ["21.99", "0.00"]
    assert order["line_items"][1]["metadata"] == {"gift": True}
    assert await store.stock("TEA") == (10, 4)


async def test_lines_are_reserved_all_or_none(store: SampleStore) -> None:
    answer = await store.post(("TEA", 1), ("POT-W", 2), ("CLASS", 99), ("POT-B", 4))
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    assert codes(answer) == [
        ("/line_items/1/quantity", "insufficient_stock"),
        ("/line_items/3/quantity", "insufficient_stock"),
    ]
    assert [fault["meta"]["available"] for fault in answer.json()["errors"]] == [1, 3]
    assert (await store.stock("TEA"), await store.events()) == ((10, 0), [])


async def test_two_lines_of_one_variant_share_its_stock(store: SampleStore) -> None:
    answer = await store.post(("TEA", 6), ("TEA", 5))
    assert codes(answer) == [("/line_items/1/quantity", "insufficient_stock")]
    await store.place(("TEA", 6), ("TEA", 4))
    assert await store.stock("TEA") == (10, 10)


async def test_all_faults_are_reported_at_once(store: SampleStore) -> None:
    lines = [
        {"sku": "TEA", "quantity": 1},
        {"sku": "NOPE", "quantity": 1},
        {"variant_id": 999_999_999, "quantity": 1},
        {"quantity": 1},
        {"sku": "TEA", "variant_id": store.variants["TEA"], "quantity": 1},
    ]
    answer = await store.post(
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
async def test_an_invalid_line_is_refused(store: SampleStore, body: dict[str, Any], fault: tuple[str, str]) -> None:
    answer = await store.post(line_items=[{"sku": "TEA", **body}], status="draft")
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
        ({"placed_at": "2026-01-31T12:00:00+14:60"}, ("/placed_at", "invalid_format")),
        ({"expires_at": "9999-12-31T23:59:59.9999999Z"}, ("/expires_at", "invalid_format")),
    ],
)
async def test_an_invalid_order_is_refused(store: SampleStore, body: dict[str, Any], fault: tuple[str, str]) -> None:
    answer = await store.post(("TEA", 1), **body)
    assert answer.status_code == 422
    assert fault in codes(answer)


async def test_a_wrong_total_is_refused_with_the_expected_one(store: SampleStore) -> None:
    answer = await store.post(("TEA", 2), total="15.00", tax_total="0.50")
    assert answer.json()["errors"][0]["meta"] == {"expected": "16.50"}
    await store.place(("TEA", 2), total="16.50", tax_total="0.50")


@pytest.mark.not_in_shard("it opens a store of its own in the directory")
async def test_amounts_have_the_decimals_of_the_stores_currency(shop: Shop) -> None:
    tokyo = await open_shop(shop.application, shop.db, currency="JPY")
    store = await SampleStore(tokyo).add_products(
        {"name": "Cup", "price": "1500", "sku": "CUP", "stock": {"on_hand": 5}}
    )
    order = await store.place(("CUP", 2), tax_total="300")
    assert (order["currency"], order["total"], order["line_items"][0]["unit_price"]) == ("JPY", "3300", "1500")
    assert (await store.get(await store.change_status(order, "processing")))["total"] == "3300"
    answer = await store.post(("CUP", 1), shipping_total="1.5")
    assert codes(answer) == [("/shipping_total", "invalid_money")]
    await tokyo.client.aclose()


# --- customer --------------------------------------------------------------------------------------------------------


async def test_an_inline_customer_is_created_once_and_then_found(store: SampleStore) -> None:
    first = await store.place(("TEA", 1), customer=ADA)
    again = await store.place(("POT-B", 1), customer={"email": "ADA.Moor@example.com"})
    by_phone = await store.place(("POT-B", 1), customer={"phone": "+44 20 7946 0018"})
    assert first["customer_id"] == again["customer_id"] == by_phone["customer_id"]
    assert first["contact"] == ADA
    assert (await store.client.get("/customers")).json()["meta"]["total"] == 1


async def test_an_order_copies_the_customers_contact_and_may_override_it(store: SampleStore) -> None:
    customer = (await store.client.post("/customers", json=ADA)).json()["data"]
    order = await store.place(("TEA", 1), customer_id=customer["id"], contact={"first_name": "Augusta"})
    assert order["contact"] == {**ADA, "first_name": "Augusta"}
    await store.client.patch(f"/customers/{customer['id']}", json={"first_name": "Anne"})
    assert (await store.get(order))["contact"]["first_name"] == "Augusta"


async def test_a_guest_needs_no_customer(store: SampleStore) -> None:
    order = await store.place(
        ("TEA", 1), contact={"phone": "+44 20 7946 0018"}, shipping_address={"country_code": "gb"}
    )
    assert (order["customer_id"], order["contact"]["phone"]) == (None, "+442079460018")
    assert order["shipping_address"]["country_code"] == "GB"
    assert (await store.client.get("/customers")).json()["meta"]["total"] == 0


async def test_a_refused_order_creates_no_customer(store: SampleStore) -> None:
    assert (await store.post(("POT-W", 2), customer=ADA)).status_code == 409
    assert (await store.post(("NOPE", 2), customer=ADA)).status_code == 422
    assert (await store.client.get("/customers")).json()["meta"]["total"] == 0


async def test_a_customers_order_count_and_spending_follow_its_orders(store: SampleStore) -> None:
    async def statistics() -> tuple[int, str]:
        customer = (await store.client.get("/customers")).json()["data"][0]
        return customer["orders_count"], customer["total_spent"]

    draft = await store.place(("TEA", 1), customer=ADA, status="draft")
    assert await statistics() == (0, "0.00")
    await store.change_status(draft, "pending")
    assert await statistics() == (1, "0.00")
    paid = await store.place(("TEA", 2), customer=ADA, payment_status="paid")
    assert await statistics() == (2, "16.00")
    await store.put_status(paid, payment_status="partially_refunded", amount_refunded="5.50")
    assert await statistics() == (2, "10.50")
    await store.put_status(paid, status="cancelled", payment_status="refunded")
    assert await statistics() == (1, "0.00")
    await store.put_status(draft, payment_status="paid")
    assert await statistics() == (1, "8.00")


# --- number, external id and time ------------------------------------------------------------------------------------


async def test_an_external_id_is_unique(store: SampleStore) -> None:
    first = await store.place(("TEA", 1), external_id="erp-7")
    answer = await store.post(("TEA", 1), external_id="erp-7")
    assert (answer.status_code, answer.json()["code"], answer.json()["existing_id"]) == (
        409,
        "external_id_taken",
        first["id"],
    )
    assert (await store.client.get("/orders", params={"external_id": "erp-7"})).json()["meta"]["total"] == 1


async def test_numbers_are_consecutive_and_early_refusals_use_none(store: SampleStore) -> None:
    assert (await store.place(("TEA", 1)))["number"] == 1001
    for lines in ([("NOPE", 1)], [("TEA", 99)]):
        assert (await store.post(*lines)).status_code in (409, 422)
    assert (await store.place(("TEA", 1)))["number"] == 1002


async def test_a_time_in_the_past_is_stored_to_the_microsecond(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), placed_at="2024-02-29T23:59:59.123456+02:00")
    assert order["placed_at"] == "2024-02-29T21:59:59.123456Z"


async def test_changing_or_deleting_products_does_not_change_orders(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), ("POT-B", 1))
    product_id = order["line_items"][0]["product_id"]
    await store.client.patch(f"/products/{product_id}", json={"name": "Black Tea", "price": "99.00"})
    await store.client.delete(f"/products/{product_id}")
    assert await store.get(order) == order
    shipped = await store.change_status(order, "processing", "shipped")
    assert shipped["line_items"][0]["name"] == "Green Tea"


# --- dry run ---------------------------------------------------------------------------------------------------------


async def test_a_dry_run_shows_the_order_and_writes_nothing(store: SampleStore) -> None:
    before = await store.place(("TEA", 1), customer=ADA, shipping_address=HOME)
    await store.skip_events()
    body: dict[str, Any] = {
        "line_items": [{"sku": "TEA", "quantity": 1}],
        "customer": {**ADA, "email": "new@example.com"},
        "shipping_address": HOME,
        "total": "8.00",
    }
    answer = await store.client.post("/orders", json=body, params={"dry_run": "true"})
    assert answer.status_code == 200
    assert "location" not in answer.headers
    order, meta = answer.json()["data"], answer.json()["meta"]
    assert (order["id"], order["number"], order["version"], order["total"]) == (0, 0, 0, "8.00")
    assert order.keys() == before.keys()
    assert [each["order_id"] for each in meta["suspected_duplicates"]] == [before["id"]]
    assert (await store.event_names(), await store.stock("TEA")) == ([], (10, 1))
    assert (await store.client.get("/orders")).json()["meta"]["total"] == 1
    assert (await store.client.get("/customers")).json()["meta"]["total"] == 1
    assert (await store.place(("TEA", 1)))["number"] == 1002


async def test_a_dry_run_is_refused_as_the_order_would_be(store: SampleStore) -> None:
    for lines, status in (([{"sku": "POT-W", "quantity": 2}], 409), ([{"sku": "NOPE", "quantity": 2}], 422)):
        answer = await store.client.post("/orders", json={"line_items": lines}, params={"dry_run": "true"})
        assert answer.status_code == status
    answer = await store.client.post("/orders", json={"line_items": []}, params={"dry_run": "maybe"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


@pytest.mark.parametrize(
    ("other", "in_stock"),
    [
        ({"allow_backorder": True}, True),
        ({"track_inventory": False}, True),
        ({"stock": {"on_hand": 1}}, True),
        ({}, False),
    ],
    ids=["allows backorders", "is not tracked", "has stock", "has no stock"],
)
async def test_a_product_is_in_stock_while_one_of_its_variants_can_be_bought(
    store: SampleStore, other: dict[str, Any], in_stock: bool
) -> None:
    variants = [
        {"sku": "CUP-B", "option_values": {"Colour": "Blue"}, "stock": {"on_hand": 1}},
        {"sku": "CUP-W", "option_values": {"Colour": "White"}, **other},
    ]
    options = [{"name": "Colour", "values": ["Blue", "White"]}]
    await store.add_products({"name": "Cup", "price": "6.00", "options": options, "variants": variants})
    order = await store.place(("CUP-B", 1))
    product = (await store.client.get(f"/products/{order['line_items'][0]['product_id']}")).json()["data"]
    assert product["in_stock"] is in_stock
