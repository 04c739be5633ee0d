"""Changes to the fields of an order, and its timeline."""

from typing import Any

import pytest

from tests.orders.sample_store import ADA, HOME, SampleStore, codes
from tests.support.shops import Shop


async def test_a_merge_patch_changes_only_the_fields_it_contains(store: SampleStore) -> None:
    order = await store.place(
        ("TEA", 2), contact=ADA, shipping_address=HOME, tags=["web"], metadata={"a": 1, "b": 2}, note="Ring twice."
    )
    await store.skip_events()
    answer = await store.patch(
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
    (event,) = await store.events()
    assert (event["type"], event["data"]) == ("order.updated", changed)
    assert event["changes"]["note"] == ["Ring twice.", None]
    assert event["changes"]["total"] == ["16.00", "20.00"]
    assert (await store.timeline(order))[0]["changes"] == event["changes"]
    again = await store.patch(order, metadata={"c": 0.1}, tags=["web", "gift"], note=None)
    assert (again.json()["data"], len(await store.events())) == (changed, 1)


@pytest.mark.parametrize(
    ("old", "new", "text"), [(True, 1, "1"), (1, True, "true"), (False, 0, "0"), (0, False, "false")]
)
async def test_true_in_metadata_is_not_1(store: SampleStore, old: Any, new: Any, text: str) -> None:
    order = await store.place(("TEA", 2), metadata={"gift": old})
    await store.skip_events()
    changed = (await store.patch(order, metadata={"gift": new})).json()["data"]
    assert (changed["metadata"]["gift"] is new, changed["version"]) == (True, 2)
    (event,) = await store.events()
    assert [value["gift"] is was for value, was in zip(event["changes"]["metadata"], (old, new), strict=True)] == [
        True,
        True,
    ]
    found = await store.client.get("/orders", params={"metadata[gift]": text})
    assert [each["id"] for each in found.json()["data"]] == [order["id"]]
    again = await store.patch(order, metadata={"gift": new})
    assert (again.json()["data"]["version"], await store.event_names()) == (2, ["updated"])


async def test_a_whole_order_can_be_sent_back_unchanged(store: SampleStore) -> None:
    order = await store.place(
        ("TEA", 2),
        customer=ADA,
        shipping_address={**HOME, "latitude": 51.381764, "longitude": -2.359},
        metadata={"x": 0.1},
    )
    answer = await store.patch(order, **order)
    assert (answer.status_code, answer.json()["data"]) == (200, order)
    assert codes(await store.patch(order, **{**order, "total": "1.00"})) == [("/total", "read_only_field")]
    for name in ("status", "line_items", "customer_id", "placed_at"):
        assert codes(await store.patch(order, **{name: None})) == [(f"/{name}", "read_only_field")]


@pytest.mark.parametrize("last", ["shipped", "cancelled"])
async def test_after_shipping_or_cancelling_only_notes_tags_and_ids_change(store: SampleStore, last: str) -> None:
    order = await store.place(("TEA", 2), status="processing", shipping_address=HOME)
    await store.change_status(order, last)
    answer = await store.patch(order, shipping_address={"city": "Wells"}, shipping_total="1.00", note="Hm.")
    assert (answer.status_code, answer.json()["code"]) == (409, "order_not_editable")
    assert codes(answer) == [("/shipping_address", "order_not_editable"), ("/shipping_total", "order_not_editable")]
    answer = await store.patch(
        order, note="Hm.", tags=["late"], metadata={"k": 1}, external_id="erp-2", shipping_total="0"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"discount_total": "16.01"}, ("/discount_total", "out_of_range")),
        ({"shipping_total": "9999999999999.99", "tax_total": "9999999999999.99"}, ("/shipping_total", "out_of_range")),
        ({"shipping_total": None}, ("/shipping_total", "invalid_type")),
        ({"contact": {"phone": "1"}}, ("/contact/phone", "invalid_format")),
        ({"contact": {"email": "nobody"}}, ("/contact/email", "invalid_format")),
        ({"shipping_address": {"country_code": "GBR"}}, ("/shipping_address/country_code", "invalid_format")),
        ({"shipping_address": {"planet": "Earth"}}, ("/shipping_address/planet", "unknown_field")),
        ({"metadata": {str(n): n for n in range(101)}}, ("/metadata", "too_long")),
    ],
)
async def test_an_invalid_value_is_reported_by_pointer_and_code(
    store: SampleStore, body: dict[str, Any], fault: tuple[str, str]
) -> None:
    order = await store.place(("TEA", 2))
    answer = await store.patch(order, **body)
    assert (answer.status_code, codes(answer)) == (422, [fault])


async def test_metadata_cannot_grow_beyond_its_limit(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), metadata={f"a{n}": n for n in range(100)})
    assert codes(await store.patch(order, metadata={"one": "more"})) == [("/metadata", "metadata_limit")]


async def test_an_external_id_that_is_taken_is_refused(store: SampleStore) -> None:
    taken = await store.place(("TEA", 1), external_id="erp-1")
    order = await store.place(("TEA", 1))
    answer = await store.patch(order, external_id="erp-1")
    assert (answer.status_code, answer.json()["existing_id"]) == (409, taken["id"])
    assert (await store.patch(taken, external_id="erp-1")).json()["data"] == taken


async def test_an_outdated_version_is_refused(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    path = f"/orders/{order['id']}"
    answer = await store.client.patch(path, json={"note": "x"}, headers={"if-match": '"2"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
    assert (await store.client.get(path, headers={"if-none-match": '"1"'})).status_code == 304


# --- timeline --------------------------------------------------------------------------------------------------------


async def test_the_timeline_lists_entries_newest_first(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    path = f"/orders/{order['id']}/comments"
    for body, visibility in (("Call them.", "internal"), ("On its way!", "customer")):
        answer = await store.client.post(path, json={"body": body, "visibility": visibility})
        assert answer.status_code == 201
    await store.change_status(order, "processing", reason="Paid by hand.")
    await store.patch(order, note="Fragile.")
    entries = await store.timeline(order)
    assert [(entry["type"], entry["visibility"], entry["body"]) for entry in entries] == [
        ("edit", "internal", None),
        ("status_change", "internal", "Paid by hand."),
        ("comment", "customer", "On its way!"),
        ("comment", "internal", "Call them."),
        ("system", "internal", "Placed by Test app."),
    ]
    assert entries[0]["author"] == {"type": "app", "id": store.shop.app_id, "name": "Test app"}
    assert [entry["body"] for entry in await store.timeline(order, visibility="customer")] == ["On its way!"]
    assert len(await store.timeline(order, type="comment,edit")) == 3


async def test_a_comment_emits_an_event_and_does_not_change_the_order(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    await store.skip_events()
    answer = await store.client.post(f"/orders/{order['id']}/comments", json={"body": "Hello"})
    (event,) = await store.events()
    assert (event["type"], event["resource_type"]) == ("order.comment_created", "comment")
    assert event["data"] == answer.json()["data"]
    assert await store.get(order) == order


async def test_a_timeline_is_paginated(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    for n in range(6):
        await store.client.post(f"/orders/{order['id']}/comments", json={"body": f"{n}"})
    path, cursor = f"/orders/{order['id']}/comments", None
    seen: list[str] = []
    while True:
        page = (await store.client.get(path, params={"limit": 3, **({"cursor": cursor} if cursor else {})})).json()
        assert page["meta"]["total"] == 7
        seen += [entry["body"] for entry in page["data"]]
        cursor = page["meta"]["next_cursor"]
        if cursor is None:
            break
    assert seen == ["5", "4", "3", "2", "1", "0", "Placed by Test app."]


async def test_the_timeline_of_another_stores_order_is_not_found(store: SampleStore, other_shop: Shop) -> None:
    order = await store.place(("TEA", 1))
    for method, collection in (("GET", "comments"), ("GET", "duplicates")):
        assert (await other_shop.client.request(method, f"/orders/{order['id']}/{collection}")).status_code == 404
