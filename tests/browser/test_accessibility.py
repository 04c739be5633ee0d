"""Every page, in both themes, wide and on a phone: axe finds nothing, nothing sticks out, and a picture is kept."""

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page

from stoa.portal.pages import Who
from stoa.portal.site_map import PAGES
from tests.browser.conftest import House, NewPage, enter, picture
from tests.portal.people import as_operator
from tests.portal.places import furnish

LOOKS = [pytest.param(theme, phone, id=f"{theme}-{'phone' if phone else 'wide'}") for theme in ("light", "dark") for phone in (False, True)]  # fmt: skip


async def check(page: Page, name: str) -> None:
    results: Any = await Axe().run(page)  # pyright: ignore[reportUnknownMemberType]
    found: list[dict[str, Any]] = results.response["violations"]
    faults = [f"{name}: {each['id']} {[node['target'] for node in each['nodes']][:3]}" for each in found]
    assert faults == []
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{name} is {width} pixels too wide"


@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_the_way_in_is_open_to_everybody(house: House, new_page: NewPage, theme: str, phone: bool) -> None:
    page = await new_page(theme=theme, phone=phone)
    look = f"{theme}-{'phone' if phone else 'wide'}"
    for path in ("sign-in", "sign-up", "nothing/here"):
        await page.goto(f"{house.url}/portal/{path}")
        await check(page, path)
        await picture(page, f"{path.replace('/', '-')}-{look}")
    await page.goto(f"{house.url}/portal/sign-up")
    await page.get_by_role("button", name="Make the account").click()
    await check(page, "sign-up with faults")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_page_is_open_to_everybody(house: House, new_page: NewPage, theme: str, phone: bool) -> None:
    page = await new_page(theme=theme, phone=phone)
    account = await house.person()
    await enter(page, house, account)
    look = f"{theme}-{'phone' if phone else 'wide'}"
    await page.goto(f"{house.url}/portal/apps")
    await check(page, "apps, when there are none")
    await picture(page, f"no-apps-{look}")
    places = await furnish(as_operator(house.db, house.settings), house.db, account.id)
    for declared in PAGES:
        if declared.who is Who.PERSON:
            await page.goto(house.url + declared.address(places))
            await check(page, declared.name)
            await picture(page, f"{declared.name}-{look}")
    await page.goto(f"{house.url}/portal/register-app")
    await page.get_by_label("See orders").check()
    await page.get_by_role("button", name="Register the app").click()
    await check(page, "register_app with faults")
