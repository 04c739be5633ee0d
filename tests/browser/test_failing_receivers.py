"""A failing receiver in a browser: from the overview of its developer to its log, and on the pages of operators."""

import re

import pytest
from playwright.async_api import expect

from stoa.access.grants import install
from stoa.access.operator import find_store
from stoa.accounts.ownership import open_store, register_app
from stoa.accounts.registration import create_account
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import REASONS
from tests.portal.test_failing_receivers import fail
from tests.support.axe import check_looks
from tests.support.people import PASSWORD, as_operator, new_email


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_a_failing_receiver_is_found_and_an_account_is_disabled_with_a_reason(
    portal: PortalService, new_page: NewPage
) -> None:
    by = as_operator(portal.db, portal.settings)
    account = await create_account(by, new_email(), "Olive Run", PASSWORD, operator=True)
    other = await portal.create_account()
    store = await open_store(by, account.id, f"failing-{account.id}", "Agora", "EUR")
    app = await register_app(by, account.id, "Walker", "", REASONS, f"{account.id}:failing")
    await install(by, app.client_id, store.handle)
    store_id = (await find_store(portal.db, store.handle)).id
    await fail(by, store_id, app.app_id, error="connection_refused")
    page = await new_page()
    await sign_in(page, portal, account)
    await check_looks(page, "overview-failing")
    await page.get_by_role("link", name="hooks.example.com:8443").click()
    await expect(page.get_by_role("link", name="Delivery log")).to_be_visible()
    await page.goto(f"{portal.url}/portal/operators/health")
    # The service itself may have tried it meanwhile, and refused the URL.
    failing = page.get_by_role("row", name="hooks.example.com:8443")
    await expect(failing).to_contain_text(re.compile("Connection refused|Address refused"))
    await check_looks(page, "health-failing")
    await page.goto(f"{portal.url}/portal/operators/accounts/{other.id}")
    await page.get_by_role("button", name="Disable Maria Stone").click()
    await expect(page.get_by_text("Select this box to confirm.")).to_be_visible()
    await check_looks(page, "account-disable")
    await page.get_by_label("Reason").fill("Left the company.")
    await page.get_by_label("Sign Maria Stone out everywhere").check()
    await page.get_by_role("button", name="Disable Maria Stone").click()
    await expect(page.get_by_text("can no longer sign in")).to_be_visible()
