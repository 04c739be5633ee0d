"""The pages in a real browser: the samples, the console, accessibility and narrow screens."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_FILE_PATH  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Browser, Page, async_playwright

from stoa.reference import page as reference_page
from tests.support.service import Account, Service, new_database

CHROMIUM = Path("/usr/bin/chromium")
OPERATIONS = [
    address for address in reference_page.addresses() if address.count("/") == 3 and "/guides/" not in address
]
SOME = ["/docs", "/docs/guides", "/docs/guides/errors", "/docs/products", "/docs/products/create_product", "/problems/rate_limited"]  # fmt: skip

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's Chromium is not installed")


@pytest.fixture(scope="module")
async def account(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Account]:
    url = await new_database(f"reference_{worker_id}_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("reference"), database_url=url, workers=1) as service:
        yield await service.account("demo")


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        await launched.close()


def complaints_of(page: Page) -> list[str]:
    """The errors and warnings of the browser, collected as they occur."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    return found


def anywhere(text: str | None) -> str:
    """A sample without the origin of the page."""
    return re.sub(r"https?://[^/\"]+(?=/stores)", "", text or "")


async def test_the_script_generates_the_same_samples_as_the_server(account: Account, browser: Browser) -> None:
    silent = await (await browser.new_context(java_script_enabled=False)).new_page()
    page = await (await browser.new_context()).new_page()
    complaints = complaints_of(page)
    for address in OPERATIONS[::6]:
        await silent.goto(account.service.url + address)
        programs = silent.locator(".alternative pre")
        written = {
            "curl": await silent.locator("figure.request pre").text_content(),
            "Python": await programs.nth(0).text_content(),
            "JavaScript": await programs.nth(1).text_content(),
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
    await page.get_by_label("Client id").fill(account.client_id)
    await page.get_by_label("Client secret").fill(account.client_secret)
    await page.get_by_role("button", name="Get a token").click()
    await page.get_by_text("The token expires in 60 minutes.").wait_for()
    await page.get_by_role("button", name="Send request").click()
    await page.locator(".action .status.good").wait_for()
    assert await page.locator(".action .status").text_content() == "201"
    assert '"data"' in (await page.locator(".output pre").text_content() or "")
    assert complaints == []


async def test_the_contents_can_be_filtered(account: Account, browser: Browser) -> None:
    page = await (await browser.new_context()).new_page()
    await page.goto(account.service.url + "/docs/guides/errors")
    await page.keyboard.press("/")
    await page.keyboard.type("inventory:write")
    await page.locator("#contents li:visible").first.wait_for()
    assert await page.locator("#contents li:visible").all_text_contents() == ["Set or adjust stockPOST"]
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/docs/products/adjust_inventory")


@pytest.mark.parametrize("address", SOME)
async def test_a_page_has_no_accessibility_violations(account: Account, browser: Browser, address: str) -> None:
    context = await browser.new_context(color_scheme="light", bypass_csp=True)
    page = await context.new_page()
    await page.goto(account.service.url + address)
    await page.add_script_tag(path=AXE_FILE_PATH)
    views: list[tuple[Literal["light", "dark"], int]] = [("light", 1400), ("dark", 1400), ("light", 390)]
    for scheme, width in views:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 900})
        found: dict[str, Any] = await page.evaluate("axe.run()")
        broken = [(each["id"], each["nodes"][0]["target"]) for each in found["violations"]]
        assert broken == [], f"at {width}, {scheme}"
    await context.close()


@pytest.mark.parametrize("address", SOME)
async def test_a_page_fits_a_narrow_screen(account: Account, browser: Browser, address: str) -> None:
    page = await (await browser.new_context(viewport={"width": 360, "height": 800})).new_page()
    await page.goto(account.service.url + address)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
