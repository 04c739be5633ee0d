"""The forms of a shop without JavaScript, and only with the keyboard: a product, an order, a transfer, and the units of an order."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import NewPage, PortalService, sign_in
from tests.browser.interaction import Keyboard, Pointer
from tests.browser.test_order_stories import Shop, open_shop, stored

HOSTILE = "<img src=x onerror=alert(1)> O'Mug & “Söhne”"
STOCKED = "UPDATE variants SET on_hand = on_hand + 9 WHERE store_id = $1 AND sku = 'LS-M'"


@pytest.fixture
async def shop(portal: PortalService) -> Shop:
    opened = await open_shop(portal)
    await portal.db.execute(STOCKED, opened.store_id)
    return opened


@pytest.fixture(params=["without a script", "with the keyboard"])
async def user(request: pytest.FixtureRequest, portal: PortalService, new_page: NewPage, shop: Shop) -> Pointer:
    """Somebody who is signed in: with a pointer and no scripts, or with scripts and no pointer."""
    plain = request.param == "without a script"
    page = await new_page(script=not plain)
    await sign_in(page, portal, shop.merchant)
    return Pointer(page) if plain else Keyboard(page)


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_a_product_with_a_hostile_name_is_added(portal: PortalService, shop: Shop, user: Pointer) -> None:
    await user.page.goto(f"{shop.url}/products/new")
    await user.fill(user.field("Name"), HOSTILE)
    await user.fill(user.page.get_by_label("Price, EUR"), "12,50")
    await user.fill(user.page.get_by_label("SKU, New variant 1"), "HOST-1")
    await user.click(user.button("Create product"))
    await user.expect_visible(user.heading(HOSTILE))
    await user.expect_visible(user.text("12.50"))
    assert await user.page.locator("img[src=x]").count() == 0
    assert await _count(portal, "SELECT count(*) FROM variants WHERE store_id = $1 AND sku = 'HOST-1'", shop) == 1


@pytest.mark.timeout(240)
async def test_an_order_is_written_and_placed_once(portal: PortalService, shop: Shop, user: Pointer) -> None:
    orders = "SELECT count(*) FROM orders WHERE store_id = $1"
    before = await _count(portal, orders, shop)
    await user.page.goto(f"{shop.url}/orders/new")
    units = user.page.locator("tr").filter(has_text="LS-M").get_by_role("spinbutton")
    await user.fill(units, "1")
    await user.fill(user.field("First name"), HOSTILE)
    if isinstance(user, Keyboard):
        await user.click(user.button("Place order for 61.00 EUR"))
    else:
        await user.click(user.button("Show the total"))
        await user.expect_visible(user.text("The total is 61.00 EUR."))
        assert await _count(portal, orders, shop) == before, "only shown"
        await user.click(user.button("Place order for 61.00 EUR"))
    await expect(user.page.get_by_text(re.compile(r"Order #\d+ is placed\."))).to_be_visible()
    await user.page.goto(f"{shop.url}/orders")
    assert await _count(portal, orders, shop) == before + 1


@pytest.mark.timeout(240)
async def test_stock_is_transferred(portal: PortalService, shop: Shop, user: Pointer) -> None:
    await user.page.goto(f"{shop.url}/transfer")
    units = user.page.locator("tr").filter(has_text="LS-M").get_by_role("spinbutton")
    await user.fill(units, "2")
    await user.click(user.button("Transfer 2 units" if isinstance(user, Keyboard) else "Transfer"))
    await user.expect_visible(user.text("The stock was transferred."))
    await _refuse_too_many(user.page, shop)


async def _refuse_too_many(page: Page, shop: Shop) -> None:
    """More than there is moves nothing, and the field has the focus."""
    await page.goto(f"{shop.url}/transfer")
    units = page.locator("tr").filter(has_text="LS-M").get_by_role("spinbutton")
    await units.fill("900")
    await page.get_by_role("button", name=re.compile("^Transfer")).last.press("Enter")
    await expect(units).to_be_focused()
    await expect(units).to_have_attribute("aria-invalid", "true")


@pytest.mark.timeout(240)
async def test_the_units_of_an_order_are_edited(portal: PortalService, shop: Shop, user: Pointer) -> None:
    await user.page.goto(f"{shop.url}/orders/{shop.order_id}/edit")
    await user.fill(user.page.get_by_label("Bowl"), "1")
    await user.click(user.button("Save"))
    await user.expect_visible(user.text("The line items were changed."))
    assert [line.quantity for line in (await stored(portal, shop)).line_items] == [2, 1]


async def _count(portal: PortalService, statement: str, shop: Shop) -> int:
    [[found]] = await portal.db.fetch(statement, shop.store_id)
    return found
