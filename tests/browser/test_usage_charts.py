"""Usage charts in a browser: tooltips with the values under the pointer."""

import re

import httpx
import pytest
from playwright.async_api import expect

from tests.browser.conftest import NewPage, PortalService
from tests.browser.test_user_journeys import sign_up
from tests.browser.test_webhooks import add_product, environment, register
from tests.support.axe import check
from tests.support.screenshots import screenshot


@pytest.mark.long
async def test_charts_show_values_under_the_pointer(portal: PortalService, new_page: NewPage) -> None:
    page = await new_page()
    await sign_up(page, portal)
    await register(page, portal)
    variables = await environment(page)
    await page.goto(f"{portal.url}/portal/apps")
    await page.get_by_role("link", name="Stock sync").click()
    await page.get_by_role("link", name="Usage", exact=True).click()
    await expect(page.get_by_role("heading", name="No requests yet")).to_be_visible()
    await check(page, "usage without requests")
    await add_product(variables)
    await fail(variables)
    drawn = page.get_by_role("img", name=re.compile("Requests"))
    errors = page.locator(".tally div", has_text="Error rate").get_by_text("50%")
    for _ in range(100):  # counts are written every few seconds
        if await errors.count():
            break
        await page.wait_for_timeout(100)
        await page.reload()
    await check(page, "usage")
    box = await drawn.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    tip = page.locator(".tip:visible")
    await expect(tip).to_contain_text("Requests2")
    shown = await tip.bounding_box()
    assert shown is not None
    assert box["x"] <= shown["x"] <= shown["x"] + shown["width"] <= box["x"] + box["width"] + 1
    assert box["y"] <= shown["y"] <= box["y"] + box["height"]
    await screenshot(page, "usage-tooltip")
    # The list of failed requests has what the figure counts.
    await expect(errors).to_contain_text("1")
    await page.get_by_role("link", name="Failed requests").click()
    rows = page.get_by_role("row").filter(has=page.get_by_role("cell"))
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("404")


async def fail(variables: dict[str, str]) -> None:
    """Ask for a product that does not exist."""
    async with httpx.AsyncClient() as client:
        credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
        form = {"grant_type": "client_credentials"}
        token = (await client.post(variables["STOA_AUTH_URL"], auth=credentials, data=form)).json()["access_token"]
        url = f"{variables['STOA_BASE_URL']}/api/v3/app/products/999999999"
        assert (await client.get(url, headers={"authorization": f"Bearer {token}"})).status_code == 404
