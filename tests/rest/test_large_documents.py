"""Writes of large documents: what they store, and what they cost of the rate limit."""

import random
import string
import time
from typing import Any

import pytest
from tests.support.shops import Shop, open_shop

from stoa.access.grants import install
from stoa.db.pool import Database
from stoa.rest.limits import RateLimiter

BURST, REFILL = 100, 1
PATCH = {"content-type": "application/merge-patch+json"}


def text(size: int) -> str:
    """Letters that PostgreSQL cannot compress."""
    return "".join(random.choices(string.ascii_letters + string.digits, k=size))


async def large_product(shop: Shop, values: int = 90) -> int:
    metadata = {f"key{n}": text(990) for n in range(values)}
    answer = await shop.client.post("/products", json={"name": "Large", "price": "1.00", "metadata": metadata})
    assert answer.status_code == 201, answer.text
    product: int = answer.json()["data"]["id"]
    return product


async def written(db: Database, shop: Shop) -> list[tuple[int | None, bool]]:
    """The size of each stored response, and whether it refers to an event."""
    rows = await db.fetch(
        "SELECT octet_length(body), event_id IS NOT NULL FROM idempotency_keys WHERE store_id = $1 ORDER BY created_at",
        shop.store_id,
    )
    return [(size, by_event) for size, by_event in rows]


async def test_a_large_response_is_stored_by_its_event(shop: Shop, db: Database) -> None:
    product = await large_product(shop)
    headers = {**PATCH, "Idempotency-Key": "a"}
    first = await shop.client.patch(f"/products/{product}", json={"name": "Renamed"}, headers=headers)
    assert await written(db, shop) == [(None, True)]
    await shop.client.patch(f"/products/{product}", json={"name": "Renamed again"}, headers=PATCH)
    again = await shop.client.patch(f"/products/{product}", json={"name": "Renamed"}, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status_code, again.content, again.headers["etag"]) == (200, first.content, first.headers["etag"])


async def test_a_large_response_survives_the_routing_of_its_event(shop: Shop, db: Database) -> None:
    product = await large_product(shop)
    headers = {**PATCH, "Idempotency-Key": "a"}
    first = await shop.client.patch(f"/products/{product}", json={"name": "Renamed"}, headers=headers)
    await db.execute("SELECT make_day('events', current_date)")
    await db.execute("UPDATE events SET routed_on = current_date WHERE store_id = $1", shop.store_id)
    again = await shop.client.patch(f"/products/{product}", json={"name": "Renamed"}, headers=headers)
    assert (again.headers["idempotent-replayed"], again.content) == ("true", first.content)


async def test_a_large_response_that_no_event_repeats_is_stored(shop: Shop, db: Database) -> None:
    product = await large_product(shop)
    headers = {**PATCH, "Idempotency-Key": "a"}
    first = await shop.client.patch(f"/products/{product}?fields=metadata", json={"name": "Renamed"}, headers=headers)
    [(size, by_event)] = await written(db, shop)
    assert (size, by_event) == (len(first.content), False)
    again = await shop.client.patch(f"/products/{product}?fields=metadata", json={"name": "Renamed"}, headers=headers)
    assert (again.headers["idempotent-replayed"], again.content) == ("true", first.content)


async def test_the_large_responses_of_a_group_are_stored_by_their_events(shop: Shop, db: Database) -> None:
    lines = [{"name": text(200), "quantity": 1, "unit_price": "1.00"} for _ in range(60)]
    body = {"line_items": lines, "customer": {"email": "a@example.com"}}
    first = await shop.client.post("/orders", json=body, headers={"Idempotency-Key": "a"})
    assert first.status_code == 201, first.text
    assert len(first.content) > 20_000
    assert await written(db, shop) == [(None, True)]
    again = await shop.client.post("/orders", json=body, headers={"Idempotency-Key": "a"})
    assert (again.status_code, again.content) == (201, first.content)


async def test_an_erasure_reaches_a_response_that_is_stored_by_its_event(shop: Shop, db: Database) -> None:
    body = {"email": "anna@example.com", "metadata": {f"shared.key{n}": text(990) for n in range(30)}}
    made = await shop.client.post("/customers", json=body, headers={"Idempotency-Key": "a"})
    assert await written(db, shop) == [(None, True)]
    customer = made.json()["data"]["id"]
    assert (await shop.client.delete(f"/customers/{customer}")).status_code == 204
    again = await shop.client.post("/customers", json=body, headers={"Idempotency-Key": "a"})
    assert (again.status_code, again.json()) == (201, {"data": {"id": customer}, "meta": {}})


async def limited(shop: Shop, db: Database) -> Shop:
    """A new shop whose app has a small bucket, which refills slowly."""
    opened = await open_shop(shop.application, db)
    await install(opened.operator, opened.client_id, opened.store.handle, rate_burst=BURST, rate_refill=REFILL)
    return opened


async def cost(shop: Shop, method: str, path: str, body: Any) -> tuple[int, int]:
    """How many requests a write costs by the headers, and at most, with those that were refilled meanwhile."""
    started = time.monotonic()
    before = await shop.client.get("/products?limit=1")
    answer = await shop.client.request(method, path, json=body, headers=PATCH if method == "PATCH" else {})
    assert answer.is_success, answer.text
    refilled = int((time.monotonic() - started) * REFILL) + 1
    spent = int(before.headers["x-ratelimit-remaining"]) - int(answer.headers["x-ratelimit-remaining"])
    return spent, spent + refilled


async def test_a_small_write_costs_one_request(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    spent, _ = await cost(small, "POST", "/products", {"name": "Small", "price": "1.00"})
    assert spent <= 1


@pytest.mark.parametrize("query", ["", "?fields=id"])
async def test_a_write_costs_one_further_request_for_each_16_kib_of_its_document(
    shop: Shop, db: Database, query: str
) -> None:
    small = await limited(shop, db)
    product = await large_product(small)  # 90 kB: 5 times 16 KiB
    spent, at_most = await cost(small, "PATCH", f"/products/{product}{query}", {"name": "B"})
    assert spent <= 6 <= at_most


async def test_a_replay_costs_one_request(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    product = await large_product(small)
    headers = {**PATCH, "Idempotency-Key": "a"}
    first = await small.client.patch(f"/products/{product}", json={"name": "B"}, headers=headers)
    again = await small.client.patch(f"/products/{product}", json={"name": "B"}, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    spent = int(first.headers["x-ratelimit-remaining"]) - int(again.headers["x-ratelimit-remaining"])
    assert spent <= 1


async def large_variants(shop: Shop, count: int = 10) -> list[int]:
    """Variants of 20 kB each, with stock."""
    values = [str(n) for n in range(count)]
    variants = [
        {
            "option_values": {"size": value},
            "metadata": {f"key{n}": text(990) for n in range(20)},
            "stock": {"on_hand": 50},
        }
        for value in values
    ]
    body = {"name": "L", "price": "1.00", "options": [{"name": "size", "values": values}], "variants": variants}
    answer = await shop.client.post("/products", json=body)
    assert answer.status_code == 201, answer.text
    return [variant["id"] for variant in answer.json()["data"]["variants"]]


@pytest.mark.parametrize("by", ["adjustment", "order"])
async def test_events_of_stock_cost_by_the_size_of_their_variants(shop: Shop, db: Database, by: str) -> None:
    small = await limited(shop, db)
    variants = await large_variants(small)
    if by == "adjustment":
        items = [{"variant_id": each, "op": "adjust", "quantity": 1, "reason": "correction"} for each in variants]
        spent, at_most = await cost(small, "POST", "/products/inventory/adjustments", {"items": items})
    else:
        lines = [{"variant_id": each, "quantity": 1} for each in variants]
        spent, at_most = await cost(
            small, "POST", "/orders", {"line_items": lines, "customer": {"email": "a@b.example"}}
        )
    assert spent <= 11 <= at_most


async def test_an_address_costs_by_the_size_of_its_customer(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    metadata = {f"shared.key{n}": text(990) for n in range(50)}
    made = await small.client.post("/customers", json={"email": "a@b.example", "metadata": metadata})
    path = f"/customers/{made.json()['data']['id']}/addresses"
    spent, at_most = await cost(
        small, "POST", path, {"address1": "1 High Street", "city": "Oxford", "country_code": "GB"}
    )
    assert spent <= 4 <= at_most


async def test_large_writes_exhaust_the_limit(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    product = await large_product(small)  # each change costs 6 requests of the burst of 100
    started = time.monotonic()
    answers = [
        await small.client.patch(f"/products/{product}", json={"name": f"N{n}"}, headers=PATCH) for n in range(60)
    ]
    refilled = int((time.monotonic() - started) * REFILL) + 1
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) - len(refused) <= (BURST + refilled) // 6 + 1
    assert refused[0].json()["code"] == "rate_limited"


async def test_a_bucket_in_debt_says_when_it_is_paid_back(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    first, second = RateLimiter(db), RateLimiter(db)  # of two workers
    key = (small.store_id, small.app_id, 1, 20, 1)
    assert (await first.take(*key)).allowed
    charged = await first.charge(small.store_id, small.app_id, 30, 20, 1)
    assert charged is not None
    assert charged.remaining == 0
    for limiter in (first, second):
        refused = await limiter.take(*key)
        assert not refused.allowed
        assert 5 <= refused.retry_in_s <= 12


async def test_a_debt_is_one_burst_at_most(shop: Shop, db: Database) -> None:
    small = await limited(shop, db)
    limiter = RateLimiter(db)
    await limiter.take(small.store_id, small.app_id, 1, 20, 1)
    await limiter.charge(small.store_id, small.app_id, 10_000, 20, 1)
    refused = await limiter.take(small.store_id, small.app_id, 1, 20, 1)
    assert (refused.allowed, refused.retry_in_s <= 21) == (False, True)
