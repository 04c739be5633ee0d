"""Accessibility of every page, in both themes, on desktop and phone: axe rules, page width, and a screenshot."""

from typing import Any

import pyotp
import pytest
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page, expect

from stoa.accounts.contract import Account
from stoa.accounts.registration import create_account, create_reset_link, invite
from stoa.portal.pages import Audience
from stoa.portal.site_map import PAGES
from tests.browser.conftest import NewPage, PortalService, screenshot, sign_in
from tests.portal.path_params import create_resources
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.service import free_port

LOOKS = [pytest.param(theme, phone, id=f"{theme}-{'phone' if phone else 'wide'}") for theme in ("light", "dark") for phone in (False, True)]  # fmt: skip


# Contrast is by far the slowest rule. It depends on the theme, and the other rules only on the width.
CONTRAST = "color-contrast"
RULES: dict[str, dict[str, Any]] = {
    "light-wide": {},
    "dark-wide": {"runOnly": [CONTRAST]},
    "light-phone": {"rules": {CONTRAST: {"enabled": False}}},
    "dark-phone": {"runOnly": ["scrollable-region-focusable", "target-size"]},
}


async def check(page: Page, name: str, look: str = "light-wide") -> None:
    options = {"resultTypes": ["violations"], **RULES[look]}
    results: Any = await Axe().run(page, options=options)  # pyright: ignore[reportUnknownMemberType]
    found: list[dict[str, Any]] = results.response["violations"]
    violations = [f"{name}: {each['id']} {[node['target'] for node in each['nodes']][:3]}" for each in found]
    assert violations == []
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{name} is {width} pixels too wide"


class Look:
    """A page in one theme and width; each check also takes a screenshot."""

    def __init__(self, page: Page, theme: str, phone: bool) -> None:
        self.page = page
        self.name = f"{theme}-{'phone' if phone else 'wide'}"

    async def open(self, url: str, name: str) -> None:
        await self.page.goto(url)
        await self.check(name)

    async def check(self, name: str) -> None:
        await check(self.page, name, self.name)
        await screenshot(self.page, f"{name}-{self.name}")


@pytest.mark.timeout(300)
async def test_the_setup_page_is_accessible(fresh_portal: PortalService, new_page: NewPage) -> None:
    for theme in ("light", "dark"):
        for phone in (False, True):
            look = Look(await new_page(theme=theme, phone=phone), theme, phone)
            await look.open(fresh_portal.setup_url, "set_up")


@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_pages_for_guests_are_accessible(
    portal: PortalService, new_page: NewPage, theme: str, phone: bool
) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await portal.create_account()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await look.open(f"{portal.url}/portal/sign-in", "sign_in")
    await look.page.get_by_label("Email").fill(account.email)
    await look.page.get_by_label("Password").fill("not the right one")
    await look.page.get_by_role("button", name="Sign in").click()
    await expect(look.page.get_by_role("alert")).to_be_visible()
    await look.check("sign_in-refused")
    await look.open(f"{portal.url}/portal/sign-up", "sign_up")
    await look.page.get_by_role("button", name="Create account").click()
    await expect(look.page.get_by_text("This field is required.").first).to_be_visible()
    await look.check("sign_up-with-faults")
    await look.open(f"{portal.url}/portal/nothing/here", "nothing_here")
    await look.open(portal.url + _path((await invite(by, new_email(), operator=True)).address), "invitation")
    await look.open(portal.url + _path((await create_reset_link(by, account.email)).address), "new_password")


def _path(address: str) -> str:
    return address[address.index("/portal/") :]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_page_is_accessible(portal: PortalService, new_page: NewPage, theme: str, phone: bool) -> None:
    account = await portal.create_account()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await sign_in(look.page, portal, account)
    await look.check("dashboard-at-first")
    for empty in ("apps", "stores"):
        await look.open(f"{portal.url}/portal/{empty}", f"no-{empty}")
    params = await create_resources(as_operator(portal.db, portal.settings), portal.db, account.id)
    for declared in PAGES:
        if declared.audience is Audience.SIGNED_IN:
            await look.open(portal.url + declared.url(params), declared.name)
    await look.page.goto(f"{portal.url}/portal/register-app")
    await look.page.get_by_label("See orders").check()
    await look.page.get_by_role("button", name="Register app").click()
    await expect(look.page.get_by_text("Enter a reason.").first).to_be_visible()
    await look.check("new_app-with-faults")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_operator_page_is_accessible(
    portal: PortalService, new_page: NewPage, theme: str, phone: bool
) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await sign_in(look.page, portal, account)
    params = await create_resources(by, portal.db, account.id)
    for declared in PAGES:
        if declared.audience is Audience.OPERATOR:
            await look.open(portal.url + declared.url(params), declared.name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_pages_that_answer_forms_are_accessible(
    portal: PortalService, new_page: NewPage, theme: str, phone: bool
) -> None:
    """Pages without a URL of their own: secrets, test results, recovery codes, and the second step of sign-in."""
    account = await portal.create_account()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await sign_in(look.page, portal, account)
    await register_app(look, portal)
    await subscribe_without_receiver(look)
    await turn_on_two_factor(look, portal, account)


async def register_app(look: Look, portal: PortalService) -> None:
    page = look.page
    await page.goto(f"{portal.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Walker")
    for scope in ("products:read", "webhooks:write"):
        await page.locator(f"input[name='scopes'][value='{scope}']").check()
        await page.locator(f"input[name='reasons[{scope}]']").fill("To subscribe to changes.")
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_role("heading", name="Walker is registered")).to_be_visible()
    await look.check("app_secret")
    await page.get_by_role("link", name="I have saved the secret").click()
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await expect(page.get_by_role("heading", name="No subscriptions yet")).to_be_visible()
    await look.check("no-webhooks")


async def subscribe_without_receiver(look: Look) -> None:
    """Create a subscription without a running receiver, so that the test fails."""
    page = look.page
    await page.get_by_role("link", name="Subscribe to events").click()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_text("Select at least one event.")).to_be_visible()
    await look.check("new_webhook-with-faults")
    await page.get_by_label("Receiver URL").fill(f"http://localhost:{free_port()}/")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_role("heading", name="Subscription created")).to_be_visible()
    await look.check("webhook_secret")
    await page.get_by_role("button", name="Send test").click()
    await expect(page.get_by_role("heading", name="Test failed")).to_be_visible()
    await look.check("webhook_test-that-failed")
    await page.get_by_role("link", name="Delivery log").click()
    await expect(page.get_by_role("heading", name="No deliveries yet")).to_be_visible()
    await look.check("no-deliveries")


async def turn_on_two_factor(look: Look, portal: PortalService, account: Account) -> None:
    page = look.page
    await page.goto(f"{portal.url}/portal/account/two-factor")
    key = (await page.locator("#totp-key").inner_text()).replace(" ", "")
    await page.get_by_label("6-digit code").fill(pyotp.TOTP(key).now())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    await look.check("recovery_codes")
    await page.get_by_role("link", name="I have saved the codes").click()
    await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    await look.check("account_page-with-two-factor")
    await page.context.clear_cookies()
    await page.goto(f"{portal.url}/portal/sign-in")
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    await look.check("two_factor")
