"""A merchant and one order: shipped and refunded in parts, written by hand, and printed, with few clicks and without a script."""

import re
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, expect

from stoa.access.queries import STORE_BY_HANDLE
from stoa.accounts.contract import Account
from stoa.accounts.ownership import open_store
from stoa.orders.bodies import NewOrder
from stoa.orders.contract import Order
from stoa.orders.endpoints import create_order
from stoa.orders.queries import GET
from stoa.rest.body import convert
from stoa.rest.call import Call
from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.browser.interaction import Clicks, Keyboard
from tests.browser.test_merchant_morning import pdf_pages
from tests.portal.store_data import TILL, create_store_data
from tests.support.axe import check_looks
from tests.support.people import as_operator

MOST_CLICKS = 6
STEPPER = ".stepper button"


class Shop(msgspec.Struct):
    """A merchant, the address of the store's pages, and a paid order of two shirts and three bowls."""

    merchant: Account
    url: str
    store_id: int
    order_id: int


async def open_shop(portal: PortalService) -> Shop:
    by = as_operator(portal.db, portal.settings)
    merchant = await portal.create_account("Maria Stone")
    store = await open_store(by, merchant.id, f"orders-{merchant.id}", "Painted porch", "EUR")
    await create_store_data(by, store.handle)
    context: Any = await STORE_BY_HANDLE.one(portal.db, store.handle)
    order = {
        "customer": {"email": "ada@example.com"},
        "line_items": [
            {"sku": "LS-S", "quantity": 2},
            {"name": "Bowl", "unit_price": "12.00", "quantity": 3},
        ],
        "payment_status": "paid",
        "shipping_address": {"first_name": "Ada", "address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"},
    }
    async with portal.db.transaction() as db:
        call = Call(db, context, TILL, by.request_id, "")
        placed = await create_order(call, convert(order, NewOrder, digits=context.digits))
    url = f"{portal.url}/portal/stores/{store.handle}"
    return Shop(merchant, url, context.id, msgspec.json.decode(placed.doc, type=Order).id)


async def stored(portal: PortalService, shop: Shop) -> Order:
    return msgspec.json.decode((await GET.one(portal.db, shop.store_id, shop.order_id)).doc, type=Order)


@pytest.mark.timeout(180)
async def test_a_part_is_shipped_and_a_part_refunded_in_six_clicks(portal: PortalService, new_page: NewPage) -> None:
    shop = await open_shop(portal)
    page, clicks = await new_page(), Clicks()
    await sign_in(page, portal, shop.merchant)
    await page.goto(f"{shop.url}/orders/{shop.order_id}")
    await check_looks(page, "order")
    await clicks.on(page.get_by_role("link", name="Ship", exact=True))
    await expect(page.get_by_role("button", name="Ship 5 units")).to_be_visible()
    await clicks.on(page.locator(STEPPER).first)
    await clicks.on(page.get_by_role("button", name="Ship 4 units"))
    await expect(page.get_by_text("Shipped.", exact=True)).to_be_visible()
    await clicks.on(page.get_by_role("link", name="Refund", exact=True))
    await clicks.on(page.locator(STEPPER).last)
    await clicks.on(page.get_by_role("button", name="Refund 12.00 EUR"))
    await expect(page.get_by_text("Refunded 12.00 EUR.")).to_be_visible()
    assert clicks.count <= MOST_CLICKS
    now = await stored(portal, shop)
    assert [line.fulfilled_quantity for line in now.line_items] == [1, 3]
    assert str(now.amount_refunded) == "12.00"
    told = page.locator(".timeline > li")
    await expect(told.first).to_contain_text("Maria Stone refunded 12.00 EUR for 1 \N{MULTIPLICATION SIGN} Bowl")
    await expect(told.nth(1)).to_contain_text(
        "Maria Stone shipped 1 \N{MULTIPLICATION SIGN} Linen Shirt and 3 \N{MULTIPLICATION SIGN} Bowl"
    )
    await expect(told.first.locator("time")).to_have_attribute("title", re.compile(r"\d{4}, \d\d:\d\d:\d\d"))
    await check_looks(page, "order-in-parts")


@pytest.mark.timeout(180)
async def test_a_part_is_shipped_and_refunded_without_a_script_and_only_with_the_keyboard(
    portal: PortalService, new_page: NewPage
) -> None:
    shop = await open_shop(portal)
    plain = await new_page(script=False)
    await sign_in(plain, portal, shop.merchant)
    await plain.goto(f"{shop.url}/orders/{shop.order_id}/ship")
    await plain.get_by_label("Linen Shirt").fill("1")
    await plain.get_by_label("Bowl").fill("0")
    await plain.get_by_role("button", name="Ship", exact=True).click()
    await expect(plain.get_by_text("Shipped.", exact=True)).to_be_visible()
    await plain.goto(f"{shop.url}/orders/{shop.order_id}/refund")
    await plain.get_by_label("Linen Shirt").fill("1")
    await plain.get_by_role("button", name="Show the amount").click()
    await plain.get_by_role("button", name="Refund 59.00 EUR").click()
    await expect(plain.get_by_text("Refunded 59.00 EUR.")).to_be_visible()
    page = await new_page()
    await sign_in(page, portal, shop.merchant)
    await page.goto(f"{shop.url}/orders/{shop.order_id}")
    keys = Keyboard(page)
    await keys.click(keys.link("Ship"))
    await page.wait_for_url("**/ship")
    bowls = page.get_by_label("Bowl")
    await bowls.focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("button", name="Ship 3 units")).to_be_visible()
    await keys.click(keys.button("Ship 3 units"))
    await keys.expect_visible(keys.text("Shipped."))
    assert [line.fulfilled_quantity for line in (await stored(portal, shop)).line_items] == [2, 2]


@pytest.mark.timeout(180)
@pytest.mark.long
async def test_an_order_is_written_and_placed_with_the_total_on_the_button(
    portal: PortalService, new_page: NewPage
) -> None:
    shop = await open_shop(portal)
    await portal.db.execute(
        "UPDATE variants SET on_hand = on_hand + 9 WHERE store_id = $1 AND sku = 'LS-M'", shop.store_id
    )
    page = await new_page()
    await sign_in(page, portal, shop.merchant)
    await page.goto(f"{shop.url}/orders")
    await page.get_by_role("link", name="New order").click()
    await check_looks(page, "new-order")
    row = page.locator("tr").filter(has_text="LS-M")
    await row.locator("button").last.click()
    await expect(page.get_by_role("button", name="Place order for 61.00 EUR")).to_be_visible()
    await page.get_by_label("Discount", exact=False).first.fill("50")
    await expect(page.get_by_role("button", name="Place order for 30.50 EUR")).to_be_visible()
    await page.get_by_label("Search customers").fill("ada")
    await page.get_by_label("Search customers").press("Enter")
    await page.get_by_label("Ada Byron").check()
    await expect(page.get_by_text("The total is 30.50 EUR.")).to_be_visible()
    await check_looks(page, "new-order-written")
    await page.get_by_role("button", name="Place order for 30.50 EUR").dblclick()
    await expect(page.get_by_text("Suspected duplicate of")).to_be_visible()
    await page.get_by_role("button", name="Place order for 30.50 EUR").dblclick()
    await expect(page.get_by_text(re.compile(r"Order #\d+ is placed\."))).to_be_visible()
    await expect(page.get_by_role("heading", name=re.compile("Order #"))).to_be_visible()


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_the_pages_around_an_order_are_accessible_and_calm(portal: PortalService, new_page: NewPage) -> None:
    shop = await open_shop(portal)
    page = await new_page()
    await sign_in(page, portal, shop.merchant)
    for path in (
        f"orders/{shop.order_id}/ship",
        f"orders/{shop.order_id}/refund",
        "transfer",
        "customers/new",
    ):
        await page.goto(f"{shop.url}/{path}")
        await check_looks(page, path.replace("/", "-"))
    await page.goto(f"{shop.url}/customers")
    await page.get_by_role("link", name="Ada Byron").click()
    await page.get_by_role("link", name="Edit").click()
    await page.get_by_text("Add an address").click()
    await check_looks(page, "edit-customer")
    for path in ("packing-slips", "pick-list"):
        await page.goto(f"{shop.url}/orders/{path}?ids={shop.order_id}")
        assert pdf_pages(await page.pdf(format="A4")) == 1, path
    for path in (f"orders/{shop.order_id}", f"orders/{shop.order_id}/ship", "orders/new"):
        assert await _shift(page, f"{shop.url}/{path}") == 0, path


async def _shift(page: Page, url: str) -> float:
    """How far the contents of a page move while it loads."""
    await page.goto(url, wait_until="load")
    return await page.evaluate(
        """() => new Promise((resolve) => {
             let sum = 0;
             new PerformanceObserver((list) => { for (const each of list.getEntries()) sum += each.value; })
               .observe({ type: "layout-shift", buffered: true });
             requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
           })"""
    )
