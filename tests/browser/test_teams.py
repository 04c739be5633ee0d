"""A story of two people: an invitation, a viewer who sees no buttons, and a new owner."""

import re

import pytest
from playwright.async_api import Page, expect

from stoa.accounts.contract import Account
from stoa.accounts.ownership import open_store
from tests.browser.conftest import NewPage, PortalService, emailed_link, sign_in
from tests.support.people import PASSWORD, as_operator


@pytest.mark.timeout(300)
async def test_a_colleague_joins_and_takes_over_the_store(portal: PortalService, new_page: NewPage) -> None:
    owner, colleague = await portal.create_account(), await portal.create_account()
    handle = f"team-{owner.id}"
    await open_store(as_operator(portal.db, portal.settings), owner.id, handle, "Painted porch", "EUR")
    page, theirs, team = await new_page(), await new_page(), f"{portal.url}/portal/stores/{handle}/team"
    await sign_in(page, portal, owner)
    await page.goto(team)
    await page.get_by_label("Email").fill(colleague.email)
    await page.get_by_role("button", name="Send invitation").click()
    await expect(page.get_by_text("We have sent the invitation")).to_be_visible()
    await _accept(theirs, await emailed_link(portal, colleague.email), colleague)
    for tab in ("Locations", "Team", "Settings"):
        await theirs.get_by_role("link", name=tab, exact=True).click()
        buttons = theirs.locator("main form[method=post] button:not(.announcement *)")
        assert await buttons.all_inner_texts() == (["Leave"] if tab == "Team" else []), "a viewer sees no buttons"
    await page.goto(team)
    await page.get_by_label(re.compile("Give up my ownership")).check()
    await page.get_by_role("button", name="Offer ownership").click()
    await expect(page.get_by_text("Ownership offered.")).to_be_visible()
    await theirs.goto(f"{portal.url}/portal")
    await theirs.get_by_role("link", name="Review Painted porch").click()
    await theirs.get_by_role("button", name="Accept ownership").click()
    await expect(theirs.get_by_text("You own Painted porch now.")).to_be_visible()
    await page.get_by_role("button", name="Withdraw offer").click()
    await expect(page.get_by_text("Only an owner can do this.")).to_be_visible()


async def _accept(page: Page, link: str, account: Account) -> None:
    """Open the link signed out, sign in, and accept."""
    await page.goto(link)
    await page.get_by_role("link", name="Sign in to accept").click()
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("button", name="Accept as").click()
    await expect(page.get_by_text("Welcome to the team of Painted porch.")).to_be_visible()
