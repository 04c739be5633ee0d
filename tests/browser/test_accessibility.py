"""Accessibility of every page, in both themes, on desktop and phone: axe rules and page width."""

import pyotp
import pytest
from playwright.async_api import Page, expect

from stoa.accounts.contract import Account
from stoa.accounts.invitation_mail import KINDS, MAX_A_DAY
from stoa.accounts.registration import create_account, create_reset_link, invite
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.portal.kit.pages import Audience
from stoa.portal.site_map import PAGES
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import create_resources
from tests.support.axe import check_looks
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.service import free_port

# Checked by a test of its own, because a service with accounts has no such page; the other one only redirects.
ELSEWHERE = ("set_up_page", "theme_page")


async def open_and_check(page: Page, url: str, name: str) -> None:
    await page.goto(url)
    await check_looks(page, name)


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_the_setup_page_is_accessible(fresh_portal: PortalService, new_page: NewPage) -> None:
    await open_and_check(await new_page(), await fresh_portal.setup_url(), "set_up")


@pytest.mark.long
async def test_pages_for_guests_are_accessible(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await portal.create_account()
    params = await create_resources(by, portal.db, account.id)
    tokens = {
        "invitation_page": (await invite(by, new_email(), operator=True)).address.rpartition("/")[2],
        "new_password_page": (await create_reset_link(by, account.email)).address.rpartition("/")[2],
    }
    page = await new_page()
    for declared in PAGES:
        if declared.audience in (Audience.ANYONE, Audience.GUEST) and declared.name not in ELSEWHERE:
            url = declared.url(params | {"token": tokens.get(declared.name, "")})
            response = await page.goto(portal.url + url)
            assert response is not None
            assert (response.status, page.url) == (200, portal.url + url), declared.name
            await check_looks(page, declared.name)
    await page.goto(f"{portal.url}/portal/sign-in")
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill("not the right one")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await check_looks(page, "sign_in-refused")
    await page.goto(f"{portal.url}/portal/sign-up")
    await page.get_by_role("button", name="Create account").click()
    await expect(page.get_by_text("This field is required.").first).to_be_visible()
    await check_looks(page, "sign_up-with-faults")
    await open_and_check(page, f"{portal.url}/portal/nothing/here", "nothing_here")


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_every_page_is_accessible(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await check_looks(page, "dashboard-at-first")
    for empty in ("apps", "stores"):
        await open_and_check(page, f"{portal.url}/portal/{empty}", f"no-{empty}")
    params = await create_resources(as_operator(portal.db, portal.settings), portal.db, account.id)
    for declared in PAGES:
        if declared.audience is Audience.SIGNED_IN:
            await open_and_check(page, portal.url + declared.url(params), declared.name)
    await page.goto(f"{portal.url}/portal/register-app")
    await page.get_by_label("See orders").check()
    await page.get_by_role("button", name="Register app").click()
    await expect(page.locator(".fault").first).to_be_visible()
    await check_looks(page, "new_app-with-faults")


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_every_operator_page_is_accessible(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    page = await new_page()
    await sign_in(page, portal, account)
    params = await create_resources(by, portal.db, account.id)
    for declared in PAGES:
        if declared.audience is Audience.OPERATOR:
            await open_and_check(page, portal.url + declared.url(params), declared.name)


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_pages_that_answer_forms_are_accessible(portal: PortalService, new_page: NewPage) -> None:
    """Pages without a URL of their own: secrets, test results, recovery codes, and the second step of sign-in."""
    account = await portal.create_account()
    page = await new_page()
    await sign_in(page, portal, account)
    await register_app(page, portal)
    await invite_colleague(page, portal)
    await subscribe_without_receiver(page)
    await turn_on_two_factor(page, portal, account)


async def invite_colleague(page: Page, portal: PortalService) -> None:
    """From any page of an app. The address has got its invitations of today, so the page says when it can get another."""
    email = new_email()
    await post(portal.db, Content(KINDS[0], "Invitation", "Text"), [Recipient(None, email)] * MAX_A_DAY)
    await page.get_by_role("link", name="Team").click()
    await page.get_by_label("Email").fill(email)
    await page.get_by_role("button", name="Send invitation").click()
    await expect(page.get_by_text("This address has received 5 invitations within a day")).to_be_visible()
    await check_looks(page, "refused_invitation")
    await page.get_by_role("link", name="Webhooks", exact=True).click()


async def register_app(page: Page, portal: PortalService) -> None:
    await page.goto(f"{portal.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Walker")
    for scope in ("products:read", "webhooks:write"):
        await page.locator(f"input[name='scopes'][value='{scope}']").check()
        await page.locator(f"input[name='reasons[{scope}]']").fill("To subscribe to changes.")
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_role("heading", name="Walker is registered")).to_be_visible()
    await check_looks(page, "app_secret")
    await page.get_by_role("link", name="I have saved the secret").click()
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await expect(page.get_by_role("heading", name="No subscriptions yet")).to_be_visible()
    await check_looks(page, "no-webhooks")


async def subscribe_without_receiver(page: Page) -> None:
    """Create a subscription without a running receiver, so that the test fails."""
    await page.get_by_role("link", name="Subscribe to events").click()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_text("Select at least one event.")).to_be_visible()
    await check_looks(page, "new_webhook-with-faults")
    await page.get_by_label("Receiver URL").fill(f"http://localhost:{free_port()}/")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_role("heading", name="Subscription created")).to_be_visible()
    await check_looks(page, "webhook_secret")
    await page.get_by_role("button", name="Send test").click()
    await expect(page.get_by_role("heading", name="Test failed")).to_be_visible()
    await check_looks(page, "webhook_test-that-failed")
    await page.get_by_role("link", name="Delivery log").click()
    await expect(page.get_by_role("heading", name="No deliveries yet")).to_be_visible()
    await check_looks(page, "no-deliveries")


async def turn_on_two_factor(page: Page, portal: PortalService, account: Account) -> None:
    await page.goto(f"{portal.url}/portal/account/two-factor")
    key = (await page.locator("#totp-key").inner_text()).replace(" ", "")
    await page.get_by_label("6-digit code").fill(pyotp.TOTP(key).now())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    await check_looks(page, "recovery_codes")
    await page.get_by_role("link", name="I have saved the codes").click()
    await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    await check_looks(page, "account_page-with-two-factor")
    await page.context.clear_cookies()
    await page.goto(f"{portal.url}/portal/sign-in")
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    await check_looks(page, "two_factor")
