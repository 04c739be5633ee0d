"""The amounts of an order: itemized discounts and taxes, prices that include taxes, totals and custom line items."""

from decimal import Decimal
from typing import Any

import pytest

from stoa.access.stores import update_store
from stoa.orders.amounts import percent_text, percentage_of
from tests.orders.sample_store import ADA, SampleStore, codes
from tests.support.shops import Shop, open_shop

VAT = {"title": "VAT", "rate": "20.00", "amount": "1.60"}
TENTH: dict[str, Any] = {"code": "TEN", "title": None, "kind": "percentage", "value": "10.00", "amount": "0.80"}
WRAP: dict[str, Any] = {"name": "Gift wrapping", "unit_price": "4.50", "quantity": 2}
TEA: dict[str, Any] = {"sku": "TEA", "quantity": 1}
FIXED: dict[str, Any] = {"kind": "fixed", "value": "5.00"}


def tax(amount: str, rate: str | None = None) -> dict[str, Any]:
    return {"title": "VAT", "rate": rate, "amount": amount}


def sums(shown: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(shown[name] for name in ("discount_total", "discounts", "tax_total", "tax_lines", "total"))


# --- placing ---------------------------------------------------------------------------------------------------------


async def test_discounts_and_taxes_add_up_to_the_totals(store: SampleStore) -> None:
    lines = [
        {
            "sku": "TEA",
            "quantity": 3,
            "discounts": [
                {"kind": "percentage", "value": 12.5, "code": "A"},
                {"kind": "fixed", "value": "1", "title": "B"},
            ],
            "tax_lines": [tax("3.40", "17"), tax("1.00")],
        },
        WRAP,
    ]
    order = await store.place(
        line_items=lines,
        shipping_total="6.50",
        tax_lines=[tax("1.30", "8.875")],
        discounts=[{"kind": "percentage", "value": "10.00"}, {"kind": "fixed", "value": "0.10", "amount": "0.1"}],
    )
    tea, wrapping = order["line_items"]
    assert tea["discounts"] == [
        {"code": "A", "title": None, "kind": "percentage", "value": "12.50", "amount": "3.00"},
        {"code": None, "title": "B", "kind": "fixed", "value": "1.00", "amount": "1.00"},
    ]
    assert tea["tax_lines"] == [tax("3.40", "17.00"), tax("1.00")]
    assert (tea["discount_total"], tea["tax_total"], tea["total"]) == ("4.00", "4.40", "24.40")
    assert sums(wrapping) == ("0.00", [], "0.00", [], "9.00")
    # 10 percent of 24.00 - 4.00 + 9.00
    assert [each["amount"] for each in order["discounts"]] == ["2.90", "0.10"]
    assert order["tax_lines"] == [tax("1.30", "8.875")]
    assert (order["subtotal"], order["discount_total"], order["tax_total"]) == ("33.40", "3.00", "1.30")
    assert (order["total"], order["amount_due"], order["prices_include_tax"]) == ("38.20", "38.20", False)
    assert order["totals"] == {
        "items": "33.00", "items_discount": "4.00", "items_tax": "4.40", "shipping": "6.50", "shipping_tax": "1.30",
        "order_discount": "3.00", "discount": "7.00", "tax": "5.70", "total": "38.20",
    }  # fmt: skip
    assert await store.get(order) == order == (await store.events())[0]["data"]


async def test_taxes_that_prices_include_are_not_added(store: SampleStore) -> None:
    body: dict[str, Any] = {
        "line_items": [{**TEA, "quantity": 3, "tax_lines": [tax("4.00")], "discount_total": "1.00"}],
        "shipping_total": "6.00",
        "tax_total": "1.00",
        "total": "29.00",
    }
    order = await store.place(prices_include_tax=True, **body)
    assert (order["line_items"][0]["total"], order["subtotal"], order["total"]) == ("23.00", "23.00", "29.00")
    assert (order["totals"]["tax"], order["totals"]["total"]) == ("5.00", "29.00")
    assert codes(await store.post(**body)) == [("/total", "total_mismatch")]  # this store adds taxes


async def test_a_new_order_takes_the_setting_of_its_store(shop: Shop) -> None:
    other = await open_shop(shop.application, shop.db)
    await update_store(other.operator, other.store.handle, prices_include_tax=True)
    line = {**WRAP, "tax_total": "1.00"}
    for sent, included, total in ({}, True, "9.00"), ({"prices_include_tax": False}, False, "10.00"):
        order = (await other.client.post("/orders", json={"line_items": [line], **sent})).json()["data"]
        assert (order["prices_include_tax"], order["total"], order["totals"]["tax"]) == (included, total, "1.00")
    await update_store(other.operator, other.store.handle, prices_include_tax=False)
    assert (await other.client.get("/orders", params={"ids": order["id"] - 1})).json()["data"][0]["total"] == "9.00"
    await other.client.aclose()


async def test_sums_without_entries_stay_sums(store: SampleStore) -> None:
    line: dict[str, Any] = {**TEA, "discount_total": "1.00", "discounts": [], "tax_total": "0.50", "tax_lines": None}
    order = await store.place(line_items=[line], discount_total="2.00", discounts=None, tax_total="0.25", tax_lines=[])
    assert sums(order["line_items"][0]) == ("1.00", [], "0.50", [], "7.50")
    assert sums(order) == ("2.00", [], "0.25", [], "5.75")


async def test_a_dry_run_shows_all_amounts_of_the_order(store: SampleStore) -> None:
    body = {"line_items": [{**TEA, "discounts": [TENTH], "tax_lines": [VAT]}, WRAP], "discounts": [FIXED]}
    answer = await store.client.post("/orders", params={"dry_run": True}, json=body)
    shown, order = answer.json()["data"], await store.place(**body)
    for name in ("totals", "discounts", "tax_lines", "prices_include_tax", "total", "subtotal"):
        assert shown[name] == order[name], name
    assert [{**line, "id": 0} for line in order["line_items"]] == shown["line_items"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"tax_lines": [VAT], "tax_total": "1.61"}, ("tax_total", "total_mismatch")),
        ({"discounts": [FIXED], "discount_total": "4.99"}, ("discount_total", "total_mismatch")),
        ({"discounts": [{**FIXED, "amount": "4.99"}]}, ("discounts/0/amount", "total_mismatch")),
        ({"discounts": [{**FIXED, "value": "8.01"}]}, ("discounts", "out_of_range")),
        ({"discounts": [FIXED, FIXED]}, ("discounts", "out_of_range")),
        ({"discounts": [{**FIXED, "value": "0.001"}]}, ("discounts/0/value", "invalid_money")),
        ({"discounts": [{**FIXED, "value": "-1"}]}, ("discounts/0/value", "out_of_range")),
        ({"discounts": [{**FIXED, "amount": "-1"}]}, ("discounts/0/amount", "invalid_money")),
        ({"discounts": [{**TENTH, "value": "100.01"}]}, ("discounts/0/value", "out_of_range")),
        ({"discounts": [{**TENTH, "value": "-0.01"}]}, ("discounts/0/value", "out_of_range")),
        ({"discounts": [{**TENTH, "value": "1.00001"}]}, ("discounts/0/value", "invalid_format")),
        ({"discounts": [{**TENTH, "value": "1e1"}]}, ("discounts/0/value", "invalid_format")),
        ({"discounts": [{**TENTH, "value": True}]}, ("discounts/0/value", "invalid_type")),
        ({"discounts": [{**TENTH, "kind": "half"}]}, ("discounts/0/kind", "invalid_format")),
        ({"discounts": [{"kind": "fixed"}]}, ("discounts/0/value", "required")),
        ({"discounts": [FIXED] * 21}, ("discounts", "too_long")),
        ({"tax_lines": [{**VAT, "rate": "100.01"}]}, ("tax_lines/0/rate", "out_of_range")),
        ({"tax_lines": [{**VAT, "rate": "-1"}]}, ("tax_lines/0/rate", "out_of_range")),
        ({"tax_lines": [{**VAT, "amount": "-1"}]}, ("tax_lines/0/amount", "invalid_money")),
        ({"tax_lines": [{**VAT, "title": " "}]}, ("tax_lines/0/title", "invalid_format")),
        ({"tax_lines": [{"title": "VAT"}]}, ("tax_lines/0/amount", "required")),
        ({"tax_lines": [{**VAT, "amount": "9999999999999.99"}] * 2}, ("quantity", "out_of_range")),
        ({"tax_lines": [VAT] * 21}, ("tax_lines", "too_long")),
        ({"name": "Tea"}, ("name", "invalid_format")),
        ({"requires_shipping": False}, ("requires_shipping", "invalid_format")),
        ({"taxable": True}, ("taxable", "invalid_format")),
        ({"sku": None, "name": "Wrapping"}, ("unit_price", "required")),
        ({"sku": None, "name": "", "unit_price": "1.00"}, ("name", "invalid_format")),
        ({"sku": None, "taxable": False, "unit_price": "1.00"}, ("name", "required")),
        ({"sku": None, "unit_price": "1.00"}, ("variant_id", "required")),
    ],
)
async def test_amounts_that_do_not_add_up_are_refused(
    store: SampleStore, line: dict[str, Any], expected: tuple[str, str]
) -> None:
    answer = await store.post(line_items=[WRAP, {**TEA, **line}])
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert codes(answer) == [(f"/line_items/1/{expected[0]}", expected[1])]
    assert (await store.events(), await store.stock("TEA")) == ([], (10, 0))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tax_lines": [VAT], "tax_total": "1.61"}, ("/tax_total", "total_mismatch")),
        ({"discounts": [FIXED], "discount_total": "4.99"}, ("/discount_total", "total_mismatch")),
        ({"discounts": [{**TENTH, "value": "101"}]}, ("/discounts/0/value", "out_of_range")),
        ({"discounts": [{**FIXED, "value": "8.01"}]}, ("/discounts", "out_of_range")),
        ({"discounts": [{**TENTH, "value": 60, "amount": None}] * 2}, ("/discounts", "out_of_range")),
        ({"tax_lines": [{**VAT, "rate": "x"}]}, ("/tax_lines/0/rate", "invalid_format")),
        ({"prices_include_tax": "yes"}, ("/prices_include_tax", "invalid_type")),
    ],
)
async def test_amounts_of_the_order_that_do_not_add_up_are_refused(
    store: SampleStore, body: dict[str, Any], expected: tuple[str, str]
) -> None:
    placed = await store.place(("TEA", 1))
    for answer in (await store.post(("TEA", 1), **body), await store.patch(placed, **body)):
        assert (answer.status_code, codes(answer)) == (422, [expected])
    assert await store.get(placed) == placed


async def test_all_faults_of_amounts_are_reported_at_once(store: SampleStore) -> None:
    lines = [
        {
            "sku": "NOPE",
            "quantity": 1,
            "discounts": [{**FIXED, "amount": "1"}, TENTH],
            "tax_lines": [VAT],
            "tax_total": "1",
        },
        {"name": "Wrapping", "quantity": 1, "sku": "TEA", "taxable": False},
        {**TEA, "discounts": [{**TENTH, "value": "200"}, {**FIXED, "value": "0.123"}]},
        {**TEA, "tax_total": "9.00", "discount_total": "99.00"},
    ]
    answer = await store.post(
        line_items=lines,
        discounts=[{**TENTH, "amount": None}],
        discount_total="1.00",
        tax_lines=[VAT],
        tax_total="3.00",
    )
    assert codes(answer) == [
        ("/line_items/0/sku", "unknown_sku"),
        ("/line_items/0/discounts/0/amount", "total_mismatch"),
        ("/line_items/0/tax_total", "total_mismatch"),
        ("/line_items/1/name", "invalid_format"),
        ("/line_items/1/taxable", "invalid_format"),
        ("/line_items/2/discounts/0/value", "out_of_range"),
        ("/line_items/2/discounts/1/value", "invalid_money"),
        ("/tax_total", "total_mismatch"),  # the sum of the discounts is unknown, because a price is
        ("/line_items/3/discount_total", "out_of_range"),
    ]
    expected = [each["meta"]["expected"] for each in answer.json()["errors"] if each["code"] == "total_mismatch"]
    assert expected == ["5.00", "1.60", "1.60"]


async def test_a_tax_cannot_exceed_the_price_that_includes_it(store: SampleStore) -> None:
    line = {**TEA, "tax_lines": [tax("8.01")]}
    answer = await store.post(line_items=[line], prices_include_tax=True)
    assert codes(answer) == [("/line_items/0/tax_lines", "out_of_range")]
    placed = await store.place(line_items=[line])
    assert codes(await store.patch(placed, prices_include_tax=True)) == [("/prices_include_tax", "out_of_range")]
    assert await store.get(placed) == placed


# --- changing --------------------------------------------------------------------------------------------------------


async def test_amounts_of_an_order_are_changed_by_merge_patch(store: SampleStore) -> None:
    placed = await store.place(("TEA", 5), ("CLASS", 1), discounts=[TENTH], tax_lines=[VAT])
    assert sums(placed) == ("0.80", [TENTH], "1.60", [VAT], "70.80")
    changed = (await store.patch(placed, discounts=[{"kind": "percentage", "value": "5"}])).json()["data"]
    assert (changed["discount_total"], changed["discounts"][0]["amount"], changed["total"]) == ("3.50", "3.50", "68.10")
    assert (changed["tax_lines"], changed["totals"]["discount"]) == ([VAT], "3.50")
    changed = (await store.patch(placed, tax_total="2.00")).json()["data"]
    assert sums(changed)[2:] == ("2.00", [], "68.50")
    changed = (await store.patch(placed, discounts=None, tax_lines=[VAT, VAT], tax_total="3.20")).json()["data"]
    assert sums(changed) == ("0.00", [], "3.20", [VAT, VAT], "73.20")
    event = (await store.events())[-1]
    assert event["type"] == "order.updated"
    assert event["changes"]["tax_lines"] == [[], [VAT, VAT]]
    assert event["changes"]["totals"] == [placed["totals"] | {
        "order_discount": "3.50", "discount": "3.50", "shipping_tax": "2.00", "tax": "2.00", "total": "68.50",
    }, changed["totals"]]  # fmt: skip
    included = (await store.patch(placed, prices_include_tax=True)).json()["data"]
    assert (included["total"], included["totals"]["tax"]) == ("70.00", "3.20")
    assert await store.get(placed) == included


async def test_repeating_the_amounts_of_an_order_changes_nothing(store: SampleStore) -> None:
    lines = [{**TEA, "quantity": 2, "discounts": [TENTH], "tax_lines": [VAT]}, {**TEA, "tax_total": "1.00"}]
    placed = await store.place(line_items=lines, discounts=[TENTH], tax_total="0.50")
    read_only = {"line_items", "status", "payment_status", "tracking", "cancel_reason", "amount_refunded"}
    echoes: list[dict[str, Any]] = [
        {
            name: placed[name]
            for name in ("discounts", "tax_total", "tax_lines", "discount_total", "prices_include_tax", "totals")
        },
        {"tax_total": "0.50"},
        {"discount_total": "0.80"},
        {"discounts": placed["discounts"]},
        {name: value for name, value in placed.items() if name not in read_only},
    ]
    for body in echoes:
        assert (await store.patch(placed, **body)).json()["data"] == placed, body
    for line in placed["line_items"]:
        names = ("quantity", "unit_price", "discounts", "discount_total", "tax_lines", "tax_total", "metadata")
        for body in ({name: line[name] for name in names}, *({name: line[name]} for name in names if line[name] != [])):
            answer = await store.client.patch(f"/orders/{placed['id']}/products/{line['id']}", json=body)
            assert answer.json()["data"] == placed, body


@pytest.mark.parametrize("empty", [[], None])
async def test_an_empty_list_makes_its_sum_zero(store: SampleStore, empty: list[Any] | None) -> None:
    line = {**TEA, "discount_total": "1.00", "tax_total": "0.50"}
    placed = await store.place(line_items=[line], discount_total="2.00", tax_total="0.25")
    changed = (await store.patch(placed, tax_lines=empty)).json()["data"]
    assert sums(changed) == ("2.00", [], "0.00", [], "5.50")
    changed = (await store.patch(placed, discounts=empty)).json()["data"]
    assert sums(changed) == ("0.00", [], "0.00", [], "7.50")
    path = f"/orders/{placed['id']}/products/{placed['line_items'][0]['id']}"
    changed = (await store.client.patch(path, json={"tax_lines": empty})).json()["data"]
    assert sums(changed["line_items"][0]) == ("1.00", [], "0.00", [], "7.00")
    changed = (await store.client.patch(path, json={"discounts": empty})).json()["data"]
    assert sums(changed["line_items"][0]) == ("0.00", [], "0.00", [], "8.00")
    again = (await store.client.patch(path, json={"discounts": empty, "discount_total": "3.00"})).json()["data"]
    assert sums(again["line_items"][0]) == ("3.00", [], "0.00", [], "5.00")


async def test_amounts_of_a_line_are_changed_by_merge_patch(store: SampleStore) -> None:
    placed = await store.place(line_items=[{**TEA, "quantity": 2, "discounts": [TENTH], "tax_lines": [VAT]}])
    path = f"/orders/{placed['id']}/products/{placed['line_items'][0]['id']}"

    async def change(**body: Any) -> Any:
        answer = await store.client.patch(path, json=body)
        return answer.json()["data"]["line_items"][0] if answer.status_code == 200 else codes(answer)

    assert sums(await change(quantity=3)) == ("0.80", [TENTH], "1.60", [VAT], "24.80")  # amounts stay
    percentage = {"kind": "percentage", "value": "10"}
    assert (await change(quantity=4, unit_price="5.00", discounts=[percentage]))["discount_total"] == "2.00"
    assert sums(await change(discount_total="1.00", tax_lines=[]))[:4] == ("1.00", [], "0.00", [])
    assert await change(tax_lines=[VAT], tax_total="1.00") == [("/tax_total", "total_mismatch")]
    assert await change(discounts=[{**percentage, "value": 101}], quantity=5) == [
        ("/discounts/0/value", "out_of_range")
    ]
    assert await change(discounts=[{"kind": "fixed", "value": "20.01"}]) == [("/discounts", "out_of_range")]
    assert (await store.get(placed))["totals"]["total"] == "19.00"
    await store.change_status(placed, "processing", "shipped")
    answer = await store.client.patch(path, json={"tax_lines": [VAT]})
    assert (answer.status_code, codes(answer)) == (409, [("/tax_lines", "order_not_editable")])
    answer = await store.patch(placed, discounts=[FIXED])
    assert (answer.status_code, codes(answer)) == (409, [("/discounts", "order_not_editable")])


async def test_lines_with_entries_are_not_merged(store: SampleStore) -> None:
    placed = await store.place(line_items=[TEA, WRAP], prices_include_tax=True)

    async def add(*lines: dict[str, Any]) -> Any:
        answer = await store.client.post(f"/orders/{placed['id']}/products", json={"line_items": lines})
        if answer.status_code != 201:
            return codes(answer)
        return [(line["quantity"], line["tax_total"], line["total"]) for line in answer.json()["data"]["line_items"]]

    assert await add({**TEA, "tax_total": "1.00"}, WRAP) == [(2, "1.00", "16.00"), (4, "0.00", "18.00")]
    assert (await add({**TEA, "tax_lines": [VAT]}))[2:] == [(1, "1.60", "8.00")]
    assert (await add({**WRAP, "taxable": False}, {**WRAP, "name": "Card"}))[3:] == [(2, "0.00", "9.00")] * 2
    assert await add({**TEA, "tax_lines": [tax("8.01")]}) == [("/line_items/0/tax_lines", "out_of_range")]
    assert await add({**TEA, "tax_lines": [VAT], "tax_total": "1"}, {"name": "Card", "quantity": 1}) == [
        ("/line_items/0/tax_total", "total_mismatch"),
        ("/line_items/1/unit_price", "required"),
    ]


# --- custom line items -----------------------------------------------------------------------------------------------


async def test_a_custom_line_has_no_variant_and_no_stock(store: SampleStore) -> None:
    order = await store.place(line_items=[{**WRAP, "requires_shipping": False, "taxable": False}, TEA, WRAP])
    custom = order["line_items"][0]
    assert (custom["product_id"], custom["variant_id"], custom["sku"]) == (None, None, None)
    assert (custom["name"], custom["variant_title"], custom["option_values"]) == ("Gift wrapping", "", {})
    flags = [(line["requires_shipping"], line["taxable"]) for line in order["line_items"]]
    assert flags == [(False, False), (True, True), (True, True)]
    assert await store.ledger(order) == [("reserve", 0, 1)]
    portion = [{"id": custom["id"], "quantity": 1}]
    part = await store.change_status(order, "processing", "shipped", line_items=portion)
    assert part["fulfillment_status"] == "partially_fulfilled"
    await store.change_status(order, "shipped")
    returned = await store.change_status(order, "returned", line_items=[{"id": custom["id"], "quantity": 2}])
    assert returned["line_items"][0]["returned_quantity"] == 2
    assert await store.ledger(order) == [("reserve", 0, 1), ("commit", -1, -1)]
    found = (await store.client.get("/orders", params={"sku": "TEA"})).json()["data"]
    assert [each["id"] for each in found] == [order["id"]]
    await store.assert_stock_is_consistent()


async def test_an_order_can_consist_of_custom_lines_alone(store: SampleStore) -> None:
    order = await store.place(line_items=[WRAP])
    patched = await store.client.patch(
        f"/orders/{order['id']}/products/{order['line_items'][0]['id']}", json={"quantity": 5}
    )
    assert patched.json()["data"]["total"] == "22.50"
    completed = await store.change_status(order, "processing", "completed", payment_status="paid")
    assert (completed["fulfillment_status"], await store.ledger(order)) == ("fulfilled", [])
    await store.change_status(await store.place(line_items=[WRAP]), "cancelled")


async def test_custom_lines_count_when_orders_are_compared(store: SampleStore) -> None:
    def body(*lines: dict[str, Any]) -> dict[str, Any]:
        return {"line_items": list(lines), "contact": {"email": ADA["email"]}}

    first = await store.place(**body(WRAP, TEA))
    assert first["suspected_duplicates_count"] == 0
    assert (await store.place(**body(TEA)))["suspected_duplicates_count"] == 0
    assert (await store.place(**body({**WRAP, "name": "Card"}, TEA)))["suspected_duplicates_count"] == 0
    assert (await store.place(**body(TEA, {**WRAP, "quantity": 1}, {**WRAP, "quantity": 1})))[
        "suspected_duplicates_count"
    ] == 1


# --- copies, erasure and other stores -----------------------------------------------------------------------------------


async def test_a_copy_has_the_same_amounts_but_no_payment(store: SampleStore) -> None:
    lines = [{**TEA, "discounts": [TENTH], "tax_lines": [VAT]}, {**WRAP, "tax_total": "1.00", "taxable": False}]
    order = await store.place(
        line_items=lines,
        prices_include_tax=True,
        discounts=[FIXED],
        tax_lines=[VAT],
        shipping_total="2.00",
        payment_status="paid",
    )
    await store.change_status(order, "processing", "shipped")
    await store.put_status(order, payment_status="partially_refunded", amount_refunded="1.00")

    async def copy(**body: Any) -> dict[str, Any]:
        answer = await store.client.post(f"/orders/{order['id']}/duplicates", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]

    same = await copy()
    for name in ("totals", "discounts", "tax_lines", "prices_include_tax", "total", "subtotal"):
        assert same[name] == order[name], name
    assert (same["amount_paid"], same["amount_refunded"], same["payment_status"]) == ("0.00", "0.00", "unpaid")

    def lines_of(shown: dict[str, Any]) -> list[dict[str, Any]]:
        """Without what belongs to one order: a draft reserves nothing."""
        return [{**line, "id": 0, "allocations": []} for line in shown["line_items"]]

    assert lines_of(same) == lines_of(order)
    repriced = await copy(reprice=True)
    assert (repriced["discounts"], repriced["tax_lines"], repriced["totals"]["tax"]) == ([], [], "0.00")
    assert [line["total"] for line in repriced["line_items"]] == ["8.00", "9.00"]
    await store.shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND sku = 'TEA'", store.shop.store_id
    )
    rest = await copy()
    assert [line["name"] for line in rest["line_items"]] == ["Gift wrapping"]
    assert (rest["discounts"], rest["total"]) == (order["discounts"], "6.00")


async def test_a_copy_reduces_a_discount_that_exceeds_the_rest(store: SampleStore) -> None:
    order = await store.place(
        line_items=[TEA, {**WRAP, "quantity": 1}], discounts=[{"kind": "percentage", "value": 80}]
    )
    await store.shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND sku = 'TEA'", store.shop.store_id
    )
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates")).json()["data"]
    assert (order["discount_total"], copy["discount_total"], copy["discounts"], copy["total"]) == (
        "10.00",
        "4.50",
        [],
        "0.00",
    )


async def test_amounts_and_custom_lines_survive_an_erasure(store: SampleStore) -> None:
    lines = [{**TEA, "discounts": [TENTH], "tax_lines": [VAT]}, {**WRAP, "metadata": {"card": "For Ada"}}]
    order = await store.place(line_items=lines, customer=ADA, discounts=[FIXED], tax_lines=[VAT])
    assert (await store.client.delete(f"/customers/{order['customer_id']}")).status_code == 204
    erased = await store.get(order)
    for name in ("totals", "discounts", "tax_lines", "total"):
        assert erased[name] == order[name], name
    assert erased["line_items"] == [order["line_items"][0], {**order["line_items"][1], "metadata": {}}]
    assert (await store.patch(order, discounts=None)).json()["data"]["total"] == "19.40"


@pytest.mark.parametrize(
    ("currency", "price", "percent", "amount"),
    [
        ("JPY", "1995", "10", "200"),
        ("KWD", "1.995", "10", "0.200"),
        ("USD", "19.95", "10", "2.00"),
        ("USD", "0.01", "49.9999", "0.00"),
    ],
)
async def test_a_percentage_is_rounded_half_up_in_the_currency(
    shop: Shop, currency: str, price: str, percent: str, amount: str
) -> None:
    other = await open_shop(shop.application, shop.db, currency=currency)
    body = {
        "line_items": [
            {"name": "Cup", "unit_price": price, "quantity": 1, "discounts": [{"kind": "percentage", "value": percent}]}
        ]
    }
    order = (await other.client.post("/orders", json=body)).json()["data"]
    assert order["line_items"][0]["discount_total"] == amount
    await other.client.aclose()


async def test_a_percentage_of_less_than_nothing_is_zero(shop: Shop) -> None:
    """Discounts of a line may exceed its price, if its taxes make up for it."""
    line = {"name": "Cup", "unit_price": "12.48", "quantity": 1, "discounts": [{"kind": "fixed", "value": "29.67"}]}
    line["tax_lines"] = [tax("17.19")]
    body = {"status": "draft", "line_items": [line], "discounts": [{"kind": "percentage", "value": "10"}]}
    order = (await shop.client.post("/orders", json=body)).json()["data"]
    assert (order["discount_total"], order["total"]) == ("0.00", "0.00")
    assert (await shop.client.patch(f"/orders/{order['id']}", json={"note": "Fragile"})).status_code == 200


def test_percentages_are_exact() -> None:
    assert [percentage_of(base, Decimal(percent)) for base, percent in ((5, "10"), (4, "10"), (10**15 - 1, "100"))] == [
        1, 0, 10**15 - 1
    ]  # fmt: skip
    assert [percent_text(Decimal(text)) for text in ("0", "7", "7.7", "8.875", "100.0000")] == [
        "0.00", "7.00", "7.70", "8.875", "100.00"
    ]  # fmt: skip
