"""Rows that carry stock need `inventory:write`, at the upload and while the job runs; other rows do not."""

from typing import Any

import httpx
import pytest

from stoa.access.grants import install
from stoa.imports.runner import run_pending
from tests.imports.files import CSV, NDJSON, import_file, job_of, lines, mug, send, sheet
from tests.support.shops import Shop, api_client, token_for

PLAIN: dict[str, Any] = {"name": "Plain mug", "price": "9.00", "sku": "PLAIN"}
NESTED: dict[str, Any] = {
    "name": "Sized mug",
    "price": "9.00",
    "options": [{"name": "Size", "values": ["S"]}],
    "variants": [{"sku": "SIZED-S", "option_values": {"Size": "S"}, "stock": {"on_hand": 2}}],
}


@pytest.fixture
async def catalog_shop(shop: Shop) -> Shop:
    """The shop, called with a token of its app that lacks the inventory scopes, although the store grants them."""
    scope = "products:write orders:write"
    token = await token_for(shop.service, shop.client_id, shop.client_secret, scope=scope)
    shop.client = api_client(shop.application, shop.store.handle, token)
    return shop


async def report(client: httpx.AsyncClient, import_id: str, media: str = NDJSON) -> str:
    return (await client.get(f"/products/imports/{import_id}", headers={"accept": media})).text


async def skus(shop: Shop) -> list[str]:
    rows = await shop.db.fetch("SELECT sku FROM variants WHERE store_id = $1 ORDER BY sku", shop.store_id)
    return [row[0] for row in rows]


@pytest.mark.parametrize("options", [{}, {"dry_run": "true"}])
async def test_only_rows_with_stock_fail(catalog_shop: Shop, options: dict[str, str]) -> None:
    job = await import_file(catalog_shop, lines([mug(1), PLAIN, NESTED]), **options)
    assert (job["status"], job["counts"]["created"], job["counts"]["failed"]) == ("partially_succeeded", 1, 2)
    assert [(error["row"], error["pointer"], error["code"]) for error in job["errors"]] == [
        (1, "/stock", "insufficient_scope"),
        (3, "/variants/0/stock", "insufficient_scope"),
    ]
    assert '"required_scope":"inventory:write"' in await report(catalog_shop.client, job["id"])
    assert await skus(catalog_shop) == ([] if options else ["PLAIN"])


async def test_a_row_that_updates_stock_fails(catalog_shop: Shop) -> None:
    await catalog_shop.add(mug(1))
    job = await import_file(catalog_shop, lines([mug(1, stock={"on_hand": 99}, brand="Hearth")]))
    assert [error["code"] for error in job["errors"]] == ["insufficient_scope"]
    [product] = (await catalog_shop.client.get("/products")).json()["data"]
    assert (product["stock"]["on_hand"], product["brand"]) == (3, None)


async def test_with_abort_one_row_with_stock_stops_the_file(catalog_shop: Shop) -> None:
    job = await import_file(catalog_shop, lines([PLAIN, mug(1)]), on_error="abort")
    assert (job["status"], await skus(catalog_shop)) == ("failed", [])


async def test_a_spreadsheet_row_fails_only_with_a_filled_stock_cell(catalog_shop: Shop) -> None:
    content = sheet("sku name price stock.on_hand", ["A", "Mug A", "9.00", "4"], ["B", "Mug B", "9.00", ""])
    job = await import_file(catalog_shop, content, CSV)
    assert (job["counts"]["created"], [error["row"] for error in job["errors"]]) == (1, [1])
    failed = await report(catalog_shop.client, job["id"], CSV)
    assert "insufficient_scope" in failed
    assert "Mug B" not in failed


async def grant(shop: Shop, *scopes: str) -> None:
    await install(shop.operator, shop.client_id, shop.store.handle, list(scopes))


async def test_a_scope_that_is_lost_before_the_run_counts(shop: Shop) -> None:
    job = await send(shop, lines([mug(1), PLAIN]))
    await grant(shop, "products:write")
    await run_pending(shop.db)
    done = await job_of(shop, job["id"])
    assert [error["code"] for error in done["errors"]] == ["insufficient_scope"]
    assert await skus(shop) == ["PLAIN"]


async def test_a_scope_that_is_granted_after_the_upload_does_not_count(shop: Shop) -> None:
    await grant(shop, "products:write")
    token = await token_for(shop.service, shop.client_id, shop.client_secret)
    shop.client = api_client(shop.application, shop.store.handle, token)
    job = await send(shop, lines([mug(1), PLAIN]))
    await grant(shop, "products:write", "inventory:write")
    await run_pending(shop.db)
    done = await job_of(shop, job["id"])
    assert [error["code"] for error in done["errors"]] == ["insufficient_scope"]
    assert await skus(shop) == ["PLAIN"]


async def test_both_scopes_import_stock(shop: Shop) -> None:
    shop.client = await shop.client_with(["products:write", "inventory:write"])
    job = await import_file(shop, lines([mug(1), NESTED]))
    assert (job["status"], job["counts"]["created"]) == ("succeeded", 2)
