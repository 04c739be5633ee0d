"""Concurrent writes of products in one transaction: each has the effect that it would have after those before it."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import httpx
import msgspec
import pytest
from tests.support.grouping import Submissions
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings


@dataclass
class Grouped:
    """A shop whose concurrent requests can be made to form one group."""

    shop: Shop
    submissions: Submissions


@pytest.fixture
async def grouped(settings: Settings, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Grouped]:
    submissions = Submissions(monkeypatch)
    application = Application(settings)
    shop = await open_shop(application, db)
    yield Grouped(shop, submissions)
    await shop.client.aclose()
    await application.close()


def bodies_of(seed: int) -> list[dict[str, Any]]:
    """Twelve products: names that suggest the same slug, SKUs and external ids of each other, and invalid ones."""
    chance = random.Random(seed)

    def body() -> dict[str, Any]:
        given: dict[str, Any] = {"name": chance.choice(["Mug", "Cup", "Jug"]), "price": f"{chance.randint(1, 9)}.00"}
        if chance.random() < 0.6:
            given["external_id"] = f"e{chance.randint(0, 9)}"
        if chance.random() < 0.5:
            given |= {"sku": f"S{chance.randint(0, 9)}", "stock": {"on_hand": chance.randint(0, 5)}}
        else:
            given["options"] = [{"name": "Size", "values": ["S", "L"]}]
            given["variants"] = [
                {"sku": f"S{chance.randint(0, 20)}", "option_values": {"Size": size}} for size in ("S", "L")
            ]
        if chance.random() < 0.1:
            given["compare_at_price"] = "0.50"
        return given

    return [body() for _ in range(12)]


async def post(shop: Shop, body: dict[str, Any], name: str) -> httpx.Response:
    return await shop.client.post("/products", json=body, headers={"X-Request-Id": name})


VARYING = ("id", "product_id", "created_at", "updated_at", "existing_id")


def known(value: Any) -> Any:
    """A document without what depends on ids and times."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: known(member) for name, member in members.items() if name not in VARYING}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [known(item) for item in items]
    return value


def outcome(answer: httpx.Response) -> Any:
    body = answer.json()
    if "data" in body:
        return answer.status_code, known(body["data"])
    return answer.status_code, body["code"], [(fault["pointer"], fault["code"]) for fault in body.get("errors", [])]


async def left_behind(shop: Shop) -> Any:
    """The products of the shop, and its events and ledger by the request that caused them."""
    page = (await shop.client.get("/products", params={"limit": 250})).json()
    events = await shop.db.fetch(
        """SELECT request_id, type, resource_version, actor, data FROM events
            WHERE store_id = $1 AND resource_type = 'product' ORDER BY request_id, position""",
        shop.store_id,
    )
    entries = await shop.db.fetch(
        """SELECT request_id, sku, delta_on_hand, on_hand_after FROM stock_movements
            WHERE store_id = $1 ORDER BY request_id, id""",
        shop.store_id,
    )
    return (
        page["meta"]["total"],
        sorted((known(product) for product in page["data"]), key=lambda product: product["slug"]),
        [(*row[:3], known(msgspec.json.decode(row[4]))) for row in events],
        [tuple(row) for row in entries],
    )


@pytest.mark.parametrize("seed", range(8))
async def test_a_group_leaves_what_one_product_after_the_other_leaves(
    grouped: Grouped, other_shop: Shop, seed: int
) -> None:
    bodies = bodies_of(seed)
    together = await grouped.submissions.group(
        [post(grouped.shop, body, f"new-{seed}-{n:02}") for n, body in enumerate(bodies)]
    )
    one_by_one = [await post(other_shop, body, f"new-{seed}-{n:02}") for n, body in enumerate(bodies)]
    assert [outcome(answer) for answer in together] == [outcome(answer) for answer in one_by_one]
    assert {answer.status_code for answer in together} > {201}
    assert await left_behind(grouped.shop) == await left_behind(other_shop)


async def test_new_products_share_a_transaction(grouped: Grouped) -> None:
    bodies = [{"name": name, "price": "1.00", "sku": name} for name in ("A", "B", "C")]
    answers = await grouped.submissions.group([post(grouped.shop, body, body["name"]) for body in bodies])
    assert [answer.status_code for answer in answers] == [201] * 3
    rows = await grouped.shop.db.fetch(
        "SELECT DISTINCT xmin::text FROM products WHERE store_id = $1", grouped.shop.store_id
    )
    assert len(rows) == 1


STOCKED = [{"name": name, "price": "5.00", "external_id": f"e{n}", "sku": name} for n, name in enumerate("ABCD")]


async def fill(shop: Shop) -> list[int]:
    """The ids of four products."""
    return [(await post(shop, body, f"fill-{body['sku']}")).json()["data"]["id"] for body in STOCKED]


def changes_of(seed: int) -> list[tuple[int, dict[str, Any], str | None]]:
    """Twelve changes: of one product twice, of unknown ones, of external ids that move, of read-only fields, of old versions."""
    chance = random.Random(seed)

    def body() -> dict[str, Any]:
        given: dict[str, Any] = {"price": f"{chance.randint(1, 9)}.00"}
        if chance.random() < 0.4:
            given["external_id"] = chance.choice(["e0", "e1", "e2", "e9", None])
        if chance.random() < 0.3:
            given["name"] = chance.choice(["Mug", "Cup"])
        if chance.random() < 0.2:
            given["variants_count"] = 7
        if chance.random() < 0.1:
            given["status"] = "gone"
        return given

    return [(chance.randint(0, 4), body(), chance.choice([None, None, None, '"1"'])) for _ in range(12)]


@pytest.mark.parametrize("seed", range(8))
async def test_a_group_of_changes_leaves_what_one_after_the_other_leaves(
    grouped: Grouped, other_shop: Shop, seed: int
) -> None:
    changes = changes_of(seed)

    async def patch(shop: Shop, ids: list[int], number: int) -> httpx.Response:
        which, body, expected = changes[number]
        headers = {"X-Request-Id": f"change-{seed}-{number:02}"} | ({"If-Match": expected} if expected else {})
        return await shop.client.patch(f"/products/{[*ids, 10**9][which]}", json=body, headers=headers)

    ours, theirs = await fill(grouped.shop), await fill(other_shop)
    together = await grouped.submissions.group([patch(grouped.shop, ours, n) for n in range(len(changes))])
    one_by_one = [await patch(other_shop, theirs, n) for n in range(len(changes))]
    assert [outcome(answer) for answer in together] == [outcome(answer) for answer in one_by_one]
    assert {answer.status_code for answer in together} > {200}
    assert await left_behind(grouped.shop) == await left_behind(other_shop)
