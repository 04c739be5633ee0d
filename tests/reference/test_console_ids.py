"""The console on the demo: every operation is sent with the values that it fills in, which are ids of the chosen store."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from stoa.accounts.queries import ACCOUNT_BY_EMAIL
from stoa.accounts.sessions import open_session
from stoa.db.pool import Database
from stoa.demo.run import EMAIL, prepare
from stoa.reference import page as reference_page
from stoa.settings import load
from tests.support.chromium import open_chromium
from tests.support.people import as_operator
from tests.support.service import Service, migrated_database

SEND = "Send request"
_CREATED = ("create_webhook", "create_product_import", "create_customer_import")


def _addresses() -> list[str]:
    """The pages of the operations on a resource, after those that create what the demo does not have; deletions are last."""
    rank = {"POST": 0, "DELETE": 2}
    groups = reference_page.document().groups
    found = [
        (rank.get(each.method, 1), "{" in each.path, group.address_of(each))
        for group in groups
        for each in group.operations
        if "{" in each.path or each.operation_id in _CREATED
    ]
    return [address for _, _, address in sorted(found)]


pytestmark = pytest.mark.long  # a demo of its own


@pytest.fixture(scope="module")
async def demo(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> AsyncIterator[tuple[Service, dict[str, str]]]:
    url = await migrated_database(f"console_{worker_id}_{os.getpid()}")
    folder: Path = tmp_path_factory.mktemp("console")
    with Service(folder, database_url=url, workers=1) as service:
        yield service, await prepare(load(service.environment, database_url=url))


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with open_chromium() as launched:
        yield launched


async def signed_in(service: Service, browser: Browser) -> Page:
    """A page of the demo's account, which owns the app and the store."""
    db = Database(service.database_url, size=1)
    by = as_operator(db, load(service.environment, database_url=service.database_url))
    person = await ACCOUNT_BY_EMAIL.one(db, EMAIL)
    session = await open_session(by, db, person.id, complete=True, peer="127.0.0.1", agent="")
    await db.close()
    context = await browser.new_context(viewport={"width": 1400, "height": 900})
    await context.add_cookies([{"name": "stoa_session", "value": session.token, "url": service.url}])
    return await context.new_page()


async def sent(page: Page) -> str:
    """Send the request of the open console, and return the status."""
    await page.get_by_role("button", name=SEND).click()
    confirm = page.locator("#confirm .send")
    await page.locator("#confirm[open] .send, .action .status").first.wait_for()
    if await confirm.is_visible():
        await confirm.click()
    await page.locator(".action .status").wait_for()
    return await page.locator(".action .status").inner_text()


@pytest.mark.timeout(300)
async def test_no_prefilled_id_is_unknown_to_the_store(demo: tuple[Service, dict[str, str]], browser: Browser) -> None:
    page = await signed_in(demo[0], browser)
    statuses: dict[str, str] = {}
    for address in _addresses():
        await page.goto(demo[0].url + address)
        await page.get_by_role("button", name="Try it").click()
        statuses[address] = await sent(page)
    assert len(statuses) == 36
    assert [each for each in statuses.items() if each[1] == "404" or each[1] >= "500"] == []
    assert sum(status < "300" for status in statuses.values()) > 25, statuses


async def test_a_token_of_another_app_fills_in_the_ids_too(
    demo: tuple[Service, dict[str, str]], browser: Browser
) -> None:
    service, variables = demo
    page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
    await page.goto(f"{service.url}/docs/orders/get_order")
    await page.get_by_role("button", name="Try it").click()
    field = page.locator("#console input[name=order_id]")
    sample = await field.input_value()
    await page.get_by_text("Get a token").first.click()
    await page.get_by_label("Client ID").fill(variables["STOA_CLIENT_ID"])
    await page.get_by_label("Client secret").fill(variables["STOA_CLIENT_SECRET"])
    await page.get_by_role("button", name="Get a token").click()
    await expect(field).not_to_have_value(sample)
    assert await sent(page) == "200"


async def test_an_id_that_the_reader_entered_stays(demo: tuple[Service, dict[str, str]], browser: Browser) -> None:
    page = await signed_in(demo[0], browser)
    await page.goto(f"{demo[0].url}/docs/orders/get_order")
    await page.get_by_role("button", name="Try it").click()
    field = page.locator("#console input[name=order_id]")
    await field.fill("999999")
    assert await sent(page) == "404"
    await page.locator(".connection > summary").click()
    await page.get_by_label("Store").last.select_option("atelier")
    assert await sent(page) == "404"
    await expect(field).to_have_value("999999")


async def test_a_change_of_what_the_console_chose_is_confirmed(
    demo: tuple[Service, dict[str, str]], browser: Browser
) -> None:
    page = await signed_in(demo[0], browser)
    changed: list[str] = []
    page.on("request", lambda request: changed.append(request.url) if request.method == "PATCH" else None)
    await page.goto(f"{demo[0].url}/docs/orders/update_order")
    await page.get_by_role("button", name="Try it").click()
    await page.get_by_role("button", name=SEND).click()
    await expect(page.locator("#confirm-text")).to_be_visible()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(page.locator(".action .message")).to_have_text("Not sent.")
    assert changed == []
