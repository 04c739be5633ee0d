"""Store pages in a browser: a running import with downloads, and browsing without JavaScript."""

from pathlib import Path

import httpx
import pytest

from stoa.access.apps import create_app
from stoa.access.grants import install
from stoa.accounts.ownership import open_development_store
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import create_resources
from tests.support.axe import check
from tests.support.people import as_operator
from tests.support.screenshots import screenshot

ROWS = 3_000


async def import_into(portal: PortalService, handle: str, content: bytes) -> str:
    """Start an import as an app; return its ID."""
    by = as_operator(portal.db, portal.settings)
    app = await create_app(by, "Stock sync", ["products:write"])
    await install(by, app.client_id, handle)
    async with httpx.AsyncClient(base_url=portal.url) as client:
        form = {"grant_type": "client_credentials"}
        token = (await client.post("/oauth/token", data=form, auth=(app.client_id, app.client_secret))).json()
        headers = {"authorization": f"Bearer {token['access_token']}", "content-type": "text/csv"}
        path = f"/stores/{handle}/api/v3/app/products/imports"
        response = await client.post(path, content=content, headers=headers)
        assert response.status_code == 202, response.text
        return response.json()["data"]["id"]


@pytest.mark.long
async def test_an_import_page_updates_itself_and_offers_failed_rows(portal: PortalService, new_page: NewPage) -> None:
    page = await new_page()
    account = await portal.create_account()
    store = await open_development_store(as_operator(portal.db, portal.settings), account.id, "Kiln", "EUR")
    rows = "".join(f"K-{n},Tile {n},{'nothing' if n % 1_000 == 0 else '4.20'}\n" for n in range(1, ROWS + 1))
    await sign_in(page, portal, account)
    job = await import_into(portal, store.handle, f"sku,name,price\n{rows}".encode())
    await page.goto(f"{portal.url}/portal/stores/{store.handle}/imports")
    await page.get_by_role("link", name="Products").last.click()
    # No reload: the page updates itself.
    await page.get_by_role("heading", name="Finished with failed rows").wait_for()
    assert await page.get_by_text("100%").is_visible()
    await check(page, "a finished import")
    await screenshot(page, "import-finished-light-wide")
    for _ in range(2):
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Download failed rows").click()
        file = await waiting.value
        assert file.suggested_filename == f"{job}-failed.csv"
        lines = Path(await file.path()).read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[0] for line in lines] == ["sku", "K-1000", "K-2000", "K-3000"]
        await page.locator('form[action$="failed-rows"]:not([aria-busy])').wait_for()


async def test_store_pages_work_without_javascript(portal: PortalService, new_page: NewPage) -> None:
    page = await new_page(script=False)
    account = await portal.create_account()
    params = await create_resources(as_operator(portal.db, portal.settings), portal.db, account.id)
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/stores/{params['handle']}/products")
    await page.get_by_role("searchbox", name="Search products").fill("linen")
    await page.get_by_role("button", name="Apply").click()
    await page.get_by_role("link", name="Linen Shirt").click()
    await page.get_by_role("heading", name="Linen Shirt").wait_for()
    await page.get_by_role("link", name="Order", exact=True).first.click()
    await page.get_by_role("heading", name="Timeline").wait_for()
    await page.get_by_role("link", name="Ada Byron").click()
    await page.get_by_role("heading", name="Ada Byron").wait_for()
    # Printed addresses are those at which the service is reached.
    for path in ("/docs", "/problems/not_found"):
        await page.goto(f"{portal.url}{path}")
        printed = await page.content()
        assert "localhost:8000" not in printed, path
        assert portal.url in printed, path
