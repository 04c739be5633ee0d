"""Buyers compete for units at several locations while units are transferred: no location is oversold.

`LOCATION_BUYERS=2000` and `LOCATION_UNITS=500` run it in full size and print its figures with `-s`.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import httpx
import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.locations import assert_books_balance, levels, open_locations, spread
from tests.support.shops import Shop, api_client, open_shop

BUYERS = int(os.environ.get("LOCATION_BUYERS", "200"))
UNITS = int(os.environ.get("LOCATION_UNITS", "100"))
PLACES = {"default": 5, "east": 1, "north": 9, "south": 9, "west": 7}


@pytest.fixture
async def services(settings: Settings, db: Database) -> AsyncIterator[tuple[Shop, list[httpx.AsyncClient]]]:
    """A store behind two services, which share only the database, as workers do."""
    busy = msgspec.structs.replace(settings, app_concurrency=1000, database_pool=8)
    applications = [Application(busy), Application(busy)]
    shop = await open_shop(applications[0], db, patient=True)
    other = api_client(applications[1], shop.store.handle, shop.token, patient=True)
    yield shop, [shop.client, other]
    await other.aclose()
    await shop.client.aclose()
    for application in applications:
        await application.close()


async def test_buyers_at_five_locations_get_every_unit_once(
    services: tuple[Shop, list[httpx.AsyncClient]],
) -> None:
    shop, clients = services
    await open_locations(shop, **{code: priority for code, priority in PLACES.items() if code != "default"})
    await shop.add({"name": "Hot", "price": "1.00", "sku": "HOT", "stock": {"on_hand": UNITS}})
    await spread(shop, "HOT", **dict.fromkeys([code for code in PLACES if code != "default"], UNITS // 5))
    dice, slots, bought = random.Random(9), asyncio.Semaphore(40), Counter[int]()
    selling = True

    async def buy(number: int) -> dict[str, Any] | None:
        async with slots:
            body = {"line_items": [{"sku": "HOT", "quantity": 1}], "external_id": f"B-{number}"}
            answer = await clients[number % 2].post("/orders", json=body)
        bought[answer.status_code] += 1
        return answer.json()["data"] if answer.status_code == 201 else None

    async def move() -> Counter[int]:
        moved = Counter[int]()
        while selling:
            source, target = dice.sample(list(PLACES), 2)
            item = {
                "sku": "HOT",
                "op": "transfer",
                "quantity": dice.randint(1, 5),
                "location": source,
                "to_location": target,
            }
            answer = await clients[dice.randrange(2)].post("/products/inventory/adjustments", json={"items": [item]})
            moved[answer.status_code] += 1
            await asyncio.sleep(0.005)
        return moved

    moving = [asyncio.create_task(move()) for _ in range(4)]
    started = time.perf_counter()
    buyers: list[Coroutine[Any, Any, dict[str, Any] | None]] = [buy(number) for number in range(BUYERS)]
    orders = [order for order in await asyncio.gather(*buyers) if order is not None]
    seconds = time.perf_counter() - started
    selling = False
    moved = sum(await asyncio.gather(*moving), Counter[int]())
    assert bought == {201: UNITS, 409: BUYERS - UNITS}
    assert set(moved) <= {200, 409}
    held = await levels(shop, "HOT")
    assert sum(reserved for _, reserved in held.values()) == UNITS
    assert all(on_hand == reserved for on_hand, reserved in held.values())
    allocated = Counter[str]()
    for order in orders:
        for line in order["line_items"]:
            allocated.update({each["location"]: each["quantity"] for each in line["allocations"]})
    assert allocated == Counter({code: reserved for code, (_, reserved) in held.items() if reserved})
    await assert_books_balance(shop)
    print(f"{BUYERS} buyers of {UNITS} units in {seconds:.1f} s; transfers {dict(moved)}; sold {dict(allocated)}")  # noqa: T201
