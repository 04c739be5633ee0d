"""Concurrent adjustments in one transaction: each leaves what it would leave if it came after those before it."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.inventory.shelves import CARD, LAMP, SOCKS, Shelves
from tests.support.grouping import Submissions
from tests.support.shops import Shop, open_shop

SKUS = ("SOCK-S", "SOCK-L", "LAMP", "CARD", "NOWHERE")


@dataclass
class GroupShelves(Shelves):
    """Shelves whose concurrent adjustments can be made to form one group."""

    submissions: Submissions = field(kw_only=True)


@pytest.fixture
async def grouped(settings: Settings, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupShelves]:
    submissions = Submissions(monkeypatch)
    application = Application(settings)
    shop = await open_shop(application, db)
    shelves = GroupShelves(shop, submissions=submissions)
    await shelves.open(SOCKS, LAMP, CARD)
    yield shelves
    await shop.client.aclose()
    await application.close()


@pytest.fixture
async def sequential(other_shop: Shop) -> Shelves:
    return await Shelves(other_shop).open(SOCKS, LAMP, CARD)


def bodies_of(seed: int) -> list[dict[str, Any]]:
    """Twelve calls: several name the same product, some fail, some apply their items one by one."""
    chance = random.Random(seed)

    def item() -> dict[str, Any]:
        if chance.random() < 0.1:
            return {"sku": "LAMP", "variant_id": 1, "op": "adjust", "quantity": 1}  # contradicts itself
        given: dict[str, Any] = {"sku": chance.choice(SKUS), "op": chance.choice(["set", "adjust"])}
        given["quantity"] = chance.randint(0, 8) if given["op"] == "set" else chance.randint(-6, 6)
        if chance.random() < 0.1:
            given["compare_quantity"] = chance.randint(0, 10)
        return given

    return [
        {"reason": "correction", "mode": chance.choice(["atomic", "atomic", "independent"]), "items": [item()]}
        if chance.random() < 0.6
        else {"reason": "stocktake", "items": [item() for _ in range(chance.randint(2, 4))]}
        for _ in range(12)
    ]


async def post(shelves: Shelves, body: dict[str, Any], name: str = "") -> httpx.Response:
    headers = {"X-Request-Id": name} if name else {}
    return await shelves.shop.client.post("/products/inventory/adjustments", json=body, headers=headers)


def outcome(answer: httpx.Response) -> tuple[int, Any]:
    """The status, and what does not depend on ids and times."""
    body: dict[str, Any] = answer.json()
    if "data" not in body:
        faults = [(fault["pointer"], fault["code"]) for fault in body.get("errors", [])]
        return answer.status_code, (body["code"], faults)
    items: list[dict[str, Any]] = body["data"]
    return answer.status_code, [
        (item["status"], entry_of(item["resource"]) if item.get("resource") else _code(item.get("error")))
        for item in items
    ]


def _code(error: dict[str, Any] | None) -> str | None:
    return error["code"] if error else None


def entry_of(entry: dict[str, Any]) -> dict[str, Any]:
    varying = ("id", "variant_id", "product_id", "created_at", "request_id", "actor")
    return {name: value for name, value in entry.items() if name not in varying}


async def left_behind(shelves: Shelves) -> dict[str, Any]:
    """Each variant with its ledger and its events, by the request that caused them."""
    entries, events = await shelves.entries(), await shelves.events()
    return {
        sku: (
            [(entry["request_id"], entry_of(entry)) for entry in entries if entry["sku"] == sku],
            [
                (each["request_id"], each["type"], each["resource_version"], each["changes"])
                for each in events
                if each["data"]["sku"] == sku
            ],
            (await shelves.product(sku))["version"],
        )
        for sku in SKUS[:-1]
    }


@pytest.mark.parametrize("seed", range(8))
async def test_a_group_leaves_what_one_call_after_the_other_leaves(
    grouped: GroupShelves, sequential: Shelves, seed: int
) -> None:
    bodies = bodies_of(seed)
    together = await grouped.submissions.group(
        [post(grouped, body, f"call-{seed}-{n}") for n, body in enumerate(bodies)]
    )
    one_by_one = [await post(sequential, body, f"call-{seed}-{n}") for n, body in enumerate(bodies)]
    assert [outcome(answer) for answer in together] == [outcome(answer) for answer in one_by_one]
    assert await left_behind(grouped) == await left_behind(sequential)


async def test_calls_on_different_products_share_a_transaction(grouped: GroupShelves) -> None:
    def body(sku: str) -> dict[str, Any]:
        return {"reason": "restock", "items": [{"sku": sku, "op": "adjust", "quantity": 1}]}

    skus = ("SOCK-S", "LAMP", "CARD", "SOCK-L")
    answers: Sequence[httpx.Response] = await grouped.submissions.group([post(grouped, body(sku)) for sku in skus])
    assert [answer.status_code for answer in answers] == [200] * 4
    rows = await grouped.shop.db.fetch(
        "SELECT sku, xmin::text FROM stock_movements WHERE store_id = $1 AND id > $2",
        grouped.shop.store_id,
        grouped.last_entry,
    )
    transactions: dict[str, str] = {row[0]: row[1] for row in rows}
    assert transactions["SOCK-S"] == transactions["LAMP"] == transactions["CARD"]
    assert transactions["SOCK-L"] != transactions["SOCK-S"]  # another variant of the same product


async def test_one_key_sent_twice_in_a_group_adjusts_once(grouped: GroupShelves) -> None:
    body = {"reason": "restock", "items": [{"sku": "LAMP", "op": "adjust", "quantity": 5}]}

    async def keyed() -> httpx.Response:
        return await grouped.shop.client.post(
            "/products/inventory/adjustments", json=body, headers={"Idempotency-Key": "delivery-17"}
        )

    first, second = await grouped.submissions.group([keyed(), keyed()])
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert await grouped.on_hand("LAMP") == 6
