"""The app file and its deploy tokens in a browser: upload, compare, apply, and a token that is shown once."""

import pytest
from playwright.async_api import FilePayload, expect

from tests.browser.conftest import NewPage, PortalService
from tests.browser.test_user_journeys import sign_up
from tests.browser.test_webhooks import register
from tests.support.axe import check_looks
from tests.support.screenshots import screenshot


@pytest.mark.timeout(400)
@pytest.mark.long
async def test_a_developer_uploads_the_file_and_creates_a_deploy_token(
    fresh_portal: PortalService, new_page: NewPage
) -> None:
    page = await new_page()
    await sign_up(page, fresh_portal)
    await register(page, fresh_portal)
    await page.goto(f"{fresh_portal.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    app = page.url
    await page.goto(f"{app}/file")
    await check_looks(page, "app file")
    text = (await page.locator("#app-file").inner_text()).replace('"Stock sync"', '"Stock copy"')
    upload: FilePayload = {"name": "stoa.app.toml", "mimeType": "application/toml", "buffer": text.encode()}
    await page.get_by_label("Or the file itself").set_input_files(upload)
    await page.get_by_role("button", name="Compare").click()
    await expect(page.get_by_role("heading", name="What the file changes")).to_be_visible()
    await check_looks(page, "changes of the app file")
    await screenshot(page, "app-file-changes")
    await page.get_by_role("button", name="Apply these changes").click()
    await expect(page.get_by_text("1 change applied.")).to_be_visible()
    await expect(page.get_by_role("link", name="Settings · Stock copy")).to_be_visible()
    await page.goto(f"{app}/deploy-tokens")
    await page.get_by_label("Name", exact=True).fill("CI")
    await page.get_by_role("button", name="Create deploy token").click()
    await expect(page.locator("#deploy-token")).to_contain_text("stoa_dt_")
    await check_looks(page, "a new deploy token")
    await page.get_by_role("link", name="I have saved the token").click()
    await check_looks(page, "deploy tokens")
    await page.get_by_role("button", name="Revoke CI").click()
    await expect(page.get_by_text("The deploy token is revoked.")).to_be_visible()
