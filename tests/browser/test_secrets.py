"""What is shown once, in a real browser: a new secret takes over from the old one, and a second factor from none."""

import httpx
import pyotp
from playwright.async_api import expect

from stoa.accounts.ownership import register_app
from tests.browser.conftest import House, NewPage, enter, picture
from tests.browser.test_accessibility import check
from tests.portal.people import PASSWORD, as_operator


async def token_status(house: House, client_id: str, secret: str) -> int:
    async with httpx.AsyncClient(base_url=house.url) as client:
        form = {"grant_type": "client_credentials"}
        return (await client.post("/oauth/token", data=form, auth=(client_id, secret))).status_code


async def test_a_leaked_secret_is_replaced_at_once(house: House, new_page: NewPage) -> None:
    account = await house.person()
    by = as_operator(house.db, house.settings)
    made = await register_app(by, account.id, "Walker", "", {"products:read": "To list them."}, f"{account.id}:leak")
    page = await new_page()
    await enter(page, house, account)
    await page.goto(f"{house.url}/portal/apps/{made.app_id}/credentials")
    await page.get_by_label("The old secret goes on working for").select_option(label="not a moment: it has leaked")
    await page.get_by_role("button", name="Make a new secret").click()
    await expect(page.get_by_role("heading", name="Walker has a new secret")).to_be_visible()
    await check(page, "new secret")
    await picture(page, "new-secret")
    secret = await page.locator("#client-secret").inner_text()
    assert await token_status(house, made.client_id, made.client_secret) == 401
    assert await token_status(house, made.client_id, secret) == 200


async def test_a_second_factor_is_set_up_and_asked_for(house: House, new_page: NewPage) -> None:
    account = await house.person()
    page = await new_page()
    await enter(page, house, account)
    await page.goto(f"{house.url}/portal/account/second-factor")
    key = (await page.locator("#totp-key").inner_text()).replace(" ", "")
    await page.get_by_label("The six digits that it shows now").fill(pyotp.TOTP(key).now())
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Turn it on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    await check(page, "recovery codes")
    await picture(page, "recovery-codes")
    code = (await page.locator("#codes li").first.inner_text()).strip()
    await page.get_by_role("link", name="I have kept them").click()
    await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()

    phone = await new_page(phone=True)
    await phone.goto(f"{house.url}/portal/sign-in?next=/portal/apps")
    await phone.get_by_label("E-mail address").fill(account.email)
    await phone.get_by_label("Password").fill(PASSWORD)
    await phone.get_by_role("button", name="Sign in").click()
    await expect(phone.get_by_role("heading", name="One more step")).to_be_visible()
    await check(phone, "second factor")
    await phone.get_by_label("Code").fill(code)
    await phone.get_by_role("button", name="Go on").click()
    await phone.wait_for_url(f"{house.url}/portal/apps")
