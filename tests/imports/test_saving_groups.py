"""Groups of rows: some are planned while the database saves the ones before, with the same results as one group."""

from collections import Counter
from typing import Any

import pytest

from stoa.imports import products
from tests.imports.files import import_file, lines, mug, report
from tests.support.shops import Shop

ROWS = 2 * products.SAVED_AT_ONCE + 20


async def counted(shop: Shop) -> tuple[int, int, int, dict[str, int]]:
    """The products, their stock, the rows of the ledger, and the events about products."""
    [[found, units]] = await shop.db.fetch(
        "SELECT count(*), sum(on_hand)::bigint FROM variants WHERE store_id = $1", shop.store_id
    )
    [[moves]] = await shop.db.fetch("SELECT count(*) FROM stock_movements WHERE store_id = $1", shop.store_id)
    events = await shop.db.fetch(
        "SELECT type FROM events WHERE store_id = $1 AND resource_type = 'product'", shop.store_id
    )
    return found, units, moves, Counter(row[0] for row in events)


async def test_rows_are_planned_while_others_are_saved(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    plan, save = products._plan, products.save  # pyright: ignore[reportPrivateUsage]

    def noted_plan(*args: Any, **options: Any) -> Any:
        log.append("plan")
        return plan(*args, **options)

    async def noted_save(*args: Any, **options: Any) -> None:
        log.append("save")
        await save(*args, **options)
        log.append("saved")

    monkeypatch.setattr(products, "_plan", noted_plan)
    monkeypatch.setattr(products, "save", noted_save)
    job = await import_file(shop, lines(mug(n) for n in range(ROWS)))
    assert job["counts"]["created"] == ROWS
    assert Counter(log) == {"plan": ROWS, "save": 3, "saved": 3}
    first = log.index("save")
    assert (first, log[first + 1]) == (products.SAVED_AT_ONCE, "plan"), "the second group, before the first is saved"
    assert [each for each in log if each != "plan"] == ["save", "saved"] * 3, "one statement at a time"
    assert await counted(shop) == (ROWS, 3 * ROWS, ROWS, {"product.created": ROWS})


@pytest.mark.parametrize("fails", ["plan", "save"])
async def test_a_group_that_fails_costs_only_the_row_that_is_to_blame(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    culprit = f"MUG-{products.SAVED_AT_ONCE + 7}"
    plan, save = products._plan, products.save  # pyright: ignore[reportPrivateUsage]

    def failing_plan(workspace: Any, by_id: Any, row: Any, *args: Any, **options: Any) -> Any:
        if row.members["sku"] == culprit:
            raise ValueError("broken")
        return plan(workspace, by_id, row, *args, **options)

    async def failing_save(db: Any, store_id: int, given: Any, *args: Any, **options: Any) -> None:
        await save(db, store_id, given, *args, **options)
        if any(product.fields.sku == culprit for product in given):
            raise ValueError("broken")

    if fails == "plan":
        monkeypatch.setattr(products, "_plan", failing_plan)
    else:
        monkeypatch.setattr(products, "save", failing_save)
    job = await import_file(shop, lines(mug(n) for n in range(ROWS)))
    assert (job["counts"]["created"], job["counts"]["failed"]) == (ROWS - 1, 1)
    [row] = [row for row in await report(shop, job["id"]) if row["status"] == "failed"]
    assert row["key"] == {"sku": culprit}
    left = ROWS - 1
    assert await counted(shop) == (left, 3 * left, left, {"product.created": left})


async def test_rows_far_apart_that_name_variants_of_one_product_are_saved_together(shop: Shop) -> None:
    sizes = [{"sku": f"SHIRT-{size}", "option_values": {"Size": size}} for size in "SM"]
    shirt = {"name": "Shirt", "price": "20.00", "options": [{"name": "Size", "values": ["S", "M"]}], "variants": sizes}
    [shirt_id] = await shop.add(shirt)
    before = (await shop.client.get(f"/products/{shirt_id}")).json()["data"]
    rows = [{"sku": "SHIRT-S", "stock": {"on_hand": 4}}, *(mug(n) for n in range(ROWS))]
    job = await import_file(shop, lines([*rows, {"sku": "SHIRT-M", "stock": {"on_hand": 5}}]))
    assert (job["counts"]["created"], job["counts"]["updated"]) == (ROWS, 2)
    now = (await shop.client.get(f"/products/{shirt_id}")).json()["data"]
    assert [variant["stock"]["on_hand"] for variant in now["variants"]] == [4, 5]
    assert now["version"] == before["version"] + 1, "both rows are one change of the product"
