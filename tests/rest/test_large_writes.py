"""An app whose writes are large writes one at a time in each worker, so that those of other stores find a free processor."""

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.support.races import rolled_back, until_somebody_waits
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.rest import limits
from stoa.rest.limits import LARGE_COST, LargeWrites

LINES = [{"name": f"Line {n} {'x' * 100}", "quantity": 1, "unit_price": "1.00"} for n in range(250)]


async def large_order(shop: Shop) -> int:
    made = await shop.client.post("/orders", json={"status": "draft", "line_items": LINES})
    assert made.status_code == 201, made.text
    assert len(made.content) >= LARGE_COST * limits.DOCUMENT_BYTES
    return made.json()["data"]["id"]


async def change(shop: Shop, order: int) -> int:
    return (await shop.client.patch(f"/orders/{order}", json={"note": "Ring twice"})).status_code


async def test_the_next_large_write_of_an_app_waits_for_the_one_before(application: Application, db: Database) -> None:
    shop, other = [await open_shop(application, db, patient=True) for _ in range(2)]
    first, second, theirs = await large_order(shop), await large_order(shop), await large_order(other)
    async with rolled_back(db) as locking:
        await locking.fetch("SELECT id FROM orders WHERE store_id = $1 AND id = $2 FOR UPDATE", shop.store_id, first)
        blocked = asyncio.create_task(change(shop, first))
        await until_somebody_waits(db)
        waiting = asyncio.create_task(change(shop, second))
        assert await change(other, theirs) == 200
        assert (await shop.client.get(f"/orders/{second}")).json()["data"]["note"] is None
        assert not waiting.done()
    assert await asyncio.gather(blocked, waiting) == [200, 200]


async def test_small_writes_take_no_turns(shop: Shop) -> None:
    writes = LargeWrites()
    writes.note(shop.store_id, shop.app_id, LARGE_COST - 1)
    async with writes.turn(shop.store_id, shop.app_id), asyncio.timeout(10), writes.turn(shop.store_id, shop.app_id):
        pass


async def test_turns_end_a_while_after_the_last_large_write(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = LargeWrites()
    writes.note(1, 2, LARGE_COST)
    async with writes.turn(1, 2):
        held = asyncio.create_task(_enter(writes))
        await asyncio.sleep(0)
        assert not held.done()
        monkeypatch.setattr(limits, "LARGE_S", 0.0)
        writes.note(1, 2, LARGE_COST)  # the time is over at once
        async with asyncio.timeout(10):
            await _enter(writes)
    await held


async def test_apps_and_stores_do_not_wait_for_one_another() -> None:
    writes = LargeWrites()
    for app in (2, 3):
        writes.note(1, app, LARGE_COST)
    async with asyncio.timeout(10), writes.turn(1, 2), writes.turn(1, 3), writes.turn(9, 2):
        pass


async def _enter(writes: LargeWrites) -> None:
    async with writes.turn(1, 2):
        pass


async def test_after_a_large_write_the_next_one_waits_and_the_response_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *rest: rests.append(rest))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(limits, "MOST_REST_S", 0.001)
    writes = LargeWrites()
    writes.note(1, 2, LARGE_COST)
    async with writes.turn(1, 2):
        time.sleep(0.002)
    following = asyncio.create_task(_enter(writes))
    await asyncio.sleep(0)
    [(rest, end)] = rests
    assert rest == 0.001
    assert not following.done()
    end()
    await following
