"""User journeys in a browser: set-up, sign-up to first call, install request, an order, keyboard only, no JavaScript."""

import json
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from stoa.accounts.ownership import open_store
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.store_data import create_store_data
from tests.support.axe import check_looks
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.screenshots import screenshot


@pytest.mark.long
async def test_a_new_service_is_set_up(fresh_portal: PortalService, new_page: NewPage) -> None:
    page = await new_page()
    setup_url = await fresh_portal.setup_url()
    await page.goto(setup_url)
    await screenshot(page, "set-up")
    await page.get_by_label("Name").fill("First Person")
    await page.get_by_label("Email").fill("first@example.com")
    await page.get_by_label("Password").fill("short")
    await page.get_by_role("button", name="Create account").click()
    fault = page.get_by_text("Use at least 12 characters")
    await expect(fault).to_be_visible()
    await expect(page.get_by_label("Name")).to_have_value("First Person")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account").click()
    await expect(page.get_by_role("heading", name="Welcome, First")).to_be_visible()
    await page.goto(setup_url)
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


async def sign_up(page: Page, portal: PortalService) -> None:
    await page.goto(f"{portal.url}/portal/sign-up")
    await page.get_by_label("Name").fill("Maria Stone")
    await page.get_by_label("Email").fill(new_email())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account").click()
    await expect(page.get_by_role("heading", name="Welcome, Maria")).to_be_visible()


async def fill_in_app(page: Page) -> None:
    await page.get_by_label("Name", exact=True).fill("Stock sync")
    await page.get_by_label("See products and their variants.").check()
    await page.get_by_label("Reason").locator("visible=true").fill("To show your products elsewhere.")


def run(command: str, folder: Path) -> str:
    """Run a shell command."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_developer_signs_up_and_calls_the_api(portal: PortalService, new_page: NewPage, tmp_path: Path) -> None:
    page = await new_page()
    await sign_up(page, portal)
    await page.get_by_role("link", name="Start: Register an app").click()
    await fill_in_app(page)
    await screenshot(page, "register-an-app")
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_role("heading", name="Stock sync is registered")).to_be_visible()
    await screenshot(page, "credentials")

    await page.get_by_role("button", name="Copy client secret").click()
    await expect(page.get_by_role("button", name=re.compile("Copied"))).to_be_visible()
    secret = await page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"stoa_cs_\w+", secret)

    await page.get_by_role("button", name="Copy Command").click()
    command = await page.evaluate("navigator.clipboard.readText()")
    assert len(json.loads(run(command, tmp_path))["data"]) == 2

    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download .env").click()
    download = await waiting.value
    assert download.suggested_filename == "stock-sync.env"
    await download.save_as(tmp_path / ".env")

    await page.get_by_role("link", name="I have saved the secret").click()
    commands = await page.locator("#curl-commands").inner_text()
    assert len(json.loads(run(commands, tmp_path))["data"]) == 2
    assert secret not in await page.content()
    await page.go_back()  # the browser does not cache the page with the secret, so this counts as its one reload
    await expect(page.get_by_text(secret).first).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("The result was already shown")).to_be_visible()
    assert secret not in await page.content()


async def test_a_merchant_approves_and_uninstalls_an_app(portal: PortalService, new_page: NewPage) -> None:
    developer, merchant = await new_page(), await new_page(phone=True)
    await sign_in(developer, portal, await portal.create_account("Zeno"))
    await sign_in(merchant, portal, await portal.create_account("Maria Stone"))

    await merchant.goto(f"{portal.url}/portal/open-store")
    handle = f"agora-{portal.service.port}"
    await merchant.get_by_label("Name", exact=True).fill("Agora")
    await merchant.get_by_label("Handle").fill(handle)
    await merchant.get_by_role("button", name="Create store").click()
    await expect(merchant.get_by_text("Agora was created.")).to_be_visible()

    await developer.goto(f"{portal.url}/portal/register-app")
    await fill_in_app(developer)
    await developer.get_by_label("Create a development store").uncheck()
    await developer.get_by_role("button", name="Register app").click()
    client_id = await developer.locator("#client-id").inner_text()
    secret = await developer.locator("#client-secret").inner_text()
    await developer.get_by_role("link", name="I have saved the secret").click()
    await developer.get_by_label("Stock sync", exact=True).get_by_role("link", name="Stores").click()
    await developer.get_by_label("Store handle or URL").fill(handle)
    await developer.get_by_role("button", name="Send request").click()
    await expect(developer.get_by_text("Pending")).to_be_visible()

    await merchant.reload()
    await expect(merchant.get_by_text("“To show your products elsewhere.”")).to_be_visible()
    await screenshot(merchant, "a-request-on-a-phone")
    await merchant.get_by_role("button", name="Approve").click()
    await expect(merchant.get_by_text("Stock sync is installed.")).to_be_visible()

    async with httpx.AsyncClient(base_url=portal.url) as client:
        form = {"grant_type": "client_credentials"}
        token = (await client.post("/oauth/token", data=form, auth=(client_id, secret))).json()["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        products = f"/stores/{handle}/api/v3/app/products"
        assert (await client.get(products, headers=headers)).status_code == 200

        await merchant.get_by_role("link", name="Stock sync").click()
        await merchant.get_by_label("End the access of Stock sync").check()
        await merchant.get_by_role("button", name="Uninstall Stock sync").click()
        await expect(merchant.get_by_text("was uninstalled")).to_be_visible()
        refused = await client.get(products, headers=headers)
        for _ in range(200):
            if refused.status_code == 403:
                break
            refused = await client.get(products, headers=headers)
        assert refused.json()["code"] == "app_not_installed"


@pytest.mark.long
async def test_a_merchant_finds_ships_and_refunds_an_order(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await portal.create_account("Maria Stone")
    store = await open_store(by, account.id, f"stoa-{account.id}", "Painted porch", "EUR")
    order = (await create_store_data(by, store.handle))["order_id"]
    page = await new_page()
    await sign_in(page, portal, account)
    await page.get_by_role("link", name=re.compile("Painted porch")).first.click()
    await page.get_by_label("Search this store").last.fill("#1001")
    await page.get_by_role("button", name="Search", exact=True).click()
    await page.wait_for_url(f"{portal.url}/portal/stores/{store.handle}/orders/{order}")

    await page.get_by_text("More", exact=True).click()
    await page.get_by_role("link", name="Change status").click()
    await page.get_by_label("Status", exact=True).select_option("processing")
    await page.get_by_label("Payment", exact=True).select_option("paid")
    await page.get_by_role("button", name="Change status").click()
    await expect(page.get_by_text("The status was changed.")).to_be_visible()

    await page.get_by_role("link", name="Ship", exact=True).click()
    await page.get_by_label("Linen Shirt").fill("3")
    await page.get_by_role("button", name="Ship").click()
    await expect(page.get_by_text("Must be at most 2")).to_be_visible()
    await expect(page.get_by_label("Linen Shirt")).to_be_focused()
    await check_looks(page, "order-ship-with-faults")
    await page.get_by_label("Linen Shirt").fill("1")
    await page.get_by_label("Carrier").fill("Snail post")
    await page.get_by_label("Tracking number").fill("SN-1")
    await page.get_by_role("button", name="Ship").click()
    await expect(page.get_by_text("Shipped.", exact=True)).to_be_visible()
    await expect(page.get_by_text("Snail post SN-1", exact=True)).to_be_visible()

    await page.get_by_role("link", name="Refund", exact=True).click()
    await page.get_by_label("Amount in all").fill("12.50")
    await page.get_by_label("Reason").fill("Arrived late")
    button = page.get_by_role("button", name="Refund 12.50 EUR")
    await expect(button).to_be_visible()
    await page.get_by_label("Amount in all").fill("999")
    await expect(page.get_by_role("status").filter(has_text="only 118.00 is paid")).to_be_visible()
    await expect(button).not_to_be_visible()
    await page.get_by_label("Amount in all").fill("12.50")
    await expect(button).to_be_visible()
    await check_looks(page, "order-refund-amount")
    await button.dblclick()
    await expect(page.get_by_text("Refunded 12.50 EUR.")).to_be_visible()
    await expect(page.get_by_role("heading", name="1 refund")).to_be_visible()
    await page.get_by_label("Comment").fill("She is happy now.")
    await page.get_by_role("button", name="Add comment").click()
    timeline = page.locator(".timeline > li")
    await expect(timeline).to_have_count(5)
    await expect(timeline.filter(has_text="Maria Stone")).to_have_count(4)
    await expect(timeline.filter(has_text="Arrived late")).to_contain_text("Maria Stone")


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this name has a visible focus."""
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
            assert outline != "none", f"{name} does not show its focus"
            return
    raise AssertionError(f"the keyboard cannot reach {name}")


@pytest.mark.long
async def test_an_app_is_registered_with_the_keyboard(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page()
    await page.goto(f"{portal.url}/portal/sign-in")
    await expect(page.get_by_label("Email")).to_be_focused()
    await page.keyboard.type(account.email)
    await tab_to(page, "Password")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.locator(":focus")).to_have_text("Skip to content")
    await page.keyboard.press("Enter")
    await tab_to(page, "Start: Register an app")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Register an app")).to_be_visible()
    await page.keyboard.type("By keyboard")
    await tab_to(page, "See products and their variants.")
    await page.keyboard.press("Space")
    await tab_to(page, "Reason")
    await page.keyboard.type("To try the keyboard.")
    await tab_to(page, "Register app")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="By keyboard is registered")).to_be_visible()
    await tab_to(page, "I have saved the secret")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="By keyboard", exact=True)).to_be_visible()


@pytest.mark.long
async def test_an_app_is_registered_on_a_phone_without_javascript(
    portal: PortalService, new_page: NewPage, tmp_path: Path
) -> None:
    page = await new_page(phone=True, script=False)
    await sign_in(page, portal, await portal.create_account())
    await page.locator("summary").click()
    await screenshot(page, "menu-on-a-phone")
    await page.get_by_role("link", name="Apps", exact=True).locator("visible=true").click()
    await page.get_by_role("link", name="Register an app").first.click()
    await fill_in_app(page)
    await page.get_by_role("button", name="Register app").click()
    assert await page.locator("button[data-copy]").locator("visible=true").count() == 0
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download .env").click()
    file = tmp_path / "kept.env"
    await (await waiting.value).save_as(file)
    assert "STOA_CLIENT_SECRET=stoa_cs_" in file.read_text()
    await page.get_by_role("link", name="I have saved the secret").click()
    await page.locator("summary").click()
    await page.get_by_role("button", name="Dark").locator("visible=true").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.locator("summary").click()
    await page.get_by_role("button", name="Sign out").locator("visible=true").click()
    await expect(page.get_by_text("You have signed out.")).to_be_visible()
