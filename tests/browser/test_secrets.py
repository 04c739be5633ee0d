"""Secrets in a browser: rotation of a client secret, and set-up of two-factor authentication."""

import httpx
import pyotp
from playwright.async_api import expect

from stoa.accounts.ownership import register_app
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.support.axe import check
from tests.support.people import PASSWORD, as_operator
from tests.support.screenshots import screenshot


async def token_status(portal: PortalService, client_id: str, secret: str) -> int:
    async with httpx.AsyncClient(base_url=portal.url) as client:
        form = {"grant_type": "client_credentials"}
        return (await client.post("/oauth/token", data=form, auth=(client_id, secret))).status_code


async def test_a_leaked_secret_is_revoked_at_once(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    by = as_operator(portal.db, portal.settings)
    app = await register_app(by, account.id, "Walker", "", {"products:read": "To list them."}, f"{account.id}:leak")
    page = await new_page()
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/apps/{app.app_id}/credentials")
    await page.get_by_label("Keep the old secret valid for").select_option(label="Revoke it now (leaked)")
    await page.get_by_role("button", name="Create new secret").click()
    await expect(page.get_by_role("heading", name="Walker has a new secret")).to_be_visible()
    await check(page, "new secret")
    await screenshot(page, "new-secret")
    secret = await page.locator("#client-secret").inner_text()
    assert await token_status(portal, app.client_id, app.client_secret) == 401
    assert await token_status(portal, app.client_id, secret) == 200


async def test_two_factor_authentication_is_set_up_and_required(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await page.goto(f"{portal.url}/portal/account/two-factor")
    key = (await page.locator("#totp-key").inner_text()).replace(" ", "")
    await page.get_by_label("6-digit code").fill(pyotp.TOTP(key).now())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    await check(page, "recovery codes")
    await screenshot(page, "recovery-codes")
    code = (await page.locator("#codes li").first.inner_text()).strip()
    await page.get_by_role("link", name="I have saved the codes").click()
    await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()

    phone = await new_page(phone=True)
    await phone.goto(f"{portal.url}/portal/sign-in?next=/portal/apps")
    await phone.get_by_label("Email").fill(account.email)
    await phone.get_by_label("Password").fill(PASSWORD)
    await phone.get_by_role("button", name="Sign in").click()
    await expect(phone.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    await check(phone, "two-factor authentication")
    await phone.get_by_label("Code").fill(code)
    await phone.get_by_role("button", name="Continue").click()
    await phone.wait_for_url(f"{portal.url}/portal/apps")
