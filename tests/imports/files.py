"""Sample files, uploads and jobs."""

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec

from stoa.imports.runner import run_pending
from tests.support.shops import Shop

NDJSON, CSV, JSON = "application/x-ndjson", "text/csv", "application/json"


def mug(number: int, **more: Any) -> dict[str, Any]:
    return {"name": f"Mug {number}", "price": "12.50", "sku": f"MUG-{number}", "stock": {"on_hand": 3}, **more}


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def sheet(header: str, *records: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([header.split(), *records])
    return text.getvalue().encode()


async def send(shop: Shop, content: bytes, media: str = NDJSON, **options: Any) -> dict[str, Any]:
    """Upload a file and return the accepted job."""
    answer = await shop.client.post(
        "/products/imports", content=content, headers={"content-type": media}, params=options
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["data"]


async def import_file(shop: Shop, content: bytes, media: str = NDJSON, **options: Any) -> dict[str, Any]:
    """Upload a file, run its job, and return the finished job."""
    job = await send(shop, content, media, **options)
    await run_pending(shop.db)
    return await job_of(shop, job["id"])


async def job_of(shop: Shop, import_id: str) -> dict[str, Any]:
    answer = await shop.client.get(f"/products/imports/{import_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def refused(shop: Shop, content: bytes, media: str = NDJSON, **options: Any) -> tuple[int, dict[str, Any]]:
    """Upload a file that must be refused, check that nothing is stored, and return the status and the problem."""
    answer = await shop.client.post(
        "/products/imports", content=content, headers={"content-type": media}, params=options
    )
    assert answer.status_code >= 400, answer.text
    assert [row[0] for row in await shop.db.fetch("SELECT id FROM imports WHERE store_id = $1", shop.store_id)] == []
    return answer.status_code, answer.json()


async def report(shop: Shop, import_id: str) -> list[dict[str, Any]]:
    answer = await shop.client.get(f"/products/imports/{import_id}", headers={"accept": NDJSON})
    assert answer.headers["content-type"] == NDJSON
    return [msgspec.json.decode(line) for line in answer.content.splitlines()]


async def failures(shop: Shop, import_id: str) -> list[dict[str, str]]:
    answer = await shop.client.get(f"/products/imports/{import_id}", headers={"accept": CSV})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


async def catalog(shop: Shop) -> dict[str, Any]:
    """Every product with its variants, by name."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] | None = {"limit": 250, "include": "variants"}
    while query:
        page = (await shop.client.get("/products", params=query)).json()
        found += page["data"]
        cursor = page["meta"]["next_cursor"]
        query = {"cursor": cursor, "include": "variants"} if cursor else None
    return {product["name"]: product for product in found}


async def events(shop: Shop, like: str = "product.%") -> list[str]:
    rows = await shop.db.fetch(
        "SELECT type FROM events WHERE store_id = $1 AND type LIKE $2 ORDER BY position", shop.store_id, like
    )
    return [row[0] for row in rows]
