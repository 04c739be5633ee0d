"""Any sequence of adjustments, transfers, orders, shipments, voids, moves, cancellations, returns and changes of tracking over
three locations keeps the books."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.event_chains import assert_events_follow
from tests.support.locations import assert_books_balance, open_locations
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings

SKUS = ("PLAIN", "BACK", "FREE")
PLACES = ("default", "east", "west")
PRODUCTS: list[dict[str, Any]] = [
    {"name": "Plain", "price": "1.00", "sku": "PLAIN", "stock": {"on_hand": 6}},
    {"name": "Back", "price": "1.00", "variants": [{"sku": "BACK", "allow_backorder": True, "stock": {"on_hand": 2}}]},
    {"name": "Free", "price": "1.00", "sku": "FREE", "track_inventory": False},
]
SKU, PLACE = st.sampled_from(SKUS), st.sampled_from(PLACES)
WHERE, SOME, ANY = st.sampled_from([None, None, *PLACES]), st.integers(1, 4), st.integers(0, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("adjust"), SKU, PLACE, st.integers(-3, 6), st.sampled_from(["set", "adjust"])),
        st.tuples(st.just("transfer"), SKU, PLACE, PLACE, SOME),
        st.tuples(
            st.just("order"),
            st.lists(st.tuples(SKU, SOME, WHERE), min_size=1, max_size=2),
            st.sampled_from(["draft", "processing"]),
        ),
        st.tuples(
            st.just("status"),
            ANY,
            st.sampled_from(["pending", "processing", "shipped", "completed", "cancelled", "returned"]),
        ),
        st.tuples(st.just("part"), ANY, st.sampled_from(["shipped", "returned"]), st.integers(0, 1), SOME, WHERE),
        st.tuples(st.just("move"), ANY, st.integers(0, 1), WHERE),
        st.tuples(st.just("void"), ANY, st.integers(1, 3)),
        st.tuples(st.just("delivered"), ANY, st.integers(1, 3)),
        st.tuples(st.just("edit"), ANY, st.integers(0, 1), st.integers(0, 6)),
        st.tuples(st.just("copy"), ANY),
        st.tuples(st.just("track"), SKU, st.booleans()),
    ),
    min_size=4,
    max_size=14,
)


@pytest.fixture(scope="module")
async def stocked(settings: Settings, db: Database) -> AsyncIterator[Application]:
    application = Application(settings)
    yield application
    await application.close()


async def act(shop: Shop, orders: list[dict[str, Any]], step: tuple[Any, ...]) -> int:
    """Send one step, and return the status of its response."""
    client, kind = shop.client, step[0]
    if kind == "adjust":
        item: dict[str, Any] = {"sku": step[1], "location": step[2], "quantity": step[3], "op": step[4]}
        return (await client.post("/products/inventory/adjustments", json={"items": [item]})).status_code
    if kind == "transfer":
        item = {"sku": step[1], "op": "transfer", "location": step[2], "to_location": step[3], "quantity": step[4]}
        return (await client.post("/products/inventory/adjustments", json={"items": [item]})).status_code
    if kind == "track":
        item = {"sku": step[1], "data": {"track_inventory": step[2]}}
        return (await client.patch("/products/variants", json={"items": [item]})).status_code
    if kind == "order":
        wanted = [{"sku": sku, "quantity": units, "location": place} for sku, units, place in step[1]]
        answer = await client.post("/orders", json={"line_items": wanted, "status": step[2], "payment_status": "paid"})
    elif not orders:
        return 0
    else:
        order: dict[str, Any] = orders[int(step[1]) % len(orders)]
        lines: list[dict[str, Any]] = order["line_items"]
        line: dict[str, Any] = (
            lines[int(step[3 if kind == "part" else 2]) % len(lines)] if kind in ("part", "edit", "move") else {}
        )
        if kind == "status":
            answer = await client.put(f"/orders/{order['id']}/status", json={"status": step[2]})
        elif kind == "part":
            part = [{"id": line["id"], "quantity": step[4], "location": step[5]}]
            answer = await client.put(f"/orders/{order['id']}/status", json={"status": step[2], "line_items": part})
        elif kind in ("void", "delivered"):
            change = {"void": True} if kind == "void" else {"status": kind}
            body = {"fulfillment_id": step[2], **change}
            answer = await client.put(f"/orders/{order['id']}/status", json=body)
        elif kind == "move":
            answer = await client.patch(f"/orders/{order['id']}/products/{line['id']}", json={"location": step[3]})
        elif kind == "edit":
            answer = await client.patch(f"/orders/{order['id']}/products/{line['id']}", json={"quantity": step[3]})
        else:
            answer = await client.post(f"/orders/{order['id']}/duplicates", json={"status": "pending"})
    if answer.is_success:
        changed = answer.json()["data"]
        orders[:] = [each for each in orders if each["id"] != changed["id"]] + [changed]
    return answer.status_code


def held(orders: list[dict[str, Any]], switched: set[str]) -> dict[tuple[str, str], int]:
    """The reserved units of each variant at each location, as the allocations tell them.

    All units of a tracked variant are allocated, and none of an untracked one, unless its tracking was `switched`.
    """
    units: dict[tuple[str, str], int] = {}
    for order in orders:
        reserving = order["status"] in ("pending", "processing", "on_hold")
        for line in order["line_items"]:
            shipped = line["fulfilled_quantity"]
            total = line["quantity"] if reserving else shipped
            allocated = sum(each["quantity"] for each in line["allocations"])
            if line["sku"] in switched:
                assert 0 <= allocated <= total
            else:
                assert allocated == (0 if line["sku"] == "FREE" else total)
            for each in line["allocations"]:
                left = each["quantity"] - min(shipped, each["quantity"])
                shipped -= each["quantity"] - left
                key = line["sku"], each["location"]
                units[key] = units.get(key, 0) + left
    return {key: count for key, count in units.items() if count}


def assert_fulfillments_add_up(order: dict[str, Any], switched: set[str]) -> None:
    """The fulfillments name every shipped unit once, at the location that its line item shows."""
    for line in order["line_items"]:
        made = [
            each for one in order["fulfillments"] for each in one["line_items"] if each["line_item_id"] == line["id"]
        ]
        assert sum(each["quantity"] for each in made) == line["fulfilled_quantity"]
        places = [[part["location"]] * part["quantity"] for each in made for part in each["allocations"]]
        allocated = [[part["location"]] * part["quantity"] for part in line["allocations"]]
        shipped = [place for part in allocated for place in part][: line["fulfilled_quantity"]]
        if line["allocations"] and line["sku"] not in switched:
            assert [place for part in places for place in part][: len(shipped)] == shipped


@given(steps=STEPS)
async def test_every_location_keeps_its_books(stocked: Application, db: Database, steps: list[tuple[Any, ...]]) -> None:
    shop = await open_shop(stocked, db)
    await open_locations(shop, east=0, west=5)
    await shop.add(*PRODUCTS)
    orders: list[dict[str, Any]] = []
    for step in steps:
        assert await act(shop, orders, step) < 500
        await assert_books_balance(shop)
    switched = {step[1] for step in steps if step[0] == "track"}
    for order in orders:
        assert_fulfillments_add_up(order, switched)
    page = (await shop.client.get("/products/inventory", params={"include": "locations"})).json()
    reserved = {
        (level["sku"], each["code"]): each["reserved"]
        for level in page["data"]
        for each in level["locations"]
        if each["reserved"]
    }
    assert reserved == held(orders, switched)
    await assert_events_follow(shop)
    await shop.client.aclose()
