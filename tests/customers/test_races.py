"""Keys that another request takes between reading and writing."""

import asyncio
from typing import Any

import pytest

from stoa.customers.rows import customer_from_row
from stoa.customers.save import save
from stoa.events.outbox import Cause
from tests.customers.people import JUN, created
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop

WANTED: dict[str, Any] = {"email": "Wanted@Example.com", "phone": "+15550100177", "external_id": "crm-7"}
TAKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"email": "wanted@example.com"}, "/email", "customer_exists"),
    ({"phone": "+1 555 010 0177"}, "/phone", "customer_exists"),
    ({"external_id": "crm-7"}, "/external_id", "external_id_taken"),
]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize(("change", "pointer", "code"), TAKEN)
async def test_the_loser_of_a_race_for_a_key_learns_the_winner(
    shop: Shop, method: str, change: dict[str, Any], pointer: str, code: str
) -> None:
    jun = await created(shop, JUN)
    address = "/customers" if method == "POST" else f"/customers/{jun['id']}"
    body = change if method == "PATCH" else {"email": "other@example.com", **change}
    digits = shop.store.digits
    async with shop.db.transaction() as db:
        person = customer_from_row(WANTED, shop.app_id, shop.store)
        [won] = await save(db, shop.store_id, digits, [person], Cause(shop.app_id, "req_tests"))
        losing = asyncio.create_task(shop.client.request(method, address, json=body))
        await until_somebody_waits(shop.db)
    lost = await losing
    assert won is not None
    assert (lost.status_code, lost.json()["code"], lost.json().get("existing_id")) == (409, code, won.id)
    assert [(fault["pointer"], fault["code"]) for fault in lost.json()["errors"]] == [(pointer, code)]
