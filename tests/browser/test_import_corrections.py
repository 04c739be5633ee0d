"""A file with failed rows in a browser, with and without JavaScript: checked, corrected, checked again, then imported once."""

import re

import pytest
from playwright.async_api import Page, expect

from stoa.access.operator import find_store
from stoa.accounts.ownership import open_store
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.support.axe import check_looks
from tests.support.people import as_operator
from tests.support.screenshots import screenshot

SHEET = b"sku,name,price\nT-1,Tile one,4.20\nT-2,Tile two,nothing\nT-3,Tile three,6.20\nT-4,,7.20\n"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("script", [True, False])
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
