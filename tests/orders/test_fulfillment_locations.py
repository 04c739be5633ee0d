"""Shipments from a named location, voided shipments, and returns to a named location."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from stoa.inventory.locations import add_location, deactivate_location
from stoa.products.stock_locations import DEFAULT_LOCATION
from tests.orders.sample_store import SampleStore, codes
from tests.orders.test_fulfillments import POST, part
from tests.support.locations import assert_books_balance, levels, open_locations, spread


@pytest.fixture
async def two(store: SampleStore) -> SampleStore:
    """Ten units of tea: six at the default location, four in the east. Orders reserve in the east last."""
    await open_locations(store.shop, east=20)
    await spread(store.shop, "TEA", east=4)
    return store


async def split_order(two: SampleStore) -> dict[str, Any]:
    """An order of eight units: six at the default location, two in the east."""
    order = await two.place(("TEA", 8), status="processing")
    assert allocations(order) == [(DEFAULT_LOCATION, 6), ("east", 2)]
    return order


def allocations(order: dict[str, Any], line: int = 0) -> list[tuple[str, int]]:
    return [(each["location"], each["quantity"]) for each in order["line_items"][line]["allocations"]]


def portion(order: dict[str, Any], quantity: int, location: str | None, line: int = 0) -> dict[str, Any]:
    return {"id": order["line_items"][line]["id"], "quantity": quantity, "location": location}


async def test_a_portion_is_shipped_from_its_location(two: SampleStore) -> None:
    order = await split_order(two)
    east = await two.change_status(order, "shipped", line_items=[portion(order, 2, "east")])
    made = east["fulfillments"][0]
    assert (made["location"], made["line_items"][0]["allocations"]) == ("east", [{"location": "east", "quantity": 2}])
    assert allocations(east) == [("east", 2), (DEFAULT_LOCATION, 6)]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (6, 6), "east": (2, 0)}
    rest = await two.change_status(order, "shipped")
    assert (rest["status"], rest["fulfillments"][1]["location"]) == ("shipped", DEFAULT_LOCATION)
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (0, 0), "east": (2, 0)}
    await assert_books_balance(two.shop)


async def test_one_request_ships_from_several_locations(two: SampleStore) -> None:
    order = await split_order(two)
    portions = [portion(order, 3, None), portion(order, 1, "east"), portion(order, 1, DEFAULT_LOCATION)]
    shipped = await two.change_status(order, "shipped", line_items=portions)
    made = shipped["fulfillments"][0]
    assert made["location"] is None
    line = made["line_items"][0]
    assert (len(made["line_items"]), line["quantity"]) == (1, 5)
    assert [(each["location"], each["quantity"]) for each in line["allocations"]] == [
        ("east", 1),
        (DEFAULT_LOCATION, 1),
        (DEFAULT_LOCATION, 3),
    ]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (2, 2), "east": (3, 1)}
    again = await two.put_status(order, status="shipped", line_items=[portion(order, 1, "east")] * 2)
    assert codes(again) == [("/line_items/1/id", "invalid_format")]


async def test_a_line_item_without_stock_shows_the_location_that_ships_it(two: SampleStore) -> None:
    order = await two.place(("CLASS", 2), status="processing")
    shipped = await two.change_status(order, "shipped", line_items=[portion(order, 2, "east")])
    assert shipped["fulfillments"][0]["location"] == "east"
    assert (allocations(shipped), await two.ledger(order)) == ([], [])


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        ((3, "east"), ("/line_items/0/quantity", "out_of_range")),
        ((1, "nowhere"), ("/line_items/0/location", "unknown_location")),
        ((1, "old"), ("/line_items/0/location", "unknown_location")),
    ],
)
async def test_a_location_that_cannot_ship_is_refused_and_nothing_is_written(
    two: SampleStore, sent: tuple[int, str], fault: tuple[str, str]
) -> None:
    await add_location(two.shop.local_operator, two.shop.store.handle, "old", "Old")
    await deactivate_location(two.shop.local_operator, two.shop.store.handle, "old")
    order = await split_order(two)
    before, stock = await two.get(order), await levels(two.shop, "TEA")
    answer = await two.put_status(order, status="shipped", line_items=[portion(order, *sent)])
    assert (answer.status_code, codes(answer)) == (422, [fault])
    if fault[1] == "out_of_range":
        assert answer.json()["errors"][0]["meta"] == {"maximum": 2}
    assert (await two.get(order), await levels(two.shop, "TEA")) == (before, stock)


async def test_two_warehouses_that_ship_one_order_ship_each_unit_once(two: SampleStore) -> None:
    order = await split_order(two)
    wanted = [(DEFAULT_LOCATION, 3)] * 4 + [("east", 1)] * 4
    calls = [
        partial(two.put_status, order, status="shipped", line_items=[portion(order, units, code)])
        for code, units in wanted
    ]
    answers = await asyncio.gather(*(two.patiently(call) for call in calls))
    # The later ones of a warehouse find too few units there, or the whole order shipped.
    assert {answer.status_code for answer in answers} <= {200, 422}
    shipped = await two.get(order)
    assert (shipped["status"], shipped["line_items"][0]["fulfilled_quantity"]) == ("shipped", 8)
    made = sorted((each["location"], each["line_items"][0]["quantity"]) for each in shipped["fulfillments"])
    assert made == [(DEFAULT_LOCATION, 3), (DEFAULT_LOCATION, 3), ("east", 1), ("east", 1)]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (0, 0), "east": (2, 0)}
    await assert_books_balance(two.shop)


# --- void ------------------------------------------------------------------------------------------------------------


async def test_a_voided_shipment_is_reserved_again_where_it_was_shipped_from(two: SampleStore) -> None:
    order = await split_order(two)
    await two.change_status(order, "shipped", line_items=[portion(order, 2, "east")], tracking=POST)
    await two.change_status(order, "shipped")
    await two.skip_events()
    voided = (await two.put_status(order, fulfillment_id=1, void=True, reason="Not handed over")).json()["data"]
    assert (voided["status"], voided["fulfillment_status"]) == ("processing", "partially_fulfilled")
    first, second = voided["fulfillments"]
    assert (first["line_items"], first["tracking"], first["location"]) == ([], None, "east")
    assert first["voided_at"] <= voided["updated_at"]
    assert (second["voided_at"], voided["tracking"]) == (None, [])
    assert allocations(voided) == [(DEFAULT_LOCATION, 6), ("east", 2)]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (0, 0), "east": (4, 2)}
    assert (await two.ledger(order))[-1] == ("commit", 2, 2)
    assert await two.event_names() == ["status_changed", "fulfillment_updated"]
    again = await two.put_status(order, fulfillment_id=1, void=True)
    assert (again.status_code, again.json()["data"]) == (200, voided)
    last = await two.change_status(order, "shipped")
    assert (last["status"], [each["id"] for each in last["fulfillments"]]) == ("shipped", [1, 2, 3])
    done = await two.change_status(order, "delivered", fulfillment_id=2)
    assert done["status"] == "shipped"
    assert (await two.change_status(order, "delivered", fulfillment_id=3))["status"] == "delivered"
    await assert_books_balance(two.shop)


async def test_a_voided_shipment_of_a_cancelled_order_returns_to_stock(two: SampleStore) -> None:
    order = await split_order(two)
    await two.change_status(order, "shipped", line_items=[portion(order, 2, "east")])
    await two.change_status(order, "cancelled")
    voided = (await two.put_status(order, fulfillment_id=1, void=True)).json()["data"]
    assert (voided["status"], voided["fulfillment_status"], allocations(voided)) == ("cancelled", "unfulfilled", [])
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (6, 0), "east": (4, 0)}
    await assert_books_balance(two.shop)


async def test_units_of_a_closed_location_are_reserved_at_the_default_location(two: SampleStore) -> None:
    order = await two.place(("TEA", 4), status="processing", location="east")
    await two.change_status(order, "shipped")
    await deactivate_location(two.shop.local_operator, two.shop.store.handle, "east")
    voided = (await two.put_status(order, fulfillment_id=1, void=True)).json()["data"]
    assert allocations(voided) == [(DEFAULT_LOCATION, 4)]
    assert (await levels(two.shop, "TEA"))[DEFAULT_LOCATION] == (10, 4)
    await assert_books_balance(two.shop)


async def test_a_voided_shipment_of_a_variant_that_is_no_longer_tracked_moves_nothing(two: SampleStore) -> None:
    order = await two.place(("TEA", 2), status="processing")
    await two.change_status(order, "shipped")
    untracked = {"items": [{"sku": "TEA", "data": {"track_inventory": False}}]}
    assert (await two.client.patch("/products/variants", json=untracked)).status_code == 200
    voided = (await two.put_status(order, fulfillment_id=1, void=True)).json()["data"]
    assert (voided["status"], allocations(voided)) == ("processing", [])
    assert await two.stock("TEA") == (8, 0)
    assert (await two.change_status(order, "shipped"))["status"] == "shipped"
    await assert_books_balance(two.shop)


async def test_a_shipment_that_is_delivered_or_returned_cannot_be_voided(two: SampleStore) -> None:
    order = await two.place(("TEA", 3), status="processing")
    await two.change_status(order, "shipped", line_items=part(order, 1))
    await two.change_status(order, "shipped")
    await two.change_status(order, "delivered", fulfillment_id=1)
    await two.change_status(order, "returned", line_items=part(order, 2))
    before, stock = await two.get(order), await levels(two.shop, "TEA")
    for number in (1, 2):
        answer = await two.put_status(order, fulfillment_id=number, void=True)
        assert (answer.status_code, codes(answer)) == (409, [("/void", "illegal_transition")])
    assert (await two.get(order), await levels(two.shop, "TEA")) == (before, stock)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"void": True}, ("/fulfillment_id", "required")),
        ({"void": True, "fulfillment_id": 2}, ("/fulfillment_id", "not_found")),
        ({"void": True, "fulfillment_id": 1, "status": "delivered"}, ("/status", "invalid_format")),
        ({"void": True, "fulfillment_id": 1, "tracking": POST}, ("/tracking", "invalid_format")),
        ({"void": "yes", "fulfillment_id": 1}, ("/void", "invalid_type")),
        ({"shipped_at": "2026-01-01T00:00:00Z", "status": "delivered"}, ("/shipped_at", "invalid_format")),
        ({"shipped_at": "1969-01-01T00:00:00Z", "status": "shipped"}, ("/shipped_at", "out_of_range")),
        ({"shipped_at": "2999-01-01T00:00:00Z", "status": "shipped"}, ("/shipped_at", "out_of_range")),
    ],
)
async def test_an_invalid_void_or_time_changes_nothing(
    two: SampleStore, body: dict[str, Any], fault: tuple[str, str]
) -> None:
    order = await two.place(("TEA", 3), status="processing")
    shipped = await two.change_status(order, "shipped", line_items=part(order, 1))
    answer = await two.put_status(order, **body)
    assert (answer.status_code, codes(answer)) == (422, [fault])
    assert await two.get(order) == shipped


async def test_a_voided_shipment_takes_no_tracking_and_no_delivery(two: SampleStore) -> None:
    order = await two.place(("TEA", 3), status="processing")
    await two.change_status(order, "shipped", line_items=part(order, 1))
    voided = (await two.put_status(order, fulfillment_id=1, void=True)).json()["data"]
    for body in ({"status": "delivered"}, {"tracking": POST}):
        answer = await two.put_status(order, fulfillment_id=1, **body)
        assert codes(answer) == [("/fulfillment_id", "not_found")]
    assert codes(await two.put_status(order, tracking=POST)) == [("/tracking", "invalid_format")]
    assert await two.get(order) == voided


# --- tracking and time -----------------------------------------------------------------------------------------------


async def test_the_tracking_of_a_fulfillment_can_be_removed(two: SampleStore) -> None:
    order = await two.place(("TEA", 3), status="processing")
    await two.change_status(order, "shipped", line_items=part(order, 1), tracking=POST)
    await two.skip_events()
    removed = (await two.put_status(order, fulfillment_id=1, tracking=None)).json()["data"]
    assert (removed["fulfillments"][0]["tracking"], removed["tracking"]) == (None, [])
    assert await two.event_names() == ["updated", "fulfillment_updated"]
    again = await two.put_status(order, fulfillment_id=1, tracking=None)
    assert (again.status_code, again.json()["data"]["version"]) == (200, removed["version"])
    assert codes(await two.put_status(order, tracking=None)) == [("/status", "required")]


async def test_a_shipment_can_name_its_time(two: SampleStore) -> None:
    order = await two.place(("TEA", 3), status="processing")
    earlier = "2026-01-05T08:30:00+01:00"
    shipped = await two.change_status(order, "shipped", line_items=part(order, 1), shipped_at=earlier, tracking=POST)
    assert shipped["fulfillments"][0]["shipped_at"] == "2026-01-05T07:30:00.000000Z"
    assert shipped["tracking"][0]["shipped_at"] == "2026-01-05T07:30:00.000000Z"
    fast = (datetime.now(UTC) + timedelta(seconds=90)).isoformat()
    rest = await two.change_status(order, "shipped", shipped_at=fast)
    assert rest["fulfillments"][1]["shipped_at"] <= rest["updated_at"]


# --- returns ---------------------------------------------------------------------------------------------------------


async def test_returned_units_go_to_the_named_location(two: SampleStore) -> None:
    order = await two.place(("TEA", 5), status="processing", payment_status="paid")
    await two.change_status(order, "shipped")
    back = [portion(order, 2, "east"), portion(order, 1, None)]
    await two.change_status(order, "returned", line_items=back)
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (2, 0), "east": (6, 0)}
    line = {"line_item_id": order["line_items"][0]["id"], "quantity": 2, "restock": True, "location": "east"}
    refunded = (await two.put_status(order, refund={"line_items": [line]})).json()["data"]
    assert refunded["refunds"][0]["line_items"][0]["location"] == "east"
    assert (await levels(two.shop, "TEA"))["east"] == (8, 0)
    await assert_books_balance(two.shop)


async def test_a_return_to_an_unknown_location_is_refused(two: SampleStore) -> None:
    order = await two.place(("TEA", 5), status="processing", payment_status="paid")
    shipped = await two.change_status(order, "shipped")
    answer = await two.put_status(order, status="returned", line_items=[portion(order, 2, "nowhere")])
    assert codes(answer) == [("/line_items/0/location", "unknown_location")]
    line: dict[str, Any] = {"line_item_id": order["line_items"][0]["id"], "quantity": 1, "location": "nowhere"}
    for restock, code in ((True, "unknown_location"), (False, "invalid_format")):
        answer = await two.put_status(order, refund={"line_items": [{**line, "restock": restock}]})
        assert codes(answer) == [("/refund/line_items/0/location", code)]
    assert await two.get(order) == shipped


# --- the previous release --------------------------------------------------------------------------------------------


async def test_a_shipment_of_the_previous_release_is_voided_at_its_locations(two: SampleStore) -> None:
    order = await split_order(two)
    await two.change_status(order, "shipped", line_items=part(order, 5))
    await two.change_status(order, "shipped", line_items=part(order, 2))
    await two.shop.db.execute(
        """UPDATE orders SET edition = 1, head = regexp_replace(regexp_replace(head, ',"allocations":\\[[^]]*\\]', '', 'g'),
                  ',"location":("default"|null),"voided_at":null', '', 'g') WHERE store_id = $1 AND id = $2""",
        two.shop.store_id,
        order["id"],
    )
    old = (await two.get(order))["fulfillments"]
    assert [(each["location"], each["voided_at"]) for each in old] == [(None, None)] * 2
    assert old[1]["line_items"][0]["allocations"] == []
    voided = (await two.put_status(order, fulfillment_id=2, void=True)).json()["data"]
    assert voided["fulfillments"][0] == old[0]
    assert allocations(voided) == [(DEFAULT_LOCATION, 6), ("east", 2)]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (1, 1), "east": (4, 2)}
    await assert_books_balance(two.shop)
