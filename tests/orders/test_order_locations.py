"""Orders in a store with several locations: where units are reserved, shipped from, released and returned to."""

import asyncio
from typing import Any

import pytest

from stoa.inventory.locations import LocationInUse, deactivate_location, update_location
from tests.orders.sample_store import ADA, CLASS, TEA, SampleStore, codes
from tests.support.locations import assert_books_balance, levels, open_locations, spread
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop

LAMP: dict[str, Any] = {
    "name": "Lamp",
    "price": "20.00",
    "variants": [{"sku": "LAMP", "allow_backorder": True, "stock": {"on_hand": 3}}],
}


@pytest.fixture
async def store(shop: Shop) -> SampleStore:
    """Ten units of tea: two at east, which comes first, five at the default location, and three at west."""
    await open_locations(shop, east=1, west=9)
    await update_location(shop.local_operator, shop.store.handle, "default", priority=5)
    store = await SampleStore(shop).add_products(TEA, CLASS, LAMP)
    await spread(shop, "TEA", east=2, west=3)
    await spread(shop, "LAMP", east=1)
    return store


def allocated(order: dict[str, Any], line: int = 0) -> list[tuple[str, int]]:
    return [(each["location"], each["quantity"]) for each in order["line_items"][line]["allocations"]]


async def test_an_order_of_a_store_with_one_location_is_allocated_to_it(other_shop: Shop) -> None:
    store = await SampleStore(other_shop).add_products(TEA)
    order = await store.place(("TEA", 3))
    assert (allocated(order), order["line_items"][0]["location"]) == ([("default", 3)], None)
    assert allocated(await store.get(order)) == [("default", 3)]
    draft = await store.place(("TEA", 3), status="draft")
    assert allocated(draft) == []
    assert allocated(await store.change_status(draft, "pending")) == [("default", 3)]
    assert allocated(await store.change_status(draft, "cancelled")) == []


async def test_units_are_reserved_by_priority(store: SampleStore) -> None:
    order = await store.place(("TEA", 8), ("CLASS", 1))
    assert (allocated(order), allocated(order, 1)) == ([("east", 2), ("default", 5), ("west", 1)], [])
    assert await levels(store.shop, "TEA") == {"east": (2, 2), "default": (5, 5), "west": (3, 1)}
    params = {"order_id": order["id"], "sku": "TEA"}
    entries = (await store.client.get("/products/inventory/adjustments", params=params)).json()["data"]
    assert {(entry["location"], entry["delta_reserved"]) for entry in entries} == {
        ("east", 2),
        ("default", 5),
        ("west", 1),
    }
    assert max(entry["reserved_after"] for entry in entries) == 8
    refused = await store.post(("TEA", 3))
    assert (refused.status_code, codes(refused)) == (409, [("/line_items/0/quantity", "insufficient_stock")])
    await assert_books_balance(store.shop)


async def test_an_order_or_a_line_item_names_its_location(store: SampleStore) -> None:
    lines = [{"sku": "TEA", "quantity": 2}, {"sku": "TEA", "quantity": 1, "location": "east"}]
    order = await store.place(line_items=lines, location="west")
    assert (allocated(order), allocated(order, 1)) == ([("west", 2)], [("east", 1)])
    assert [line["location"] for line in order["line_items"]] == ["west", "east"]
    refused = await store.post(("TEA", 2), location="west")
    assert refused.status_code == 409
    [fault] = refused.json()["errors"]
    assert (fault["pointer"], fault["code"]) == ("/line_items/0/quantity", "insufficient_stock")
    assert (fault["meta"]["available"], fault["meta"]["location"]) == (1, "west")
    await assert_books_balance(store.shop)


async def test_an_unknown_location_is_refused_with_the_other_faults(store: SampleStore) -> None:
    lines = [{"sku": "TEA", "quantity": 1, "location": "nowhere"}, {"sku": "NOPE", "quantity": 1}]
    refused = await store.post(line_items=lines, location="elsewhere")
    assert refused.status_code == 422
    assert sorted(codes(refused)) == [
        ("/line_items/0/location", "unknown_location"),
        ("/line_items/1/sku", "unknown_sku"),
        ("/location", "unknown_location"),
    ]
    order = await store.place(("TEA", 1))
    added = {"line_items": [{"sku": "TEA", "quantity": 1, "location": "nowhere"}]}
    refused = await store.client.post(f"/orders/{order['id']}/products", json=added)
    assert codes(refused) == [("/line_items/0/location", "unknown_location")]


async def test_a_new_location_can_be_named_at_once(store: SampleStore) -> None:
    """Although the store is cached."""
    await open_locations(store.shop, north=30)
    await spread(store.shop, "TEA", north=1)
    assert allocated(await store.place(("TEA", 1), location="north")) == [("north", 1)]


async def test_a_dry_run_shows_where_units_would_be_reserved(store: SampleStore) -> None:
    body = {"line_items": [{"sku": "TEA", "quantity": 4}]}
    tried = (await store.client.post("/orders", json=body, params={"dry_run": "true"})).json()["data"]
    assert allocated(tried) == [("east", 2), ("default", 2)]
    body = {"line_items": [{"sku": "TEA", "quantity": 4}], "location": "west"}
    refused = await store.client.post("/orders", json=body, params={"dry_run": "true"})
    assert (refused.status_code, codes(refused)[0][1]) == (409, "insufficient_stock")
    assert await levels(store.shop, "TEA") == {"east": (2, 0), "default": (5, 0), "west": (3, 0)}


async def test_units_are_shipped_from_their_allocation_and_return_to_it(store: SampleStore) -> None:
    order = await store.place(("TEA", 4), status="processing", contact=ADA)
    line = order["line_items"][0]["id"]
    await store.change_status(order, "shipped", line_items=[{"id": line, "quantity": 3}])
    assert await levels(store.shop, "TEA") == {"default": (4, 1), "west": (3, 0)}
    changed = await store.change_status(order, "returned", line_items=[{"id": line, "quantity": 1}])
    assert allocated(changed) == [("east", 2), ("default", 2)]
    assert await levels(store.shop, "TEA") == {"east": (1, 0), "default": (4, 1), "west": (3, 0)}
    await store.change_status(order, "cancelled")
    assert await levels(store.shop, "TEA") == {"east": (1, 0), "default": (4, 0), "west": (3, 0)}
    changed = await store.change_status(order, "returned", line_items=[{"id": line, "quantity": 2}])
    assert allocated(changed) == [("east", 2), ("default", 1)]
    assert await levels(store.shop, "TEA") == {"east": (2, 0), "default": (5, 0), "west": (3, 0)}
    await assert_books_balance(store.shop)


async def test_returned_units_of_a_closed_location_go_to_the_default_one(store: SampleStore) -> None:
    order = await store.place(("TEA", 2), status="processing")
    by, handle = store.shop.local_operator, store.shop.store.handle
    with pytest.raises(LocationInUse):
        await deactivate_location(by, handle, "east")
    await store.change_status(order, "shipped")
    lamp = {"sku": "LAMP", "op": "transfer", "location": "east", "to_location": "west", "quantity": 1}
    await store.client.post("/products/inventory/adjustments", json={"items": [lamp]})
    await deactivate_location(by, handle, "east")
    await store.change_status(order, "returned")
    assert await levels(store.shop, "TEA") == {"default": (7, 0), "west": (3, 0)}
    await assert_books_balance(store.shop)


async def test_edited_line_items_reserve_and_release_at_locations(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    line = order["line_items"][0]["id"]

    async def edit(quantity: int) -> dict[str, Any]:
        answer = await store.client.patch(f"/orders/{order['id']}/products/{line}", json={"quantity": quantity})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    assert allocated(await edit(8)) == [("east", 2), ("default", 5), ("west", 1)]
    refused = await store.client.patch(f"/orders/{order['id']}/products/{line}", json={"quantity": 11})
    assert (refused.status_code, codes(refused)) == (409, [("/quantity", "insufficient_stock")])
    assert allocated(await edit(3)) == [("east", 2), ("default", 1)]
    added = {"line_items": [{"sku": "TEA", "quantity": 2, "location": "west"}]}
    changed = (await store.client.post(f"/orders/{order['id']}/products", json=added)).json()["data"]
    assert allocated(changed, 1) == [("west", 2)]
    assert await levels(store.shop, "TEA") == {"east": (2, 2), "default": (5, 1), "west": (3, 2)}
    names = [event["type"] for event in await store.events()]
    assert names == ["order.created", *["order.products_changed"] * 3]
    await assert_books_balance(store.shop)


async def test_a_draft_reserves_at_its_location_when_it_is_placed(store: SampleStore) -> None:
    draft = await store.place(("TEA", 2), status="draft", location="west")
    placed = await store.change_status(draft, "pending")
    assert allocated(placed) == [("west", 2)]
    copy = (await store.client.post(f"/orders/{draft['id']}/duplicates", json={"status": "pending"})).json()["data"]
    assert (allocated(copy), copy["line_items"][0]["location"]) == ([("east", 2)], None)
    names = [event["type"] for event in await store.events()]
    assert names == ["order.created", "order.status_changed", "order.created", "order.duplicated"]
    await assert_books_balance(store.shop)


async def test_backorders_wait_at_the_default_location(store: SampleStore) -> None:
    order = await store.place(("LAMP", 5), status="processing")
    assert allocated(order) == [("east", 1), ("default", 4)]
    assert await levels(store.shop, "LAMP") == {"east": (1, 1), "default": (2, 4)}
    await store.change_status(order, "shipped")
    assert await levels(store.shop, "LAMP") == {"default": (-2, 0)}
    assert allocated(await store.place(("LAMP", 1), location="default")) == [("default", 1)]
    await assert_books_balance(store.shop)


async def test_a_backorder_is_not_reserved_elsewhere_than_at_its_location(store: SampleStore) -> None:
    refused = await store.post(("LAMP", 2), location="east")
    assert (refused.status_code, codes(refused)) == (409, [("/line_items/0/quantity", "insufficient_stock")])
    assert refused.json()["errors"][0]["meta"]["location"] == "east"
    order = await store.place(("LAMP", 1), location="east")
    assert allocated(order) == [("east", 1)]
    line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
    refused = await store.client.patch(line, json={"quantity": 2})
    assert (refused.status_code, codes(refused)) == (409, [("/quantity", "insufficient_stock")])
    assert await levels(store.shop, "LAMP") == {"east": (1, 1), "default": (2, 0)}


async def test_a_backordered_default_location_prevents_an_end_of_backorders(store: SampleStore) -> None:
    await spread(store.shop, "LAMP", east=1)
    await store.place(("LAMP", 2))
    await store.place(("LAMP", 2), location="default")
    answer = await store.client.patch(
        "/products/variants", json={"items": [{"sku": "LAMP", "data": {"allow_backorder": False}}]}
    )
    assert answer.status_code == 422
    await store.client.post(
        "/products/inventory/adjustments", json={"items": [{"sku": "LAMP", "quantity": 5, "location": "east"}]}
    )
    answer = await store.client.patch(
        "/products/variants", json={"items": [{"sku": "LAMP", "data": {"allow_backorder": False}}]}
    )
    assert answer.status_code == 422, "the units are at east, and the default location owes one"


async def test_a_deleted_variant_is_released_where_it_was_reserved(store: SampleStore) -> None:
    order = await store.place(("TEA", 8))
    product = order["line_items"][0]["product_id"]
    assert (await store.client.delete(f"/products/{product}")).status_code == 204
    await store.change_status(order, "cancelled")
    rows = await store.shop.db.fetch(
        "SELECT location, on_hand, reserved FROM stock_levels WHERE store_id = $1 AND variant_id = $2 ORDER BY 1",
        store.shop.store_id,
        store.variants["TEA"],
    )
    assert [tuple(row) for row in rows] == [("east", 2, 0), ("west", 3, 0)]
    await assert_books_balance(store.shop)


async def test_an_order_that_read_the_stock_before_a_transfer_runs_again(store: SampleStore) -> None:
    """The function notices under its locks that the units are elsewhere, and the order is placed from there."""
    await SampleStore(store.shop).add_products({**TEA, "name": "Mint", "sku": "MINT", "stock": {"on_hand": 5}})
    shop = store.shop
    async with shop.db.transaction() as other:
        await other.fetch(
            "SELECT 1 FROM products WHERE store_id = $1 AND name = 'Mint' FOR NO KEY UPDATE", shop.store_id
        )
        placing = asyncio.create_task(store.post(("MINT", 3)))
        await until_somebody_waits(shop.db)
        await other.execute(
            "INSERT INTO stock_levels SELECT $1, id, 'west', 4, 0 FROM variants WHERE store_id = $1 AND sku = 'MINT'",
            shop.store_id,
        )
        await other.execute(
            "UPDATE variants SET other_on_hand = 4 WHERE store_id = $1 AND sku = 'MINT'",
            shop.store_id,
        )
    answer = await placing
    assert answer.status_code == 201, answer.text
    assert allocated(answer.json()["data"]) == [("default", 1), ("west", 2)]


async def test_a_custom_line_item_has_no_location(store: SampleStore) -> None:
    custom = {"name": "Gift wrap", "unit_price": "2.00", "quantity": 1}
    order = await store.place(line_items=[{"sku": "TEA", "quantity": 1}, custom], location="west")
    assert (allocated(order), allocated(order, 1)) == ([("west", 1)], [])
    assert order["line_items"][1]["location"] is None
    refused = await store.post(line_items=[{**custom, "location": "west"}])
    assert codes(refused) == [("/line_items/0/location", "invalid_format")]
    only = await store.place(line_items=[custom], status="processing")
    shipped = await store.change_status(only, "shipped")
    assert allocated(shipped) == []
    await assert_books_balance(store.shop)
