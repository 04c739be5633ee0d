"""The rows of a part are saved in batches, while later rows are planned; the result is that of one step."""

import asyncio
import secrets
from collections import Counter
from typing import Any

import pytest

from stoa.imports import products
from stoa.imports.runner import claim_import, run_import, run_pending
from tests.imports.files import catalog, import_file, job_of, lines, mug, report, send
from tests.imports.test_import_races import put
from tests.support.races import rolled_back, until_somebody_waits
from tests.support.shops import Shop


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "BATCH", 2)


async def events_in_order(shop: Shop) -> list[tuple[str, int]]:
    found = await shop.db.fetch(
        """SELECT type, resource_id FROM events
            WHERE store_id = $1 AND resource_type IN ('product', 'variant') ORDER BY position""",
        shop.store_id,
    )
    return [(row[0], row[1]) for row in found]


async def test_ids_and_events_are_in_the_order_of_the_rows(shop: Shop) -> None:
    job = await import_file(shop, lines(mug(n) for n in (5, 1, 4, 2, 3)))
    ids = [row["id"] for row in await report(shop, job["id"])]
    assert ids == sorted(ids)
    assert await events_in_order(shop) == [("product.created", each) for each in ids]


async def test_products_with_one_name_in_several_batches_get_different_slugs(shop: Shop) -> None:
    await import_file(shop, lines(mug(n, name="Mug") for n in range(5)))
    shown = (await shop.client.get("/products")).json()["data"]
    assert {each["slug"] for each in shown} == {"mug", "mug-2", "mug-3", "mug-4", "mug-5"}
    stored = await shop.db.fetch("SELECT slug FROM products WHERE store_id = $1", shop.store_id)
    assert {row[0] for row in stored} == {each["slug"] for each in shown}


async def test_a_product_that_several_rows_change_is_saved_once(shop: Shop) -> None:
    sizes = [{"sku": f"MUG-{n}", "option_values": {"Size": str(n)}} for n in range(3)]
    await shop.add(
        {"name": "Mug", "price": "12.50", "options": [{"name": "Size", "values": ["0", "1", "2"]}], "variants": sizes}
    )
    before = await events_in_order(shop)
    rows = [{"variants": [{"sku": f"MUG-{n}", "price": f"{n + 1}.00"}]} for n in range(3)]
    job = await import_file(shop, lines([*rows, mug(8), mug(9)]))
    assert (job["counts"]["updated"], job["counts"]["created"]) == (3, 2)
    product = (await catalog(shop))["Mug"]
    assert product["version"] == 2
    assert [variant["price"] for variant in product["variants"]] == ["1.00", "2.00", "3.00"]
    after = await events_in_order(shop)
    told = Counter(kind for kind, _ in after[len(before) :])
    assert told == {"product.variant_updated": 3, "product.created": 2}


async def test_a_key_of_a_product_of_an_earlier_batch_is_refused_as_in_one_batch(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def errors() -> list[Any]:
        rows = [mug(n, variants=[{"sku": f"S-{n}", "external_id": f"V-{n % 4}"}]) for n in range(6)]
        for row in rows:
            del row["sku"], row["stock"]
        return (await import_file(shop, lines(rows), mode="create"))["errors"]

    in_batches = await errors()
    assert [(each["row"], each["code"]) for each in in_batches] == [(5, "external_id_taken"), (6, "external_id_taken")]
    await shop.db.execute("UPDATE products SET deleted_at = now() WHERE store_id = $1", shop.store_id)
    await shop.db.execute("UPDATE variants SET deleted_at = now() WHERE store_id = $1", shop.store_id)
    monkeypatch.setattr(products, "BATCH", 100)
    assert await errors() == in_batches


async def test_a_race_that_a_later_batch_loses_repeats_the_whole_part(shop: Shop) -> None:
    job = await send(shop, lines(mug(n, brand="Orravale") for n in range(5)))
    async with shop.db.transaction() as other:
        await put(shop, other, mug(4))
        running = asyncio.create_task(run_pending(shop.db))
        await until_somebody_waits(shop.db)
    await running
    counts = (await job_of(shop, job["id"]))["counts"]
    assert (counts["created"], counts["updated"], counts["failed"]) == (4, 1, 0)
    told = Counter(kind for kind, _ in await events_in_order(shop))
    assert told == {"product.created": 5, "product.updated": 1}


async def test_an_internal_error_during_a_save_fails_only_its_row(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made = products.product_from_row

    def broken(row: Any, store: Any) -> Any:
        if row["sku"] == "MUG-3":
            raise ZeroDivisionError
        return made(row, store)

    monkeypatch.setattr(products, "product_from_row", broken)
    job = await import_file(shop, lines(mug(n) for n in range(6)))
    assert [(e["row"], e["code"]) for e in job["errors"]] == [(4, "internal_error")]
    assert set(await catalog(shop)) == {f"Mug {n}" for n in (0, 1, 2, 4, 5)}


async def test_a_part_that_is_interrupted_during_a_save_leaves_nothing(shop: Shop) -> None:
    job = await send(shop, lines(mug(n) for n in range(6)))
    claimed = await claim_import(shop.db, owner := secrets.token_hex(8))
    assert claimed is not None
    async with rolled_back(shop.db) as other:
        await put(shop, other, mug(3))
        running = asyncio.create_task(run_import(shop.db, claimed, owner))
        await until_somebody_waits(shop.db)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not [
            task for task in asyncio.all_tasks() if repr(task.get_coro()).startswith("<coroutine object _save ")
        ]
    assert await catalog(shop) == {}
    await shop.db.execute("UPDATE import_queue SET lease_until = now() WHERE store_id = $1", shop.store_id)
    assert await run_pending(shop.db) == 1
    assert (await job_of(shop, job["id"]))["counts"]["created"] == 6


async def test_two_imports_of_a_store_save_their_parts_in_one_step(shop: Shop) -> None:
    """The second waits until the part of the first is committed, although both create the same products."""
    jobs = [await send(shop, lines(mug(n) for n in numbers)) for numbers in (range(5), reversed(range(5)))]
    claims = [(await claim_import(shop.db, owner), owner) for owner in "ab"]
    async with rolled_back(shop.db) as middle:
        await put(shop, middle, mug(2))
        running = asyncio.gather(*(run_import(shop.db, claim, owner) for claim, owner in claims if claim))
        await until_somebody_waits(shop.db, 2)
    await running
    ends = [(await job_of(shop, job["id"]))["counts"] for job in jobs]
    assert sorted((counts["created"], counts["unchanged"]) for counts in ends) == [(0, 5), (5, 0)]
