"""People's stories in a real browser: the first set-up, from sign-up to a call, a merchant, the keyboard, no script."""

import json
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Error, Page, expect

from tests.browser.conftest import House, NewPage, enter, picture
from tests.portal.people import PASSWORD, new_email


async def test_the_first_start_is_set_up_in_the_browser(new_house: House, new_page: NewPage) -> None:
    page = await new_page()
    await page.goto(new_house.set_up)
    await picture(page, "set-up")
    await page.get_by_label("Your name").fill("First Person")
    await page.get_by_label("E-mail address").fill("first@example.com")
    await page.get_by_label("Password").fill("short")
    await page.get_by_role("button", name="Make the first account").click()
    fault = page.get_by_text("Choose at least 12 characters")
    await expect(fault).to_be_visible()
    await expect(page.get_by_label("Your name")).to_have_value("First Person")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Make the first account").click()
    await expect(page.get_by_role("heading", name="Good to see you, First")).to_be_visible()
    await page.goto(new_house.set_up)
    await expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()


async def sign_up(page: Page, house: House) -> None:
    await page.goto(f"{house.url}/portal/sign-up")
    await page.get_by_label("Your name").fill("Maria Stone")
    await page.get_by_label("E-mail address").fill(new_email())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Make the account").click()
    await expect(page.get_by_role("heading", name="Good to see you, Maria")).to_be_visible()


async def fill_in_app(page: Page) -> None:
    await page.get_by_label("Name", exact=True).fill("Stock sync")
    await page.get_by_label("See products and their variants.").check()
    await page.get_by_label("Why it needs this").locator("visible=true").fill("To show your goods elsewhere.")


def run(line: str, folder: Path) -> str:
    """Paste a line into a terminal."""
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_newcomer_comes_from_sign_up_to_a_call_that_works(
    house: House, new_page: NewPage, tmp_path: Path
) -> None:
    page = await new_page()
    await sign_up(page, house)
    await page.get_by_role("link", name="Begin: Register an app").click()
    await fill_in_app(page)
    await picture(page, "register-an-app")
    await page.get_by_role("button", name="Register the app").click()
    await expect(page.get_by_role("heading", name="Stock sync is registered")).to_be_visible()
    await picture(page, "credentials")

    await page.get_by_role("button", name="Copy the client secret").click()
    await expect(page.get_by_role("button", name=re.compile("Copied"))).to_be_visible()
    secret = await page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"stoa_cs_\w+", secret)

    await page.get_by_role("button", name="Copy In a terminal").click()
    line = await page.evaluate("navigator.clipboard.readText()")
    assert len(json.loads(run(line, tmp_path))["data"]) == 2

    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download .env").click()
    download = await waiting.value
    assert download.suggested_filename == "stock-sync.env"
    await download.save_as(tmp_path / ".env")

    await page.get_by_role("link", name="I have kept the secret").click()
    lines = await page.locator("#curl-lines").inner_text()
    assert len(json.loads(run(lines, tmp_path))["data"]) == 2
    assert secret not in await page.content()
    with pytest.raises(Error, match="CACHE_MISS"):  # the browser has not kept the page that showed the secret
        await page.go_back()


async def test_a_merchant_lets_an_app_in_and_throws_it_out(house: House, new_page: NewPage) -> None:
    developer, merchant = await new_page(), await new_page(phone=True)
    await enter(developer, house, await house.person("Zeno"))
    await enter(merchant, house, await house.person("Maria Stone"))

    await merchant.goto(f"{house.url}/portal/open-store")
    handle = f"agora-{house.service.port}"
    await merchant.get_by_label("Name", exact=True).fill("Agora")
    await merchant.get_by_label("Handle").fill(handle)
    await merchant.get_by_role("button", name="Open the store").click()
    await expect(merchant.get_by_text("Agora is open.")).to_be_visible()

    await developer.goto(f"{house.url}/portal/register-app")
    await fill_in_app(developer)
    await developer.get_by_label("Open a development store").uncheck()
    await developer.get_by_role("button", name="Register the app").click()
    client_id = await developer.locator("#client-id").inner_text()
    secret = await developer.locator("#client-secret").inner_text()
    await developer.get_by_role("link", name="I have kept the secret").click()
    await developer.get_by_label("Stock sync", exact=True).get_by_role("link", name="Stores").click()
    await developer.get_by_label("The store's handle or address").fill(handle)
    await developer.get_by_role("button", name="Ask to be installed").click()
    await expect(developer.get_by_text("Waiting")).to_be_visible()

    await merchant.reload()
    await expect(merchant.get_by_text("“To show your goods elsewhere.”")).to_be_visible()
    await picture(merchant, "a-request-on-a-phone")
    await merchant.get_by_role("button", name="Let it in").click()
    await expect(merchant.get_by_text("Stock sync is installed.")).to_be_visible()

    async with httpx.AsyncClient(base_url=house.url) as client:
        form = {"grant_type": "client_credentials"}
        token = (await client.post("/oauth/token", data=form, auth=(client_id, secret))).json()["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        products = f"/stores/{handle}/api/v3/app/products"
        assert (await client.get(products, headers=headers)).status_code == 200

        await merchant.get_by_role("link", name="Stock sync").click()
        await merchant.get_by_role("button", name="Uninstall Stock sync").click()
        await expect(merchant.get_by_text("is off this store")).to_be_visible()
        refused = await client.get(products, headers=headers)
        for _ in range(200):
            if refused.status_code == 403:
                break
            refused = await client.get(products, headers=headers)
        assert refused.json()["code"] == "app_not_installed"


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this name has the focus, and can be seen to have it."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if await focused.count() == 0:
            continue
        label: str = await focused.evaluate(
            """node => (node.ariaLabel || node.labels?.[0]?.innerText || node.innerText || node.title || '').trim().split('\\n')[0]"""
        )
        if label == name:
            outline: str = await focused.evaluate("node => getComputedStyle(node).outlineStyle")
            assert outline != "none", f"{name} does not show that it has the focus"
            return
    raise AssertionError(f"the keyboard does not reach {name}")


async def test_everything_is_reached_by_the_keyboard(house: House, new_page: NewPage) -> None:
    account = await house.person()
    page = await new_page()
    await page.goto(f"{house.url}/portal/sign-in")
    await page.keyboard.type(account.email)  # the first field has the focus already
    await tab_to(page, "Password")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Good to see you")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.locator(":focus")).to_have_text("Skip to the content")
    await page.keyboard.press("Enter")
    await tab_to(page, "Begin: Register an app")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Register an app")).to_be_visible()
    await page.keyboard.type("By keyboard")
    await tab_to(page, "See products and their variants.")
    await page.keyboard.press("Space")
    await tab_to(page, "Why it needs this")
    await page.keyboard.type("To try the keyboard.")
    await tab_to(page, "Register the app")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="By keyboard is registered")).to_be_visible()
    await tab_to(page, "I have kept the secret")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="By keyboard", exact=True)).to_be_visible()


async def test_a_phone_without_script_does_it_all(house: House, new_page: NewPage, tmp_path: Path) -> None:
    page = await new_page(phone=True, script=False)
    await enter(page, house, await house.person())
    await page.locator("summary").click()
    await picture(page, "menu-on-a-phone")
    await page.get_by_role("link", name="Apps", exact=True).locator("visible=true").click()
    await page.get_by_role("link", name="Register an app").first.click()
    await fill_in_app(page)
    await page.get_by_role("button", name="Register the app").click()
    assert await page.locator("button[data-copy]").locator("visible=true").count() == 0
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download .env").click()
    file = tmp_path / "kept.env"
    await (await waiting.value).save_as(file)
    assert "STOA_CLIENT_SECRET=stoa_cs_" in file.read_text()
    await page.get_by_role("link", name="I have kept the secret").click()
    await page.locator("summary").click()
    await page.get_by_role("button", name="Dark").locator("visible=true").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.locator("summary").click()
    await page.get_by_role("button", name="Sign out").locator("visible=true").click()
    await expect(page.get_by_text("You are signed out.")).to_be_visible()
