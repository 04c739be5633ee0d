"""Stock movements of orders: reserve, release, commit and restock by move_stock, each movement at most once."""

import asyncio
from typing import Any

import pytest

from stoa.db.errors import PostgresError, violates
from stoa.events.outbox import Actor
from stoa.inventory.queries import Move, Moved, move_stock
from tests.inventory.shelves import Shelves


async def move(shelves: Shelves, *moves: Move, atomic: bool = True) -> list[Moved]:
    async with shelves.shop.db.transaction() as db:
        return await move_stock(
            db, shelves.shop.store_id, moves, atomic=atomic, actor=Actor("app", 1), request_id="req_order"
        )


def of_order(sku: str, kind: Any, *, on_hand: int = 0, reserved: int = 0, key: str | None = None) -> Move:
    return Move(sku=sku, kind=kind, on_hand=on_hand, reserved=reserved, reason="order", order_id=7, movement_key=key)


async def stock(shelves: Shelves, sku: str) -> tuple[int, int, int]:
    level = (await shelves.level(sku))["stock"]
    return level["on_hand"], level["reserved"], level["available"]


async def test_the_ledger_records_every_step_of_an_order(shelves: Shelves) -> None:
    await move(shelves, of_order("SOCK-S", "reserve", reserved=4))
    assert await stock(shelves, "SOCK-S") == (10, 4, 6)
    await move(shelves, of_order("SOCK-S", "release", reserved=-1))
    assert await stock(shelves, "SOCK-S") == (10, 3, 7)
    await move(shelves, of_order("SOCK-S", "commit", on_hand=-3, reserved=-3))
    assert await stock(shelves, "SOCK-S") == (7, 0, 7)
    await move(shelves, of_order("SOCK-S", "restock", on_hand=2))
    assert await stock(shelves, "SOCK-S") == (9, 0, 9)
    entries = await shelves.entries(order_id=7)
    names = ("kind", "delta_on_hand", "delta_reserved", "on_hand_after", "reserved_after", "order_id")
    assert [tuple(entry[name] for name in names) for entry in entries] == [
        ("reserve", 0, 4, 10, 4, 7),
        ("release", 0, -1, 10, 3, 7),
        ("commit", -3, -3, 7, 0, 7),
        ("restock", 2, 0, 9, 0, 7),
    ]
    assert [event["changes"] for event in await shelves.events()] == [
        {"reserved": [0, 4], "available": [10, 6]},
        {"reserved": [4, 3], "available": [6, 7]},
        {"on_hand": [10, 7], "reserved": [3, 0]},
        {"on_hand": [7, 9], "available": [7, 9]},
    ]
    product = await shelves.product("SOCK-S")
    assert product["stock"] == {"on_hand": 9, "reserved": 0, "available": 9}


async def test_reserving_the_last_one_takes_the_product_out_of_stock(shelves: Shelves) -> None:
    await move(shelves, of_order("SOCK-S", "reserve", reserved=10))
    product = await shelves.product("SOCK-S")
    assert (product["stock"], product["in_stock"]) == ({"on_hand": 10, "reserved": 10, "available": 0}, False)
    assert [kind for kind, _ in await shelves.event_types()] == ["inventory_changed", "low_stock", "out_of_stock"]


async def test_an_order_reserves_all_its_lines_or_none(shelves: Shelves) -> None:
    moves = [of_order("SOCK-S", "reserve", reserved=1), of_order("SOCK-L", "reserve", reserved=1)]
    refused = await move(shelves, *moves)
    assert [(each.outcome, each.available) for each in refused] == [("updated", 9), ("insufficient", 0)]
    # Nothing is written even without a rollback.
    assert await stock(shelves, "SOCK-S") == (10, 0, 10)
    assert (await shelves.entries(), await shelves.events()) == ([], [])
    kept = await move(shelves, *moves, atomic=False)
    assert [each.movement_id is not None for each in kept] == [True, False]
    assert await stock(shelves, "SOCK-S") == (10, 1, 9)


async def test_backorders_and_untracked_variants_can_be_reserved_without_limit(shelves: Shelves) -> None:
    await move(shelves, of_order("LAMP", "reserve", reserved=5), of_order("CARD", "reserve", reserved=5))
    assert (await stock(shelves, "LAMP"), await stock(shelves, "CARD")) == ((1, 5, -4), (0, 5, -5))
    await move(shelves, of_order("LAMP", "commit", on_hand=-5, reserved=-5))
    assert await stock(shelves, "LAMP") == (-4, 0, -4)


async def test_a_movement_with_a_key_happens_once(shelves: Shelves, other_shop: Any) -> None:
    once = of_order("SOCK-S", "reserve", reserved=1, key="order/7/line/1/reserve/1")
    await move(shelves, once)
    with pytest.raises(PostgresError) as caught:
        await move(shelves, once)
    assert violates(caught.value, "stock_movements_key")
    assert await stock(shelves, "SOCK-S") == (10, 1, 9)


async def test_no_more_than_the_reserved_stock_can_be_released(shelves: Shelves) -> None:
    with pytest.raises(PostgresError) as caught:
        await move(shelves, of_order("LAMP", "release", reserved=-1))
    assert violates(caught.value, "variants_check")


async def test_reserved_stock_of_a_deleted_variant_can_be_released_but_not_reserved_again(shelves: Shelves) -> None:
    await move(shelves, of_order("SOCK-S", "reserve", reserved=4))
    before = await shelves.product("SOCK-S")
    await shelves.shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND sku = 'SOCK-S'", shelves.shop.store_id
    )
    await shelves.ignore_past()
    variant_id = shelves.variants["SOCK-S"]
    released = Move(variant_id=variant_id, kind="release", reserved=-3, reason="order", order_id=7)
    assert [each.outcome for each in await move(shelves, released)] == ["updated"]
    assert [entry["reserved_after"] for entry in await shelves.entries()] == [1]
    # A deleted variant causes no event, and its product does not change.
    assert await shelves.events() == []
    assert (await shelves.product("SOCK-S"))["version"] == before["version"]
    for kind in ("reserve", "adjust", "set"):
        refused = await move(shelves, Move(variant_id=variant_id, kind=kind, on_hand=1, reason="order"))
        assert [each.outcome for each in refused] == ["unknown"]


async def test_a_sku_that_moves_to_another_variant_is_followed(shelves: Shelves) -> None:
    """An adjustment that waits while SKUs are swapped must reach the variant that has the SKU afterwards."""
    db = shelves.shop.db
    async with db.transaction() as other:
        await other.execute(
            "SELECT 1 FROM products WHERE store_id = $1 AND id = $2 FOR NO KEY UPDATE",
            shelves.shop.store_id,
            shelves.products["SOCK-S"],
        )
        waiting = asyncio.create_task(shelves.adjust({"sku": "SOCK-S", "quantity": 1}))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        for sku, variant in (("?", "SOCK-S"), ("SOCK-S", "SOCK-L"), ("SOCK-L", "SOCK-S")):
            await other.execute(
                "UPDATE variants SET sku = $3 WHERE store_id = $1 AND id = $2",
                shelves.shop.store_id,
                shelves.variants[variant],
                sku,
            )
    answer = await waiting
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"][0]["resource"]["variant_id"] == shelves.variants["SOCK-L"]


async def test_times_of_a_variant_never_decrease(shelves: Shelves) -> None:
    """A change that began first but waited has the later time."""
    db = shelves.shop.db
    add_one = Move(sku="SOCK-S", kind="adjust", on_hand=1, reason="other")
    store_id, actor = shelves.shop.store_id, Actor("app", 1)
    async with db.transaction() as early:
        await early.execute("SELECT 1")
        await asyncio.sleep(0.01)
        await move(shelves, add_one)
        after_late = (await shelves.level("SOCK-S"))["updated_at"]
        await move_stock(early, store_id, [add_one], atomic=True, actor=actor, request_id="req_early")
    assert (await shelves.level("SOCK-S"))["updated_at"] > after_late
    times = [entry["created_at"] for entry in await shelves.entries()]
    assert times == sorted(times)
