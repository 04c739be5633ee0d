"""Events of stock changes: one for each changed variant, and one for each threshold it crosses."""

import pytest

from tests.inventory.shelves import Shelves


async def test_an_event_contains_the_current_variant(shelves: Shelves) -> None:
    answer = await shelves.adjust({"sku": "SOCK-S", "quantity": 2})
    (event,) = await shelves.events()
    product = await shelves.product("SOCK-S")
    assert event["data"] == product["variants"][0]
    assert (event["resource_type"], event["resource_id"]) == ("variant", shelves.variants["SOCK-S"])
    assert event["resource_version"] == event["data"]["version"] == (await shelves.level("SOCK-S"))["version"]
    assert event["changes"] == {"on_hand": [10, 12], "available": [10, 12]}
    assert event["actor"] == {"type": "app", "app_id": shelves.shop.app_id}
    assert event["request_id"] == answer.headers["x-request-id"]
    assert len(event["id"]) == 24
    assert set(event["id"][4:]) <= set("0123456789abcdefghjkmnpqrstvwxyz")


async def test_several_items_for_one_variant_cause_one_event(shelves: Shelves) -> None:
    await shelves.adjusted(
        {"sku": "SOCK-S", "quantity": -9}, {"sku": "LAMP", "quantity": 4}, {"sku": "SOCK-S", "quantity": 4}
    )
    assert await shelves.event_types() == [("inventory_changed", "SOCK-S"), ("inventory_changed", "LAMP")]
    assert [event["changes"]["on_hand"] for event in await shelves.events()] == [[10, 5], [1, 5]]
    assert (await shelves.level("SOCK-S"))["version"] == 2


@pytest.mark.parametrize(
    ("sku", "steps", "expected"),
    [
        ("SOCK-S", [4], []),  # 3 is the threshold: still above
        ("SOCK-S", [3], ["low_stock"]),
        ("SOCK-S", [3, 2, 1], ["low_stock"]),
        ("SOCK-S", [3, 5, 2], ["low_stock", "low_stock"]),
        ("SOCK-S", [0], ["low_stock", "out_of_stock"]),
        ("SOCK-S", [1, 0, 1, 9], ["low_stock", "out_of_stock", "back_in_stock"]),
        ("SOCK-L", [5, 1, 0], ["back_in_stock", "out_of_stock"]),  # has no threshold
        ("LAMP", [0, -2, -1, 1], ["low_stock", "out_of_stock", "back_in_stock"]),
        ("LAMP", [-5, 0], ["low_stock", "out_of_stock"]),
        ("CARD", [20, 1, 0, -1, 3], []),
    ],
)
async def test_crossing_a_threshold_causes_exactly_one_event(
    shelves: Shelves, sku: str, steps: list[int], expected: list[str]
) -> None:
    for quantity in steps:
        await shelves.adjusted({"sku": sku, "op": "set", "quantity": quantity})
    types = [kind for kind, _ in await shelves.event_types()]
    assert types.count("inventory_changed") == len(steps)
    assert [kind for kind in types if kind != "inventory_changed"] == expected


async def test_movements_that_cancel_out_are_in_the_ledger_but_cause_no_event(shelves: Shelves) -> None:
    before = (await shelves.level("SOCK-S"), await shelves.product("SOCK-S"))
    await shelves.adjusted({"sku": "SOCK-S", "quantity": -10}, {"sku": "SOCK-S", "quantity": 10})
    assert [entry["on_hand_after"] for entry in await shelves.entries()] == [0, 10]
    assert await shelves.events() == []
    assert (await shelves.level("SOCK-S"), await shelves.product("SOCK-S")) == before


async def test_a_catalog_edit_causes_the_same_events_as_an_adjustment(shelves: Shelves) -> None:
    for quantity in (0, 7):
        data = {"variants": [{"sku": "SOCK-S", "stock": {"on_hand": quantity}}]}
        items = [{"op": "update", "sku": "SOCK-S", "data": data}]
        answer = await shelves.shop.client.post("/products/batch", json={"items": items})
        assert answer.status_code == 200, answer.text
    assert await shelves.event_types() == [
        ("inventory_changed", "SOCK-S"),
        ("low_stock", "SOCK-S"),
        ("out_of_stock", "SOCK-S"),
        ("inventory_changed", "SOCK-S"),
        ("back_in_stock", "SOCK-S"),
    ]
    changes = [event["changes"] for event in await shelves.events()]
    assert changes == [{"on_hand": [10, 0], "available": [10, 0]}] * 3 + [{"on_hand": [0, 7], "available": [0, 7]}] * 2
