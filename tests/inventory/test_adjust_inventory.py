"""Adjustments of stock: set, adjust, compare, atomic and independent batches, and idempotency keys."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.inventory.shelves import SOCKS, Shelves
from tests.support.shops import Shop


def faults(answer: Any) -> list[tuple[str, str]]:
    return [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]


async def test_adjust_changes_by_a_difference_and_set_replaces(shelves: Shelves) -> None:
    await shelves.adjusted({"sku": "SOCK-S", "quantity": 5})
    assert await shelves.on_hand("SOCK-S") == 15
    await shelves.adjusted({"variant_id": shelves.variants["SOCK-S"], "op": "adjust", "quantity": -3})
    assert await shelves.on_hand("SOCK-S") == 12
    await shelves.adjusted({"sku": "SOCK-S", "op": "set", "quantity": 7})
    assert (await shelves.level("SOCK-S"))["stock"] == {"on_hand": 7, "reserved": 0, "available": 7}


async def test_the_result_of_each_item_is_its_ledger_entry(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        {"sku": "SOCK-S", "op": "set", "quantity": 8, "compare_quantity": 10},
        {"variant_id": shelves.variants["LAMP"], "quantity": 2, "reason": "return", "reference": "RMA-1"},
        reason="stocktake",
        reference="COUNT-9",
    )
    assert answer.status_code == 200
    assert answer.json()["meta"] == {"total": 2, "succeeded": 2, "failed": 0}
    first, second = answer.json()["data"]
    entry = first["resource"]
    assert (first["index"], first["status"], first["id"], first["error"]) == (0, "updated", entry["id"], None)
    assert entry == {
        "id": entry["id"],
        "variant_id": shelves.variants["SOCK-S"],
        "sku": "SOCK-S",
        "kind": "set",
        "location": "default",
        "delta_on_hand": -2,
        "delta_reserved": 0,
        "on_hand_after": 8,
        "reserved_after": 0,
        "reason": "stocktake",
        "reference": "COUNT-9",
        "order_id": None,
        "actor": {"type": "app", "app_id": shelves.shop.app_id},
        "request_id": answer.headers["x-request-id"],
        "created_at": entry["created_at"],
    }
    assert [second["resource"][name] for name in ("kind", "reason", "reference")] == ["adjust", "return", "RMA-1"]
    assert await shelves.entries() == [entry, second["resource"]]


async def test_the_default_reason_is_other(shelves: Shelves) -> None:
    results = await shelves.adjusted({"sku": "SOCK-S", "quantity": 1})
    assert (results[0]["resource"]["reason"], results[0]["resource"]["reference"]) == ("other", None)


async def test_a_stale_comparison_reports_the_stock_on_hand(shelves: Shelves) -> None:
    answer = await shelves.adjust({"sku": "SOCK-S", "op": "set", "quantity": 7, "compare_quantity": 9})
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_quantity")
    fault = answer.json()["errors"][0]
    assert (fault["pointer"], fault["meta"]) == ("/items/0/compare_quantity", {"on_hand": 10})
    assert await shelves.on_hand("SOCK-S") == 10


async def test_more_than_the_available_stock_cannot_be_taken(shelves: Shelves) -> None:
    for item in ({"quantity": -11}, {"op": "set", "quantity": -1}):
        answer = await shelves.adjust({"sku": "SOCK-S", **item})
        assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
        fault = answer.json()["errors"][0]
        assert (fault["pointer"], fault["meta"]) == ("/items/0/quantity", {"available": 10})
    await shelves.adjusted({"sku": "SOCK-S", "quantity": -10})
    assert await shelves.on_hand("SOCK-S") == 0


async def test_reserved_stock_cannot_be_taken(shelves: Shelves) -> None:
    await shelves.shop.db.execute(
        "UPDATE variants SET reserved = 4 WHERE store_id = $1 AND sku = 'SOCK-S'", shelves.shop.store_id
    )
    answer = await shelves.adjust({"sku": "SOCK-S", "quantity": -7})
    assert answer.json()["errors"][0]["meta"] == {"available": 6}
    assert (await shelves.adjust({"sku": "SOCK-S", "op": "set", "quantity": 3})).status_code == 409
    await shelves.adjusted({"sku": "SOCK-S", "op": "set", "quantity": 4})
    assert (await shelves.level("SOCK-S"))["stock"] == {"on_hand": 4, "reserved": 4, "available": 0}


async def test_backorders_allow_stock_below_zero(shelves: Shelves) -> None:
    results = await shelves.adjusted({"sku": "LAMP", "quantity": -3})
    assert results[0]["resource"]["on_hand_after"] == -2
    assert (await shelves.level("LAMP"))["stock"]["available"] == -2
    assert (await shelves.product("LAMP"))["in_stock"] is True


async def test_untracked_variants_are_never_refused_and_never_low(shelves: Shelves) -> None:
    await shelves.adjusted({"sku": "CARD", "op": "set", "quantity": 10})
    await shelves.adjusted({"sku": "CARD", "quantity": -30})
    assert await shelves.on_hand("CARD") == -20
    assert await shelves.event_types() == [("inventory_changed", "CARD")] * 2
    assert (await shelves.product("CARD"))["in_stock"] is True


async def test_all_unknown_items_are_reported_at_once(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        {"sku": "NOPE", "quantity": 1},
        {"sku": "SOCK-S", "quantity": 1},
        {"variant_id": 999_999_999, "quantity": 1},
        {"sku": "sock-s", "quantity": 1},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert faults(answer) == [
        ("/items/0/sku", "unknown_sku"),
        ("/items/2/variant_id", "unknown_variant"),
        ("/items/3/sku", "unknown_sku"),
    ]
    assert await shelves.on_hand("SOCK-S") == 10


async def test_faults_of_several_kinds_are_reported_together(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        {"sku": "NOPE", "quantity": 1},
        {"sku": "SOCK-L", "quantity": -1},
        {"sku": "LAMP", "quantity": 1, "compare_quantity": 0},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "batch_failed")
    assert faults(answer) == [
        ("/items/0/sku", "unknown_sku"),
        ("/items/1/quantity", "insufficient_stock"),
        ("/items/2/compare_quantity", "stale_quantity"),
    ]


async def test_another_stores_variant_is_unknown(shelves: Shelves, other_shop: Shop) -> None:
    await other_shop.add(SOCKS)
    theirs = await other_shop.client.get("/products/inventory", params={"sku": "SOCK-S"})
    answer = await shelves.adjust({"variant_id": theirs.json()["data"][0]["variant_id"], "quantity": 1})
    assert faults(answer) == [("/items/0/variant_id", "unknown_variant")]
    await shelves.adjusted({"sku": "SOCK-S", "quantity": 1})
    again = await other_shop.client.get("/products/inventory", params={"sku": "SOCK-S"})
    assert again.json() == theirs.json()


async def test_a_deleted_variant_is_unknown_and_its_sku_is_free(shelves: Shelves) -> None:
    await shelves.shop.db.execute(
        "UPDATE variants SET deleted_at = now() WHERE store_id = $1 AND sku = 'SOCK-L'", shelves.shop.store_id
    )
    answer = await shelves.adjust(
        {"sku": "SOCK-L", "quantity": 1}, {"variant_id": shelves.variants["SOCK-L"], "quantity": 1}
    )
    assert faults(answer) == [("/items/0/sku", "unknown_sku"), ("/items/1/variant_id", "unknown_variant")]


async def test_an_item_names_its_variant_by_exactly_one_key(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        {"quantity": 1}, {"sku": "SOCK-S", "variant_id": shelves.variants["SOCK-S"], "quantity": 1}
    )
    assert answer.status_code == 422
    assert faults(answer) == [("/items/0/variant_id", "required"), ("/items/1/sku", "invalid_format")]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"items": []}, "/items"),
        ({"items": [{"sku": "SOCK-S"}]}, "/items/0/quantity"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1.5}]}, "/items/0/quantity"),
        ({"items": [{"sku": "SOCK-S", "quantity": 10**12}]}, "/items/0/quantity"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1, "op": "add"}]}, "/items/0/op"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1, "compare": 1}]}, "/items/0/compare"),
        ({"items": [{"variant_id": 0, "quantity": 1}]}, "/items/0/variant_id"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1}], "reason": "theft"}, "/reason"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1}], "reference": "x" * 256}, "/reference"),
        ({"items": [{"sku": "SOCK-S", "quantity": 1}], "mode": "maybe"}, "/mode"),
    ],
)
async def test_an_invalid_body_is_refused(shelves: Shelves, body: dict[str, Any], pointer: str) -> None:
    answer = await shelves.shop.client.post("/products/inventory/adjustments", json=body)
    assert answer.status_code == 422
    assert pointer in [fault["pointer"] for fault in answer.json()["errors"]]


async def test_at_most_five_hundred_items_are_accepted(shelves: Shelves) -> None:
    results = await shelves.adjusted(*[{"sku": "SOCK-S", "quantity": 1}] * 500)
    assert [result["resource"]["on_hand_after"] for result in results] == list(range(11, 511))
    answer = await shelves.adjust(*[{"sku": "SOCK-S", "quantity": 1}] * 501)
    assert (answer.status_code, answer.json()["code"], answer.json()["max_items"]) == (413, "too_many_items", 500)
    assert await shelves.on_hand("SOCK-S") == 510


async def test_a_failed_atomic_batch_writes_nothing(shelves: Shelves) -> None:
    before = (await shelves.level("SOCK-S"), await shelves.product("SOCK-S"))
    answer = await shelves.adjust({"sku": "SOCK-S", "quantity": 5}, {"sku": "SOCK-L", "quantity": -1})
    assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_stock")
    assert faults(answer) == [("/items/1/quantity", "insufficient_stock")]
    assert (await shelves.level("SOCK-S"), await shelves.product("SOCK-S")) == before
    assert (await shelves.entries(), await shelves.events()) == ([], [])


async def test_independent_items_are_applied_separately(shelves: Shelves) -> None:
    answer = await shelves.adjust(
        {"sku": "SOCK-S", "quantity": 5},
        {"sku": "SOCK-L", "quantity": -1},
        {"sku": "NOPE", "quantity": 1},
        {"sku": "LAMP", "quantity": 1, "compare_quantity": 7},
        {"sku": "LAMP", "op": "set", "quantity": 1},
        mode="independent",
    )
    assert answer.status_code == 207
    assert answer.json()["meta"] == {"total": 5, "succeeded": 2, "failed": 3}
    results = answer.json()["data"]
    assert [result["status"] for result in results] == ["updated", "failed", "failed", "failed", "unchanged"]
    errors = [result["error"] for result in results[1:4]]
    assert [(error["status"], error["code"]) for error in errors] == [
        (409, "insufficient_stock"), (422, "validation_failed"), (409, "stale_quantity"),
    ]  # fmt: skip
    assert [error["errors"][0]["pointer"] for error in errors] == [
        "/items/1/quantity", "/items/2/sku", "/items/3/compare_quantity",
    ]  # fmt: skip
    assert [errors[0]["errors"][0]["meta"], errors[2]["errors"][0]["meta"]] == [{"available": 0}, {"on_hand": 1}]
    assert await shelves.on_hand("SOCK-S") == 15
    assert [entry["sku"] for entry in await shelves.entries()] == ["SOCK-S"]
    assert await shelves.event_types() == [("inventory_changed", "SOCK-S")]


async def test_items_of_one_variant_apply_in_the_given_order(shelves: Shelves) -> None:
    results = await shelves.adjusted(
        {"sku": "SOCK-L", "quantity": 5},
        {"variant_id": shelves.variants["SOCK-L"], "quantity": -4, "compare_quantity": 5},
        {"sku": "SOCK-L", "op": "set", "quantity": 9},
        {"sku": "SOCK-L", "quantity": -9},
    )
    assert [result["resource"]["on_hand_after"] for result in results] == [5, 1, 9, 0]
    assert [entry["delta_on_hand"] for entry in await shelves.entries()] == [5, -4, 8, -9]
    wrong_way_round = await shelves.adjust({"sku": "SOCK-L", "quantity": -1}, {"sku": "SOCK-L", "quantity": 1})
    assert faults(wrong_way_round) == [("/items/0/quantity", "insufficient_stock")]


async def test_an_item_without_effect_is_unchanged_and_writes_nothing(shelves: Shelves) -> None:
    before = await shelves.level("SOCK-S")
    results = await shelves.adjusted(
        {"sku": "SOCK-S", "op": "set", "quantity": 10}, {"sku": "SOCK-S", "quantity": 0, "compare_quantity": 10}
    )
    assert [(each["status"], each["id"], each["resource"]) for each in results] == [("unchanged", None, None)] * 2
    assert await shelves.level("SOCK-S") == before
    assert (await shelves.entries(), await shelves.events()) == ([], [])


async def test_the_product_totals_follow_its_variants(shelves: Shelves) -> None:
    before = await shelves.product("SOCK-S")
    moment = datetime.now(UTC).isoformat()
    assert (before["stock"]["on_hand"], before["in_stock"]) == (10, True)
    await shelves.adjusted({"sku": "SOCK-S", "op": "set", "quantity": 0}, {"sku": "SOCK-L", "op": "set", "quantity": 2})
    after = await shelves.product("SOCK-S")
    assert (after["stock"], after["in_stock"]) == ({"on_hand": 2, "reserved": 0, "available": 2}, True)
    assert after["version"] == before["version"] + 1
    await shelves.adjusted({"sku": "SOCK-L", "quantity": -2})
    assert (await shelves.product("SOCK-S"))["in_stock"] is False
    for path, expected in (
        ("/products", [after["id"]]),
        ("/products/inventory", sorted(shelves.variants.values())[:2]),
    ):
        page = (await shelves.shop.client.get(path, params={"updated_since": moment})).json()
        assert [row.get("id", row.get("variant_id")) for row in page["data"]] == expected


async def test_a_repeated_key_moves_stock_once(shelves: Shelves) -> None:
    body = {"items": [{"sku": "SOCK-S", "quantity": -1}, {"sku": "SOCK-L", "quantity": -1}], "mode": "independent"}
    key = {"idempotency-key": "sale-17"}
    path = "/products/inventory/adjustments"
    first = await shelves.shop.client.post(path, json=body, headers=key)
    second = await shelves.shop.client.post(path, json=body, headers=key)
    assert (first.status_code, second.status_code, second.content) == (207, 207, first.content)
    assert second.headers["idempotent-replayed"] == "true"
    assert await shelves.on_hand("SOCK-S") == 9
    assert len(await shelves.events()) == len(await shelves.entries()) == 1


async def test_a_failed_adjustment_does_not_use_up_its_key(shelves: Shelves) -> None:
    body = {"items": [{"sku": "SOCK-L", "quantity": -1}]}
    key = {"idempotency-key": "sale-18"}
    path = "/products/inventory/adjustments"
    assert (await shelves.shop.client.post(path, json=body, headers=key)).status_code == 409
    await shelves.adjusted({"sku": "SOCK-L", "quantity": 1})
    assert (await shelves.shop.client.post(path, json=body, headers=key)).status_code == 200
