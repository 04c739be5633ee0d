"""Rows that others get ahead of while they are written."""

import asyncio

from stoa.db.query import Executor
from stoa.imports.runner import run_pending
from stoa.products.contract import NewProduct
from stoa.products.rules import new_product
from stoa.products.saving import Cause, save
from stoa.rest.body import convert
from tests.imports.files import catalogue, job_of, lines, mug, send
from tests.support.shops import Shop

WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_somebody_waits(shop: Shop) -> None:
    while not await shop.db.fetch(WAITING):
        await asyncio.sleep(0.01)


async def put(shop: Shop, db: Executor, number: int) -> None:
    product = new_product(convert(mug(number), NewProduct, digits=shop.store.digits), shop.store)
    await save(db, shop.store_id, [product], Cause(shop.app_id, "req_tests"))


async def test_rows_that_lose_one_race_after_another_find_what_won(shop: Shop) -> None:
    job = await send(shop, lines([mug(1, brand="Orravale"), mug(2, brand="Orravale")]))
    async with shop.db.transaction() as second:
        await put(shop, second, 2)
        async with shop.db.transaction() as first:
            await put(shop, first, 1)
            running = asyncio.create_task(run_pending(shop.db))
            await until_somebody_waits(shop)
        await until_somebody_waits(shop)
    await running
    counts = (await job_of(shop, job["id"]))["counts"]
    assert (counts["updated"], counts["failed"]) == (2, 0)
    assert {product["brand"] for product in (await catalogue(shop)).values()} == {"Orravale"}
