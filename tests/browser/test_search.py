"""The search of the documentation in the portal: opened and used by keyboard, also on a phone."""

from playwright.async_api import expect

from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.support.axe import check
from tests.support.screenshots import screenshot


async def test_the_documentation_is_found_from_the_portal(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await page.keyboard.press("Control+k")
    await page.keyboard.type("webhook signature")
    first = page.get_by_role("option").first
    await expect(first).to_contain_text("Verify signatures")
    await expect(first).to_have_attribute("aria-selected", "true")
    await check(page, "search")
    await screenshot(page, "search")
    await page.keyboard.press("Escape")
    await expect(page.locator("#search-box")).to_be_hidden()
    await page.keyboard.press("/")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/docs/guides/webhooks#verify-signatures")


async def test_the_search_is_a_button_on_a_phone(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page(phone=True, theme="dark")
    await sign_in(page, portal, account)
    await page.get_by_role("link", name="Search", exact=True).locator("visible=true").click()
    await page.get_by_role("combobox").fill("429")
    await expect(page.get_by_role("option").first).to_contain_text("rate_limited")
    await check(page, "search on a phone")
    await screenshot(page, "search-phone")
