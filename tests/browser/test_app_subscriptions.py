"""App subscriptions in a browser: declare one, follow its progress, change and remove it."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import NewPage, PortalService
from tests.browser.test_user_journeys import sign_up
from tests.browser.test_webhooks import register
from tests.support.axe import check, check_looks
from tests.support.screenshots import screenshot


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_a_developer_declares_changes_and_removes_a_subscription(
    fresh_portal: PortalService, new_page: NewPage
) -> None:
    page = await new_page()
    await sign_up(page, fresh_portal)
    await register(page, fresh_portal)
    await page.goto(f"{fresh_portal.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    subscriptions = f"{page.url}/subscriptions"
    await page.goto(subscriptions)
    await expect(page.get_by_text("No app subscriptions")).to_be_visible()
    await page.get_by_role("link", name="Declare").click()
    await check(page, "a new app subscription")
    await page.get_by_label("Name", exact=True).fill("prices")
    await page.get_by_label("Receiver URL").fill("http://localhost:9/hooks")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Declare").click()
    await expect(page.get_by_role("heading", name="Signing secret")).to_be_visible()
    await page.goto(subscriptions)
    row = page.get_by_role("row", name="prices")
    await expect(row).to_contain_text("of 1")
    for _ in range(60):  # the duty copies it to the development store
        if "Up to date" in await row.inner_text():
            break
        await page.wait_for_timeout(500)
        await page.reload()
    await expect(row).to_contain_text("1 of 1")
    await check_looks(page, "app subscriptions")
    await screenshot(page, "app-subscriptions")
    await page.get_by_role("link", name="prices").click()
    await page.get_by_label("Receiver URL").fill("http://localhost:9/other")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved. All stores get the change")).to_be_visible()
    await page.get_by_role("link", name="prices").click()
    await page.get_by_label("Remove prices from all stores").check()
    await page.get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("is being removed from all stores")).to_be_visible()
