"""Every page, in both themes, wide and on a phone: axe finds nothing, nothing sticks out, and a picture is kept."""

from typing import Any

import pyotp
import pytest
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page, expect

from stoa.accounts.contract import Account
from stoa.accounts.registration import create_account, invite, reset
from stoa.portal.pages import Who
from stoa.portal.site_map import PAGES
from tests.browser.conftest import House, NewPage, enter, picture
from tests.portal.people import PASSWORD, as_operator, new_email
from tests.portal.places import furnish
from tests.support.service import free_port

LOOKS = [pytest.param(theme, phone, id=f"{theme}-{'phone' if phone else 'wide'}") for theme in ("light", "dark") for phone in (False, True)]  # fmt: skip


async def check(page: Page, name: str) -> None:
    results: Any = await Axe().run(page)  # pyright: ignore[reportUnknownMemberType]
    found: list[dict[str, Any]] = results.response["violations"]
    faults = [f"{name}: {each['id']} {[node['target'] for node in each['nodes']][:3]}" for each in found]
    assert faults == []
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{name} is {width} pixels too wide"


class Look:
    """A page seen in one theme and width: checked, and kept as a picture under its name."""

    def __init__(self, page: Page, theme: str, phone: bool) -> None:
        self.page = page
        self.name = f"{theme}-{'phone' if phone else 'wide'}"

    async def at(self, address: str, name: str) -> None:
        await self.page.goto(address)
        await self.here(name)

    async def here(self, name: str) -> None:
        await check(self.page, name)
        await picture(self.page, f"{name}-{self.name}")


@pytest.mark.timeout(300)
async def test_the_first_set_up_is_open_to_everybody(new_house: House, new_page: NewPage) -> None:
    for theme in ("light", "dark"):
        for phone in (False, True):
            look = Look(await new_page(theme=theme, phone=phone), theme, phone)
            await look.at(new_house.set_up, "set_up")


@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_the_way_in_is_open_to_everybody(house: House, new_page: NewPage, theme: str, phone: bool) -> None:
    by = as_operator(house.db, house.settings)
    account = await house.person()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await look.at(f"{house.url}/portal/sign-in", "sign_in")
    await look.page.get_by_label("E-mail address").fill(account.email)
    await look.page.get_by_label("Password").fill("not the right one")
    await look.page.get_by_role("button", name="Sign in").click()
    await expect(look.page.get_by_role("alert")).to_be_visible()
    await look.here("sign_in-refused")
    await look.at(f"{house.url}/portal/sign-up", "sign_up")
    await look.page.get_by_role("button", name="Make the account").click()
    await expect(look.page.get_by_text("Fill this in.").first).to_be_visible()
    await look.here("sign_up-with-faults")
    await look.at(f"{house.url}/portal/nothing/here", "nothing_here")
    await look.at(house.url + _path((await invite(by, new_email(), operator=True)).address), "invitation")
    await look.at(house.url + _path((await reset(by, account.email)).address), "new_password")


def _path(address: str) -> str:
    return address[address.index("/portal/") :]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_page_is_open_to_everybody(house: House, new_page: NewPage, theme: str, phone: bool) -> None:
    account = await house.person()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await enter(look.page, house, account)
    await look.here("dashboard-at-first")
    for empty in ("apps", "stores"):
        await look.at(f"{house.url}/portal/{empty}", f"no-{empty}")
    places = await furnish(as_operator(house.db, house.settings), house.db, account.id)
    for declared in PAGES:
        if declared.who is Who.PERSON:
            await look.at(house.url + declared.address(places), declared.name)
    await look.page.goto(f"{house.url}/portal/register-app")
    await look.page.get_by_label("See orders").check()
    await look.page.get_by_role("button", name="Register the app").click()
    await expect(look.page.get_by_text("Say why in a few words.").first).to_be_visible()
    await look.here("new_app-with-faults")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_operators_page_is_open_to_everybody(
    house: House, new_page: NewPage, theme: str, phone: bool
) -> None:
    by = as_operator(house.db, house.settings)
    account = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await enter(look.page, house, account)
    places = await furnish(by, house.db, account.id)
    for declared in PAGES:
        if declared.who is Who.OPERATOR:
            await look.at(house.url + declared.address(places), declared.name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_what_is_shown_once_is_open_to_everybody(
    house: House, new_page: NewPage, theme: str, phone: bool
) -> None:
    """Pages that no address leads to: secrets, the answer to a test, recovery codes, and the second step of signing in."""
    account = await house.person()
    look = Look(await new_page(theme=theme, phone=phone), theme, phone)
    await enter(look.page, house, account)
    await register_listener(look, house)
    await subscribe_to_nobody(look)
    await turn_on_second_factor(look, house, account)


async def register_listener(look: Look, house: House) -> None:
    page = look.page
    await page.goto(f"{house.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Listener")
    for scope in ("products:read", "webhooks:write"):
        await page.locator(f"input[name='scopes'][value='{scope}']").check()
        await page.locator(f"input[name='reasons[{scope}]']").fill("To hear of it.")
    await page.get_by_role("button", name="Register the app").click()
    await expect(page.get_by_role("heading", name="Listener is registered")).to_be_visible()
    await look.here("app_secret")
    await page.get_by_role("link", name="I have kept the secret").click()
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await expect(page.get_by_role("heading", name="Nothing is listened to yet")).to_be_visible()
    await look.here("no-webhooks")


async def subscribe_to_nobody(look: Look) -> None:
    """A subscription whose receiver does not listen, so that a test tells what went wrong."""
    page = look.page
    await page.get_by_role("link", name="Subscribe to events").click()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_text("Choose at least one event.")).to_be_visible()
    await look.here("new_webhook-with-faults")
    await page.get_by_label("Where to send them").fill(f"http://localhost:{free_port()}/")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_role("heading", name="Subscribed")).to_be_visible()
    await look.here("webhook_secret")
    await page.get_by_role("button", name="Send a test").click()
    await expect(page.get_by_role("heading", name="It did not arrive")).to_be_visible()
    await look.here("webhook_test-that-failed")
    await page.get_by_role("link", name="Delivery log").click()
    await expect(page.get_by_role("heading", name="Nothing was sent yet")).to_be_visible()
    await look.here("no-deliveries")


async def turn_on_second_factor(look: Look, house: House, account: Account) -> None:
    page = look.page
    await page.goto(f"{house.url}/portal/account/second-factor")
    key = (await page.locator("#totp-key").inner_text()).replace(" ", "")
    await page.get_by_label("The six digits that it shows now").fill(pyotp.TOTP(key).now())
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Turn it on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    await look.here("recovery_codes")
    await page.get_by_role("link", name="I have kept them").click()
    await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    await look.here("account_page-with-second-factor")
    await page.context.clear_cookies()
    await page.goto(f"{house.url}/portal/sign-in")
    await page.get_by_label("E-mail address").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="One more step")).to_be_visible()
    await look.here("second_factor")
