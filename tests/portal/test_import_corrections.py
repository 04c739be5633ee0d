"""Correcting failed rows: a file is checked again as a whole, and nothing is written before the person starts its one import."""

import asyncio
import re
from typing import Any

import pytest

from stoa.access import audit
from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from tests.portal.shown_forms import shown_form
from tests.portal.store_pages import hidden
from tests.portal.test_import_actions import SHEET, products, upload
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import Shop

ALL = {"CUP-1": "9.00", "CUP-2": "4.00", "CUP-3": "5.00"}
CORRECTIONS = {
    "cells[2.0.1]": "Bowl; blue",
    "cells[2.0.2]": "4.00",
    "cells[2.0.3]": "two\nlines",
    "cells[3.0.2]": "5.00",
}


async def check_file(user: User, store_url: str, db: Database, content: bytes = SHEET, **options: str) -> str:
    """Upload a file, let it be checked, and return the path of the check."""
    name = "cups.ndjson" if content.startswith(b"{") else "cups.csv"
    await upload(user, f"{store_url}/import", name, content, **options)
    checked = user.path
    await run_pending(db)
    return checked


async def correct(user: User, path: str, values: dict[str, str], db: Database) -> str:
    """Correct the failed rows of an import, as the page shows them, and return the path of the next check."""
    await user.open(f"{path}/fix")
    shown = shown_form(user.response.text, f"{path}/fix")
    assert shown is not None
    await user.submit(f"{path}/fix", {**shown, **values})
    assert user.response.status_code == 200, user.faults
    await run_pending(db)
    return user.path


async def start(user: User, path: str, db: Database) -> str:
    await user.open(path)
    await user.submit(f"{path}/start", hidden(user.text))
    await run_pending(db)
    return user.path


async def counts(db: Database, path: str) -> dict[str, Any]:
    names = "status, total, processed, created, updated, unchanged, failed"
    [row] = await db.fetch(f"SELECT {names} FROM imports WHERE id = $1", path.rpartition("/")[2])
    return dict(row)


async def test_corrected_rows_of_a_check_are_checked_with_the_others_and_imported_once(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    checked = await check_file(maria, store_url, db)
    again = await correct(maria, checked, CORRECTIONS, db)
    assert await products(shop) == {}, "correcting wrote rows"
    await maria.open(again)
    for expected in ("Dry run", "Would create", "Every row can be written", "Import 3 rows"):
        assert expected in maria.text, expected
    imported = await start(maria, again, db)
    assert await products(shop) == ALL
    found = await counts(db, imported)
    assert (found["total"], found["created"], found["failed"]) == (3, 3, 0)
    entries = await audit.newest(db, shop.store_id, 3)
    assert [each.action for each in entries] == ["products.import_started", *["products.import_checked"] * 2]


async def test_rows_that_still_fail_are_corrected_again(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    checked = await check_file(maria, store_url, db)
    second = await correct(maria, checked, CORRECTIONS | {"cells[3.0.2]": "minus"}, db)
    await maria.open(second)
    assert "1 row would fail" in maria.text
    third = await correct(maria, second, {"cells[3.0.2]": "5.00"}, db)
    assert await products(shop) == {}
    await start(maria, third, db)
    assert await products(shop) == ALL


async def test_rows_of_json_are_corrected_in_their_place(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    lines = [f'{{"sku":"CUP-{n}","name":"Cup","price":"{"x" if n == 700 else n}"}}' for n in range(1, 1101)]
    checked = await check_file(maria, store_url, db, "\n".join(lines).encode())
    again = await correct(maria, checked, {"rows[700]": '{"sku":"CUP-700",\n"name":"Cup",\n"price":"7.00"}'}, db)
    imported = await start(maria, again, db)
    found = await counts(db, imported)
    assert (found["status"], found["total"], found["created"]) == ("succeeded", 1100, 1100)
    [row] = await db.fetch(
        "SELECT key FROM import_rows WHERE store_id = $1 AND import_id = $2 AND row = 700",
        shop.store_id,
        imported.rpartition("/")[2],
    )
    assert row[0] == '{"sku":"CUP-700"}'


async def test_a_correction_that_joins_two_rows_counts_them_as_one(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    sheet = b"external_id,name,sku,price,option.Size\nM-1,Mug,MUG-S,4.00,S\nM-X,,MUG-M,4.00,M\nM-3,Jar,JAR,6.00,S\n"
    checked = await check_file(maria, store_url, db, sheet, match_by="external_id")
    again = await correct(maria, checked, {"cells[2.0.0]": "M-1"}, db)
    found = await counts(db, again)
    assert (found["total"], found["processed"], found["failed"]) == (2, 2, 0)


async def test_the_failed_rows_of_an_import_are_checked_before_they_are_written(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    imported = await start(maria, await check_file(maria, store_url, db), db)
    assert await products(shop) == {"CUP-1": "9.00"}
    again = await correct(maria, imported, CORRECTIONS, db)
    assert await products(shop) == {"CUP-1": "9.00"}, "correcting wrote rows"
    last = await start(maria, again, db)
    assert await products(shop) == ALL
    assert (await counts(db, last))["total"] == 2


async def test_a_file_is_imported_once_from_two_tabs(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    checked = await check_file(maria, store_url, db)
    tabs = [hidden((await maria.open(checked)).text) for _ in range(2)]
    assert tabs[0]["key"] != tabs[1]["key"]
    data = [{"_token": maria.token, **tab} for tab in (*tabs, *tabs)]
    url = f"{checked}/start"
    answers = await asyncio.gather(*(maria.client.post(url, data=each, headers=SAME_ORIGIN) for each in data))
    assert max(each.status_code for each in answers) < 500
    assert await run_pending(db) == 1, "the file was imported more than once"
    await maria.open(checked)
    assert "already imported" in maria.text
    assert "/start" not in maria.text


async def test_a_check_that_was_corrected_leads_to_its_next_check_only(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    checked = await check_file(maria, store_url, db)
    await maria.open(checked)
    old_tab = hidden(maria.text)
    again = await correct(maria, checked, CORRECTIONS, db)
    await maria.open(checked)
    assert f'href="{again}"' in maria.text
    assert "/start" not in maria.text
    await maria.submit(f"{checked}/start", old_tab)
    assert (maria.path, maria.tone) == (checked, "warn")
    assert "already imported or corrected" in maria.notice
    await maria.open(f"{checked}/fix")
    assert maria.path == checked
    assert (await run_pending(db), await products(shop)) == (0, {})


async def test_a_file_that_is_written_completely_or_not_at_all_is_corrected_as_a_whole(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    valid = b"sku,name,price,external_id\nCUP-1,Cup,9.00,\nCUP-2,Bowl,4.00,X-1\n"
    checked = await check_file(maria, store_url, db, valid, on_error="abort")
    # The catalog changes between the check and the import.
    other = {"sku": "OTHER", "name": "Other", "price": "1.00", "external_id": "X-1"}
    assert (await shop.client.post("/products", json=other)).status_code == 201
    imported = await start(maria, checked, db)
    assert (await counts(db, imported))["status"] == "failed"
    assert await products(shop) == {"OTHER": "1.00"}
    again = await correct(maria, imported, {"cells[2.0.3]": "X-2"}, db)
    assert await products(shop) == {"OTHER": "1.00"}
    last = await start(maria, again, db)
    assert await products(shop) == {"OTHER": "1.00", "CUP-1": "9.00", "CUP-2": "4.00"}
    assert (await counts(db, last))["total"] == 2


async def test_a_row_that_fails_only_at_the_import_is_corrected_alone(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    valid = b"sku,name,price,external_id\nCUP-1,Cup,9.00,\nCUP-2,Bowl,4.00,X-1\n"
    checked = await check_file(maria, store_url, db, valid)
    other = {"sku": "OTHER", "name": "Other", "price": "1.00", "external_id": "X-1"}
    assert (await shop.client.post("/products", json=other)).status_code == 201
    imported = await start(maria, checked, db)
    found = await counts(db, imported)
    assert (found["created"], found["failed"]) == (1, 1)
    await start(maria, await correct(maria, imported, {"cells[2.0.3]": "X-2"}, db), db)
    assert await products(shop) == {"OTHER": "1.00", "CUP-1": "9.00", "CUP-2": "4.00"}


@pytest.mark.parametrize("options", ["?dry_run=true", "?on_error=abort"])
async def test_failed_rows_of_an_app_that_wrote_nothing_are_not_imported_without_the_others(
    shop: Shop, maria: User, store_url: str, db: Database, options: str
) -> None:
    response = await shop.client.post(
        f"/products/imports{options}", content=SHEET, headers={"content-type": "text/csv"}
    )
    await run_pending(db)
    path = f"{store_url}/imports/{response.json()['data']['id']}"
    await maria.open(path)
    assert f"{path}/fix" not in maria.text
    assert (await maria.open(f"{path}/fix")).url.path == path
    await maria.submit(f"{path}/fix", {"key": "k", "numbers": ["2"], "cells[2.0.0]": "CUP-2"})
    assert await run_pending(db) == 0
    assert await products(shop) == {}


async def test_rows_that_did_not_fail_cannot_be_replaced(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    checked = await check_file(maria, store_url, db)
    await maria.open(f"{checked}/fix")
    key = hidden(maria.text)["key"]
    await maria.submit(f"{checked}/fix", {"key": key, "numbers": ["1", "x", "99999999"], "cells[1.0.2]": "1.00"})
    assert (maria.response.status_code, await run_pending(db)) == (422, 0)


async def test_an_erased_row_is_not_offered_for_correction(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    checked = await check_file(maria, store_url, db)
    await db.execute("UPDATE import_rows SET key = '{}', raw = '' WHERE store_id = $1 AND row = 2", shop.store_id)
    await maria.open(f"{checked}/fix")
    assert re.findall(r'name="numbers" value="(\d+)"', maria.text) == ["3"]


async def test_rows_too_large_for_a_page_are_left_to_a_corrected_file(
    maria: User, store_url: str, db: Database
) -> None:
    long = "x" * 60_000
    sheet = f"sku,name,price,description\nA,A,no,{long}\nB,B,no,short\n".encode()
    checked = await check_file(maria, store_url, db, sheet)
    await maria.open(f"{checked}/fix")
    assert len(maria.response.content) < 40_000
    assert re.findall(r'name="numbers" value="(\d+)"', maria.text) == ["2"]
    assert "1 row is too large" in maria.text
