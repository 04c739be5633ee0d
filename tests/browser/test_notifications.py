"""A merchant's story: the bell, an install request, an announcement, and her preferences."""

import re
from datetime import UTC, datetime, timedelta

from playwright.async_api import expect

from stoa.accounts.announcements import announce
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import open_store, owned_app, register_app
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import REASONS
from tests.support.people import as_operator, new_email


async def test_a_merchant_follows_a_notification_to_an_install_request(
    portal: PortalService, new_page: NewPage
) -> None:
    by, now = as_operator(portal.db, portal.settings), datetime.now(UTC)
    merchant, developer = await portal.create_account(), await portal.create_account("Zeno")
    store = await open_store(by, merchant.id, f"bell-{merchant.id}", "Painted porch", "EUR")
    registered = await register_app(by, developer.id, "Walker", "", REASONS, new_email())
    app = await owned_app(portal.db, developer.id, registered.app_id)
    assert app is not None
    await request_install(by, developer.id, app, store.handle, "May we?")
    news = f"Maintenance of {store.handle} on Sunday"
    await announce(by, news, now - timedelta(hours=1), now + timedelta(hours=1), now)

    page = await new_page(phone=True)
    await sign_in(page, portal, merchant)
    await expect(page.get_by_text(news)).to_be_visible()
    await page.locator(".announcement", has_text=news).get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_text(news)).to_have_count(0)
    await page.get_by_role("link", name="Notifications, 2 unread").click()
    await page.get_by_role("button", name=re.compile("^Decide.*Walker asks")).click()
    await expect(page.get_by_role("heading", name="Walker asks to be installed")).to_be_visible()
    await page.get_by_role("link", name="Notifications, 1 unread").click()
    await page.get_by_role("button", name="Mark all as read").click()
    await expect(page.get_by_role("link", name="Notifications", exact=True)).to_be_visible()
    await page.get_by_role("link", name="Preferences").click()
    await page.get_by_label("Install request: by email").uncheck()
    await page.get_by_role("button", name="Save preferences").click()
    await expect(page.get_by_label("Install request: by email")).not_to_be_checked()
