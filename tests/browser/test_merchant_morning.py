"""A merchant's morning: from the sign-in to shipped orders in at most six clicks, with slips that print on one page each."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from stoa.access.queries import STORE_BY_HANDLE
from stoa.accounts.contract import Account
from stoa.accounts.ownership import open_store
from stoa.orders.bodies import NewOrder
from stoa.orders.endpoints import create_order
from stoa.rest.body import convert
from stoa.rest.call import Call
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.browser.interaction import Clicks, Keyboard
from tests.portal.store_data import TILL, create_store_data
from tests.support.axe import TOO_WIDE, check_looks
from tests.support.people import PASSWORD, as_operator

ORDERS, MOST_CLICKS = 4, 6
NARROW, WIDE = (44, 48)  # pixels


async def _shop(portal: PortalService) -> tuple[Account, str]:
    """A merchant's store with some orders to ship."""
    by = as_operator(portal.db, portal.settings)
    merchant = await portal.create_account()
    store = await open_store(by, merchant.id, f"morning-{merchant.id}", "Painted porch", "EUR")
    await create_store_data(by, store.handle)
    context: Any = await STORE_BY_HANDLE.one(portal.db, store.handle)
    for number in range(1, ORDERS):
        order = {
            "customer": {"email": f"guest-{number}@example.com", "first_name": "Ada", "last_name": "x" * 60},
            "line_items": [{"name": f"Bowl {number}", "unit_price": "12.00", "quantity": number}],
            "shipping_address": {"first_name": "Ada", "address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"},
        }
        async with portal.db.transaction() as db:
            call = Call(db, context, TILL, by.request_id, "")
            await create_order(call, convert(order, NewOrder, digits=context.digits))
    return merchant, store.handle


@pytest.mark.timeout(180)
async def test_all_orders_of_today_are_shipped_in_six_clicks(portal: PortalService, new_page: NewPage) -> None:
    merchant, _ = await _shop(portal)
    page, clicks = await new_page(), Clicks()
    await page.goto(f"{portal.url}/portal/sign-in")
    await page.get_by_label("Email").fill(merchant.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await clicks.on(page.get_by_role("button", name="Sign in"))
    await clicks.on(page.get_by_role("main").get_by_role("link", name="Painted porch", exact=False).last)
    await clicks.on(page.get_by_role("link", name=f"{ORDERS} to ship"))
    await clicks.on(page.get_by_label("Select all orders on this page"))
    await expect(page.get_by_text(f"{ORDERS} selected:")).to_be_visible()
    await clicks.on(page.get_by_role("button", name="Ship", exact=True))
    await clicks.on(page.get_by_role("button", name=f"Ship {ORDERS} orders"))
    await expect(page.get_by_text(f"{ORDERS} orders are shipped.")).to_be_visible()
    assert clicks.count <= MOST_CLICKS
    statuses = await portal.db.fetch(
        """SELECT o.status FROM orders o JOIN account_stores a ON a.store_id = o.store_id WHERE a.account_id = $1""",
        merchant.id,
    )
    assert [row[0] for row in statuses] == ["shipped"] * ORDERS


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_the_pages_of_the_morning_are_accessible_dense_and_printable(
    portal: PortalService, new_page: NewPage
) -> None:
    merchant, handle = await _shop(portal)
    page = await new_page()
    await sign_in(page, portal, merchant)
    store = f"{portal.url}/portal/stores/{handle}"
    await page.goto(f"{store}/home")
    await check_looks(page, "store-home")
    await page.goto(f"{store}/orders")
    await check_looks(page, "store-orders")
    await page.set_viewport_size({"width": 1180, "height": 860})
    assert await page.evaluate(TOO_WIDE) <= 0, "it never scrolls sideways"
    heights = await _row_heights(page)
    assert len(heights) == ORDERS
    assert all(NARROW <= height <= WIDE for height in heights), heights
    await page.get_by_label("Select all orders on this page").check()
    await page.get_by_role("button", name="Print packing slips").click()
    await page.wait_for_url("**/packing-slips?**")
    await check_looks(page, "packing-slips")
    slips = page.url
    assert pdf_pages(await page.pdf(format="A4")) == ORDERS, "one page for each order"
    await page.goto(re.sub("packing-slips", "pick-list", slips))
    await check_looks(page, "pick-list")
    assert pdf_pages(await page.pdf(format="A4")) == 1
    await page.goto(re.sub("packing-slips", "ship", slips))
    await check_looks(page, "ship-orders")


async def _row_heights(page: Page) -> list[float]:
    return await page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.getBoundingClientRect().height)")


def pdf_pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.timeout(180)
async def test_orders_are_shipped_without_a_script_and_only_with_the_keyboard(
    portal: PortalService, new_page: NewPage
) -> None:
    merchant, handle = await _shop(portal)
    plain = await new_page(script=False)
    await sign_in(plain, portal, merchant)
    await plain.goto(f"{portal.url}/portal/stores/{handle}/orders?status=pending%2Cprocessing")
    for box in (await plain.get_by_role("checkbox").all())[:2]:
        await box.check()
    await plain.get_by_role("button", name="Ship", exact=True).click()
    await plain.get_by_role("button", name="Ship 2 orders").click()
    await expect(plain.get_by_text("2 orders are shipped.")).to_be_visible()
    page = await new_page()
    await sign_in(page, portal, merchant)
    await page.goto(f"{portal.url}/portal/stores/{handle}/orders?status=pending%2Cprocessing")
    keys = Keyboard(page)
    await keys.check(page.get_by_label("Select all orders on this page"))
    await keys.click(keys.button("Ship"))
    await page.wait_for_url("**/orders/ship?**")
    await keys.click(keys.button("Ship 2 orders"))
    await keys.expect_visible(keys.text("2 orders are shipped."))
