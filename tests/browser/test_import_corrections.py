"""A file with failed rows in a browser, with and without JavaScript: checked, corrected, checked again, then imported once."""

import re

import pytest
from playwright.async_api import Page, expect

from stoa.access.operator import find_store
from stoa.accounts.ownership import open_store
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.browser.interaction import Clicks, Keyboard
from tests.support.axe import check_looks
from tests.support.people import as_operator
from tests.support.screenshots import screenshot

SHEET = b"sku,name,price\nT-1,Tile one,4.20\nT-2,Tile two,nothing\nT-3,Tile three,6.20\nT-4,,7.20\n"

FIVE_WRONG = b"""sku,name,price,status
P-1,Plate one,12.00,active
P-2,Plate two,twelve,active
P-3,,12.00,active
P-4,Plate four,12.00,sold
P-5,Plate five,-1,active
P-6,Plate six,12.00,on sale
P-7,Plate seven,12.00,draft
"""
MOST_CLICKS = 5


@pytest.mark.timeout(180)
async def test_five_rows_of_a_file_are_corrected_in_five_clicks(portal: PortalService, new_page: NewPage) -> None:
    page, clicks = await new_page(), Clicks()
    account = await portal.create_account()
    handle = f"plates-{account.id}"
    await open_store(as_operator(portal.db, portal.settings), account.id, handle, "Plates", "EUR")
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/stores/{handle}/import")
    async with page.expect_file_chooser() as waiting:
        await clicks.on(page.locator("input[type=file]"))
    file = {"name": "plates.csv", "mimeType": "text/csv", "buffer": FIVE_WRONG}
    await (await waiting.value).set_files(files=[file])  # pyright: ignore[reportArgumentType]
    await clicks.on(page.get_by_role("button", name="Check the file"))
    await _finished(page)
    await clicks.on(page.get_by_role("link", name="Correct failed rows"))
    wrong, keys = page.locator("input.wrong"), Keyboard(page)
    await expect(wrong).to_have_count(5)
    await expect(wrong.first).to_be_focused()
    for number, value in enumerate(("12.00", "Plate three", "active", "1.00", "active")):
        await keys.fill(wrong.nth(number), value)
    await clicks.on(page.get_by_role("button", name="Check 5 corrected rows"))
    await _finished(page)
    await clicks.on(page.get_by_role("button", name="Import 7 rows"))
    await _finished(page)
    await expect(page.locator("dl.figures div", has_text="Created")).to_contain_text("7")
    assert clicks.count <= MOST_CLICKS


@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", [True, False])
@pytest.mark.long
async def test_a_file_is_corrected_and_checked_again_before_it_is_imported(
    portal: PortalService, new_page: NewPage, *, script: bool
) -> None:
    page = await new_page(script=script)
    account = await portal.create_account()
    handle = f"tiles-{account.id}"
    await open_store(as_operator(portal.db, portal.settings), account.id, handle, "Tiles", "EUR")
    store_id = (await find_store(portal.db, handle)).id

    async def products() -> int:
        [[count]] = await portal.db.fetch("SELECT count(*) FROM products WHERE store_id = $1", store_id)
        return count

    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/stores/{handle}/import")
    file = {"name": "tiles.csv", "mimeType": "text/csv", "buffer": SHEET}
    await page.locator("input[type=file]").set_input_files(files=[file])  # pyright: ignore[reportArgumentType]
    await page.get_by_role("button", name="Check the file").click()
    await _finished(page)
    await expect(page.get_by_text("2 rows would fail; the others would be written.")).to_be_visible()
    if script:
        await check_looks(page, "a check with failed rows")
        await screenshot(page, "import-check-failed")
    await page.get_by_role("link", name="Correct failed rows").click()
    await page.locator('input[name="cells[2.0.2]"]').fill("5.20")
    await page.locator('input[name="cells[4.0.1]"]').fill("Tile four")
    if script:
        await check_looks(page, "rows to correct")
        await screenshot(page, "import-correct-rows")
    await page.get_by_role("button", name="Check 2 corrected rows").click()
    await _finished(page)
    await expect(page.get_by_text("Every row can be written.")).to_be_visible()
    assert await products() == 0, "a check wrote rows"
    await page.get_by_role("button", name="Import 4 rows").click()
    await _finished(page)
    await expect(page.locator("dl.figures div", has_text="Created")).to_contain_text("4")
    assert await products() == 4
    await page.go_back()
    await page.reload()
    await expect(page.get_by_text("This file was already imported.")).to_be_visible()
    if script:
        await check_looks(page, "an imported check")


async def _finished(page: Page) -> None:
    await page.get_by_role("heading", name=re.compile("^Finished")).wait_for()
