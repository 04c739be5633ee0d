"""Lines of an order: added, changed and removed, with the stock difference and new sums."""

from typing import Any

import httpx

from tests.orders.counter import Counter, codes


async def add(counter: Counter, order: dict[str, Any], *lines: dict[str, Any]) -> httpx.Response:
    return await counter.client.post(f"/orders/{order['id']}/products", json={"line_items": list(lines)})


async def change(counter: Counter, order: dict[str, Any], place: int, **body: Any) -> httpx.Response:
    line = order["line_items"][place]["id"]
    return await counter.client.patch(f"/orders/{order['id']}/products/{line}", json=body)


async def test_products_are_added_and_the_other_lines_stay(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    await counter.forget()
    answer = await add(counter, order, {"sku": "POT-B", "quantity": 1}, {"sku": "CLASS", "quantity": 2})
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(f"/orders/{order['id']}")
    grown = answer.json()["data"]
    assert grown["line_items"][0] == order["line_items"][0]
    assert [line["sku"] for line in grown["line_items"]] == ["TEA", "POT-B", "CLASS"]
    assert (grown["total"], grown["version"]) == ("121.00", 2)
    assert (await counter.stock("POT-B"), await counter.stock("TEA")) == ((3, 1), (10, 2))
    (event,) = await counter.events()
    assert event["type"] == "order.products_changed"
    old, new = event["changes"]["line_items"]
    assert (old, [line["sku"] for line in new]) == ([], ["POT-B", "CLASS"])
    assert event["changes"]["total"] == ["16.00", "121.00"]


async def test_a_line_joins_an_equal_one_unless_it_shall_not(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    joined = (await add(counter, order, {"sku": "TEA", "quantity": 1})).json()["data"]
    assert [line["quantity"] for line in joined["line_items"]] == [3]
    apart = (await add(counter, order, {"sku": "TEA", "quantity": 1, "merge": False})).json()["data"]
    assert [line["quantity"] for line in apart["line_items"]] == [3, 1]
    cheaper = (await add(counter, order, {"sku": "TEA", "quantity": 1, "unit_price": "7.00"})).json()["data"]
    assert [line["unit_price"] for line in cheaper["line_items"]] == ["8.00", "8.00", "7.00"]
    assert await counter.stock("TEA") == (10, 5)
    await counter.assert_books_balance()


async def test_added_lines_are_had_all_or_none(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    answer = await add(counter, order, {"sku": "TEA", "quantity": 1}, {"sku": "POT-W", "quantity": 2})
    assert (answer.status_code, codes(answer)) == (409, [("/line_items/1/quantity", "insufficient_stock")])
    answer = await add(counter, order, {"sku": "TEA", "quantity": 1}, {"sku": "NOPE", "quantity": 2})
    assert (answer.status_code, codes(answer)) == (422, [("/line_items/1/sku", "unknown_sku")])
    assert (await counter.get(order), await counter.stock("TEA")) == (order, (10, 2))


async def test_a_changed_quantity_moves_the_difference(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), ("POT-B", 1))
    more = (await change(counter, order, 0, quantity=7)).json()["data"]
    assert (more["line_items"][0]["quantity"], more["total"], await counter.stock("TEA")) == (7, "101.00", (10, 7))
    less = (await change(counter, order, 0, quantity=1)).json()["data"]
    assert (less["total"], await counter.stock("TEA")) == ("53.00", (10, 1))
    assert await counter.ledger(order) == [
        ("reserve", 0, 2),
        ("reserve", 0, 1),
        ("reserve", 0, 5),
        ("release", 0, -6),
    ]
    answer = await change(counter, order, 0, quantity=11)
    assert (answer.status_code, codes(answer)) == (409, [("/quantity", "insufficient_stock")])


async def test_a_quantity_of_nothing_removes_the_line_but_not_the_last(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), ("POT-B", 1))
    left = (await change(counter, order, 0, quantity=0)).json()["data"]
    assert [line["sku"] for line in left["line_items"]] == ["POT-B"]
    assert (await counter.stock("TEA"), left["total"]) == ((10, 0), "45.00")
    assert (await change(counter, order, 0, quantity=1)).status_code == 404
    answer = await change(counter, order, 1, quantity=0)
    assert codes(answer) == [("/quantity", "out_of_range")]
    await counter.assert_books_balance()


async def test_price_discount_and_metadata_of_a_line_change(counter: Counter) -> None:
    order = await counter.place(line_items=[{"sku": "TEA", "quantity": 2, "metadata": {"a": 1, "b": 2}}])
    body = {"unit_price": "9.00", "discount_total": "1.00", "tax_total": "0.30", "metadata": {"a": None, "c": "x"}}
    line = (await change(counter, order, 0, **body)).json()["data"]["line_items"][0]
    assert (line["total"], line["metadata"]) == ("17.30", {"b": 2, "c": "x"})
    answer = await change(counter, order, 0, discount_total="18.31")
    assert codes(answer) == [("/discount_total", "out_of_range")]


async def test_a_change_that_changes_nothing_is_no_version(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    await counter.forget()
    answer = await change(counter, order, 0, quantity=2, unit_price="8.00", metadata={})
    assert (answer.json()["data"], await counter.event_names()) == (order, [])


async def test_fields_that_are_read_only_may_be_sent_back(counter: Counter) -> None:
    order = await counter.place(("TEA", 2))
    line = order["line_items"][0]
    assert (await change(counter, order, 0, id=line["id"], total="16.00", quantity=3)).status_code == 200
    assert codes(await change(counter, order, 0, id=line["id"] + 1)) == [("/id", "read_only_field")]


async def test_lines_freeze_once_the_order_is_shipped(counter: Counter) -> None:
    order = await counter.place(("TEA", 2), status="processing")
    await counter.move(order, "shipped")
    for answer in (
        await add(counter, order, {"sku": "TEA", "quantity": 1}),
        await change(counter, order, 0, quantity=3),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "order_not_editable")


async def test_what_was_shipped_cannot_be_taken_off(counter: Counter) -> None:
    order = await counter.place(("TEA", 5), status="processing")
    line = order["line_items"][0]["id"]
    await counter.move(order, "shipped", line_items=[{"id": line, "quantity": 3}])
    answer = await change(counter, order, 0, quantity=2)
    assert (codes(answer), answer.json()["errors"][0]["meta"]) == ([("/quantity", "out_of_range")], {"minimum": 3})
    settled = (await change(counter, order, 0, quantity=3)).json()["data"]
    assert (settled["fulfillment_status"], settled["status"]) == ("fulfilled", "processing")
    assert (await counter.move(order, "shipped"))["status"] == "shipped"
    assert await counter.stock("TEA") == (7, 0)
    await counter.assert_books_balance()


async def test_a_paid_order_that_grows_has_something_due(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), payment_status="paid")
    grown = (await add(counter, order, {"sku": "TEA", "quantity": 1})).json()["data"]
    assert (grown["payment_status"], grown["amount_due"]) == ("paid", "8.00")
    settled = (await counter.put(order, payment_status="paid")).json()["data"]
    assert (settled["amount_paid"], settled["amount_due"]) == ("16.00", "0.00")


async def test_a_line_of_another_order_is_not_there(counter: Counter) -> None:
    one, other = await counter.place(("TEA", 1)), await counter.place(("TEA", 1))
    line = other["line_items"][0]["id"]
    answer = await counter.client.patch(f"/orders/{one['id']}/products/{line}", json={"quantity": 2})
    assert answer.status_code == 404


async def test_an_order_cannot_grow_until_nobody_can_read_it(counter: Counter) -> None:
    order = await counter.place(("CLASS", 1), status="draft")
    notes = {f"k{n}": "x" * 1000 for n in range(90)}
    line = {"sku": "CLASS", "quantity": 1, "merge": False, "metadata": notes}
    statuses = [(await add(counter, order, *[line] * 11)).status_code for _ in range(2)]
    assert statuses == [201, 422]


async def test_lines_in_their_hundreds_have_an_end(counter: Counter) -> None:
    order = await counter.place(*[("CLASS", 1)] * 500)
    assert len(order["line_items"]) == 500
    answer = await add(counter, order, {"sku": "CLASS", "quantity": 1, "merge": False})
    assert codes(answer) == [("/line_items", "too_long")]
    assert codes(await counter.post(*[("CLASS", 1)] * 501)) == [("/line_items", "too_long")]
