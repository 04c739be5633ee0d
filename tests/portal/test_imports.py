"""Import pages: the list, progress, failed rows and reports."""

import csv
import io
from typing import Any

import msgspec
import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from stoa.settings import Settings
from tests.support.people import User, as_operator
from tests.support.shops import Shop

NDJSON, CSV = "application/x-ndjson", "text/csv"
SHEET = b"sku,name,price\nCUP-1,Cup,9.00\nCUP-2,,nine\nCUP-3,Jug & <b>lid</b>,-1\n"


@pytest.fixture
async def imports_url(store_url: str, db: Database) -> str:
    """The URL of the list of imports; all earlier imports are finished."""
    await run_pending(db)
    return f"{store_url}/imports"


async def start_import(shop: Shop, content: bytes, media: str = CSV, resource: str = "products", **options: Any) -> str:
    response = await shop.client.post(
        f"/{resource}/imports", content=content, headers={"content-type": media}, params=options
    )
    assert response.status_code == 202, response.text
    return response.json()["data"]["id"]


async def test_imports_are_listed_newest_first(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    await start_import(shop, SHEET)
    await run_pending(db)
    await start_import(shop, b'{"email":"ada@example.com"}\n', NDJSON, "customers", dry_run="true")
    await maria.open(imports_url)
    table = maria.text.partition("<tbody>")[2]
    assert table.index(">Customers</a>") < table.index(">Products</a>")
    for expected in ("Dry run", "Queued", "Partially succeeded", "By Test app"):
        assert expected in maria.text, expected


async def test_a_long_list_of_imports_is_paginated(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    for batch in range(3):
        for number in range(10):
            await start_import(shop, b'{"sku":"C-%d-%d","name":"Cup","price":"1.00"}\n' % (batch, number), NDJSON)
        await run_pending(db)
    await maria.open(imports_url)
    assert maria.text.count("<tr><td>") == 25
    older = maria.text.partition('href="?before=')[2].partition('"')[0]
    await maria.open(f"{imports_url}?before={older}")
    assert maria.text.count("<tr><td>") == 5
    assert "Older" not in maria.text


async def test_the_page_of_a_queued_import_updates_itself(shop: Shop, maria: User, imports_url: str) -> None:
    job = await start_import(shop, SHEET)
    await maria.open(f"{imports_url}/{job}")
    assert ">Queued</h2>" in maria.text
    assert "data-running" in maria.text
    assert '<noscript><meta http-equiv="refresh"' in maria.text


async def test_a_finished_import_shows_its_failed_rows(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    job = await start_import(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    assert "Finished with failed rows" in maria.text
    assert "100%" in maria.text
    assert "data-running" not in maria.text
    assert "refresh" not in maria.text
    assert "Line 3" in maria.text
    assert "Line 4" in maria.text
    assert "<code>price</code>" in maria.text


async def test_failed_rows_are_downloaded(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    job = await start_import(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    await maria.submit(f"{imports_url}/{job}/failed-rows")
    assert maria.response.headers["content-disposition"] == f'attachment; filename="{job}-failed.csv"'
    assert maria.response.headers["x-content-type-options"] == "nosniff"
    api = await shop.client.get(f"/products/imports/{job}", headers={"accept": CSV})
    assert maria.response.content == api.content
    found = list(csv.DictReader(io.StringIO(maria.response.text)))
    assert [row["sku"] for row in found] == ["CUP-2", "CUP-3"]


async def test_the_full_report_is_downloaded(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    job = await start_import(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    await maria.submit(f"{imports_url}/{job}/report")
    rows = [msgspec.json.decode(line) for line in maria.response.content.splitlines()]
    assert [row["status"] for row in rows] == ["created", "failed", "failed"]


async def test_an_expired_report_cannot_be_downloaded(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    job = await start_import(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    await db.execute("UPDATE imports SET expired = true WHERE store_id = $1 AND id = $2", shop.store_id, job)
    await maria.submit(f"{imports_url}/{job}/failed-rows")
    assert maria.response.status_code == 422
    await maria.open(f"{imports_url}/{job}")
    assert "Expired" in maria.text
    assert "Download failed rows" not in maria.text


@pytest.mark.parametrize("import_id", ["imp_00000000000000000000", "x", "imp_%27", "x" * 400])
async def test_an_unknown_import_is_not_found(maria: User, imports_url: str, import_id: str) -> None:
    await maria.open(f"{imports_url}/{import_id}")
    assert maria.response.status_code == 404


async def test_an_import_of_another_store_is_not_found(
    shop: Shop, other_shop: Shop, maria: User, imports_url: str
) -> None:
    await maria.open(f"{imports_url}/{await start_import(other_shop, SHEET)}")
    assert maria.response.status_code == 404


async def test_only_owners_see_rows_of_customer_imports(
    shop: Shop, maria: User, zeno: User, imports_url: str, db: Database, settings: Settings
) -> None:
    job = await start_import(shop, b'{"email":"ada@example.com","locale":"!"}\n', NDJSON, "customers")
    await run_pending(db)
    await db.execute("UPDATE imports SET app_id = NULL WHERE id = $1", job)  # made by a person
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await maria.open(f"{imports_url}/{job}")
    assert "ada@example.com" in maria.text
    await zeno.open(f"{imports_url}/{job}")
    assert zeno.response.status_code == 200
    assert "ada@example.com" not in zeno.text
    await zeno.submit(f"{imports_url}/{job}/failed-rows")
    assert zeno.response.status_code == 403


async def test_nobody_sees_rows_of_an_apps_customer_import(
    shop: Shop, maria: User, imports_url: str, db: Database
) -> None:
    row = b'{"email":"ada@example.com","locale":"!","metadata":{"tier":"canary"}}\n'
    job = await start_import(shop, row, NDJSON, "customers")
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    assert "Only the app that made this import can read its rows" in maria.text
    assert "ada@example.com" not in maria.text
    for form in ("failed-rows", "report"):
        await maria.submit(f"{imports_url}/{job}/{form}")
        assert maria.response.status_code == 422
        assert "canary" not in maria.text
    await maria.open(f"{imports_url}/{job}/fix")
    assert "canary" not in maria.text


async def test_a_dry_run_is_labeled(shop: Shop, maria: User, imports_url: str, db: Database) -> None:
    job = await start_import(shop, SHEET, dry_run="true")
    await run_pending(db)
    await maria.open(f"{imports_url}/{job}")
    assert "Dry run" in maria.text
    assert "Would create" in maria.text
