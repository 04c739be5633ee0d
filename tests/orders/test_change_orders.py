"""Changing an order's own fields, and its timeline."""

from typing import Any

import pytest

from tests.orders.counter import ADA, HOME, Counter, codes
from tests.support.shops import Shop


async def test_a_merge_patch_changes_what_it_names(counter: Counter) -> None:
    order = await counter.place(
        ("TEA", 2), contact=ADA, shipping_address=HOME, tags=["web"], metadata={"a": 1, "b": 2}, note="Ring twice."
    )
    await counter.forget()
    answer = await counter.patch(
        order,
        contact={"last_name": "King"},
        shipping_address={"address2": "Flat 3", "city": None},
        billing_address={"company": "Moor Ltd"},
        shipping_total="5.00",
        discount_total="1.00",
        tags=["web", "gift", "web"],
        metadata={"a": None, "c": 0.1},
        note=None,
        external_id="erp-1",
        shipping_method="Bicycle",
    )
    assert answer.status_code == 200, answer.text
    changed = answer.json()["data"]
    assert changed["contact"] == {**ADA, "last_name": "King"}
    assert (changed["shipping_address"]["address2"], changed["shipping_address"]["city"]) == ("Flat 3", None)
    assert changed["shipping_address"]["address1"] == HOME["address1"]
    assert (changed["tags"], changed["metadata"], changed["note"]) == (["web", "gift"], {"b": 2, "c": 0.1}, None)
    assert (changed["total"], changed["amount_due"], changed["version"]) == ("20.00", "20.00", 2)
    (event,) = await counter.events()
    assert (event["type"], event["data"]) == ("order.updated", changed)
    assert event["changes"]["note"] == ["Ring twice.", None]
    assert event["changes"]["total"] == ["16.00", "20.00"]
    assert (await counter.timeline(order))[0]["changes"] == event["changes"]
    again = await counter.patch(order, metadata={"c": 0.1}, tags=["web", "gift"], note=None)
    assert (again.json()["data"], len(await counter.events())) == (changed, 1)


async def test_a_whole_order_may_be_sent_back_unchanged(counter: Counter) -> None:
    order = await counter.place(
        ("TEA", 2),
        customer=ADA,
        shipping_address={**HOME, "latitude": 51.381764, "longitude": -2.359},
        metadata={"x": 0.1},
    )
    answer = await counter.patch(order, **order)
    assert (answer.status_code, answer.json()["data"]) == (200, order)
    assert codes(await counter.patch(order, **{**order, "total": "1.00"})) == [("/total", "read_only_field")]
    for name in ("status", "line_items", "customer_id", "placed_at"):
        assert codes(await counter.patch(order, **{name: None})) == [(f"/{name}", "read_only_field")]


@pytest.mark.parametrize("last", ["shipped", "cancelled"])
async def test_later_only_words_about_the_order_change(counter: Counter, last: str) -> None:
    order = await counter.place(("TEA", 2), status="processing", shipping_address=HOME)
    await counter.move(order, last)
    answer = await counter.patch(order, shipping_address={"city": "Wells"}, shipping_total="1.00", note="Hm.")
    assert (answer.status_code, answer.json()["code"]) == (409, "order_not_editable")
    assert codes(answer) == [("/shipping_address", "order_not_editable"), ("/shipping_total", "order_not_editable")]
    answer = await counter.patch(
        order, note="Hm.", tags=["late"], metadata={"k": 1}, external_id="erp-2", shipping_total="0"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"discount_total": "16.01"}, ("/discount_total", "out_of_range")),
        ({"shipping_total": "9999999999999.99", "tax_total": "9999999999999.99"}, ("/line_items", "out_of_range")),
        ({"shipping_total": None}, ("/shipping_total", "invalid_type")),
        ({"contact": {"phone": "1"}}, ("/contact/phone", "invalid_format")),
        ({"contact": {"email": "nobody"}}, ("/contact/email", "invalid_format")),
        ({"shipping_address": {"country_code": "GBR"}}, ("/shipping_address/country_code", "invalid_format")),
        ({"shipping_address": {"planet": "Earth"}}, ("/shipping_address/planet", "unknown_field")),
        ({"metadata": {str(n): n for n in range(101)}}, ("/metadata", "too_long")),
    ],
)
async def test_what_is_not_right_is_named(counter: Counter, body: dict[str, Any], fault: tuple[str, str]) -> None:
    order = await counter.place(("TEA", 2))
    answer = await counter.patch(order, **body)
    assert (answer.status_code, codes(answer)) == (422, [fault])


async def test_metadata_has_an_end_however_it_grows(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), metadata={f"a{n}": n for n in range(100)})
    assert codes(await counter.patch(order, metadata={"one": "more"})) == [("/metadata", "metadata_limit")]


async def test_an_external_id_that_is_taken_is_refused(counter: Counter) -> None:
    taken = await counter.place(("TEA", 1), external_id="erp-1")
    order = await counter.place(("TEA", 1))
    answer = await counter.patch(order, external_id="erp-1")
    assert (answer.status_code, answer.json()["existing_id"]) == (409, taken["id"])
    assert (await counter.patch(taken, external_id="erp-1")).json()["data"] == taken


async def test_a_version_that_is_not_current_is_refused(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    path = f"/orders/{order['id']}"
    answer = await counter.client.patch(path, json={"note": "x"}, headers={"if-match": '"2"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
    assert (await counter.client.get(path, headers={"if-none-match": '"1"'})).status_code == 304


# --- timeline --------------------------------------------------------------------------------------------------------


async def test_the_timeline_tells_what_happened_newest_first(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    path = f"/orders/{order['id']}/comments"
    for body, visibility in (("Call them.", "internal"), ("On its way!", "customer")):
        answer = await counter.client.post(path, json={"body": body, "visibility": visibility})
        assert answer.status_code == 201
    await counter.move(order, "processing", reason="Paid by hand.")
    await counter.patch(order, note="Fragile.")
    entries = await counter.timeline(order)
    assert [(entry["type"], entry["visibility"], entry["body"]) for entry in entries] == [
        ("edit", "internal", None),
        ("status_change", "internal", "Paid by hand."),
        ("comment", "customer", "On its way!"),
        ("comment", "internal", "Call them."),
        ("system", "internal", "Placed by Test app."),
    ]
    assert entries[0]["author"] == {"type": "app", "id": counter.shop.app_id, "name": "Test app"}
    assert [entry["body"] for entry in await counter.timeline(order, visibility="customer")] == ["On its way!"]
    assert len(await counter.timeline(order, type="comment,edit")) == 3


async def test_a_comment_is_told_of_and_leaves_the_order_as_it_is(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    await counter.forget()
    answer = await counter.client.post(f"/orders/{order['id']}/comments", json={"body": "Hello"})
    (event,) = await counter.events()
    assert (event["type"], event["resource_type"]) == ("order.comment_created", "comment")
    assert event["data"] == answer.json()["data"]
    assert await counter.get(order) == order


async def test_a_timeline_is_read_page_by_page(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    for n in range(6):
        await counter.client.post(f"/orders/{order['id']}/comments", json={"body": f"{n}"})
    path, cursor = f"/orders/{order['id']}/comments", None
    seen: list[str] = []
    while True:
        page = (await counter.client.get(path, params={"limit": 3, **({"cursor": cursor} if cursor else {})})).json()
        assert page["meta"]["total"] == 7
        seen += [entry["body"] for entry in page["data"]]
        cursor = page["meta"]["next_cursor"]
        if cursor is None:
            break
    assert seen == ["5", "4", "3", "2", "1", "0", "Placed by Test app."]


async def test_another_stores_order_has_no_timeline_here(counter: Counter, other_shop: Shop) -> None:
    order = await counter.place(("TEA", 1))
    for method, what in (("GET", "comments"), ("GET", "duplicates")):
        assert (await other_shop.client.request(method, f"/orders/{order['id']}/{what}")).status_code == 404
