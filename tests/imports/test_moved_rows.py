"""Rows of another shop: they keep their time of creation, and can be written without events."""

from typing import Any

import pytest

from stoa.imports.runner import run_pending
from tests.imports.files import CSV, NDJSON, catalog, events, import_file, lines, mug, report, sheet
from tests.support.locations import open_locations
from tests.support.shops import Shop

THEN = "2019-05-04T10:20:30Z"
SHOWN = "2019-05-04T10:20:30.000000Z"


async def import_customers(shop: Shop, content: bytes, media: str = NDJSON, **options: Any) -> dict[str, Any]:
    sent = await shop.client.post(
        "/customers/imports", content=content, headers={"content-type": media}, params=options
    )
    assert sent.status_code == 202, sent.text
    await run_pending(shop.db)
    return (await shop.client.get(f"/customers/imports/{sent.json()['data']['id']}")).json()["data"]


async def test_new_products_keep_their_time_of_creation(shop: Shop) -> None:
    await import_file(shop, lines([mug(1, created_at="2019-05-04T12:20:30+02:00"), mug(2)]))
    found = await catalog(shop)
    assert [found["Mug 1"]["created_at"], found["Mug 1"]["variants"][0]["created_at"]] == [SHOWN, SHOWN]
    assert found["Mug 1"]["updated_at"] > SHOWN
    assert found["Mug 2"]["created_at"] == found["Mug 2"]["updated_at"]
    listed = (await shop.client.get("/products?sort=created_at")).json()["data"]
    assert [each["name"] for each in listed] == ["Mug 1", "Mug 2"]


async def test_a_product_that_exists_keeps_its_time(shop: Shop) -> None:
    await import_file(shop, lines([mug(1)]))
    before = (await catalog(shop))["Mug 1"]
    job = await import_file(shop, lines([mug(1, created_at=THEN)]))
    assert job["counts"]["unchanged"] == 1
    assert (await catalog(shop))["Mug 1"] == before


async def test_new_customers_keep_their_time_of_creation(shop: Shop) -> None:
    job = await import_customers(shop, lines([{"email": "a@example.com", "created_at": THEN}]))
    assert job["status"] == "succeeded", job
    [customer] = (await shop.client.get("/customers")).json()["data"]
    assert customer["created_at"] == SHOWN


async def test_files_have_a_column_for_the_time(shop: Shop) -> None:
    await import_file(shop, sheet("sku name price created_at", ["A", "Mug 1", "1", THEN]), CSV)
    assert (await catalog(shop))["Mug 1"]["created_at"] == SHOWN
    await import_customers(shop, sheet("email created_at", ["a@example.com", THEN]), CSV)
    assert (await shop.client.get("/customers")).json()["data"][0]["created_at"] == SHOWN


@pytest.mark.parametrize("given", ["yesterday", 5, "2999-01-01T00:00:00Z", "2019-05-04"])
async def test_a_time_that_cannot_be_is_refused(shop: Shop, given: Any) -> None:
    job = await import_file(shop, lines([mug(1, created_at=given)]))
    [row] = await report(shop, job["id"])
    assert [(fault["pointer"], fault["code"]) for fault in row["errors"]] == [("/created_at", "invalid_format")]
    assert await catalog(shop) == {}
    job = await import_customers(shop, lines([{"email": "a@example.com", "created_at": given}]))
    assert (job["counts"]["failed"], job["errors"][0]["pointer"]) == (1, "/created_at")


async def test_an_import_without_events_sends_none(shop: Shop) -> None:
    opened = await shop.client.post("/products", json=mug(1))
    assert opened.status_code == 201
    await shop.db.execute("DELETE FROM events WHERE store_id = $1", shop.store_id)
    rows = [mug(1, name="Cup", stock={"on_hand": 99}), mug(2)]
    job = await import_file(shop, lines(rows), send_events="false")
    assert (job["counts"]["updated"], job["counts"]["created"], job["options"]["send_events"]) == (1, 1, False)
    await import_customers(shop, lines([{"email": "a@example.com"}]), send_events="false")
    assert await events(shop, "%") == []
    moved = await shop.db.fetch(
        "SELECT delta_on_hand FROM stock_movements WHERE store_id = $1 ORDER BY id", shop.store_id
    )
    assert [row[0] for row in moved] == [3, 96, 3], "the ledger has every movement"


async def test_stock_at_a_location_sends_no_event_either(shop: Shop) -> None:
    await open_locations(shop, east=1)
    rows = [mug(1, stock={"on_hand": 5}, location="east")]
    job = await import_file(shop, lines(rows), send_events="false")
    assert job["counts"]["created"] == 1, job
    assert await events(shop, "product.%") + await events(shop, "inventory.%") + await events(shop, "variant.%") == []
