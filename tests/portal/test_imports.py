"""A merchant follows files on their way into a store, and takes home what was wrong with them."""

import csv
import io
from typing import Any

import msgspec
import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from stoa.settings import Settings
from tests.portal.people import Somebody, as_operator
from tests.support.shops import Shop

NDJSON, CSV = "application/x-ndjson", "text/csv"
SHEET = b"sku,name,price\nCUP-1,Cup,9.00\nCUP-2,,nine\nCUP-3,Jug & <b>lid</b>,-1\n"


@pytest.fixture
async def home(shop: Shop, maria: Somebody, db: Database, settings: Settings) -> str:
    await run_pending(db)
    await give(as_operator(db, settings), maria.email, store=shop.store.handle)
    return f"/portal/stores/{shop.store.handle}/imports"


async def send(shop: Shop, content: bytes, media: str = CSV, resource: str = "products", **options: Any) -> str:
    answer = await shop.client.post(
        f"/{resource}/imports", content=content, headers={"content-type": media}, params=options
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["data"]["id"]


async def test_imports_are_listed_newest_first(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    await send(shop, SHEET)
    await run_pending(db)
    await send(shop, b'{"email":"ada@example.com"}\n', NDJSON, "customers", dry_run="true")
    await maria.open(home)
    table = maria.text.partition("<tbody>")[2]
    assert table.index(">Customers</a>") < table.index(">Products</a>")
    for words in ("Trial", "Waiting", "Done, with faults", "By Test app"):
        assert words in maria.text, words


async def test_a_long_list_of_imports_goes_on(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    for batch in range(3):
        for number in range(10):
            await send(shop, b'{"sku":"C-%d-%d","name":"Cup","price":"1.00"}\n' % (batch, number), NDJSON)
        await run_pending(db)
    await maria.open(home)
    assert maria.text.count("<tr><td>") == 25
    older = maria.text.partition('href="?before=')[2].partition('"')[0]
    await maria.open(f"{home}?before={older}")
    assert maria.text.count("<tr><td>") == 5
    assert "Older" not in maria.text


async def test_an_import_that_waits_keeps_its_page_up_to_date(shop: Shop, maria: Somebody, home: str) -> None:
    job = await send(shop, SHEET)
    await maria.open(f"{home}/{job}")
    assert "Waiting for its turn" in maria.text
    assert "data-running" in maria.text
    assert '<noscript><meta http-equiv="refresh"' in maria.text


async def test_an_import_tells_how_it_ended(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    job = await send(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{home}/{job}")
    assert "Done, but some rows failed" in maria.text
    assert "100%" in maria.text
    assert "data-running" not in maria.text
    assert "refresh" not in maria.text
    assert "Row 2" in maria.text
    assert "Row 3" in maria.text
    assert "/price" in maria.text


async def test_failed_rows_are_taken_home_to_be_mended(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    job = await send(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{home}/{job}")
    await maria.send(f"{home}/{job}/failed-rows")
    assert maria.seen.headers["content-disposition"] == f'attachment; filename="{job}-failed.csv"'
    assert maria.seen.headers["x-content-type-options"] == "nosniff"
    api = await shop.client.get(f"/products/imports/{job}", headers={"accept": CSV})
    assert maria.seen.content == api.content
    found = list(csv.DictReader(io.StringIO(maria.seen.text)))
    assert [row["sku"] for row in found] == ["CUP-2", "CUP-3"]


async def test_the_report_on_every_row_is_taken_home(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    job = await send(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{home}/{job}")
    await maria.send(f"{home}/{job}/report")
    rows = [msgspec.json.decode(line) for line in maria.seen.content.splitlines()]
    assert [row["status"] for row in rows] == ["created", "failed", "failed"]


async def test_a_report_that_is_no_longer_kept_says_so(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    job = await send(shop, SHEET)
    await run_pending(db)
    await maria.open(f"{home}/{job}")
    await db.execute("UPDATE imports SET expired = true WHERE store_id = $1 AND id = $2", shop.store_id, job)
    await maria.send(f"{home}/{job}/failed-rows")
    assert maria.seen.status_code == 422
    await maria.open(f"{home}/{job}")
    assert "No longer kept" in maria.text
    assert "Failed rows as CSV" not in maria.text


@pytest.mark.parametrize("import_id", ["imp_00000000000000000000", "x", "imp_%27", "x" * 400])
async def test_an_import_that_never_was_is_not_found(maria: Somebody, home: str, import_id: str) -> None:
    await maria.open(f"{home}/{import_id}")
    assert maria.seen.status_code == 404


async def test_another_stores_import_is_not_in_this_one(
    shop: Shop, other_shop: Shop, maria: Somebody, home: str
) -> None:
    await maria.open(f"{home}/{await send(other_shop, SHEET)}")
    assert maria.seen.status_code == 404


async def test_rows_of_customers_are_shown_to_owners_alone(
    shop: Shop, maria: Somebody, zeno: Somebody, home: str, db: Database, settings: Settings
) -> None:
    job = await send(shop, b'{"email":"ada@example.com","locale":"!"}\n', NDJSON, "customers")
    await run_pending(db)
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await maria.open(f"{home}/{job}")
    assert "ada@example.com" in maria.text
    await zeno.open(f"{home}/{job}")
    assert zeno.seen.status_code == 200
    assert "ada@example.com" not in zeno.text
    await zeno.send(f"{home}/{job}/failed-rows")
    assert zeno.seen.status_code == 403


async def test_a_trial_says_that_nothing_was_written(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    job = await send(shop, SHEET, dry_run="true")
    await run_pending(db)
    await maria.open(f"{home}/{job}")
    assert "Trial: nothing was written" in maria.text
    assert "Would be created" in maria.text
