"""The pages in a real browser: the samples, the console, accessibility and narrow screens."""

import os
import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from stoa.access.grants import install
from stoa.access.stores import create_store
from stoa.accounts.ownership import give
from stoa.accounts.registration import create_account
from stoa.accounts.sessions import open_session
from stoa.db.pool import Database
from stoa.reference import page as reference_page
from stoa.settings import load
from tests.support.axe import check_looks
from tests.support.chromium import open_chromium
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.service import Account, Service, migrated_database

OPERATIONS = [
    address
    for address in reference_page.addresses()
    if address.count("/") == 3 and not address.startswith(("/docs/guides/", "/docs/events/"))
]
SOME = ["/docs", "/docs/guides", "/docs/guides/errors", "/docs/products", "/docs/products/create_product",
        "/docs/events/order.created", "/docs/search?q=stock", "/problems/rate_limited"]  # fmt: skip


@pytest.fixture(scope="module")
async def account(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Account]:
    url = await migrated_database(f"reference_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("reference"), database_url=url, workers=1, background=False) as service:
        yield await service.account("demo")


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with open_chromium() as launched:
        yield launched


def complaints_of(page: Page) -> list[str]:
    """The errors and warnings of the browser, collected as they occur."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    return found


def anywhere(text: str | None) -> str:
    """A sample without the origin of the page."""
    return re.sub(r"https?://[^/\"]+(?=/stores)", "", text or "")


@pytest.mark.long
async def test_the_script_shows_the_samples_of_the_server(account: Account, browser: Browser) -> None:
    silent = await (await browser.new_context(java_script_enabled=False)).new_page()
    page = await (await browser.new_context()).new_page()
    complaints = complaints_of(page)
    for address in OPERATIONS[::6]:
        await silent.goto(account.service.url + address)
        programs = silent.locator(".alternative pre")
        written = {
            "curl": await silent.locator("figure.request pre").text_content(),
            "Python": await programs.nth(0).text_content(),
            "TypeScript": await programs.nth(1).text_content(),
            "PHP": await programs.nth(2).text_content(),
        }
        await page.goto(account.service.url + address)
        for language, text in written.items():
            await page.get_by_role("tab", name=language, exact=True).first.click()
            shown = await page.locator("figure.request pre").first.text_content()
            assert anywhere(shown) == anywhere(text), f"{address}, {language}"
    assert complaints == []


async def test_a_request_is_tried_with_a_token_that_the_console_fetched(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
    complaints = complaints_of(page)
    await page.goto(account.service.url + "/docs/products/create_product")
    await page.get_by_role("button", name="Try it").click()
    await page.get_by_label("Base URL").fill(f"{account.service.url}/stores/{account.handle}")
    await page.get_by_text("Get a token").first.click()
    await page.get_by_label("Client ID").fill(account.client_id)
    await page.get_by_label("Client secret").fill(account.client_secret)
    await page.get_by_role("button", name="Get a token").click()
    await page.get_by_text("The token expires in 60 minutes.").wait_for()
    await page.get_by_role("button", name="Send request").click()
    await page.locator(".action .status.good").wait_for()
    assert await page.locator(".action .status").text_content() == "201"
    assert '"data"' in (await page.locator(".output pre").text_content() or "")
    assert complaints == []


async def test_child_fields_unfold_inside_their_row_by_keyboard(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
    complaints = complaints_of(page)
    await page.goto(account.service.url + "/docs/orders/refund_order")
    row = page.locator("dl[data-in=body] > div", has=page.locator("dt > code", has_text="refund")).first
    await row.get_by_role("button", name="Show child fields").focus()
    await page.keyboard.press("Enter")
    await expect(row.locator(".nest").first).to_contain_text("shipping_amount")
    await row.locator(".nest").get_by_role("button", name="Show child fields").first.press("Enter")
    await expect(row.locator(".nest .nest")).to_contain_text("quantity")
    await row.get_by_role("button", name="Hide child fields").first.press("Enter")
    await expect(row.locator(".nest")).to_have_count(0)
    assert complaints == []


async def test_the_requests_of_a_guide_have_tabs_that_follow_one_choice(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
    complaints = complaints_of(page)
    await page.goto(account.service.url + "/docs/guides/payments")
    first, second = (page.locator(".tabbed").nth(index) for index in (0, 1))
    await first.get_by_role("tab", name="HTTP").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await expect(first.get_by_role("tab", name="Python")).to_have_attribute("aria-selected", "true")
    await expect(first.locator("pre")).to_contain_text("client.orders.create(")
    await expect(second.locator("pre")).to_contain_text("client.orders.update_status(")
    silent = await (await browser.new_context(java_script_enabled=False)).new_page()
    await silent.goto(account.service.url + "/docs/guides/payments")
    await silent.locator(".tabbed summary").filter(has_text="TypeScript").first.click()
    await expect(silent.locator(".tabbed pre:visible").nth(1)).to_contain_text("new Client(")
    assert complaints == []


async def test_the_theme_is_switched_in_place_and_remembered(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(color_scheme="light")).new_page()
    complaints = complaints_of(page)
    await page.goto(account.service.url + "/docs/guides/money")
    await page.evaluate("scrollTo(0, 400)")
    await page.get_by_role("button", name="Dark theme").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 27)"
    await expect(page.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "true")
    for address in ("/docs/orders/create_order", "/problems/rate_limited"):
        response = await page.goto(account.service.url + address)
        assert response is not None
        assert 'data-theme="dark"' in await response.text(), "the first paint has the right colors"
    await page.get_by_role("button", name="Automatic theme").click()  # this page has no script for it
    await expect(page.locator("html")).to_have_attribute("data-theme", "system")
    assert page.url.endswith("/problems/rate_limited")
    assert complaints == []


@pytest.mark.parametrize("width", [1440, 390])
async def test_no_code_is_clipped(account: Account, browser: Browser, width: int) -> None:
    page = await (await browser.new_context(viewport={"width": width, "height": 900})).new_page()
    for address in ("/docs/guides/webhooks", "/docs/guides/quickstart", "/docs/orders/update_order_status", "/docs"):
        await page.goto(account.service.url + address)
        clipped = await page.locator("pre").evaluate_all(
            "(found) => found.filter((pre) => pre.checkVisibility() && pre.scrollWidth > pre.clientWidth).map((pre) => pre.textContent)"
        )
        assert clipped == [], address


async def test_the_search_box_needs_only_the_keyboard(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1280, "height": 860})).new_page()
    complaints = complaints_of(page)
    await page.goto(account.service.url + "/docs/guides/errors")
    await page.get_by_role("link", name="Portal").focus()
    await page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search the documentation")
    assert await box.evaluate("(input) => input === document.activeElement")
    await page.keyboard.type("sku_taken")
    selected = page.locator("#search-results [aria-selected=true]")
    await selected.get_by_text("sku_taken", exact=True).wait_for()
    assert await box.get_attribute("aria-expanded") == "true"
    assert await box.get_attribute("aria-activedescendant") == "search-result-0"
    await page.keyboard.press("ArrowDown")
    assert await box.get_attribute("aria-activedescendant") == "search-result-1"
    assert await page.locator("#search-results [aria-selected=true]").count() == 1
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    count = await page.get_by_role("option").count()
    assert await box.get_attribute("aria-activedescendant") == f"search-result-{count - 1}"
    await page.keyboard.press("Escape")
    assert not await page.locator("#search-box").is_visible()
    focused = await page.evaluate("document.activeElement.textContent")
    assert focused == "Portal", "the focus returns to where it was"
    await page.keyboard.press("Control+k")
    await page.keyboard.type("webhook signature")
    await selected.get_by_text("Verify signatures", exact=True).wait_for()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/docs/guides/webhooks#verify-signatures")
    assert complaints == []


async def test_the_search_works_on_a_phone_and_in_forms_it_stays_away(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)).new_page()
    await page.goto(account.service.url + "/docs/products/create_product")
    await page.locator(".top").get_by_role("link", name="Search").tap()
    await page.get_by_role("combobox").fill("low_stock_threshold")
    first = page.get_by_role("option").first
    await first.get_by_text("low_stock_threshold").first.wait_for()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await first.tap()
    await page.wait_for_url("**/docs/products#Variant.low_stock_threshold")
    await page.goto(account.service.url + "/docs/search")
    await page.locator(".search-form input").focus()
    await page.keyboard.type("a/b")
    assert not await page.locator("#search-box").is_visible()
    assert await page.locator(".search-form input").input_value() == "a/b"


async def test_without_script_the_search_is_a_page(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(java_script_enabled=False)).new_page()
    await page.goto(account.service.url + "/docs/guides")
    await page.locator("#contents").get_by_role("link", name="Search").click()
    await page.get_by_role("searchbox").fill("429")
    await page.get_by_role("button", name="Search").click()
    assert "rate_limited" in (await page.locator(".results ol li").first.text_content() or "")


async def test_the_samples_use_the_chosen_store(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
    await page.goto(account.service.url + "/docs/products/get_product")
    await page.locator("#store").fill("my-shop")
    for language in ("curl", "Python", "TypeScript", "PHP"):
        await page.get_by_role("tab", name=language, exact=True).first.click()
        shown = await page.locator("figure.request pre").first.text_content() or ""
        assert f"{account.service.url}/stores/my-shop" in shown, language
    await page.goto(account.service.url + "/docs/orders/get_order")
    assert "/stores/my-shop/" in (await page.locator("figure.request pre").first.text_content() or "")


async def test_the_console_keeps_the_focus_and_asks_before_it_deletes(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    await page.goto(account.service.url + "/docs/products/delete_product")
    await page.get_by_role("button", name="Try it").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Send request").focus()
    await page.keyboard.press("Enter")
    await page.locator("#confirm").wait_for()
    assert await page.evaluate("document.activeElement.textContent") == "Cancel"
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Send request")).to_be_focused()
    assert "DELETE" not in sent
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.locator(".action .status").wait_for()
    assert sent.count("DELETE") == 1
    await expect(page.get_by_role("button", name="Send request")).to_be_focused()
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("Escape")
    await expect(page.locator("#console")).not_to_be_visible()
    await expect(page.get_by_role("button", name="Try it")).to_be_focused()


async def signed_in(account: Account, browser: Browser) -> Page:
    """A page of a developer who owns the app and its store; another store has the app with one scope."""
    db = Database(account.service.database_url, size=1)
    by = as_operator(db, load(account.service.environment, database_url=account.service.database_url))
    person = await create_account(by, new_email(), "Maria Stone", PASSWORD)
    await give(by, person.email, store=account.handle, app=account.client_id)
    await create_store(by, "customer", "A customer", "USD")
    await install(by, account.client_id, "customer", ["products:read"])
    session = await open_session(by, db, person.id, complete=True, peer="127.0.0.1", agent="")
    await db.close()
    context = await browser.new_context(viewport={"width": 1400, "height": 900})
    await context.add_cookies([{"name": "stoa_session", "value": session.token, "url": account.service.url}])
    return await context.new_page()


async def test_signed_in_the_console_offers_the_apps_and_stores_and_gets_the_token(
    account: Account, browser: Browser
) -> None:
    page = await signed_in(account, browser)
    complaints, asked = complaints_of(page), list[str]()
    page.on(
        "request", lambda request: asked.append(f"{request.method} {request.url}") if "/portal" in request.url else None
    )
    await page.goto(account.service.url + "/docs/customers/create_customer")
    assert asked == [], "the page is the same for everybody, and asks only when it must"
    await page.locator("#store").focus()
    await expect(page.locator("#stores option")).to_have_count(2)
    await page.get_by_role("button", name="Try it").click()
    state = page.locator(".connection > summary .state")
    await expect(state).to_have_text("An app on demo")
    await expect(page.get_by_label("Body", exact=True)).to_be_focused()
    await page.get_by_role("button", name="Send request").click()
    await expect(page.locator(".action .status")).to_have_text("201")
    await page.get_by_role("button", name="Send request").click()
    await expect(page.locator(".action .status")).to_have_text("409")
    assert len([each for each in asked if each.startswith("POST")]) == 1, "the second request uses the same token"
    await page.locator(".connection > summary").click()
    labels = await page.locator("[name=store] optgroup").evaluate_all("(found) => found.map((each) => each.label)")
    assert labels == ["Your stores", "Other stores with this app"]
    await page.get_by_label("Store").last.select_option("customer")
    await expect(page.get_by_text("customer does not grant An app the scope customers:write.")).to_be_visible()
    for code in (page.locator("figure.request pre").first, page.locator(".output pre")):
        await page.get_by_role("tab", name="TypeScript").last.click()
        await expect(code).to_contain_text(f"{account.service.url}/stores/customer")
    await expect(page.locator("#store")).to_have_value("customer")
    await page.get_by_role("button", name="Send request").click()
    await expect(page.locator(".action .status")).to_have_text("403")
    assert len([each for each in asked if each.startswith("POST")]) == 2, "the other store needs another token"
    await page.get_by_text("Enter a URL and a token").click()
    await page.get_by_role("textbox", name="Token").fill("stoa_at_of_my_own")
    await expect(state).to_have_text("token set")
    assert [each for each in complaints if not each.startswith("Failed to load resource")] == []


async def test_a_stranger_is_offered_to_sign_in(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
    await page.goto(account.service.url + "/docs/products/get_product")
    await page.get_by_role("button", name="Try it").click()
    link = page.get_by_role("link", name="Sign in")
    assert await link.get_attribute("href") == "/portal/sign-in?next=/docs/products/get_product"
    await expect(page.get_by_label("App", exact=True)).not_to_be_visible()
    await expect(page.get_by_role("textbox", name="Token")).to_be_focused()


async def test_the_samples_are_beside_the_text_at_1180_pixels(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 1180, "height": 800})).new_page()
    for address in ("/docs", "/docs/products/create_product", "/docs/orders/list_orders", "/docs/events/order.created"):
        await page.goto(account.service.url + address)
        pairs = await page.locator(".pair").all()
        assert pairs
        for pair in pairs:
            text = await pair.locator("> .text").bounding_box()
            examples = await pair.locator("> .examples").bounding_box()
            assert text is not None
            assert examples is not None
            assert text["x"] + text["width"] <= examples["x"], address
            assert abs(text["y"] - examples["y"]) < 60, address
            assert text["width"] > 400, address
            assert examples["x"] + examples["width"] <= 1180, address


@pytest.mark.parametrize("address", SOME)
@pytest.mark.long
async def test_a_page_has_no_accessibility_violations(account: Account, browser: Browser, address: str) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(account.service.url + address)
    await check_looks(page, address)
    await context.close()


async def test_nothing_overflows_a_narrow_screen(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context(viewport={"width": 360, "height": 800})).new_page()
    for address in SOME:
        await page.goto(account.service.url + address)
        for width in (360, 390):
            await page.set_viewport_size({"width": width, "height": 800})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, address
    await page.goto(account.service.url + "/docs/products/create_product")
    await page.get_by_role("button", name="Try it").click()
    panel = page.locator("#console")
    assert await panel.evaluate("(panel) => panel.scrollWidth") <= 390
