"""Definitions for tests, as a merchant or an app defines them."""

import asyncio
from typing import Any

import httpx

from stoa.access.admission import TTL_S
from stoa.store_data.definitions import define, define_of_app, read_definition
from tests.support.shops import Shop

WARRANTY = {"resource": "product", "key": "warranty_months", "type": "integer", "min": 0, "max": 120}


async def merchant_defines(shop: Shop, *definitions: dict[str, Any]) -> None:
    for each in definitions:
        await define(shop.operator, shop.store.handle, read_definition(each, of_app=False))
    await shop.operator.at_store(shop.store.handle)  # in a shard, they have arrived


async def app_defines(shop: Shop, *definitions: dict[str, Any]) -> None:
    for each in definitions:
        await define_of_app(shop.operator, shop.client_id, read_definition(each, of_app=True))
    await shop.operator.at_store(shop.store.handle)


async def in_force() -> None:
    """Wait until every worker reads the definitions again."""
    await asyncio.sleep(TTL_S)


def faults(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "validation_failed"
    return [(each["pointer"], each["code"]) for each in answer.json()["errors"]]
