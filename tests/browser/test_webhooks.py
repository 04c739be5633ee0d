"""A newcomer's way to a verified webhook with the portal alone, in a real browser: subscribe, receive, follow, repeat."""

import re
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import House, NewPage, picture
from tests.browser.receiving import running
from tests.browser.test_accessibility import check
from tests.browser.test_stories import sign_up
from tests.support.service import free_port, until


async def register(page: Page, house: House) -> None:
    """An app that may write products and hear of them, with a development store."""
    await page.goto(f"{house.url}/portal/register-app")
    await page.get_by_label("Name", exact=True).fill("Stock sync")
    for scope in ("products:write", "webhooks:write"):
        box = page.locator(f"input[name='scopes'][value='{scope}']")
        await box.check()
        await page.locator(f"input[name='reasons[{scope}]']").fill("To keep both sides alike.")
    await page.get_by_label("Open a development store").check()
    await page.get_by_role("button", name="Register the app").click()
    await expect(page.get_by_role("heading", name="Stock sync is registered")).to_be_visible()


async def environment(page: Page) -> dict[str, str]:
    """The `.env` file that the page offers."""
    address = await page.locator("a[download]").first.get_attribute("href") or ""
    lines = unquote(address.partition(",")[2]).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.timeout(240)
async def test_a_newcomer_comes_to_a_verified_webhook_with_the_portal_alone(
    new_house: House, new_page: NewPage, tmp_path: Path
) -> None:
    page = await new_page()
    await sign_up(page, new_house)
    await register(page, new_house)
    variables = await environment(page)
    await page.goto(f"{new_house.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    app = page.url
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await check(page, "webhooks, when there are none")
    await page.get_by_role("link", name="Subscribe to events").click()
    port = free_port()
    await page.get_by_label("Where to send them").fill(f"http://localhost:{port}/")
    await page.get_by_label("A product was created").check()
    await page.get_by_role("button", name="Subscribe").click()
    await expect(page.get_by_role("heading", name="Subscribed")).to_be_visible()
    await check(page, "the secret of a webhook")
    await picture(page, "webhook-secret")
    code, line = await page.locator("#receiver").inner_text(), await page.locator("#start").inner_text()
    with running(code, line, tmp_path, port) as log:
        await page.get_by_role("button", name="Send a test").click()
        await expect(page.get_by_role("heading", name="It arrived")).to_be_visible()
        await check(page, "a test that arrived")
        await picture(page, "webhook-test")
        assert "verified" in log.read_text()

        await page.goto(f"{app}/tail")
        await expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
        product = await _add_product(variables)
        row = page.get_by_role("row").filter(has_text=f"product {product}")
        await expect(row.filter(has_text="Succeeded")).to_be_visible()
        await picture(page, "webhook-tail")
        until(lambda: log.read_text().count("verified") == 2, "the event is verified")

        await row.get_by_role("link").click()
        await expect(page.get_by_text('"type": "product.created"')).to_be_visible()
        await check(page, "a delivery")
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_text("It is being sent again")).to_be_visible()
        until(lambda: log.read_text().count("verified") == 3, "it came again")
        assert "REFUSED" not in log.read_text()


async def _add_product(variables: dict[str, str]) -> int:
    """Something that happens in the store, by the credentials that the portal gave."""
    async with httpx.AsyncClient() as client:
        credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
        form = {"grant_type": "client_credentials"}
        token = (await client.post(variables["STOA_AUTH_URL"], auth=credentials, data=form)).json()["access_token"]
        answer = await client.post(
            f"{variables['STOA_BASE_URL']}/api/v3/app/products",
            json={"name": "A mug", "price": "9.00"},
            headers={"authorization": f"Bearer {token}"},
        )
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]["id"]


async def test_charts_tell_their_values_below_the_pointer(house: House, new_page: NewPage) -> None:
    page = await new_page()
    await sign_up(page, house)
    await register(page, house)
    variables = await environment(page)
    await page.goto(f"{house.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    await page.get_by_role("link", name="Usage", exact=True).click()
    await expect(page.get_by_role("heading", name="No requests yet")).to_be_visible()
    await check(page, "usage, when there is none")
    await _add_product(variables)
    drawn = page.get_by_role("img", name=re.compile("Requests"))
    for _ in range(100):  # figures are written every few seconds
        if await drawn.count():
            break
        await page.wait_for_timeout(100)
        await page.reload()
    await check(page, "usage")
    box = await drawn.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    tip = page.locator(".tip:visible")
    await expect(tip).to_contain_text("Requests1")
    shown = await tip.bounding_box()
    assert shown is not None
    assert box["x"] <= shown["x"] <= shown["x"] + shown["width"] <= box["x"] + box["width"] + 1
    assert box["y"] <= shown["y"] <= box["y"] + box["height"]
    await picture(page, "usage-below-the-pointer")
