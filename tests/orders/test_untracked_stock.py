"""Orders of variants that are not tracked: their stock never changes, and tracking can be switched while orders are open."""

from typing import Any

from tests.orders.sample_store import SampleStore
from tests.support.locations import open_locations, spread


async def track(store: SampleStore, sku: str, *, tracked: bool) -> None:
    items = [{"sku": sku, "data": {"track_inventory": tracked}}]
    answer = await store.client.patch("/products/variants", json={"items": items})
    assert answer.status_code == 200, answer.text


async def set_stock(store: SampleStore, sku: str, quantity: int) -> None:
    items = [{"sku": sku, "op": "set", "quantity": quantity}]
    answer = await store.client.post("/products/inventory/adjustments", json={"items": items})
    assert answer.status_code == 200, answer.text


async def change_quantity(store: SampleStore, order: dict[str, Any], quantity: int) -> dict[str, Any]:
    line = order["line_items"][0]["id"]
    answer = await store.client.patch(f"/orders/{order['id']}/products/{line}", json={"quantity": quantity})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_no_step_of_an_order_changes_the_stock_of_an_untracked_variant(store: SampleStore) -> None:
    await set_stock(store, "CLASS", 4)
    order = await store.place(("CLASS", 5), payment_status="paid")
    assert order["line_items"][0]["allocations"] == []
    await change_quantity(store, order, 7)
    added = await store.client.post(
        f"/orders/{order['id']}/products", json={"line_items": [{"sku": "CLASS", "quantity": 1}]}
    )
    assert added.status_code == 201, added.text
    line = order["line_items"][0]["id"]
    await store.change_status(order, "processing", "on_hold", "processing")
    await store.change_status(order, "shipped", line_items=[{"id": line, "quantity": 2}])
    refund = {"line_items": [{"line_item_id": line, "quantity": 1, "restock": True}]}
    assert (await store.put_status(order, refund=refund)).status_code == 200
    await store.put_status(order, payment_status="paid")
    await store.change_status(order, "shipped", "delivered", "completed", "returned")
    for status in ("draft", "pending"):
        await store.change_status(await store.place(("CLASS", 2), status=status), "cancelled")
    assert await store.stock("CLASS") == (4, 0)
    assert await store.ledger(order) == []
    await store.assert_stock_is_consistent()


async def test_an_untracked_variant_causes_no_stock_event(store: SampleStore) -> None:
    order = await store.place(("CLASS", 5))
    await store.change_status(order, "cancelled")
    assert await store.events("product.") == []


async def test_an_untracked_variant_is_never_short_at_a_location(store: SampleStore) -> None:
    await open_locations(store.shop, east=1)
    await spread(store.shop, "TEA", east=1)
    order = await store.place(("CLASS", 2), ("TEA", 1), location="east")
    assert [line["allocations"] for line in order["line_items"]] == [[], [{"location": "east", "quantity": 1}]]
    await store.change_status(order, "processing", "shipped")
    assert await store.stock("CLASS") == (0, 0)


async def test_units_that_were_ordered_untracked_stay_so_when_tracking_begins(store: SampleStore) -> None:
    order = await store.place(("CLASS", 3))
    await track(store, "CLASS", tracked=True)
    await set_stock(store, "CLASS", 1)
    assert (await change_quantity(store, order, 4))["line_items"][0]["allocations"] == []
    await store.change_status(order, "processing", "shipped", "returned")
    assert await store.stock("CLASS") == (1, 0)
    await store.place(("CLASS", 1))
    assert await store.stock("CLASS") == (1, 1)
    await store.assert_stock_is_consistent()


async def test_a_reservation_ends_without_a_change_on_hand_if_tracking_ended(store: SampleStore) -> None:
    shipped, cancelled, kept = [await store.place(("TEA", 2)) for _ in range(3)]
    await track(store, "TEA", tracked=False)
    assert await store.stock("TEA") == (10, 6)
    await change_quantity(store, kept, 9)  # further units are not reserved
    await store.change_status(shipped, "processing", "shipped", "returned")
    await store.change_status(cancelled, "cancelled")
    assert await store.stock("TEA") == (10, 2)
    assert await store.ledger(shipped) == [("reserve", 0, 2), ("release", 0, -2)]
    await store.assert_stock_is_consistent()
    await track(store, "TEA", tracked=True)
    await store.change_status(kept, "processing", "shipped")
    assert await store.stock("TEA") == (8, 0)
    await store.assert_stock_is_consistent()


async def test_a_reservation_at_a_location_ends_if_tracking_ended(store: SampleStore) -> None:
    await open_locations(store.shop, east=1)
    await spread(store.shop, "TEA", east=3)
    order = await store.place(("TEA", 2), location="east")
    await track(store, "TEA", tracked=False)
    await store.change_status(order, "processing", "shipped")
    answer = await store.client.get("/products/inventory", params={"sku": "TEA", "include": "locations"})
    found = {level["code"]: (level["on_hand"], level["reserved"]) for level in answer.json()["data"][0]["locations"]}
    assert found == {"default": (7, 0), "east": (3, 0)}
