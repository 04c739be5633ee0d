"""The days of a developer and of an operator, with the number of clicks: from a failing webhook to its cause, and so on."""

from pathlib import Path

import pyotp
import pytest
from playwright.async_api import expect

from stoa.access.grants import install
from stoa.access.operator import find_store
from stoa.accounts import two_factor
from stoa.accounts.ownership import open_store, register_app
from stoa.accounts.registration import create_account
from tests.browser.conftest import NewPage, PortalService, emailed_link, sign_in
from tests.browser.interaction import Clicks
from tests.portal.path_params import REASONS, add_usage
from tests.portal.store_data import create_store_data
from tests.portal.test_failing_receivers import fail
from tests.support.axe import check, check_looks
from tests.support.people import PASSWORD, as_operator, new_email


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_a_developer_finds_the_cause_of_a_failing_webhook_in_three_clicks(
    portal: PortalService, new_page: NewPage
) -> None:
    by = as_operator(portal.db, portal.settings)
    developer = await portal.create_account("Zeno")
    store = await open_store(by, developer.id, f"cause-{developer.id}", "Agora", "EUR")
    app = await register_app(by, developer.id, "Walker", "", REASONS, new_email())
    await register_app(by, developer.id, "Talker", "", REASONS, new_email())
    await install(by, app.client_id, store.handle)
    store_id = (await find_store(portal.db, store.handle)).id
    await add_usage(by, store_id, app.app_id)
    await fail(by, store_id, app.app_id, status=500)
    page, clicks = await new_page(), Clicks()
    await sign_in(page, portal, developer)
    await clicks.on(page.locator("aside").get_by_role("link", name="Apps", exact=True))
    first = page.get_by_role("row").nth(1)
    await expect(first).to_contain_text("Walker")
    await check_looks(page, "apps-failing")
    # The service itself may have tried the receiver meanwhile, and refused its address.
    await clicks.on(first.get_by_role("cell").nth(2).get_by_role("link"))
    await expect(page.get_by_role("heading", name="Why the receiver fails")).to_be_visible()
    await expect(page.get_by_text("https://user:pass@hooks.example.com:8443").first).to_be_visible()
    await check_looks(page, "webhook-failing")
    await clicks.on(page.get_by_role("link", name="Retried deliveries"))
    await expect(page.get_by_role("row").nth(1)).to_be_visible()
    assert clicks.count <= 3
    await page.goto(f"{portal.url}/portal/stores")
    await check_looks(page, "stores-failing")


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_a_developer_downloads_a_receiver_in_two_clicks(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    developer = await portal.create_account("Zeno")
    app = await register_app(by, developer.id, "Walker", "", REASONS, new_email())
    page, clicks = await new_page(), Clicks()
    await sign_in(page, portal, developer)
    await page.goto(f"{portal.url}/portal/apps/{app.app_id}/webhooks")
    await clicks.on(page.get_by_role("link", name="Receivers"))
    await check_looks(page, "receivers")
    async with page.expect_download() as waiting:
        await clicks.on(page.get_by_role("link", name="Download receiver.ts"))
    assert clicks.count == 2
    saved = Path(await (await waiting.value).path()).read_text(encoding="utf-8")
    assert "STOA_WEBHOOK_SECRET" in saved
    assert "createHmac" in saved


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_the_palette_leads_anywhere_by_keyboard(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    merchant = await portal.create_account()
    store = await open_store(by, merchant.id, f"palette-{merchant.id}", "Painted porch", "EUR")
    await create_store_data(by, store.handle)
    page = await new_page()
    await sign_in(page, portal, merchant)
    for query, address in (
        ("#1001", "**/orders/*"),
        ("linen shirt", "**/products/*"),
        ("orders painted", f"**/stores/{store.handle}/orders"),
        ("import a file", f"**/stores/{store.handle}/import"),
        ("two-factor", "**/account/two-factor"),
    ):
        await page.keyboard.press("Control+k")
        await expect(page.locator("#search-box input")).to_be_focused()
        await page.keyboard.type(query)
        first = page.locator("#search-box [role=option]").first
        await expect(first).to_be_visible()
        await expect(first).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("Enter")
        await page.wait_for_url(address)
    await page.keyboard.press("Meta+k")
    await page.keyboard.type("webhook signatures")
    await expect(page.locator("#search-box [role=option]").filter(has_text="Verify signatures").first).to_be_visible()
    await check(page, "palette")
    await page.keyboard.press("ArrowDown")
    chosen = await page.locator("#search-box input").get_attribute("aria-activedescendant")
    await expect(page.locator("[role=option][aria-selected=true]")).to_have_id(chosen or "")
    await page.keyboard.press("Escape")
    await expect(page.locator("#search-box")).to_be_hidden()
    await page.goto(f"{portal.url}/portal/search?q=linen")
    await check_looks(page, "search-page")


async def test_without_a_script_the_search_is_a_page(portal: PortalService, new_page: NewPage) -> None:
    account = await portal.create_account()
    page = await new_page(script=False)
    await sign_in(page, portal, account)
    await page.locator("aside").get_by_role("link", name="Search or jump to").click()
    await page.get_by_label("Search for").fill("idempotency")
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(page.get_by_role("link", name="Idempotency").first).to_be_visible()


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_an_operator_resets_a_second_factor_in_four_clicks_and_exports_the_log_in_two(
    portal: PortalService, new_page: NewPage
) -> None:
    by = as_operator(portal.db, portal.settings)
    operator = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    person = await portal.create_account("Zeno of Citium")
    secret = two_factor.new_secret()
    await two_factor.turn_on(by, person.id, secret, pyotp.TOTP(secret).now())
    page, theirs, clicks = await new_page(), await new_page(), Clicks()
    await sign_in(page, portal, operator)
    await clicks.on(page.locator("aside").get_by_role("link", name="Accounts", exact=True))
    await page.get_by_role("searchbox").fill(person.email)
    await page.keyboard.press("Enter")
    await clicks.on(page.get_by_role("link", name="Zeno of Citium"))
    await check_looks(page, "account-two-factor")
    await clicks.on(page.get_by_label("I have verified that Zeno of Citium asks for it"))
    await clicks.on(page.get_by_role("button", name="Send second-factor reset"))
    await expect(page.get_by_text(f"We have sent a link to {person.email} by email.")).to_be_visible()
    assert clicks.count <= 4
    await theirs.goto(await emailed_link(portal, person.email))
    await expect(theirs.get_by_text("two-factor authentication is turned off")).to_be_visible()
    await theirs.get_by_label("New password").fill("another stroll through the stoa")
    await theirs.get_by_role("button", name="Set password").click()
    await theirs.get_by_label("Email").fill(person.email)
    await theirs.get_by_label("Password").fill("another stroll through the stoa")
    await theirs.get_by_role("button", name="Sign in").click()
    await theirs.wait_for_url(f"{portal.url}/portal")

    before = clicks.count
    await clicks.on(page.get_by_role("link", name="Audit log").last)
    await expect(page.get_by_role("row").nth(1)).to_contain_text("Account")
    await check_looks(page, "audit-of-account")
    async with page.expect_download() as waiting:
        await clicks.on(page.get_by_role("button", name="Export as CSV"))
    assert clicks.count - before <= 2
    exported = Path(await (await waiting.value).path()).read_text(encoding="utf-8-sig")
    assert "account.two_factor_off" in exported


@pytest.mark.timeout(180)
async def test_a_disabled_person_reads_the_reason(portal: PortalService, new_page: NewPage) -> None:
    by = as_operator(portal.db, portal.settings)
    operator = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    person = await portal.create_account()
    page, theirs, clicks = await new_page(), await new_page(), Clicks()
    await sign_in(page, portal, operator)
    await page.goto(f"{portal.url}/portal/operators/accounts/{person.id}")
    await page.get_by_label("Reason").fill("Left the company.")
    await clicks.on(page.get_by_label("Sign Maria Stone out everywhere"))
    await clicks.on(page.get_by_role("button", name="Disable Maria Stone"))
    await expect(page.get_by_text("Disabled because: “Left the company.”")).to_be_visible()
    assert clicks.count == 2
    await theirs.goto(f"{portal.url}/portal/sign-in")
    await theirs.get_by_label("Email").fill(person.email)
    await theirs.get_by_label("Password").fill(PASSWORD)
    await theirs.get_by_role("button", name="Sign in").click()
    await expect(theirs.get_by_text("Your account is disabled: Left the company.")).to_be_visible()
    await check_looks(theirs, "sign-in-disabled")
