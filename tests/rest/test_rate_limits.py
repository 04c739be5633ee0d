"""Rate limits: exact across workers, reported in headers, and refilled over time."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
from http_sfv.list import List
from tests.support import notes
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop, api_client, open_shop

from stoa.access.grants import install
from stoa.app import Application
from stoa.db.pool import Database
from stoa.rest.limits import TAKE, RateLimiter

BURST, REFILL = 40, 2
DELETION = {"op": "delete", "id": 1}


@pytest.fixture
async def workers(shop: Shop) -> AsyncIterator[list[Application]]:
    """Two more applications that share only the database, like worker processes."""
    apps = [Application(shop.application.settings, notes.routes.endpoints) for _ in range(2)]
    yield apps
    for app in apps:
        await app.close()


async def limited(shop: Shop, db: Database) -> Shop:
    """A new shop whose app has a small bucket; no worker has cached a larger limit."""
    opened = await open_shop(shop.application, db)
    await install(opened.operator, opened.client_id, opened.store.handle, rate_burst=BURST, rate_refill=REFILL)
    return opened


async def exhaust(client: httpx.AsyncClient) -> int:
    """Send requests until some are refused; returns the number of those that passed."""
    statuses = Counter[int]()
    while not statuses[429]:  # several at once, which is faster than the refill on any machine
        statuses.update(
            answer.status_code for answer in await asyncio.gather(*(client.get("/notes") for _ in range(8)))
        )
    assert set(statuses) <= {200, 429}
    return statuses[200]


async def test_the_limit_is_exact_across_workers(shop: Shop, db: Database, workers: list[Application]) -> None:
    small = await limited(shop, db)
    clients = [api_client(app, small.store.handle, small.token) for app in workers]
    started = time.monotonic()
    answers = [
        answer
        for _ in range(8)
        for answer in await asyncio.gather(*(client.get("/notes") for client in clients for _ in range(8)))
    ]
    refilled = int((time.monotonic() - started) * REFILL) + 1
    passed = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(passed) + len(refused) == len(answers) == 128
    assert BURST <= len(passed) <= BURST + refilled
    for answer in refused:
        assert answer.json()["code"] == "rate_limited"
        assert answer.json()["retryable"] is True
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-ratelimit-remaining"] == "0"


async def test_headers_report_the_remaining_requests_and_the_reset_time(
    shop: Shop, db: Database, workers: list[Application]
) -> None:
    small = await limited(shop, db)
    client = api_client(workers[0], small.store.handle, small.token)
    first, second = await client.get("/notes"), await client.get("/notes")
    assert first.headers["ratelimit-policy"] == f'"default";q={BURST};w={BURST // REFILL}'
    assert first.headers["x-ratelimit-limit"] == str(BURST)
    assert int(first.headers["x-ratelimit-remaining"]) == BURST - 1
    assert BURST - 2 <= int(second.headers["x-ratelimit-remaining"]) <= BURST - 1
    assert second.headers["ratelimit"].startswith('"default";r=')
    assert 1 <= int(second.headers["x-ratelimit-reset"]) <= 1 + 2 // REFILL


def quota(answer: httpx.Response) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the only policy in RateLimit-Policy and in RateLimit, parsed as structured fields (RFC 9651)."""
    found: list[dict[str, Any]] = []
    for name in ("ratelimit-policy", "ratelimit"):
        field: Any = List()
        field.parse(answer.headers[name].encode())
        [item] = field
        assert (type(item.value), item.value) == (str, "default"), "a String, not a Token"
        assert all(type(value) is int and value >= 0 for value in item.params.values())
        found.append(dict(item.params))
    return found[0], found[1]


async def test_the_fields_of_the_draft_are_structured_fields(
    shop: Shop, db: Database, workers: list[Application]
) -> None:
    small = await limited(shop, db)
    client = api_client(workers[0], small.store.handle, small.token)
    answer = await client.get("/notes")
    policy, limit = quota(answer)
    assert policy == {"q": BURST, "w": BURST // REFILL}
    assert limit == {"r": BURST - 1, "t": int(answer.headers["x-ratelimit-reset"])}
    await exhaust(client)
    refused = await client.get("/notes")
    assert refused.status_code == 429
    policy, limit = quota(refused)
    assert policy == {"q": BURST, "w": BURST // REFILL}, "it is the same in every response"
    assert limit == {"r": 0, "t": int(refused.headers["retry-after"])}, "both name the same time"


async def test_a_bucket_refills_over_time(shop: Shop, db: Database, workers: list[Application]) -> None:
    small = await limited(shop, db)
    started = time.monotonic()
    await db.execute(
        "INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at) VALUES ($1, $2, 'requests', 0, 0, now() - interval '3 seconds') "
        "ON CONFLICT (store_id, app_id, purpose) DO UPDATE SET tokens = 0, refilled_at = excluded.refilled_at",
        small.store_id,
        small.app_id,
    )
    client = api_client(workers[0], small.store.handle, small.token)
    passed = await exhaust(client)
    assert 6 <= passed <= (3 + time.monotonic() - started) * REFILL


async def test_a_batch_costs_no_more_than_a_full_bucket_has(shop: Shop, db: Database) -> None:
    for burst in (1, 2):
        small = await open_shop(shop.application, db)
        await install(small.operator, small.client_id, small.store.handle, rate_burst=burst, rate_refill=1)
        answer = await small.client.post("/products/batch", json={"mode": "independent", "items": [DELETION] * 100})
        assert answer.status_code == 207


async def test_a_refused_batch_passes_after_the_time_that_the_refusal_names(shop: Shop, db: Database) -> None:
    small = await open_shop(shop.application, db)
    await install(small.operator, small.client_id, small.store.handle, rate_burst=3, rate_refill=1)
    await db.execute(
        "INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at) VALUES ($1, $2, 'requests', 1, 1, now())",
        small.store_id,
        small.app_id,
    )
    batch = {"mode": "independent", "items": [DELETION] * 100}
    refused = await small.client.post("/products/batch", json=batch)
    assert refused.status_code == 429
    await asyncio.sleep(int(refused.headers["retry-after"]))
    assert (await small.client.post("/products/batch", json=batch)).status_code == 207


async def test_apps_and_stores_have_separate_buckets(shop: Shop, db: Database, workers: list[Application]) -> None:
    small = await limited(shop, db)
    client = api_client(workers[0], small.store.handle, small.token)
    await exhaust(client)
    assert (await shop.client.get("/notes")).status_code == 200
    other_app = await small.client_with(["products:read"])
    assert (await other_app.get("/notes")).status_code == 200


async def test_the_concurrent_requests_of_one_app_are_limited(shop: Shop, db: Database) -> None:
    settings = shop.application.settings
    app = Application(settings, notes.routes.endpoints)
    app_client = api_client(app, shop.store.handle, shop.token)
    async with db.transaction() as transaction:
        await transaction.execute("LOCK TABLE notes IN ACCESS EXCLUSIVE MODE")
        waiting = [asyncio.create_task(app_client.get("/notes")) for _ in range(30)]
        first = [await each for each in itertools.islice(asyncio.as_completed(waiting), 30 - settings.app_concurrency)]
        assert {answer.status_code for answer in first} == {429}
    answers = Counter([(await task).status_code for task in waiting])
    assert answers.pop(429) == 30 - settings.app_concurrency
    assert set(answers) <= {200, 503}
    await app.close()


LARGE = 20_000  # large enough that a worker prefetches tokens


async def test_prefetched_tokens_are_never_granted_twice(shop: Shop, db: Database) -> None:
    limiters = [RateLimiter(db) for _ in range(4)]
    key = (shop.store.id, shop.app_id + 1_000_000)  # a bucket that no other test uses

    async def draw(limiter: RateLimiter) -> int:
        allowed = 0
        while (await limiter.take(*key, 1, LARGE, 1)).allowed:
            allowed += 1
        return allowed

    started = time.monotonic()
    drawn = sum(await asyncio.gather(*(draw(limiter) for limiter in limiters for _ in range(4))))
    assert LARGE <= drawn <= LARGE + time.monotonic() - started + 1


async def test_unused_prefetched_tokens_are_returned(shop: Shop, db: Database) -> None:
    limiter, other = RateLimiter(db), RateLimiter(db)
    key = (shop.store.id, shop.app_id + 1_000_001)
    started = time.monotonic()
    allowances = [await limiter.take(*key, 1, LARGE, 1) for _ in range(3)]
    assert LARGE - 3 <= allowances[-1].remaining <= LARGE - 3 + time.monotonic() - started
    assert (await other.take(*key, 1, LARGE, 1)).remaining < LARGE - 4  # the first limiter has prefetched some
    async with asyncio.timeout(PATIENCE_S):
        while (await other.take(*key, 0, LARGE, 1)).remaining < LARGE - 4:
            await asyncio.sleep(0.1)


async def test_an_empty_bucket_refuses_without_a_statement(shop: Shop, db: Database) -> None:
    class CountingDatabase:
        statements = 0

        async def fetch(self, sql: str, *args: Any) -> Any:
            self.statements += 1
            return await db.fetch(sql, *args)

    counting = CountingDatabase()
    limiter = RateLimiter(cast("Any", counting))
    key = (shop.store.id, shop.app_id + 1_000_002)
    async with asyncio.timeout(PATIENCE_S):
        allowed, statements = 0, -1
        while counting.statements != statements:  # until a request is refused without a statement
            statements = counting.statements
            allowed += (await limiter.take(*key, 1, 3, 1)).allowed
        assert allowed >= 3
        refused = [await limiter.take(*key, 1, 3, 1) for _ in range(50)]  # without a pause in which a timer could end
        assert not any(each.allowed for each in refused)
        assert all(each.retry_in_s == 1 and each.remaining == 0 for each in refused)
        assert counting.statements == statements
        while not (await limiter.take(*key, 1, 3, 1)).allowed:
            await asyncio.sleep(0.05)


async def test_only_whole_tokens_are_granted(shop: Shop, db: Database) -> None:
    key = (shop.store.id, shop.app_id + 2_000_000)  # a bucket that no other test uses
    await db.execute(
        "INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at) VALUES ($1, $2, 'requests', 9, 1.5, now())",
        *key,
    )
    grants = [await TAKE.one(db, *key, 2.0, float(BURST), 0.0) for _ in range(2)]
    assert [(each.granted, each.remaining) for each in grants] == [(1.0, 0.5), (0.0, 0.5)]


async def test_a_deposit_is_used_first_and_the_rest_is_returned(shop: Shop, db: Database) -> None:
    key = (shop.store.id, shop.app_id + 1_000_003)
    limiter, other = RateLimiter(db), RateLimiter(db)
    limiter.deposit(key, await TAKE.one(db, *key, 1_000.0, float(LARGE), 1.0), LARGE, 1)
    assert (await other.take(*key, 0, LARGE, 1)).remaining < LARGE - 900
    assert LARGE - 1 <= (await limiter.take(*key, 1, LARGE, 1)).remaining <= LARGE
    async with asyncio.timeout(PATIENCE_S):  # in which fewer than a hundred are refilled
        while (await other.take(*key, 0, LARGE, 1)).remaining < LARGE - 100:
            await asyncio.sleep(0.1)


async def test_a_deposit_during_a_statement_is_neither_lost_nor_granted_twice(shop: Shop, db: Database) -> None:
    key = (shop.store.id, shop.app_id + 1_000_004)
    limiter = RateLimiter(db)
    taken = await TAKE.one(db, *key, 2.0, float(LARGE), 0.0)
    asking = asyncio.create_task(limiter.take(*key, 1, LARGE, 1))
    await asyncio.sleep(0)  # the statement is on its way
    limiter.deposit(key, taken, LARGE, 1)
    assert (await asking).allowed
    drawn, started = 1, time.monotonic()
    while (await limiter.take(*key, 1, LARGE, 1)).allowed:
        drawn += 1
    assert LARGE <= drawn <= LARGE + time.monotonic() - started + 1
