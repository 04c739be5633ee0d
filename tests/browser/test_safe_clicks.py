"""Clicks that would cost something: long names, half-filled forms, ended sessions, reloads, and one-click removals."""

import re

import pytest
from playwright.async_api import Page, expect

from stoa.access.grants import install
from stoa.access.operator import find_store
from stoa.accounts.contract import Account
from stoa.accounts.ownership import open_store, register_app
from stoa.accounts.registration import create_account
from stoa.portal.kit.pages import Audience
from stoa.portal.site_map import PAGES
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import REASONS, create_resources
from tests.portal.webhook_data import add_subscription
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.screenshots import screenshot

# A word without a place to break, as long as the API allows, and the widths of a phone and of a small laptop.
_LONG = {
    "UPDATE accounts SET name = repeat('Mmmmmmmmm ', 5) || repeat('W', 50) WHERE id = $1": "account",
    "UPDATE stores SET name = repeat('W', 200) WHERE handle = $1": "handle",
    "UPDATE apps SET name = repeat('W', 80) WHERE id = $1": "app_id",
    "UPDATE apps SET name = repeat('M', 80) WHERE id = $1 ": "requesting_id",
    "UPDATE apps SET name = repeat('M', 80) WHERE id = $1": "removed_id",
    "UPDATE webhooks SET name = repeat('W', 100), url = 'https://example.com/' || repeat('w', 900) WHERE id = $1": "webhook_id",
    "UPDATE locations SET name = repeat('W', 100) WHERE code = $1": "location_code",
    "UPDATE products SET name = repeat('W', 200), head = replace(head, 'Linen Shirt', repeat('W', 200)) WHERE id = $1": "product_id",
    "UPDATE orders SET head = replace(head, 'Linen Shirt', repeat('W', 200)) WHERE id = $1": "order_id",
}
_WIDTHS = (390, 1180)


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_long_names_do_not_make_a_page_too_wide(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    params = await create_resources(by, portal.db, account.id)
    for statement, name in _LONG.items():
        await portal.db.execute(statement, params[name])
    page = await new_page()
    await sign_in(page, portal, account)
    wide: list[str] = []
    for declared in PAGES:
        if declared.audience in (Audience.SIGNED_IN, Audience.OPERATOR):
            await page.goto(portal.url + declared.url(params))
            for width in _WIDTHS:
                await page.set_viewport_size({"width": width, "height": 860})
                excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                wide += [f"{declared.name} at {width}: {excess}"] if excess > 0 else []
    await screenshot(page, "long-names")
    assert wide == []


async def test_a_form_keeps_its_values_when_the_theme_changes_or_the_session_ends(
    portal: PortalService, new_page: NewPage
) -> None:
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/register-app")
    await _fill(page)
    await page.locator("aside button[name=theme][value=dark]").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await _expect_filled(page)
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await _fill(page)
    await portal.db.execute("DELETE FROM account_sessions WHERE account_id = $1", account.id)
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_text("Your session has ended.")).to_be_visible()
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{portal.url}/portal/register-app")
    await expect(page.get_by_text("Your entries were kept.")).to_be_visible()
    await _expect_filled(page)
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_role("heading", name="Walker is registered")).to_be_visible()
    await page.goto(f"{portal.url}/portal/register-app")
    await expect(page.get_by_label("Name", exact=True)).to_have_value("")


async def _fill(page: Page) -> None:
    await page.get_by_label("Name", exact=True).fill("Walker")
    await page.locator("input[name=scopes][value='products:read']").check()
    await page.locator("input[name='reasons[products:read]']").fill("To list them.")


async def _expect_filled(page: Page) -> None:
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Walker")
    await expect(page.locator("input[name=scopes][value='products:read']")).to_be_checked()
    await expect(page.locator("input[name='reasons[products:read]']")).to_have_value("To list them.")


async def test_a_reload_and_the_back_button_never_repeat_a_form(portal: PortalService, new_page: NewPage) -> None:
    account, app_id, handle = await _installed(portal)
    page = await new_page(zone="Asia/Tokyo")
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/apps/{app_id}/credentials")
    await page.get_by_role("button", name=re.compile("new secret", re.IGNORECASE)).click()
    secret = await page.locator(".secret code").first.inner_text()
    await page.reload()
    await expect(page.locator(".secret code").first).to_have_text(secret)
    await page.reload()
    await expect(page.get_by_text("The result was already shown")).to_be_visible()
    [[count]] = await portal.db.fetch("SELECT count(*) FROM app_secrets WHERE app_id = $1", app_id)
    assert count == 2
    await page.go_back()
    assert (await portal.db.fetch("SELECT count(*) FROM app_secrets WHERE app_id = $1", app_id))[0][0] == 2
    # Times of a page without a store are in the visitor's zone, to the second.
    await expect(page.locator("time").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d GMT\+9$"))

    # A test send is not repeated either, and the addresses of forms lead to their pages.
    store = await find_store(portal.db, handle)
    webhook = await add_subscription(as_operator(portal.db, portal.settings), store.id, app_id)
    hook = f"{portal.url}/portal/apps/{app_id}/webhooks/{handle}/{webhook}"
    await page.goto(hook)
    await page.get_by_role("button", name="Send test").click()
    await expect(page.get_by_role("heading", name=re.compile("^Test "))).to_be_visible()
    result = page.url
    await page.reload()
    await expect(page.get_by_role("heading", name=re.compile("^Test "))).to_be_visible()
    assert page.url == result
    await page.go_back()
    assert page.url == hook
    for form, target in ((f"{hook}/test", hook), (f"{portal.url}/portal/apps/{app_id}/secret", "/credentials")):
        await page.goto(form)
        assert page.url.endswith(target)

    # One failed attempt among many is not 100 %.
    add = "INSERT INTO delivery_hours VALUES ($1, $2, date_trunc('hour', now()), 99999, 0, 100000, 1, 10)"
    await portal.db.execute(add, store.id, webhook)
    await page.goto(hook)
    await expect(page.locator("dl div", has_text="Success rate").first).to_contain_text("99.9%")


async def test_an_app_is_uninstalled_after_a_confirmation_and_installed_again(
    portal: PortalService, new_page: NewPage
) -> None:
    account, app_id, handle = await _installed(portal)
    page = await new_page()
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/stores/{handle}/apps/{app_id}")
    await page.get_by_role("button", name="Uninstall Walker").click()
    await expect(page.get_by_text("Select this box to confirm.")).to_be_visible()
    box = page.get_by_label("End the access of Walker")
    await expect(box).to_be_focused()
    await screenshot(page, "uninstall-confirmation")
    await box.check()
    await page.get_by_role("button", name="Uninstall Walker").click()
    await expect(page.get_by_text("Walker was uninstalled.")).to_be_visible()
    await page.locator("details.again summary").click()
    await screenshot(page, "install-again")
    await page.get_by_role("button", name="Install again").click()
    await expect(page.get_by_text("Walker is installed again.")).to_be_visible()


async def test_the_invalid_field_gets_the_focus(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/open-store")
    await page.get_by_label("Name", exact=True).fill("Agora")
    await page.get_by_label("Handle").fill("Not a handle")
    await page.get_by_role("button", name=re.compile("Create")).click()
    await expect(page.get_by_label("Handle")).to_be_focused()
    await page.goto(f"{portal.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Walker")
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_text("Select at least one scope.")).to_be_focused()


async def _installed(portal: PortalService) -> tuple[Account, int, str]:
    """An account with an app on a store of its own."""
    by, account = as_operator(portal.db, portal.settings), await portal.create_account()
    store = await open_store(by, account.id, f"safe-{account.id}", "Agora", "EUR")
    app = await register_app(by, account.id, "Walker", "", REASONS, f"{account.id}:first")
    await install(by, app.client_id, store.handle)
    return account, app.app_id, store.handle
