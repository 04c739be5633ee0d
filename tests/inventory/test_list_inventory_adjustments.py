"""Lists of the ledger: order, filters, and isolation of stores."""

from typing import Any

import pytest

from stoa.events.outbox import Actor
from stoa.inventory.queries import Move, move_stock
from tests.inventory.shelves import SOCKS, Shelves
from tests.support.shops import Shop


@pytest.fixture
async def books(shelves: Shelves) -> Shelves:
    """A count of two variants, a return, and an order's reservation."""
    await shelves.adjusted(
        {"sku": "SOCK-S", "op": "set", "quantity": 8},
        {"sku": "LAMP", "quantity": 2},
        reason="stocktake",
        reference="COUNT-9",
    )
    await shelves.adjusted({"sku": "SOCK-S", "quantity": 1, "reason": "return", "reference": "RMA-1"})
    reserved = Move(sku="LAMP", kind="reserve", reserved=1, reason="order", order_id=512)
    async with shelves.shop.db.transaction() as db:
        await move_stock(
            db, shelves.shop.store_id, [reserved], atomic=True, actor=Actor("operator"), request_id='odd "id"'
        )
    return shelves


async def brief(books: Shelves, **params: Any) -> list[str]:
    return [f"{entry['sku']} {entry['kind']} {entry['reason']}" for entry in await books.entries(**params)]


async def test_the_newest_entry_comes_first(books: Shelves) -> None:
    page = (await books.shop.client.get("/products/inventory/adjustments", params={"limit": 2})).json()
    ids = [entry["id"] for entry in page["data"]]
    assert ids == sorted(ids, reverse=True)
    assert [entry["kind"] for entry in page["data"]] == ["reserve", "adjust"]
    older = (
        await books.shop.client.get("/products/inventory/adjustments", params={"cursor": page["meta"]["next_cursor"]})
    ).json()
    assert [entry["sku"] for entry in older["data"]][:2] == ["LAMP", "SOCK-S"]
    assert older["data"][0]["id"] < ids[-1]


async def test_an_entry_of_an_operator_has_no_app(books: Shelves) -> None:
    entry = (await books.entries(order_id=512))[0]
    assert (entry["actor"], entry["request_id"]) == ({"type": "operator"}, 'odd "id"')


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"reference": "COUNT-9"}, ["SOCK-S set stocktake", "LAMP adjust stocktake"]),
        ({"sku": "SOCK-S", "reason": "stocktake,return"}, ["SOCK-S set stocktake", "SOCK-S adjust return"]),
        ({"kind": "adjust,reserve", "sku": "LAMP"}, ["LAMP adjust stocktake", "LAMP reserve order"]),
        ({"reason": "return"}, ["SOCK-S adjust return"]),
        ({"reason": "damaged"}, []),
        ({"order_id": "512"}, ["LAMP reserve order"]),
        ({"order_id": "513"}, []),
        ({"created_at[lt]": "2020-01-01T00:00:00Z"}, []),
        ({"updated_since": "2220-01-01T00:00:00Z"}, []),
    ],
)
async def test_filters_narrow_the_ledger(books: Shelves, params: dict[str, str], expected: list[str]) -> None:
    assert await brief(books, **params) == expected


async def test_entries_are_found_by_variant_product_and_time(books: Shelves) -> None:
    lamp, socks = books.variants["LAMP"], books.products["SOCK-S"]
    assert await brief(books, variant_id=lamp) == ["LAMP adjust stocktake", "LAMP reserve order"]
    assert await brief(books, product_id=socks) == ["SOCK-S set stocktake", "SOCK-S adjust return"]
    returned = (await books.entries(reference="RMA-1"))[0]["created_at"]
    assert await brief(books, created_at=returned) == ["SOCK-S adjust return"]
    assert await brief(books, **{"created_at[gte]": returned}) == ["SOCK-S adjust return", "LAMP reserve order"]
    assert await brief(books, updated_since=returned) == ["SOCK-S adjust return", "LAMP reserve order"]
    assert await brief(books, **{"created_at[gt]": returned}) == ["LAMP reserve order"]


async def test_entries_can_be_sorted_oldest_first(books: Shelves) -> None:
    page = (await books.shop.client.get("/products/inventory/adjustments", params={"sort": "created_at"})).json()
    times = [(entry["created_at"], entry["id"]) for entry in page["data"]]
    assert times == sorted(times)


async def test_the_ledger_of_another_store_is_not_listed(books: Shelves, other_shop: Shop) -> None:
    await other_shop.add(SOCKS)
    mine = {entry["id"] for entry in await books.entries()}
    for params in ({}, {"sku": "SOCK-S"}, {"reference": "COUNT-9"}, {"variant_id": books.variants["LAMP"]}):
        page = (await other_shop.client.get("/products/inventory/adjustments", params=params)).json()
        assert not mine & {entry["id"] for entry in page["data"]}


async def test_an_entry_keeps_the_sku_at_its_time(books: Shelves) -> None:
    await books.shop.db.execute(
        "UPDATE variants SET sku = 'LAMP-2' WHERE store_id = $1 AND sku = 'LAMP'", books.shop.store_id
    )
    await books.adjusted({"sku": "LAMP-2", "quantity": 1})
    assert [entry["sku"] for entry in await books.entries(variant_id=books.variants["LAMP"])] == [
        "LAMP",
        "LAMP",
        "LAMP-2",
    ]
    assert len(await books.entries(sku="LAMP")) == 2
