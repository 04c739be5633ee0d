"""Lines of an order: adding, changing and removing them moves stock and updates totals."""

from typing import Any

import httpx

from tests.orders.sample_store import SampleStore, codes


async def add(store: SampleStore, order: dict[str, Any], *lines: dict[str, Any]) -> httpx.Response:
    return await store.client.post(f"/orders/{order['id']}/products", json={"line_items": list(lines)})


async def change(store: SampleStore, order: dict[str, Any], index: int, **body: Any) -> httpx.Response:
    line = order["line_items"][index]["id"]
    return await store.client.patch(f"/orders/{order['id']}/products/{line}", json=body)


async def test_added_products_leave_the_other_lines_unchanged(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    await store.skip_events()
    answer = await add(store, order, {"sku": "POT-B", "quantity": 1}, {"sku": "CLASS", "quantity": 2})
    assert answer.status_code == 201
    assert answer.headers["location"].endswith(f"/orders/{order['id']}")
    grown = answer.json()["data"]
    assert grown["line_items"][0] == order["line_items"][0]
    assert [line["sku"] for line in grown["line_items"]] == ["TEA", "POT-B", "CLASS"]
    assert (grown["total"], grown["version"]) == ("121.00", 2)
    assert (await store.stock("POT-B"), await store.stock("TEA")) == ((3, 1), (10, 2))
    (event,) = await store.events()
    assert event["type"] == "order.products_changed"
    old, new = event["changes"]["line_items"]
    assert (old, [line["sku"] for line in new]) == ([], ["POT-B", "CLASS"])
    assert event["changes"]["total"] == ["16.00", "121.00"]


async def test_an_added_line_merges_with_an_equal_one_unless_merge_is_false(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    merged = (await add(store, order, {"sku": "TEA", "quantity": 1})).json()["data"]
    assert [line["quantity"] for line in merged["line_items"]] == [3]
    separate = (await add(store, order, {"sku": "TEA", "quantity": 1, "merge": False})).json()["data"]
    assert [line["quantity"] for line in separate["line_items"]] == [3, 1]
    cheaper = (await add(store, order, {"sku": "TEA", "quantity": 1, "unit_price": "7.00"})).json()["data"]
    assert [line["unit_price"] for line in cheaper["line_items"]] == ["8.00", "8.00", "7.00"]
    assert await store.stock("TEA") == (10, 5)
    await store.assert_stock_is_consistent()


async def test_added_lines_are_reserved_all_or_none(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    answer = await add(store, order, {"sku": "TEA", "quantity": 1}, {"sku": "POT-W", "quantity": 2})
    assert (answer.status_code, codes(answer)) == (409, [("/line_items/1/quantity", "insufficient_stock")])
    answer = await add(store, order, {"sku": "TEA", "quantity": 1}, {"sku": "NOPE", "quantity": 2})
    assert (answer.status_code, codes(answer)) == (422, [("/line_items/1/sku", "unknown_sku")])
    assert (await store.get(order), await store.stock("TEA")) == (order, (10, 2))


async def test_a_changed_quantity_reserves_or_releases_the_difference(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), ("POT-B", 1))
    more = (await change(store, order, 0, quantity=7)).json()["data"]
    assert (more["line_items"][0]["quantity"], more["total"], await store.stock("TEA")) == (7, "101.00", (10, 7))
    less = (await change(store, order, 0, quantity=1)).json()["data"]
    assert (less["total"], await store.stock("TEA")) == ("53.00", (10, 1))
    assert await store.ledger(order) == [
        ("reserve", 0, 2),
        ("reserve", 0, 1),
        ("reserve", 0, 5),
        ("release", 0, -6),
    ]
    answer = await change(store, order, 0, quantity=11)
    assert (answer.status_code, codes(answer)) == (409, [("/quantity", "insufficient_stock")])


async def test_a_quantity_of_zero_removes_a_line_but_not_the_last_one(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), ("POT-B", 1))
    left = (await change(store, order, 0, quantity=0)).json()["data"]
    assert [line["sku"] for line in left["line_items"]] == ["POT-B"]
    assert (await store.stock("TEA"), left["total"]) == ((10, 0), "45.00")
    assert (await change(store, order, 0, quantity=1)).status_code == 404
    answer = await change(store, order, 1, quantity=0)
    assert codes(answer) == [("/quantity", "out_of_range")]
    await store.assert_stock_is_consistent()


async def test_price_discount_and_metadata_of_a_line_can_change(store: SampleStore) -> None:
    order = await store.place(line_items=[{"sku": "TEA", "quantity": 2, "metadata": {"a": 1, "b": 2}}])
    body = {"unit_price": "9.00", "discount_total": "1.00", "tax_total": "0.30", "metadata": {"a": None, "c": "x"}}
    line = (await change(store, order, 0, **body)).json()["data"]["line_items"][0]
    assert (line["total"], line["metadata"]) == ("17.30", {"b": 2, "c": "x"})
    answer = await change(store, order, 0, discount_total="18.31")
    assert codes(answer) == [("/discount_total", "out_of_range")]


async def test_true_in_the_metadata_of_a_line_is_not_1(store: SampleStore) -> None:
    order = await store.place(line_items=[{"sku": "TEA", "quantity": 2, "metadata": {"gift": True}}])
    await store.skip_events()
    changed = (await change(store, order, 0, metadata={"gift": 1})).json()["data"]
    assert (changed["line_items"][0]["metadata"]["gift"] is True, changed["version"]) == (False, 2)
    (event,) = await store.events()
    old, new = event["changes"]["line_items"]
    assert (event["type"], old[0]["metadata"]["gift"] is True, new[0]["metadata"]["gift"] is True) == (
        "order.products_changed", True, False,
    )  # fmt: skip
    assert (await store.get(order))["line_items"][0]["metadata"]["gift"] is not True


async def test_lines_of_which_one_has_true_in_its_metadata_and_the_other_1_are_not_merged(store: SampleStore) -> None:
    order = await store.place(line_items=[{"sku": "TEA", "quantity": 2, "metadata": {"gift": True}}])
    grown = (await add(store, order, {"sku": "TEA", "quantity": 1, "metadata": {"gift": 1}})).json()["data"]
    assert [line["quantity"] for line in grown["line_items"]] == [2, 1]
    grown = (await add(store, order, {"sku": "TEA", "quantity": 1, "metadata": {"gift": True}})).json()["data"]
    assert [line["quantity"] for line in grown["line_items"]] == [3, 1]


async def test_a_patch_without_changes_keeps_the_version(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    await store.skip_events()
    answer = await change(store, order, 0, quantity=2, unit_price="8.00", metadata={})
    assert (answer.json()["data"], await store.event_names()) == (order, [])


async def test_read_only_fields_can_be_sent_back_unchanged(store: SampleStore) -> None:
    order = await store.place(("TEA", 2))
    line = order["line_items"][0]
    assert (await change(store, order, 0, id=line["id"], total="16.00", quantity=3)).status_code == 200
    assert codes(await change(store, order, 0, id=line["id"] + 1)) == [("/id", "read_only_field")]


async def test_lines_of_a_shipped_order_cannot_change(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    await store.change_status(order, "shipped")
    for answer in (
        await add(store, order, {"sku": "TEA", "quantity": 1}),
        await change(store, order, 0, quantity=3),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "order_not_editable")


async def test_a_quantity_cannot_fall_below_the_shipped_quantity(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), status="processing")
    line = order["line_items"][0]["id"]
    await store.change_status(order, "shipped", line_items=[{"id": line, "quantity": 3}])
    answer = await change(store, order, 0, quantity=2)
    assert (codes(answer), answer.json()["errors"][0]["meta"]) == ([("/quantity", "out_of_range")], {"minimum": 3})
    settled = (await change(store, order, 0, quantity=3)).json()["data"]
    assert (settled["fulfillment_status"], settled["status"]) == ("fulfilled", "processing")
    assert (await store.change_status(order, "shipped"))["status"] == "shipped"
    assert await store.stock("TEA") == (7, 0)
    await store.assert_stock_is_consistent()


async def test_adding_to_a_paid_order_creates_an_amount_due(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), payment_status="paid")
    grown = (await add(store, order, {"sku": "TEA", "quantity": 1})).json()["data"]
    assert (grown["payment_status"], grown["amount_due"]) == ("partially_paid", "8.00")
    settled = (await store.put_status(order, payment_status="paid")).json()["data"]
    assert (settled["amount_paid"], settled["amount_due"]) == ("16.00", "0.00")


async def test_a_line_of_another_order_is_not_found(store: SampleStore) -> None:
    one, other = await store.place(("TEA", 1)), await store.place(("TEA", 1))
    line = other["line_items"][0]["id"]
    answer = await store.client.patch(f"/orders/{one['id']}/products/{line}", json={"quantity": 2})
    assert answer.status_code == 404


async def test_an_order_cannot_grow_beyond_the_size_limit(store: SampleStore) -> None:
    order = await store.place(("CLASS", 1), status="draft")
    notes = {f"k{n}": "x" * 1000 for n in range(90)}
    line = {"sku": "CLASS", "quantity": 1, "merge": False, "metadata": notes}
    statuses = [(await add(store, order, *[line] * 11)).status_code for _ in range(2)]
    assert statuses == [201, 422]


async def test_an_order_has_at_most_500_lines(store: SampleStore) -> None:
    order = await store.place(*[("CLASS", 1)] * 500)
    assert len(order["line_items"]) == 500
    answer = await add(store, order, {"sku": "CLASS", "quantity": 1, "merge": False})
    assert codes(answer) == [("/line_items", "too_long")]
    assert codes(await store.post(*[("CLASS", 1)] * 501)) == [("/line_items", "too_long")]
