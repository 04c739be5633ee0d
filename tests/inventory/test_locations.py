"""Stock at several locations: levels, adjustments, transfers, the ledger, and the locations themselves."""

import asyncio
from typing import Any

import pytest

from stoa.access import audit
from stoa.access.contract import AccessRefused, InvalidName
from stoa.events.outbox import Actor
from stoa.inventory import locations
from stoa.inventory.locations import (
    DefaultLocationNeeded,
    InvalidAddress,
    InvalidLocationCode,
    InvalidPriority,
    LocationInUse,
    LocationTaken,
    NoSuchLocation,
    TooManyLocations,
    activate_location,
    add_location,
    deactivate_location,
    list_locations,
    update_location,
)
from stoa.inventory.queries import Move, move_stock
from tests.inventory.shelves import CARD, LAMP, SOCKS, Shelves
from tests.support.locations import assert_books_balance, levels, open_locations, spread
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop


@pytest.fixture
async def shelves(shop: Shop) -> Shelves:
    """The shop of the inventory tests with two more locations, still empty."""
    await open_locations(shop, east=5, west=20)
    return await Shelves(shop).open(SOCKS, LAMP, CARD)


def transfer(sku: str, quantity: int, to: str, **more: Any) -> dict[str, Any]:
    return {"sku": sku, "op": "transfer", "quantity": quantity, "to_location": to, **more}


def faults(answer: Any) -> list[tuple[str, str]]:
    return [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]


# --- levels ----------------------------------------------------------------------------------------------------------


async def test_a_store_starts_with_one_location(shop: Shop) -> None:
    await Shelves(shop).open(SOCKS)
    page = (await shop.client.get("/products/inventory", params={"include": "locations", "sku": "SOCK-S"})).json()
    default = {"code": "default", "name": "Default", "address": None, "priority": 0, "active": True}
    assert page["meta"]["locations"] == [default]
    assert page["data"][0]["locations"] == [{"code": "default", "on_hand": 10, "reserved": 0, "available": 10}]
    assert "locations" not in (await shop.client.get("/products/inventory")).json()["data"][0]


async def test_locations_are_listed_by_priority(shelves: Shelves) -> None:
    await update_location(shelves.shop.local_operator, shelves.shop.store.handle, "default", priority=10)
    rows = await list_locations(shelves.shop.local_operator, shelves.shop.store.handle)
    assert [row.code for row in rows] == ["east", "default", "west"]
    await spread(shelves.shop, "SOCK-S", east=1, west=2)
    assert list(await levels(shelves.shop, "SOCK-S")) == ["east", "default", "west"]


async def test_a_transfer_moves_units_without_changing_the_total(shelves: Shelves) -> None:
    [done] = await shelves.adjusted(transfer("SOCK-S", 4, "east"), reference="T-1")
    assert await levels(shelves.shop, "SOCK-S") == {"default": (6, 0), "east": (4, 0)}
    entries = await shelves.entries()
    names = ("kind", "location", "delta_on_hand", "on_hand_after", "reference")
    assert [tuple(entry[name] for name in names) for entry in entries] == [
        ("transfer", "default", -4, 6, "T-1"),
        ("transfer", "east", 4, 10, "T-1"),
    ]
    assert done["resource"] == entries[0]
    [event] = await shelves.events()
    assert event["type"] == "product.inventory_changed"
    assert event["changes"] == {"locations": [{"default": 10, "east": 0}, {"default": 6, "east": 4}]}
    assert (event["data"]["stock"]["on_hand"], event["resource_version"]) == (10, 2)
    await shelves.adjusted(
        transfer("SOCK-S", 1, "west", location="east"), transfer("SOCK-S", 3, "default", location="east")
    )
    assert await levels(shelves.shop, "SOCK-S") == {"default": (9, 0), "west": (1, 0)}
    assert (await shelves.level("SOCK-S"))["version"] == 3
    await assert_books_balance(shelves.shop)


async def test_adjustments_apply_to_their_location(shelves: Shelves) -> None:
    await shelves.adjusted(
        {"sku": "SOCK-S", "quantity": 5, "location": "east"},
        {"sku": "SOCK-S", "op": "set", "quantity": 3, "location": "east", "compare_quantity": 5},
        {"sku": "SOCK-S", "op": "set", "quantity": 8, "compare_quantity": 10},
        {"sku": "SOCK-S", "quantity": 1, "location": "default"},
    )
    assert await levels(shelves.shop, "SOCK-S") == {"default": (9, 0), "east": (3, 0)}
    assert [entry["on_hand_after"] for entry in await shelves.entries()] == [15, 13, 11, 12]
    assert [entry["delta_on_hand"] for entry in await shelves.entries(location="east")] == [5, -2]
    [event] = await shelves.events()
    assert event["changes"]["locations"] == [{"default": 10, "east": 0}, {"default": 9, "east": 3}]
    await assert_books_balance(shelves.shop)


async def test_levels_can_be_listed_by_location(shelves: Shelves) -> None:
    await spread(shelves.shop, "SOCK-S", east=10)

    async def found(code: str) -> list[str]:
        page = await shelves.shop.client.get("/products/inventory", params={"location": code})
        return [level["sku"] for level in page.json()["data"]]

    assert (await found("east"), await found("west"), await found("nowhere")) == (["SOCK-S"], [], [])
    assert await found("default") == ["LAMP"]


async def test_units_of_a_product_are_written_to_the_default_location(shelves: Shelves) -> None:
    """`stock` has one meaning in responses and in requests: the sum over all locations."""
    await spread(shelves.shop, "SOCK-S", east=4)

    async def set_total(units: int) -> Any:
        data = {"variants": [{"sku": "SOCK-S", "stock": {"on_hand": units}}]}
        item = {"op": "update", "id": shelves.products["SOCK-S"], "data": data}
        return await shelves.shop.client.post("/products/batch", json={"items": [item]})

    assert (await set_total(12)).status_code == 200
    assert await levels(shelves.shop, "SOCK-S") == {"default": (8, 0), "east": (4, 0)}
    refused = await set_total(3)
    assert (refused.status_code, faults(refused)[0][1]) == (422, "out_of_range")
    await assert_books_balance(shelves.shop)


async def test_an_import_moves_stock_only_at_active_locations(shelves: Shelves) -> None:
    shop = shelves.shop
    await deactivate_location(shop.local_operator, shop.store.handle, "west")
    moves = [
        Move(sku="SOCK-S", kind="import", location=code, absolute=True, on_hand=4, reason="sync")
        for code in ("west", "east", "nowhere")
    ]
    moved = await move_stock(
        shop.db, shop.store_id, moves, atomic=False, actor=Actor("operator"), request_id="req_import"
    )
    assert [each.outcome for each in moved] == ["unknown_location", "updated", "unknown_location"]
    assert await levels(shop, "SOCK-S") == {"default": (10, 0), "east": (4, 0)}
    await assert_books_balance(shop)


# --- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "status", "fault"),
    [
        (transfer("SOCK-S", 11, "east"), 409, ("/items/0/quantity", "insufficient_stock")),
        (transfer("SOCK-S", 1, "west", location="east"), 409, ("/items/0/quantity", "insufficient_stock")),
        (transfer("LAMP", 2, "east"), 409, ("/items/0/quantity", "insufficient_stock")),
        (transfer("SOCK-S", 1_000_000_000, "east"), 409, ("/items/0/quantity", "insufficient_stock")),
        (transfer("SOCK-S", 1, "nowhere"), 422, ("/items/0/to_location", "unknown_location")),
        (transfer("SOCK-S", 1, "east", location="nowhere"), 422, ("/items/0/location", "unknown_location")),
        (transfer("SOCK-S", 1, "closed"), 422, ("/items/0/to_location", "unknown_location")),
        (transfer("SOCK-S", 1, "default"), 422, ("/items/0/to_location", "invalid_format")),
        (transfer("SOCK-S", 1, "east", location="east"), 422, ("/items/0/to_location", "invalid_format")),
        (transfer("SOCK-S", 0, "east"), 422, ("/items/0/quantity", "out_of_range")),
        (transfer("SOCK-S", -1, "east"), 422, ("/items/0/quantity", "out_of_range")),
        (transfer("SOCK-S", 10**18, "east"), 422, ("/items/0/quantity", "out_of_range")),
        ({"sku": "SOCK-S", "op": "transfer", "quantity": 1}, 422, ("/items/0/to_location", "required")),
        ({"sku": "SOCK-S", "quantity": 1, "to_location": "east"}, 422, ("/items/0/to_location", "invalid_format")),
        ({"sku": "SOCK-S", "quantity": 1, "location": "nowhere"}, 422, ("/items/0/location", "unknown_location")),
        ({"sku": "SOCK-S", "quantity": 1, "location": "closed"}, 422, ("/items/0/location", "unknown_location")),
        ({"sku": "SOCK-S", "quantity": 1, "location": ""}, 422, ("/items/0/location", "invalid_format")),
        ({"sku": "SOCK-S", "quantity": -1, "location": "east"}, 409, ("/items/0/quantity", "insufficient_stock")),
        # Only the default location owes units of a variant that allows backorders.
        ({"sku": "LAMP", "quantity": -1, "location": "east"}, 409, ("/items/0/quantity", "insufficient_stock")),
    ],
)
async def test_an_impossible_change_is_refused(
    shelves: Shelves, item: dict[str, Any], status: int, fault: tuple[str, str]
) -> None:
    await open_locations(shelves.shop, closed=30)
    await deactivate_location(shelves.shop.local_operator, shelves.shop.store.handle, "closed")
    answer = await shelves.adjust(item)
    assert (answer.status_code, faults(answer)[0]) == (status, fault)
    assert (await shelves.entries(), await shelves.events()) == ([], [])


async def test_independent_items_succeed_without_the_failed_ones(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        transfer("SOCK-S", 6, "east"),
        transfer("SOCK-S", 6, "west"),
        transfer("SOCK-S", 1, "nowhere"),
        mode="independent",
    )
    assert [result["status"] for result in answer.json()["data"]] == ["updated", "failed", "failed"]
    assert await levels(shelves.shop, "SOCK-S") == {"default": (4, 0), "east": (6, 0)}
    await assert_books_balance(shelves.shop)


async def test_another_stores_location_is_unknown(shelves: Shelves, other_shop: Shop) -> None:
    await Shelves(other_shop).open(SOCKS)
    body = {"items": [transfer("SOCK-S", 1, "east")]}
    answer = await other_shop.client.post("/products/inventory/adjustments", json=body)
    assert faults(answer) == [("/items/0/to_location", "unknown_location")]


# --- the locations themselves ------------------------------------------------------------------------------------------


async def test_changes_of_locations_are_audited_and_published(shelves: Shelves) -> None:
    by, handle = shelves.shop.local_operator, shelves.shop.store.handle
    await update_location(by, handle, "east", name="East side", address=" 4 Dock Road ", priority=7)
    await update_location(by, handle, "east", name="East side")
    await deactivate_location(by, handle, "west")
    await activate_location(by, handle, "west")
    entries = (await audit.page(shelves.shop.db, shelves.shop.store_id, 0, 100))[-5:]
    actions = [(entry.action, entry.subject, entry.detail) for entry in entries]
    assert actions[-3:] == [
        (
            "location.changed",
            "location:east",
            '{"address":"4 Dock Road","before":{"address":null,"name":"East","priority":5},"name":"East side","priority":7}',
        ),
        ("location.deactivated", "location:west", "{}"),
        ("location.activated", "location:west", "{}"),
    ]
    east = {"code": "east", "name": "East side", "address": "4 Dock Road", "priority": 7, "active": True}
    await shelves.shop.settle()
    while True:  # a store is cached for less than a second
        page = (await shelves.shop.client.get("/products/inventory")).json()
        if east in page["meta"]["locations"]:
            break
        await asyncio.sleep(0.1)


async def test_only_an_empty_location_can_be_deactivated(shelves: Shelves) -> None:
    by, handle = shelves.shop.local_operator, shelves.shop.store.handle
    await spread(shelves.shop, "SOCK-S", east=2)
    with pytest.raises(LocationInUse, match="holds 2 units, of which 0 are reserved"):
        await deactivate_location(by, handle, "east")
    await shelves.adjusted(transfer("SOCK-S", 2, "default", location="east"))
    assert not (await deactivate_location(by, handle, "east")).active
    with pytest.raises(DefaultLocationNeeded):
        await deactivate_location(by, handle, "default")


async def test_stock_cannot_reach_a_location_while_it_is_deactivated(shelves: Shelves) -> None:
    """The second transaction waits for the first, in both orders."""
    shop = shelves.shop
    by, handle = shop.local_operator, shop.store.handle
    async with shop.db.transaction() as other:
        await other.fetch("SELECT 1 FROM locations WHERE store_id = $1 AND code = 'east' FOR KEY SHARE", shop.store_id)
        closing = asyncio.create_task(deactivate_location(by, handle, "east"))
        await until_somebody_waits(shop.db)
    assert not (await closing).active
    async with shop.db.transaction() as other:
        await other.fetch("SELECT 1 FROM locations WHERE store_id = $1 AND code = 'west' FOR UPDATE", shop.store_id)
        moving = asyncio.create_task(shelves.adjust(transfer("SOCK-S", 1, "west")))
        await until_somebody_waits(shop.db)
        await other.execute("UPDATE locations SET active = false WHERE store_id = $1 AND code = 'west'", shop.store_id)
    assert faults(await moving) == [("/items/0/to_location", "unknown_location")]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("East", "East"), InvalidLocationCode),
        (("-east", "East"), InvalidLocationCode),
        (("e" * 33, "East"), InvalidLocationCode),
        (("", "East"), InvalidLocationCode),
        (("east\n", "East"), InvalidLocationCode),
        (("east", "East"), LocationTaken),
        (("default", "Default"), LocationTaken),
        (("north", ""), InvalidName),
        (("north", "North", "x" * 501), InvalidAddress),
        (("north", "North", "a\x00b"), InvalidAddress),
        (("north", "North", None, -1), InvalidPriority),
        (("north", "North", None, 10**9), InvalidPriority),
    ],
)
async def test_an_invalid_location_is_refused(
    shelves: Shelves, arguments: tuple[Any, ...], refusal: type[AccessRefused]
) -> None:
    with pytest.raises(refusal):
        await add_location(shelves.shop.local_operator, shelves.shop.store.handle, *arguments)


async def test_an_unknown_location_cannot_be_changed(shelves: Shelves) -> None:
    for change in (update_location, deactivate_location, activate_location):
        with pytest.raises(NoSuchLocation):
            await change(shelves.shop.local_operator, shelves.shop.store.handle, "nowhere")


async def test_a_store_has_a_limited_number_of_locations(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "MOST_LOCATIONS", 4)
    by, handle = shelves.shop.local_operator, shelves.shop.store.handle
    adding = [add_location(by, handle, f"more-{n}", "More") for n in range(3)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(isinstance(result, TooManyLocations) for result in results) == 2
    assert len(await list_locations(by, handle)) == 4


async def test_items_of_several_variants_and_locations_are_kept_apart(shelves: Shelves) -> None:
    await shelves.adjusted({"sku": "SOCK-L", "quantity": 6}, {"sku": "LAMP", "quantity": 4, "location": "west"})
    await shelves.ignore_past()
    answer = await shelves.adjust(
        {"sku": "SOCK-S", "quantity": 1},
        transfer("LAMP", 9, "east", location="west"),
        transfer("LAMP", 3, "east", location="west"),
        transfer("SOCK-L", 2, "west"),
        transfer("SOCK-S", 5, "west"),
        mode="independent",
    )
    assert [result["status"] for result in answer.json()["data"]] == ["updated", "failed", *["updated"] * 3]
    assert await levels(shelves.shop, "LAMP") == {"east": (3, 0), "default": (1, 0), "west": (1, 0)}
    assert await levels(shelves.shop, "SOCK-L") == {"default": (4, 0), "west": (2, 0)}
    assert await levels(shelves.shop, "SOCK-S") == {"default": (6, 0), "west": (5, 0)}
    changes = {event["data"]["sku"]: event["changes"]["locations"] for event in await shelves.events()}
    assert changes["LAMP"] == [{"east": 0, "west": 4}, {"east": 3, "west": 1}]
    assert changes["SOCK-S"] == [{"default": 10, "west": 0}, {"default": 6, "west": 5}]
    await assert_books_balance(shelves.shop)
