"""Lists as streams: every row once, a last line, the cost, the lease, and what ends a stream early."""

import asyncio
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.support import notes
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop
from tests.support.stream_reader import Reader, write_notes

from stoa.access.admission import TTL_S
from stoa.access.grants import install, uninstall
from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.db.errors import Unavailable
from stoa.db.listing import Listing
from stoa.rest import stream_leases, streams
from stoa.settings import Settings

NDJSON = {"accept": "application/x-ndjson"}


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_stream_contains_every_row_once_then_its_end(shop: Shop) -> None:
    await write_notes(shop, 1_303)
    answer = await shop.client.get("/notes", headers=NDJSON)
    assert answer.headers["content-type"] == "application/x-ndjson"
    *rows, end = lines(answer)
    assert [row["title"] for row in rows] == [f"note {n}" for n in range(1, 1_304)]
    assert end["meta"] | {"cursor": ""} == {"total": 1_303, "count": 1_303, "cursor": "", "complete": True}


async def test_the_lines_are_the_documents_of_the_pages(shop: Shop) -> None:
    await write_notes(shop, 3)
    page = (await shop.client.get("/notes")).text
    stream = (await shop.client.get("/notes", headers={"accept": "application/jsonl"})).text
    assert page.startswith('{"data":[' + ",".join(stream.splitlines()[:-1]) + '],"meta":')


async def test_an_empty_stream_is_complete(shop: Shop) -> None:
    answer = await shop.client.get("/notes", headers=NDJSON)
    assert lines(answer) == [{"meta": {"total": 0, "count": 0, "cursor": None, "complete": True}}]


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/json", "application/json, application/x-ndjson", "application/*"]
)
async def test_json_stays_the_default(shop: Shop, accept: str | None) -> None:
    await write_notes(shop, 60)
    plain = await shop.client.get("/notes")
    answer = await shop.client.get("/notes", headers={"accept": accept} if accept else {})
    assert answer.content == plain.content
    assert len(answer.json()["data"]) == 50


async def test_filters_sort_and_fields_apply_as_on_pages(shop: Shop) -> None:
    await write_notes(shop, 900)
    params = {"color": "red,blue", "sort": "-price,title", "fields": "title,price"}
    *rows, end = lines(await shop.client.get("/notes", params=params, headers=NDJSON))
    page = (await shop.client.get("/notes", params={**params, "limit": 250})).json()
    seen = page["data"]
    while page["meta"]["next_cursor"]:
        page = (await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"]})).json()
        seen += page["data"]
    assert rows == seen
    assert rows[0].keys() == {"title", "price"}
    assert end["meta"]["total"] == end["meta"]["count"] == 600


async def test_a_stream_with_updated_since_contains_tombstones(shop: Shop) -> None:
    await write_notes(shop, 4)
    ids = [note["id"] for note in (await shop.client.get("/notes")).json()["data"]]
    await shop.client.delete(f"/notes/{ids[1]}")
    params = {"updated_since": "2020-01-01T00:00:00Z", "include_deleted": "true", "fields": "title"}
    *rows, end = lines(await shop.client.get("/notes", params=params, headers=NDJSON))
    assert [row.get("title") for row in rows] == ["note 1", None, "note 3", "note 4"]
    assert rows[1]["id"] == ids[1]
    assert rows[1]["deleted_at"]
    assert end["meta"]["count"] == 4


async def test_every_list_streams_what_its_pages_contain(shop: Shop) -> None:
    ids = await shop.fill()
    await shop.client.post(f"/orders/{ids['order_id']}/comments", json={"body": "Call first."})
    await shop.client.post(f"/orders/{ids['order_id']}/duplicates", json={})
    product, order, webhook = (f"/{name}" for name in (ids["product_id"], ids["order_id"], ids["webhook_id"]))
    lists = {
        "/products": "variants", "/products/variants": "", f"/products{product}/variants": "", "/products/inventory": "locations",
        "/products/inventory/adjustments": "", "/customers": "", "/orders": "", f"/orders{order}/comments": "",
        f"/orders{order}/duplicates": "", "/webhooks": "", f"/webhooks{webhook}/deliveries": "",
    }  # fmt: skip
    for path, include in lists.items():
        params = {"include": include} if include else {}
        page = (await shop.client.get(path, params=params)).json()
        *rows, end = lines(await shop.client.get(path, params=params, headers=NDJSON))
        assert rows == page["data"], path
        assert end["meta"]["total"] == page["meta"]["total"], path
        table = await shop.client.get(path, params=params, headers={"accept": "text/csv"})
        head, *cells = csv.reader(io.StringIO(table.text.removeprefix("\ufeff")))
        assert {row[0] for row in cells} == {str(each[head[0]]) for each in page["data"]}, path
        assert all(len(row) == len(head) for row in cells), path


async def test_a_broken_stream_resumes_at_a_checkpoint(shop: Shop) -> None:
    await write_notes(shop, 2_900)
    headers = {**NDJSON, "prefer": "respond-async, checkpoints"}
    answer = await shop.client.get("/notes", headers=headers)
    assert answer.headers["preference-applied"] == "checkpoints"
    whole = lines(answer)
    places = [n for n, line in enumerate(whole) if "meta" in line]
    assert len(places) >= 3, "the end and some checkpoints"
    for place in places[:-1]:
        before = [line for line in whole[:place] if "meta" not in line]
        assert whole[place]["meta"]["count"] == len(before)
        rest = lines(await shop.client.get("/notes", params={"cursor": whole[place]["meta"]["cursor"]}, headers=NDJSON))
        assert [row["title"] for row in [*before, *rest[:-1]]] == [f"note {n}" for n in range(1, 2_901)]
        assert rest[-1]["meta"]["total"] == 2_900
        assert rest[-1]["meta"]["count"] == 2_900 - len(before)


async def test_a_stream_continues_after_a_page_and_a_page_after_a_stream(shop: Shop) -> None:
    await write_notes(shop, 300)
    page = (await shop.client.get("/notes", params={"limit": 10})).json()
    *rows, end = lines(await shop.client.get("/notes", params={"cursor": page["meta"]["next_cursor"]}, headers=NDJSON))
    assert [row["title"] for row in rows] == [f"note {n}" for n in range(11, 301)]
    await write_notes(shop, 1, first=301)
    later = (await shop.client.get("/notes", params={"cursor": end["meta"]["cursor"]})).json()
    assert len(later["data"]) == 1
    *rows, end = lines(await shop.client.get("/notes", params={"cursor": end["meta"]["cursor"]}, headers=NDJSON))
    assert len(rows) == 1
    assert lines(await shop.client.get("/notes", params={"cursor": end["meta"]["cursor"]}, headers=NDJSON)) == [
        {"meta": {"total": 301, "count": 0, "cursor": end["meta"]["cursor"], "complete": True}}
    ]


@pytest.mark.parametrize("name", ["limit", "per_page", "page"])
async def test_a_stream_has_no_pages(shop: Shop, name: str) -> None:
    answer = await shop.client.get("/notes", params={name: "1"}, headers=NDJSON)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == ("page" if name == "page" else "limit")


async def test_a_stream_does_not_run_backwards(shop: Shop) -> None:
    await write_notes(shop, 20)
    page = (await shop.client.get("/notes", params={"limit": 10, "page": 2})).json()
    answer = await shop.client.get("/notes", params={"cursor": page["meta"]["prev_cursor"]}, headers=NDJSON)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "cursor")


async def test_head_has_the_headers_and_no_rows(shop: Shop) -> None:
    await write_notes(shop, 5)
    answer = await shop.client.head("/notes", headers=NDJSON)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert "content-length" not in answer.headers
    assert await shop.db.fetch("SELECT 1 FROM stream_leases WHERE store_id = $1", shop.store_id) == []


async def test_a_stream_is_compressed_if_the_client_accepts_it(shop: Shop) -> None:
    await write_notes(shop, 700)
    plain = await shop.client.get("/notes", headers=NDJSON)
    packed = await shop.client.get("/notes", headers={**NDJSON, "accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "accept, accept-encoding"
    assert packed.content == plain.content
    assert packed.num_bytes_downloaded < len(plain.content) / 2


async def limited(shop: Shop, *, burst: int, refill: int, tokens: float) -> None:
    """Give the app a bucket with as many tokens, and too small to be prefetched from."""
    await install(shop.operator, shop.client_id, shop.store.handle, rate_burst=burst, rate_refill=refill)
    bucket = """INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at)
                VALUES ($1, $2, 'requests', $3, $3, now())
                ON CONFLICT (store_id, app_id, purpose) DO UPDATE SET tokens = excluded.tokens, refilled_at = excluded.refilled_at"""
    await shop.db.fetch(bucket, shop.store_id, shop.app_id, tokens)


async def test_250_rows_cost_one_request(shop: Shop) -> None:
    for rows, cost in ((0, 1), (250, 1), (251, 2), (500, 2), (2_251, 10)):
        await shop.db.fetch("DELETE FROM notes WHERE store_id = $1", shop.store_id)
        await write_notes(shop, rows)
        await limited(shop, burst=900, refill=1, tokens=300)
        # Nothing is refilled before the time of the bucket.
        later = "UPDATE rate_buckets SET refilled_at = now() + interval '9 seconds' WHERE store_id = $1"
        await shop.db.fetch(later, shop.store_id)
        lines(await shop.client.get("/notes", headers=NDJSON))
        left = await shop.db.fetch("SELECT tokens FROM rate_buckets WHERE store_id = $1", shop.store_id)
        assert 300 - left[0][0] == cost, rows


async def test_a_stream_waits_for_tokens(shop: Shop) -> None:
    await write_notes(shop, 2_600)
    await limited(shop, burst=3, refill=20, tokens=3)
    *rows, end = lines(await shop.client.get("/notes", headers=NDJSON))
    assert len(rows) == 2_600
    assert end["meta"]["complete"]


def titles(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["title"] for row in rows if "id" in row]


async def leases(shop: Shop) -> list[Any]:
    return [*await shop.db.fetch("SELECT holder FROM stream_leases WHERE store_id = $1", shop.store_id)]


async def test_an_app_reads_one_stream_of_a_store_at_a_time(shop: Shop) -> None:
    await write_notes(shop, 3_000)
    first = Reader(shop)
    await first.take()
    answer = await shop.client.get("/products", headers=NDJSON)
    assert (answer.status_code, answer.json()["code"]) == (409, "export_in_progress")
    assert int(answer.headers["retry-after"]) > 0
    assert (await shop.client.get("/notes")).status_code == 200, "pages are not streams"
    other = await shop.client_with(["products:read"])
    assert (await other.get("/notes", headers=NDJSON)).status_code == 200, "another app"
    rows = await first.rest()
    assert titles(rows) == [f"note {n}" for n in range(1, 3_001)]
    assert await leases(shop) == []
    assert (await shop.client.get("/notes", headers=NDJSON)).status_code == 200


async def test_a_client_that_leaves_ends_its_stream(shop: Shop) -> None:
    await write_notes(shop, 5_000)
    reader = Reader(shop)
    await reader.take()
    await reader.leave()
    assert await leases(shop) == []


async def test_a_client_that_leaves_while_its_stream_waits_for_tokens_ends_it(shop: Shop) -> None:
    await write_notes(shop, 5_000)
    await limited(shop, burst=1, refill=1, tokens=1)
    reader = Reader(shop)
    await reader.take()
    await reader.leave()
    assert await leases(shop) == []


async def test_a_lease_expires_if_it_is_not_renewed(shop: Shop) -> None:
    held = """INSERT INTO stream_leases (store_id, app_id, holder, lease_until)
              VALUES ($1, $2, 'a killed worker', now() + interval '5 seconds')"""
    await shop.db.fetch(held, shop.store_id, shop.app_id)
    assert (await shop.client.get("/notes", headers=NDJSON)).status_code == 409
    await shop.db.fetch("UPDATE stream_leases SET lease_until = now() WHERE store_id = $1", shop.store_id)
    assert (await shop.client.get("/notes", headers=NDJSON)).status_code == 200


async def test_a_slow_reader_keeps_its_lease(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_leases, "RENEW_EVERY_S", 0.01)
    await write_notes(shop, 3_000)
    reader = Reader(shop)
    await reader.take()
    until = "SELECT max(lease_until) FROM stream_leases WHERE store_id = $1"
    first = (await shop.db.fetch(until, shop.store_id))[0][0]
    async with asyncio.timeout(PATIENCE_S):
        while (await shop.db.fetch(until, shop.store_id))[0][0] <= first:
            await asyncio.sleep(0.01)
    assert (await reader.rest())[-1]["meta"]["complete"]


async def test_a_stream_that_lost_its_lease_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_leases, "RENEW_EVERY_S", 0.01)
    await write_notes(shop, 5_000)
    reader = Reader(shop)
    await reader.take()
    await shop.db.fetch("UPDATE stream_leases SET holder = 'another stream' WHERE store_id = $1", shop.store_id)
    async with asyncio.timeout(PATIENCE_S):
        while asyncio.current_task() and not any(stream.lease.lost for stream in shop.application.streams.running):
            await asyncio.sleep(0.01)
    end = (await reader.rest())[-1]
    assert (end["code"], end["complete"]) == ("export_in_progress", False)
    assert len(await leases(shop)) == 1, "the other stream keeps its lease"


async def resumed(shop: Shop, rows: Sequence[dict[str, Any]], client: httpx.AsyncClient | None = None) -> list[str]:
    """The titles of a stream that failed and of the one that resumes it."""
    answer = await (client or shop.client).get("/notes", params={"cursor": rows[-1]["cursor"]}, headers=NDJSON)
    return [*titles(rows), *titles(lines(answer))]


async def test_a_revoked_app_gets_no_further_rows(shop: Shop) -> None:
    await write_notes(shop, 5_000)
    reader = Reader(shop)
    await reader.take()
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    await asyncio.sleep(TTL_S)  # after which every worker knows
    *rows, end = await reader.rest()
    assert reader.status == 200
    assert 0 < len(rows) < 5_000
    assert (end["code"], end["status"], end["complete"]) == ("app_not_installed", 403, False)
    assert await leases(shop) == []


async def test_a_stream_without_its_scope_ends_and_can_be_resumed_when_it_is_granted_again(shop: Shop) -> None:
    await write_notes(shop, 5_000)
    reader = Reader(shop)
    await reader.take()
    await install(
        shop.operator, shop.client_id, shop.store.handle, ["orders:read"], rate_burst=10_000, rate_refill=1_000
    )
    await asyncio.sleep(TTL_S)
    rows = await reader.rest()
    assert (rows[-1]["code"], rows[-1]["required_scope"]) == ("insufficient_scope", "products:read")
    await install(shop.operator, shop.client_id, shop.store.handle, rate_burst=10_000, rate_refill=1_000)
    await asyncio.sleep(TTL_S)
    assert await resumed(shop, rows) == [f"note {n}" for n in range(1, 5_001)]


async def test_a_stream_outlives_a_database_that_is_away_for_a_moment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_notes(shop, 4_000)
    reader = Reader(shop)
    await reader.take()
    failures = iter([Unavailable("away"), Unavailable("away")])
    page = Listing.page

    async def unsteady(*given: Any, **named: Any) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        return await page(*given, **named)

    monkeypatch.setattr(Listing, "page", unsteady)
    rows = await reader.rest()
    assert next(failures, None) is None
    assert titles(rows) == [f"note {n}" for n in range(1, 4_001)]
    assert rows[-1]["meta"]["complete"]


@pytest.mark.parametrize(
    ("error", "code"), [(Unavailable("away"), "unavailable"), (ValueError("a defect"), "internal_error")]
)
async def test_a_failed_stream_ends_with_a_problem_and_the_cursor_to_resume_from(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    await write_notes(shop, 4_000)
    reader = Reader(shop)
    await reader.take()
    with monkeypatch.context() as broken:

        async def failing(*_: Any, **__: Any) -> Any:
            raise error

        broken.setattr(Listing, "page", failing)
        broken.setattr(streams, "PATIENCE_S", 0)
        rows = await reader.rest()
    assert (rows[-1]["code"], rows[-1]["complete"], rows[-1]["retryable"]) == (code, False, True)
    assert rows[-1]["instance"].endswith("/notes")
    assert await resumed(shop, rows) == [f"note {n}" for n in range(1, 4_001)]


async def test_a_worker_that_exits_ends_its_streams_with_a_cursor(settings: Settings, shop: Shop) -> None:
    await write_notes(shop, 5_000)
    leaving = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    reader = Reader(replace(shop, application=leaving))
    await reader.take()
    leaving.end_waiting()
    rows = await reader.rest()
    assert (rows[-1]["code"], rows[-1]["complete"]) == ("unavailable", False)
    late = Reader(replace(shop, application=leaving))
    await late.rest()
    assert late.status == 503, "a stream that begins now would end at once"
    await leaving.close()
    assert await resumed(shop, rows) == [f"note {n}" for n in range(1, 5_001)]


async def test_a_stream_holds_nothing_while_its_client_does_not_read(shop: Shop) -> None:
    await write_notes(shop, 5_000)
    reader = Reader(shop)
    await reader.take()
    pool = shop.application.database
    async with asyncio.timeout(PATIENCE_S):
        while pool.in_use:
            await asyncio.sleep(0.01)
    await reader.leave()


async def test_the_feed_of_events_has_no_stream(shop: Shop) -> None:
    webhook = (await shop.fill())["webhook_id"]
    answer = await shop.client.get(f"/webhooks/{webhook}/deliveries", params={"after": "0"}, headers=NDJSON)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "after")
