"""Fulfillments of orders: each shipment makes one, and tracking and delivery change it."""

import asyncio
from typing import Any

import pytest

from stoa.orders.records import MOST_FULFILLMENTS
from tests.orders.sample_store import SampleStore, codes

POST: dict[str, Any] = {"carrier": "Post", "number": "P-1", "url": "https://post.example.com/P-1"}


def part(order: dict[str, Any], *quantities: int) -> list[dict[str, int]]:
    """The first line items of an order with these quantities; 0 leaves one out."""
    pairs = zip(order["line_items"], quantities, strict=False)
    return [{"id": line["id"], "quantity": quantity} for line, quantity in pairs if quantity]


def units(fulfillment: dict[str, Any], order: dict[str, Any]) -> list[int]:
    """The units of each line item of the order in a fulfillment."""
    shipped = {each["line_item_id"]: each["quantity"] for each in fulfillment["line_items"]}
    return [shipped.pop(line["id"], 0) for line in order["line_items"]] + list(shipped.values())


async def test_each_shipment_makes_one_fulfillment(store: SampleStore) -> None:
    order = await store.place(("TEA", 5), ("POT-B", 1), status="processing")
    assert (order["fulfillments"], order["refunds"]) == ([], [])
    await store.skip_events()
    first = await store.change_status(order, "shipped", line_items=part(order, 3), tracking=POST)
    assert first["status"] == "processing"
    made = first["fulfillments"][0]
    assert made == {
        "id": 1,
        "line_items": [
            {
                "line_item_id": order["line_items"][0]["id"],
                "quantity": 3,
                "allocations": [{"location": "default", "quantity": 3}],
            }
        ],
        "tracking": POST,
        "status": "shipped",
        "shipped_at": made["shipped_at"],
        "delivered_at": None,
        "location": "default",
        "voided_at": None,
    }
    assert order["updated_at"] < made["shipped_at"] <= first["updated_at"]
    events = await store.events()
    assert [event["type"] for event in events] == ["order.status_changed", "order.fulfilled"]
    assert events[1]["changes"]["fulfillments"] == [[], first["fulfillments"]]
    assert events[1]["data"] == first
    whole = await store.change_status(order, "shipped")
    assert (whole["status"], [each["id"] for each in whole["fulfillments"]]) == ("shipped", [1, 2])
    assert [units(each, order) for each in whole["fulfillments"]] == [[3, 0], [2, 1]]
    assert whole["fulfillments"][0] == first["fulfillments"][0]
    assert [each["number"] for each in whole["tracking"]] == ["P-1"]
    again = await store.put_status(order, status="shipped")
    assert again.json()["data"] == whole == await store.get(order)


async def test_an_order_is_delivered_when_all_its_fulfillments_are(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 1))
    early = await store.change_status(order, "delivered", fulfillment_id=1)
    assert (early["status"], [each["status"] for each in early["fulfillments"]]) == ("processing", ["delivered"])
    await store.change_status(order, "shipped", line_items=part(order, 1))
    shipped = await store.change_status(order, "shipped")
    assert (shipped["status"], [f["status"] for f in shipped["fulfillments"]]) == (
        "shipped",
        ["delivered", "shipped", "shipped"],
    )
    third = await store.change_status(order, "delivered", fulfillment_id=3)
    assert third["status"] == "shipped"
    await store.skip_events()
    last = await store.change_status(order, "delivered", fulfillment_id=2)
    assert (last["status"], last["allowed_transitions"]) == ("delivered", ["completed", "returned"])
    assert all(each["delivered_at"] >= each["shipped_at"] for each in last["fulfillments"])
    assert await store.event_names() == ["status_changed", "fulfillment_updated"]
    assert (await store.events())[1]["changes"]["fulfillments"] == [
        [shipped["fulfillments"][1]],
        [last["fulfillments"][1]],
    ]
    again = await store.put_status(order, status="delivered", fulfillment_id=2)
    assert again.json()["data"] == last


async def test_delivered_without_an_id_marks_all_fulfillments(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 1))
    await store.change_status(order, "shipped")
    delivered = await store.change_status(order, "delivered")
    assert [each["status"] for each in delivered["fulfillments"]] == ["delivered", "delivered"]


async def test_completing_an_order_hands_over_the_rest_as_one_delivered_fulfillment(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), status="processing", payment_status="paid")
    await store.change_status(order, "shipped", line_items=part(order, 1))
    await store.skip_events()
    done = await store.change_status(order, "completed")
    assert [(units(each, order), each["status"]) for each in done["fulfillments"]] == [
        ([1], "delivered"),
        ([2], "delivered"),
    ]
    assert await store.event_names() == ["status_changed", "fulfilled", "fulfillment_updated"]
    assert await store.stock("TEA") == (7, 0)
    shipped_first = await store.place(("TEA", 1), status="processing", payment_status="paid")
    done = await store.change_status(shipped_first, "shipped", "delivered", "completed")
    assert len(done["fulfillments"]) == 1


async def test_the_tracking_of_one_fulfillment_can_be_changed(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 1), tracking=POST)
    await store.change_status(order, "shipped", tracking={"number": "P-2"})
    await store.skip_events()
    answer = await store.put_status(order, fulfillment_id=1, tracking={"carrier": "Courier", "number": "C-7"})
    changed = answer.json()["data"]
    assert changed["fulfillments"][0]["tracking"] == {"carrier": "Courier", "number": "C-7", "url": None}
    assert [each["number"] for each in changed["tracking"]] == ["C-7", "P-2"]
    assert await store.event_names() == ["updated", "fulfillment_updated"]
    again = await store.put_status(order, fulfillment_id=1, tracking={"carrier": "Courier", "number": "C-7"})
    assert again.json()["data"] == changed
    both = await store.change_status(order, "delivered", fulfillment_id=2, tracking={"number": "P-3"})
    assert (both["fulfillments"][1]["status"], both["tracking"][1]["number"]) == ("delivered", "P-3")


async def test_tracking_without_an_id_belongs_to_the_newest_fulfillment_that_has_none(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), status="processing")
    for n in (1, 2):
        await store.change_status(order, "shipped", line_items=part(order, 1), **({"tracking": POST} if n == 1 else {}))
    await store.put_status(order, tracking={"number": "P-2"})
    further = (await store.put_status(order, tracking={"number": "P-3"})).json()["data"]
    assert [each["tracking"]["number"] for each in further["fulfillments"]] == ["P-1", "P-2"]
    assert [each["number"] for each in further["tracking"]] == ["P-1", "P-2", "P-3"]
    # Two fulfillments in one parcel: both name it, and the flat list has it once. Further parcels stay the last.
    last = await store.change_status(order, "shipped", tracking=POST)
    assert last["fulfillments"][2]["tracking"] == POST
    assert [each["number"] for each in last["tracking"]] == ["P-1", "P-2", "P-3"]
    assert await store.get(order) == last


async def test_a_shipment_of_an_order_whose_rest_was_removed_makes_no_empty_fulfillment(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 2))
    await store.change_status(order, "delivered", fulfillment_id=1)
    line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
    assert (await store.client.patch(line, json={"quantity": 2})).status_code == 200
    arrived = await store.change_status(order, "shipped")
    assert (arrived["status"], len(arrived["fulfillments"])) == ("delivered", 1)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"fulfillment_id": 2, "status": "delivered"}, ("/fulfillment_id", "not_found")),
        ({"fulfillment_id": 2, "tracking": POST}, ("/fulfillment_id", "not_found")),
        ({"fulfillment_id": 0, "tracking": POST}, ("/fulfillment_id", "out_of_range")),
        ({"fulfillment_id": 10**30, "tracking": POST}, None),
        ({"fulfillment_id": "1", "tracking": POST}, ("/fulfillment_id", "invalid_type")),
        ({"fulfillment_id": 1, "status": "shipped"}, ("/fulfillment_id", "invalid_format")),
        ({"fulfillment_id": 1, "status": "cancelled"}, ("/fulfillment_id", "invalid_format")),
        ({"fulfillment_id": 1, "payment_status": "paid"}, ("/tracking", "required")),
        ({"fulfillment_id": 1}, ("/status", "required")),
        ({"fulfillment_id": 1, "tracking": {}}, ("/tracking/number", "required")),
    ],
)
async def test_an_invalid_change_of_a_fulfillment_changes_nothing(
    store: SampleStore, body: dict[str, Any], fault: tuple[str, str] | None
) -> None:
    order = await store.place(("TEA", 3), status="processing")
    shipped = await store.change_status(order, "shipped", line_items=part(order, 1))
    answer = await store.put_status(order, **body)
    assert answer.status_code in (400, 422)
    if fault:
        assert fault in codes(answer)
    assert await store.get(order) == shipped


async def test_a_fulfillment_of_more_units_than_are_left_is_refused(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), ("POT-B", 1), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 2))
    answer = await store.put_status(order, status="shipped", line_items=part(order, 2, 1))
    assert (answer.status_code, codes(answer)) == (422, [("/line_items/0/quantity", "out_of_range")])
    assert answer.json()["errors"][0]["meta"] == {"maximum": 1}
    assert (await store.stock("TEA"), await store.stock("POT-B")) == ((8, 1), (3, 1))


async def test_concurrent_partial_shipments_never_ship_more_than_was_ordered(store: SampleStore) -> None:
    order = await store.place(("TEA", 3), status="processing")
    body: dict[str, Any] = {"status": "shipped", "line_items": part(order, 1)}
    answers = await asyncio.gather(*(store.put_status(order, **body) for _ in range(6)))
    left = await store.get(order)
    assert sorted(answer.status_code for answer in answers) == [200] * 6  # the last three find the order shipped
    assert [(each["id"], units(each, order)) for each in left["fulfillments"]] == [(1, [1]), (2, [1]), (3, [1])]
    assert (left["status"], left["line_items"][0]["fulfilled_quantity"]) == ("shipped", 3)
    await store.assert_stock_is_consistent()


async def test_an_order_has_at_most_100_fulfillments_and_the_last_one_ships_the_rest(store: SampleStore) -> None:
    order = await store.place(("CLASS", MOST_FULFILLMENTS + 1), status="processing")
    for _ in range(MOST_FULFILLMENTS - 1):
        await store.change_status(order, "shipped", line_items=part(order, 1))
    answer = await store.put_status(order, status="shipped", line_items=part(order, 1))
    assert (answer.status_code, codes(answer)) == (422, [("/line_items", "too_long")])
    shipped = await store.change_status(order, "shipped")
    assert (shipped["status"], len(shipped["fulfillments"])) == ("shipped", MOST_FULFILLMENTS)


async def test_the_timeline_names_the_fulfillment(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    await store.change_status(order, "shipped", line_items=part(order, 1), tracking=POST)
    await store.change_status(order, "delivered", fulfillment_id=1)
    delivered, shipped = (await store.timeline(order))[:2]
    old, new = shipped["changes"]["fulfillments"]
    assert (old, [(each["id"], each["status"], "tracking" in each) for each in new]) == ([], [(1, "shipped", False)])
    assert [(each["id"], each["status"]) for each in delivered["changes"]["fulfillments"][1]] == [(1, "delivered")]
