"""Races between imports and other writers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from stoa.customers.rows import customer_from_row
from stoa.customers.save import save as save_customers
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.imports.runner import claim_import, run_import, run_pending
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert
from tests.imports.files import NDJSON, catalog, job_of, lines, mug, send
from tests.support.deadlocks import Deadlocks
from tests.support.races import rolled_back, until_somebody_waits
from tests.support.shops import Shop


async def put(shop: Shop, db: Executor, row: dict[str, Any]) -> None:
    product = new_product(convert(row, NewProduct, digits=shop.store.digits), shop.store)
    await save(db, shop.store_id, [product], Cause(shop.app_id, "req_tests"))


async def test_rows_that_lose_several_races_find_the_winners(shop: Shop) -> None:
    job = await send(shop, lines([mug(1, brand="Orravale"), mug(2, brand="Orravale")]))
    async with shop.db.transaction() as second:
        await put(shop, second, mug(2))
        async with shop.db.transaction() as first:
            await put(shop, first, mug(1))
            running = asyncio.create_task(run_pending(shop.db))
            await until_somebody_waits(shop.db)
        await until_somebody_waits(shop.db)
    await running
    counts = (await job_of(shop, job["id"]))["counts"]
    assert (counts["updated"], counts["failed"]) == (2, 0)
    assert {product["brand"] for product in (await catalog(shop)).values()} == {"Orravale"}


@pytest.fixture
async def workers(shard_url: str) -> AsyncIterator[list[Database]]:
    """Two workers, each with its own connection."""
    databases = [Database(shard_url, size=1) for _ in range(2)]
    yield databases
    for database in databases:
        await database.close()


@pytest.mark.parametrize("key", ["sku", "external_id"])
async def test_two_files_with_the_same_products_in_opposite_order_do_not_deadlock(
    shop: Shop, workers: list[Database], key: str
) -> None:
    rows = [mug(number, **{key: f"K-{number}"}) for number in (1, 2, 3)]
    await assert_no_deadlock(shop, workers, "products", rows, key, put)


@pytest.mark.parametrize("key", ["email", "phone", "external_id"])
async def test_two_files_with_the_same_customers_in_opposite_order_do_not_deadlock(
    shop: Shop, workers: list[Database], key: str
) -> None:
    values = {"email": "k{}@example.com", "phone": "+1555010012{}", "external_id": "K-{}"}
    rows = [{"email": f"{number}@example.com", key: values[key].format(number)} for number in (1, 2, 3)]
    if key == "phone":
        rows = [{"phone": row["phone"]} for row in rows]
    await assert_no_deadlock(shop, workers, "customers", rows, key, put_person)


async def put_person(shop: Shop, db: Executor, row: dict[str, Any]) -> None:
    customer = customer_from_row(row, shop.app_id, shop.store)
    await save_customers(db, shop.store_id, shop.store.digits, [customer], Cause(shop.app_id, "req_tests"))


async def assert_no_deadlock(
    shop: Shop,
    workers: list[Database],
    resource: str,
    rows: list[dict[str, Any]],
    key: str,
    put: Callable[[Shop, Executor, dict[str, Any]], Awaitable[None]],
) -> None:
    """Both workers wait for a row that is rolled back in the end, while they hold locks on the rows before it."""
    address, media = f"/{resource}/imports", {"content-type": NDJSON}
    jobs = [
        (await shop.client.post(address, content=lines(file), headers=media, params={"match_by": key})).json()["data"]
        for file in (rows, reversed(rows))
    ]
    deadlocks = await Deadlocks.since(shop.db.fetch)
    async with rolled_back(shop.db) as middle:
        await put(shop, middle, rows[1])
        claims = [
            (worker, await claim_import(worker, owner), owner) for worker, owner in zip(workers, "ab", strict=True)
        ]
        running = asyncio.gather(*(run_import(worker, claim, owner) for worker, claim, owner in claims if claim))
        await until_somebody_waits(shop.db, 2)
    await running
    ends = [(await shop.client.get(f"{address}/{job['id']}")).json()["data"]["counts"] for job in jobs]
    assert sorted((counts["created"], counts["unchanged"]) for counts in ends) == [(0, 3), (3, 0)]
    for worker in workers:
        await worker.fetch("SELECT pg_stat_force_next_flush()")
    assert not (found := await deadlocks.found()), "".join(found)
