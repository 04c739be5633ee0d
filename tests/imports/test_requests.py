"""Uploads: waiting for the result, idempotency keys, and limits."""

import asyncio
from typing import Any

import pytest

from stoa.api import EVENTS
from stoa.imports.runner import run_pending
from stoa.webhooks.api.samples import sample
from tests.imports.files import NDJSON, catalog, job_of, lines, mug, send
from tests.support.shops import Shop


async def post(shop: Shop, content: bytes, **headers: str) -> Any:
    return await shop.client.post("/products/imports", content=content, headers={"content-type": NDJSON, **headers})


async def test_an_accepted_file_returns_the_url_of_its_job(shop: Shop) -> None:
    answer = await post(shop, lines([mug(1)]))
    assert answer.status_code == 202
    job = answer.json()["data"]
    assert job["id"].startswith("imp_")
    assert answer.headers["location"].endswith(f"/products/imports/{job['id']}")
    assert (await shop.client.get(answer.headers["location"])).json()["data"] == job
    assert job["request_id"] == answer.headers["x-request-id"]
    assert job["options"] == {
        "mode": "upsert", "match_by": "sku", "on_error": "continue", "dry_run": False, "missing": "ignore",
        "unknown_columns": "refuse",
        "send_events": True,
    }  # fmt: skip


async def test_a_client_that_waits_gets_the_finished_job(shop: Shop) -> None:
    asked = asyncio.create_task(post(shop, lines([mug(1)]), prefer="respond-async, wait=10"))
    while not asked.done():
        await run_pending(shop.db)
        await asyncio.sleep(0.01)
    answer = await asked
    assert answer.status_code == 200
    assert (answer.json()["data"]["status"], answer.json()["data"]["counts"]["created"]) == ("succeeded", 1)


@pytest.mark.parametrize("prefer", ["wait=1", "wait=0", "return=minimal", "wait=x"])
async def test_a_client_that_does_not_wait_long_enough_gets_the_queued_job(shop: Shop, prefer: str) -> None:
    answer = await post(shop, lines([mug(1)]), prefer=prefer)
    assert (answer.status_code, answer.json()["data"]["status"]) == (202, "queued")


async def test_a_repeated_upload_creates_one_import(shop: Shop) -> None:
    content = lines([mug(1), mug(2)])
    first = await post(shop, content, **{"idempotency-key": "k"})
    await run_pending(shop.db)
    again = await post(shop, content, **{"idempotency-key": "k"})
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    other = await post(shop, lines([mug(3)]), **{"idempotency-key": "k"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert [
        row[0] for row in await shop.db.fetch("SELECT count(*) FROM imports WHERE store_id = $1", shop.store_id)
    ] == [1]


async def test_a_refused_file_does_not_use_up_its_key(shop: Shop) -> None:
    assert (await post(shop, b"", **{"idempotency-key": "k"})).status_code == 422
    assert (await post(shop, lines([mug(1)]), **{"idempotency-key": "k"})).status_code == 202


async def test_an_app_can_have_twenty_two_unfinished_imports(shop: Shop, other_shop: Shop) -> None:
    answers = await asyncio.gather(*(post(shop, lines([mug(n)])) for n in range(19)))
    assert {answer.status_code for answer in answers} == {202}
    answers = await asyncio.gather(*(post(shop, lines([mug(100 + n)])) for n in range(10)))
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 7
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert (refused.json()["code"], refused.json()["retryable"], refused.headers["retry-after"]) == (
        "too_many_imports",
        True,
        "10",
    )
    assert (await post(other_shop, lines([mug(1)]))).status_code == 202
    await run_pending(shop.db)
    assert len(await catalog(shop)) == 22
    job = await send(shop, lines([mug(1)]))
    assert (await job_of(shop, job["id"]))["status"] == "queued"
    await run_pending(shop.db)


@pytest.mark.parametrize(("resource", "by"), [("products", "sku"), ("customers", "email")])
def test_the_sample_of_a_finished_event_has_its_resource(resource: str, by: str) -> None:
    told = sample(EVENTS[f"{resource.removesuffix('s')}.import_finished"])
    assert told["resource"]["url"] == f"/api/v3/app/{resource}/imports/{told['data']['id']}"
    assert (told["data"]["resource"], told["data"]["options"]["match_by"]) == (resource, by)
