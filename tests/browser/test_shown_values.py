"""What pages show, in a browser: times, titles, figures that agree, search results, names and numbers."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from stoa.access.queries import STORE_BY_HANDLE
from stoa.access.stores import update_store
from stoa.accounts.contract import Account
from stoa.events.outbox import Cause
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.portal.path_params import create_resources
from tests.support.people import as_operator

_EXACT = r"\d+ \w{3} \d{4}, \d\d:\d\d:\d\d"


@pytest.fixture
async def owner(portal: PortalService) -> Account:
    return await portal.create_account()


@pytest.fixture
async def params(portal: PortalService, owner: Account) -> dict[str, Any]:
    return await create_resources(as_operator(portal.db, portal.settings), portal.db, owner.id)


async def test_times_are_in_the_zone_of_the_store_or_of_the_visitor(
    portal: PortalService, new_page: NewPage, owner: Account, params: dict[str, Any]
) -> None:
    by = as_operator(portal.db, portal.settings)
    await update_store(by, params["handle"], timezone="Europe/Athens")
    page = await new_page(zone="Asia/Tokyo")
    await sign_in(page, portal, owner)
    # A merchant sees the zone of the store, and the exact time under the pointer.
    await page.goto(f"{portal.url}/portal/stores/{params['handle']}/orders/{params['order_id']}")
    placed = page.locator("main time").first
    await expect(placed).to_have_attribute("title", re.compile(rf"^{_EXACT} EES?T$"))
    await expect(page.get_by_role("main")).not_to_contain_text("GMT+9")
    # A developer sees the visitor's zone, where it matters to the millisecond.
    await page.goto(f"{portal.url}/portal/apps/{params['app_id']}/requests")
    await expect(page.locator("main time").first).to_have_text(re.compile(rf"^{_EXACT}\.\d{{3}} GMT\+9$"))
    await page.goto(f"{portal.url}/portal/account")
    seen = page.locator("main time", has_text="ago").first
    await expect(seen).to_have_attribute("title", re.compile(rf"^{_EXACT} GMT\+9$"))


async def test_figures_of_requests_and_of_webhooks_agree_with_their_lists(
    portal: PortalService, new_page: NewPage, owner: Account, params: dict[str, Any]
) -> None:
    app = f"{portal.url}/portal/apps/{params['app_id']}"
    page = await new_page()
    await sign_in(page, portal, owner)
    await portal.db.execute(
        "UPDATE usage_days SET rate_limited = 5 WHERE app_id = $1 AND day = current_date", params["app_id"]
    )
    await page.goto(f"{app}/usage?days=7")
    errors = await _figure(page, "Error rate")
    await portal.db.execute(
        "UPDATE usage_days SET rate_limited = 9 WHERE app_id = $1 AND day = current_date", params["app_id"]
    )
    await page.reload()
    assert await _figure(page, "Error rate") == errors, "a response with 429 is no error"
    await expect(page.get_by_role("img", name=re.compile("Responses with 429: at most 9 per day"))).to_be_visible()
    await page.goto(f"{app}/webhooks/{params['at']}/{params['webhook_id']}")
    await expect(page.get_by_role("main")).not_to_contain_text("100%")
    assert await _figure(page, "Success rate") == "0%"


async def _figure(page: Page, name: str) -> str:
    """The value of a figure in the row of figures at the top of a page."""
    return await page.locator("dl div", has_text=name).locator("dd").first.inner_text()


async def test_pages_of_a_store_have_titles_tabs_and_the_names_of_people(
    portal: PortalService, new_page: NewPage, owner: Account, params: dict[str, Any]
) -> None:
    store = f"{portal.url}/portal/stores/{params['handle']}"
    page = await new_page()
    await sign_in(page, portal, owner)
    [[number]] = await portal.db.fetch("SELECT number FROM orders WHERE id = $1", params["order_id"])
    await page.goto(f"{store}/orders/{params['order_id']}")
    await expect(page).to_have_title(re.compile(rf"{number}.*Painted porch"))
    for tab in ("Products", "Orders", "Customers"):
        link = page.get_by_label("Painted porch", exact=True).get_by_role("link", name=tab, exact=True)
        await expect(link).to_be_visible()
    titles: set[str] = set()
    for tab in ("products", "orders", "customers", "audit", "settings"):
        await page.goto(f"{store}/{tab}")
        titles.add(await page.title())
    assert len(titles) == 5
    await page.get_by_label("Name", exact=True).first.fill("Painted porch II")
    await page.get_by_role("button", name=re.compile("Save")).first.click()
    await page.goto(f"{store}/audit")
    await expect(page.locator("tbody tr").first).to_contain_text("You")


async def test_the_exact_sku_comes_first_and_an_archived_product_raises_no_alarm(
    portal: PortalService, new_page: NewPage, owner: Account, params: dict[str, Any]
) -> None:
    store = await STORE_BY_HANDLE.one(portal.db, params["handle"])
    bodies = [
        {"name": f"Mug {sku}", "sku": sku, "price": "9.90", "status": "active"} for sku in ("MUG", "MUG-1", "MUG-2")
    ]
    products = [new_product(convert(body, NewProduct, digits=store.digits), store) for body in bodies]
    async with portal.db.transaction() as db:
        await save(db, store.id, products, Cause(None, "req_tests"))
    page = await new_page()
    await sign_in(page, portal, owner)
    await page.goto(f"{portal.url}/portal/stores/{store.handle}/products")
    await page.get_by_role("searchbox", name="Search products").fill("mug")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("q=mug"))
    await expect(page.locator("tbody tr")).to_have_count(3)
    await expect(page.locator("tbody tr").first).to_contain_text("Mug MUG")
    await page.locator("tbody tr").first.get_by_role("link").first.click()
    alarm = page.get_by_role("main").get_by_text("Out of stock")
    await expect(alarm).to_be_visible()
    await page.get_by_role("link", name="Edit product").click()
    await page.get_by_label("Status", exact=True).select_option("archived")
    await page.get_by_role("region", name="Variants", exact=True).get_by_role("button", name="Save").click()
    await expect(page.get_by_role("link", name="Edit product")).to_be_visible()
    await expect(alarm).to_have_count(0)
