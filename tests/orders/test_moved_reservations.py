"""Reservations that move to another location, and lists of orders by location and shipment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from stoa.inventory.locations import add_location, deactivate_location
from stoa.products.stock_locations import DEFAULT_LOCATION
from tests.orders.sample_store import SampleStore, codes
from tests.orders.test_fulfillment_locations import allocations, portion
from tests.orders.test_fulfillments import part
from tests.support.locations import assert_books_balance, levels, open_locations, spread


@pytest.fixture
async def two(store: SampleStore) -> SampleStore:
    """Ten units of tea: six at the default location, four in the east."""
    await open_locations(store.shop, east=20)
    await spread(store.shop, "TEA", east=4)
    return store


async def patch_line(two: SampleStore, order: dict[str, Any], line: int = 0, **body: Any) -> httpx.Response:
    return await two.client.patch(f"/orders/{order['id']}/products/{order['line_items'][line]['id']}", json=body)


async def found(two: SampleStore, **params: Any) -> list[int]:
    """The numbers of the orders that a list returns, whose total must agree."""
    page = (await two.client.get("/orders", params=params)).json()
    assert page["meta"]["total"] == len(page["data"])
    return [order["number"] for order in page["data"]]


async def test_a_reservation_moves_to_another_location(two: SampleStore) -> None:
    order = await two.place(("TEA", 3), ("POT-B", 1))
    await two.skip_events()
    moved = (await patch_line(two, order, location="east")).json()["data"]
    assert (moved["line_items"][0]["location"], allocations(moved)) == ("east", [("east", 3)])
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (6, 0), "east": (4, 3)}
    assert (await two.ledger(order))[-2:] == [("release", 0, -3), ("reserve", 0, 3)]
    assert await two.event_names() == ["products_changed"]
    again = await patch_line(two, order, location="east")
    assert again.json()["data"]["version"] == moved["version"]
    freed = (await patch_line(two, order, location=None)).json()["data"]
    assert (freed["line_items"][0]["location"], allocations(freed)) == (None, [("east", 3)])
    await assert_books_balance(two.shop)


async def test_shipped_units_stay_where_they_were_shipped_from(two: SampleStore) -> None:
    order = await two.place(("TEA", 5), status="processing")
    await two.change_status(order, "shipped", line_items=part(order, 2))
    moved = (await patch_line(two, order, location="east", quantity=6)).json()["data"]
    assert allocations(moved) == [(DEFAULT_LOCATION, 2), ("east", 4)]
    assert await levels(two.shop, "TEA") == {DEFAULT_LOCATION: (4, 0), "east": (4, 4)}
    shipped = await two.change_status(order, "shipped", line_items=[portion(order, 4, "east")])
    assert (shipped["status"], shipped["fulfillments"][1]["location"]) == ("shipped", "east")
    await assert_books_balance(two.shop)


async def test_units_that_are_partly_there_already_need_only_the_rest(two: SampleStore) -> None:
    order = await two.place(("TEA", 8))
    assert allocations(order) == [(DEFAULT_LOCATION, 6), ("east", 2)]
    await patch_line(two, order, quantity=4)
    answer = await patch_line(two, order, location="east")
    assert (answer.status_code, allocations(answer.json()["data"])) == (200, [("east", 4)])


async def test_a_reservation_that_cannot_move_stays_and_nothing_is_written(two: SampleStore) -> None:
    await add_location(two.shop.local_operator, two.shop.store.handle, "old", "Old")
    await deactivate_location(two.shop.local_operator, two.shop.store.handle, "old")
    order = await two.place(
        ("TEA", 5), line_items=[{"sku": "TEA", "quantity": 5}, {"name": "Gift", "quantity": 1, "unit_price": "1.00"}]
    )
    before, stock = await two.get(order), await levels(two.shop, "TEA")
    short = await patch_line(two, order, location="east")
    assert (short.status_code, codes(short)) == (409, [("/location", "insufficient_stock")])
    assert short.json()["errors"][0]["meta"]["available"] == 4
    for line, code, fault in (
        (0, "old", "unknown_location"),
        (0, "x", "unknown_location"),
        (1, "east", "invalid_format"),
    ):
        answer = await patch_line(two, order, line, location=code)
        assert (answer.status_code, codes(answer)) == (422, [("/location", fault)])
    assert (await two.get(order), await levels(two.shop, "TEA")) == (before, stock)
    await two.change_status(order, "cancelled")
    late = await patch_line(two, order, location="east")
    assert (late.status_code, late.json()["code"]) == (409, "order_not_editable")


async def test_a_draft_remembers_the_location(two: SampleStore) -> None:
    order = await two.place(("TEA", 2), status="draft")
    moved = (await patch_line(two, order, location="east")).json()["data"]
    assert (moved["line_items"][0]["location"], allocations(moved)) == ("east", [])
    assert allocations(await two.change_status(order, "pending")) == [("east", 2)]


async def test_moves_and_shipments_at_the_same_time_use_each_unit_once(two: SampleStore) -> None:
    order = await two.place(("TEA", 4), status="processing")
    calls: Sequence[Callable[[], Awaitable[httpx.Response]]] = [
        partial(patch_line, two, order, location=code) for code in ("east", DEFAULT_LOCATION) for _ in range(3)
    ] + [
        partial(two.put_status, order, status="shipped", line_items=[portion(order, 2, code)])
        for code in ("east", DEFAULT_LOCATION)
        for _ in range(2)
    ]
    answers = await asyncio.gather(*(two.patiently(call) for call in calls))
    assert {answer.status_code for answer in answers} <= {200, 409, 422}
    line = (await two.get(order))["line_items"][0]
    assert sum(each["quantity"] for each in line["allocations"]) == 4
    held = await levels(two.shop, "TEA")
    assert sum(on_hand for on_hand, _ in held.values()) == 10 - line["fulfilled_quantity"]
    await assert_books_balance(two.shop)


# --- lists -----------------------------------------------------------------------------------------------------------


async def place_all(two: SampleStore, *orders: tuple[Sequence[tuple[str, int]], dict[str, Any]]) -> list[int]:
    return [(await two.place(*lines, **body))["number"] for lines, body in orders]


async def test_orders_are_found_by_their_locations(two: SampleStore) -> None:
    here, split, east, draft, free = await place_all(
        two,
        ([("TEA", 5)], {}),
        ([("TEA", 2)], {"status": "processing"}),
        ([("TEA", 1)], {"location": "east"}),
        ([("TEA", 1)], {"status": "draft"}),
        ([("CLASS", 1)], {}),
    )
    assert await found(two, location=DEFAULT_LOCATION) == [here, split, free]  # what is not tracked counts as there
    assert await found(two, location="east") == [split, east]
    assert await found(two, location="east,default") == [here, split, east, free]
    assert (await found(two, location="nowhere"), draft not in await found(two, location="default")) == ([], True)
    order = (await two.client.get("/orders", params={"number": split})).json()["data"][0]
    await two.change_status(order, "shipped")
    assert await found(two, location="east") == [split, east]  # also after the shipment
    await two.client.put(f"/orders/{order['id']}/status", json={"status": "returned"})
    assert await found(two, location="east") == [split, east]


async def test_a_moved_reservation_is_found_at_its_new_location(two: SampleStore) -> None:
    order = await two.place(("TEA", 3))
    await patch_line(two, order, location="east")
    assert (await found(two, location="east"), await found(two, location="default")) == ([order["number"]], [])
    await two.change_status(order, "cancelled")
    assert await found(two, location="east") == []


async def test_orders_that_a_location_can_ship_are_found(two: SampleStore) -> None:
    small, large, free, draft, away = await place_all(
        two,
        ([("TEA", 2)], {"status": "processing"}),  # at the default location; the east has four units
        ([("TEA", 4), ("POT-B", 1)], {}),  # the east has no pots
        (
            [("CLASS", 1)],
            {"line_items": [{"sku": "CLASS", "quantity": 1}, {"name": "Card", "quantity": 1, "unit_price": "1"}]},
        ),
        ([("TEA", 1)], {"status": "draft"}),
        ([("TEA", 3)], {"location": "east"}),
    )
    # Three of the four units in the east are reserved for the last order: one is left.
    assert await found(two, fulfillable_at="east") == [free, away]
    assert await found(two, fulfillable_at=DEFAULT_LOCATION) == [small, large, free]
    assert await found(two, fulfillable_at="nowhere") == []
    order = (await two.client.get("/orders", params={"number": small})).json()["data"][0]
    await two.change_status(order, "shipped", line_items=part(order, 1))
    assert await found(two, fulfillable_at="east") == [small, free, away]
    await two.change_status(order, "shipped")
    assert await found(two, fulfillable_at="east") == [free, away]
    assert await found(two, fulfillable_at="east", status="processing") == []
    assert draft not in await found(two, fulfillable_at=DEFAULT_LOCATION)


async def test_lines_of_one_variant_share_what_is_available(two: SampleStore) -> None:
    lines = [{"sku": "TEA", "quantity": 3, "metadata": {"n": n}} for n in (1, 2)]
    order = await two.place(line_items=lines)
    assert await found(two, fulfillable_at="east") == []
    await patch_line(two, order, 1, quantity=1)
    assert await found(two, fulfillable_at="east") == [order["number"]]


async def test_orders_are_found_by_the_time_of_their_last_shipment(two: SampleStore) -> None:
    first = await two.place(("TEA", 2), status="processing")
    second = await two.place(("TEA", 2), status="processing")
    await two.change_status(first, "shipped", line_items=part(first, 1), shipped_at="2026-01-05T12:00:00Z")
    await two.change_status(second, "shipped", shipped_at="2026-02-05T12:00:00Z")
    january = {"shipped_at[gte]": "2026-01-01T00:00:00Z", "shipped_at[lt]": "2026-02-01T00:00:00Z"}
    assert await found(two, **january) == [first["number"]]
    assert await found(two, shipped_at="2026-02-05T12:00:00Z") == [second["number"]]
    await two.change_status(first, "shipped", shipped_at="2026-02-01T00:00:00Z")
    assert await found(two, **january) == []
    await two.put_status(first, fulfillment_id=2, void=True)
    assert await found(two, **january) == [first["number"]]
    await two.put_status(first, fulfillment_id=1, void=True)
    assert await found(two, **january) == []


async def test_the_rows_of_the_filters_follow_from_the_line_items(two: SampleStore) -> None:
    order = await two.place(("TEA", 8), status="processing")
    await two.change_status(order, "shipped", line_items=[portion(order, 1, "east"), portion(order, 2, None)])
    rows = "SELECT location, reserved, shipped FROM order_allocations WHERE store_id = $1 AND order_id = $2"
    assert [tuple(row) for row in await two.shop.db.fetch(rows, two.shop.store_id, order["id"])] == [("east", 1, 1)]
