"""Webhooks in a browser: subscribe, verify a test, follow the live tail, and redeliver."""

from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import NewPage, PortalService
from tests.browser.receiver_process import running_receiver
from tests.browser.test_user_journeys import sign_up
from tests.support.axe import check
from tests.support.screenshots import screenshot
from tests.support.service import free_port, until


async def register(page: Page, portal: PortalService) -> None:
    """Register an app that can write products and subscribe to changes, with a development store."""
    await page.goto(f"{portal.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Stock sync")
    for scope in ("products:write", "webhooks:write"):
        box = page.locator(f"input[name='scopes'][value='{scope}']")
        await box.check()
        await page.locator(f"input[name='reasons[{scope}]']").fill("To keep products in sync.")
    await page.get_by_label("Create a development store").check()
    await page.get_by_role("button", name="Register app").click()
    await expect(page.get_by_role("heading", name="Stock sync is registered")).to_be_visible()


async def environment(page: Page) -> dict[str, str]:
    """Return the variables of the `.env` file on the page."""
    address = await page.locator("a[download]").first.get_attribute("href") or ""
    lines = unquote(address.partition(",")[2]).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_a_new_developer_receives_a_verified_webhook(
    fresh_portal: PortalService, new_page: NewPage, tmp_path: Path
) -> None:
    page = await new_page()
    await sign_up(page, fresh_portal)
    await register(page, fresh_portal)
    variables = await environment(page)
    await page.goto(f"{fresh_portal.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    app = page.url
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await check(page, "webhooks without subscriptions")
    await page.get_by_role("link", name="Subscribe to events").click()
    port = free_port()
    await page.get_by_label("Receiver URL").fill(f"http://localhost:{port}/")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_role("heading", name="Subscription created")).to_be_visible()
    await check(page, "signing secret")
    await screenshot(page, "webhook-secret")
    code, line = await page.locator("#receiver").inner_text(), await page.locator("#start").inner_text()
    with running_receiver(code, line, tmp_path, port) as log:
        await page.get_by_role("button", name="Send test").click()
        await expect(page.get_by_role("heading", name="Test succeeded")).to_be_visible()
        await check(page, "a successful test")
        await screenshot(page, "webhook-test")
        assert "verified" in log.read_text()

        await page.goto(f"{app}/tail")
        await expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
        product = await add_product(variables)
        row = page.get_by_role("row").filter(has_text=f"product {product}")
        await expect(row.filter(has_text="Succeeded")).to_be_visible()
        await screenshot(page, "webhook-tail")
        until(lambda: log.read_text().count("verified") == 2, "the event is verified")

        await row.get_by_role("link").click()
        await expect(page.get_by_text('"type": "product.created"')).to_be_visible()
        await check(page, "a delivery")
        await page.get_by_role("button", name="Redeliver").click()
        await expect(page.get_by_text("Redelivering the event")).to_be_visible()
        until(lambda: "repeated product.created" in log.read_text(), "the redelivery arrives, and is ignored")
        assert "REFUSED" not in log.read_text()


async def add_product(variables: dict[str, str]) -> int:
    """Create a product with the app's credentials."""
    async with httpx.AsyncClient() as client:
        credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
        form = {"grant_type": "client_credentials"}
        token = (await client.post(variables["STOA_AUTH_URL"], auth=credentials, data=form)).json()["access_token"]
        response = await client.post(
            f"{variables['STOA_BASE_URL']}/api/v3/app/products",
            json={"name": "A mug", "price": "9.00"},
            headers={"authorization": f"Bearer {token}"},
        )
    assert response.status_code == 201, response.text
    return response.json()["data"]["id"]
