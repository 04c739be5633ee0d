"""The day of a merchant and of an operator, each from the first click to the last. The developer's is test_end_to_end.py."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from stoa.access.grants import install
from stoa.accounts.contract import Account
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import open_store, owned_app, register_app
from stoa.accounts.registration import create_account
from tests.browser.conftest import NewPage, PortalService, emailed_link, sign_in
from tests.portal.path_params import REASONS
from tests.portal.store_data import create_store_data
from tests.support.people import PASSWORD, as_operator, new_email

SHEET = "sku,name,price,stock.on_hand\nCUP-1,Cup,9.00,0\nCUP-10,Jug,8.00,5\nCUP-2,,nine,1\n"


@pytest.mark.timeout(180)
async def test_a_merchant_decides_sells_changes_imports_exports_and_invites(
    portal: PortalService, new_page: NewPage, tmp_path: Path
) -> None:
    by = as_operator(portal.db, portal.settings)
    merchant, developer = await portal.create_account(), await portal.create_account("Zeno")
    store = await open_store(by, merchant.id, f"day-{merchant.id}", "Painted porch", "EUR")
    await create_store_data(by, store.handle)
    registered = await register_app(by, developer.id, "Walker", "https://walker.example.com", REASONS, new_email())
    app = await owned_app(portal.db, developer.id, registered.app_id)
    assert app is not None
    await request_install(by, developer.id, app, store.handle, "May we?")
    page = await new_page()
    await sign_in(page, portal, merchant)

    await _decide(page)
    await _sell(page)
    await _import(page, tmp_path)
    await _export_and_archive(page)
    await _invite_colleague(page, portal)
    await _tab(page, "Audit log")
    for action in ("Team invited", "Products import started", "Product changed", "App installed"):
        await expect(page.get_by_role("row").filter(has_text=action).first).to_contain_text("You")


async def _decide(page: Page) -> None:
    """An install request shows who asks, for what, and why; she grants less than it asks for."""
    await page.get_by_role("link", name="Review Walker").click()
    request = page.locator("section", has=page.get_by_role("heading", name="Walker asks to be installed"))
    for text in ("Zeno", "walker.example.com", "“To place them.”", "Personal data"):
        await expect(request.get_by_text(text).first).to_be_visible()
    await request.locator("input[value='webhooks:write']").uncheck()
    await request.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Walker is installed.")).to_be_visible()


async def _sell(page: Page) -> None:
    """An order is handled, and a price is changed."""
    await page.get_by_label("Search this store").last.fill("#1001")
    await page.get_by_role("button", name="Search", exact=True).click()
    await page.get_by_text("More", exact=True).click()
    await page.get_by_role("link", name="Change status").click()
    await page.get_by_label("Status", exact=True).select_option("processing")
    await page.get_by_role("button", name="Change status").click()
    await expect(page.get_by_text("The status was changed.")).to_be_visible()
    await _tab(page, "Products")
    await page.get_by_role("link", name="Linen Shirt").click()
    await page.get_by_role("link", name="Edit product").click()
    await page.get_by_label("Price, EUR").fill("nothing")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_label("Price, EUR")).to_be_focused()
    await page.get_by_label("Price, EUR").fill("41.50")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Saved.", exact=True)).to_be_visible()


async def _import(page: Page, folder: Path) -> None:
    """An import: first a preview, then the rows that can be written."""
    await _tab(page, "Imports")
    await page.get_by_role("link", name="Import a file").click()
    (folder / "cups.csv").write_text(SHEET)
    await page.locator("input[type=file]").set_input_files(folder / "cups.csv")
    await page.get_by_role("button", name="Check the file").click()
    await expect(page.get_by_text("1 row would fail")).to_be_visible()
    await expect(page.get_by_text("Would create")).to_be_visible()
    await page.get_by_role("button", name="Import 2 rows").click()
    await expect(page.get_by_role("heading", name="Finished with failed rows")).to_be_visible()


async def _export_and_archive(page: Page) -> None:
    """An export contains the new price and the new product."""
    await _tab(page, "Products")
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Export as CSV").click()
    exported = Path(await (await waiting.value).path()).read_text(encoding="utf-8")
    assert "41.50" in exported
    assert "CUP-1" in exported

    # The exact SKU comes first. A product that is sold out raises an alarm until it is archived.
    await page.get_by_role("searchbox", name="Search products").fill("CUP-1")
    await page.get_by_role("button", name="Apply").click()
    cups = page.get_by_role("row").filter(has=page.get_by_role("cell"))
    await expect(cups.first).to_contain_text("Cup")
    await expect(cups.first.get_by_text("Out of stock")).to_be_visible()
    await cups.first.get_by_role("link").click()
    await expect(page).to_have_title(re.compile("Cup · .*Painted porch"))
    await page.get_by_role("link", name="Edit product").click()
    await page.get_by_label("Status", exact=True).select_option("archived")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    await expect(page.get_by_text("Out of stock")).to_have_count(0)


async def _invite_colleague(page: Page, portal: PortalService) -> None:
    """A colleague is invited by email, once: a reload sends nothing."""
    await _tab(page, "Team")
    colleague = new_email()
    await page.get_by_label("Email").fill(colleague)
    await page.get_by_role("button", name="Send invitation").click()
    await expect(page.get_by_text(f"We have sent the invitation to {colleague} by email.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("row").filter(has_text=colleague)).to_contain_text("Email")
    assert len(await portal.db.fetch("SELECT FROM mails WHERE recipient = $1", colleague)) == 1


async def _tab(page: Page, name: str) -> None:
    await page.get_by_label("Painted porch", exact=True).get_by_role("link", name=name, exact=True).click()


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_an_operator_suspends_announces_searches_watches_and_invites(
    portal: PortalService, new_page: NewPage
) -> None:
    by = as_operator(portal.db, portal.settings)
    operator = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    developer = await portal.create_account("Zeno")
    store = await open_store(by, developer.id, f"watch-{developer.id}", "Agora", "EUR")
    app = await register_app(by, developer.id, f"Walker {developer.id}", "", REASONS, new_email())
    await install(by, app.client_id, store.handle)
    page, theirs = await new_page(), await new_page()
    await sign_in(page, portal, operator)

    await _suspend(page, app.client_id, developer)
    await _announce(page, theirs, portal, developer)
    await _search_and_watch(page, operator.email)
    await _invite_operators(page, await new_page(), portal)


async def _suspend(page: Page, client_id: str, developer: Account) -> None:
    """An app is suspended with a reason, and not without."""
    await _open(page, "All apps")
    await page.get_by_role("searchbox").fill(client_id)
    await page.get_by_role("button", name="Apply").click()
    await page.get_by_role("link", name=f"Walker {developer.id}").click()
    await expect(page.get_by_text(developer.email)).to_be_visible()
    await page.get_by_role("button", name="Suspend Walker").click()
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.get_by_label("Reason").fill("It sends spam.")
    await page.get_by_label(re.compile("^Block Walker .* on 1 store")).check()
    await page.get_by_role("button", name="Suspend Walker").click()
    await expect(page.get_by_text("is suspended. It is blocked on all stores.")).to_be_visible()


async def _announce(page: Page, theirs: Page, portal: PortalService, developer: Account) -> None:
    """An announcement reaches everybody, and the reason reaches the developer."""
    await _open(page, "Announcements")
    news = f"Maintenance {developer.id} at noon"
    await page.get_by_label("Text").fill(news)
    await page.get_by_label("End (UTC)").fill(f"{datetime.now(UTC) + timedelta(hours=2):%Y-%m-%dT%H:%M}")
    await page.get_by_role("button", name="Announce").click()
    await expect(page.get_by_text("The announcement is saved.")).to_be_visible()
    await sign_in(theirs, portal, developer)
    await expect(theirs.get_by_text(news)).to_be_visible()
    await theirs.get_by_role("link", name=re.compile("Notifications")).click()
    await expect(theirs.get_by_text("It sends spam.")).to_be_visible()
    await page.get_by_role("row").filter(has_text=news).get_by_role("button").click()


async def _search_and_watch(page: Page, me: str) -> None:
    """The audit log is searched for what she did, and the load is watched."""
    await _open(page, "Audit log")
    await page.get_by_label("Person (email or number)").fill(me)
    await page.get_by_label("Action", exact=True).select_option("app.suspended")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    await expect(page.get_by_role("row").last).to_contain_text("It sends spam.")
    await _open(page, "Load")
    await page.get_by_role("link", name="30 days").click()
    await expect(page.get_by_role("heading", name="Last 30 days")).to_be_visible()
    await expect(page.locator(".charts svg").first).to_be_visible()


async def _invite_operators(page: Page, guest: Page, portal: PortalService) -> None:
    """Another operator is invited by email; an invitation by mistake is revoked."""
    await _open(page, "Accounts")
    await page.get_by_role("link", name="Invite", exact=True).click()
    emails, links = [new_email(), new_email()], list[str]()
    for email in emails:
        await page.get_by_label("Email").fill(email)
        await page.locator("input[name=operator]").check()
        await page.get_by_label("If an operator").check()
        await page.get_by_role("button", name="Send invitation").click()
        await expect(page.get_by_text(f"We have sent the invitation to {email} by email.")).to_be_visible()
        links.append(await emailed_link(portal, email))
    await page.get_by_role("row").filter(has_text=emails[1]).get_by_role("button").click()
    await expect(page.get_by_text("Invitation revoked.")).to_be_visible()
    await guest.goto(links[1])
    await expect(guest.get_by_role("heading", name="Page not found")).to_be_visible()
    await guest.goto(links[0])
    await guest.get_by_label("Name").fill("Second Operator")
    await guest.get_by_label("Password").fill(PASSWORD)
    await guest.get_by_role("button", name="Create account").click()
    await _open(guest, "Health")
    await expect(guest.get_by_role("heading", name="Health", exact=True)).to_be_visible()


async def _open(page: Page, name: str) -> None:
    """Open an operator page by the navigation."""
    await page.locator("aside").get_by_role("link", name=name, exact=True).click()
