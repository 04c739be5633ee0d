"""What merchants look at, in a real browser: an import that runs, files to take home, and a store without script."""

from pathlib import Path

import httpx

from stoa.access.apps import create_app
from stoa.access.grants import install
from stoa.accounts.ownership import open_development_store
from tests.browser.conftest import House, NewPage, enter, picture
from tests.browser.test_accessibility import check
from tests.portal.people import as_operator
from tests.portal.places import furnish

ROWS = 3_000


async def import_into(house: House, handle: str, content: bytes) -> str:
    """Send a file in as an app does; says the id of the job."""
    by = as_operator(house.db, house.settings)
    app = await create_app(by, "Stock keeper", ["products:write"])
    await install(by, app.client_id, handle)
    async with httpx.AsyncClient(base_url=house.url) as client:
        form = {"grant_type": "client_credentials"}
        token = (await client.post("/oauth/token", data=form, auth=(app.client_id, app.client_secret))).json()
        headers = {"authorization": f"Bearer {token['access_token']}", "content-type": "text/csv"}
        path = f"/stores/{handle}/api/v3/app/products/imports"
        answer = await client.post(path, content=content, headers=headers)
        assert answer.status_code == 202, answer.text
        return answer.json()["data"]["id"]


async def test_a_merchant_watches_an_import_and_takes_home_what_failed(house: House, new_page: NewPage) -> None:
    page = await new_page()
    account = await house.person()
    store = await open_development_store(as_operator(house.db, house.settings), account.id, "Kiln", "EUR")
    rows = "".join(f"K-{n},Tile {n},{'nothing' if n % 1_000 == 0 else '4.20'}\n" for n in range(1, ROWS + 1))
    await enter(page, house, account)
    job = await import_into(house, store.handle, f"sku,name,price\n{rows}".encode())
    await page.goto(f"{house.url}/portal/stores/{store.handle}/imports")
    await page.get_by_role("link", name="Products").last.click()
    # Nobody reloads: the page follows the job by itself.
    await page.get_by_role("heading", name="Done, but some rows failed").wait_for()
    assert await page.get_by_text("100%").is_visible()
    await check(page, "an import that ended")
    await picture(page, "import-ended-light-wide")
    for _ in range(2):
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Failed rows as CSV").click()
        file = await waiting.value
        assert file.suggested_filename == f"{job}-failed.csv"
        lines = Path(await file.path()).read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[0] for line in lines] == ["sku", "K-1000", "K-2000", "K-3000"]
        await page.locator('form[action$="failed-rows"]:not([aria-busy])').wait_for()


async def test_a_merchant_without_script_browses_all_the_same(house: House, new_page: NewPage) -> None:
    page = await new_page(script=False)
    account = await house.person()
    places = await furnish(as_operator(house.db, house.settings), house.db, account.id)
    await enter(page, house, account)
    await page.goto(f"{house.url}/portal/stores/{places['handle']}/products")
    await page.get_by_role("searchbox").fill("linen")
    await page.get_by_role("button", name="Show").click()
    await page.get_by_role("link", name="Linen Shirt").click()
    await page.get_by_role("heading", name="Linen Shirt").wait_for()
    await page.get_by_role("link", name="Order", exact=True).first.click()
    await page.get_by_role("heading", name="Timeline").wait_for()
    await page.get_by_role("link", name="Ada Byron").click()
    await page.get_by_role("heading", name="Ada Byron").wait_for()
