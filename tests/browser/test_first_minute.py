"""The first minute of the demo in a browser: sign in, see a shop with a past, place an order, and watch its webhook arrive."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from stoa.demo.run import EMAIL, prepare
from stoa.settings import load
from tests.browser.conftest import LOOPBACK, NewPage
from tests.support.axe import check_looks
from tests.support.service import Service, migrated_database


class Demo:
    """A running demo, and the password that it prints."""

    def __init__(self, url: str, password: str) -> None:
        self.url = url
        self.password = password


@pytest.fixture
async def demo(tmp_path: Path, worker_id: str) -> AsyncIterator[Demo]:
    url = await migrated_database(f"first_minute_{worker_id}_{os.getpid()}")
    service = Service(tmp_path / "demo", database_url=url, workers=1, webhook_allow=LOOPBACK, demo="true")
    variables = await prepare(load(service.environment))
    with service:
        yield Demo(f"http://localhost:{service.port}", variables["STOA_PORTAL_PASSWORD"])


@pytest.mark.timeout(240)
async def test_a_newcomer_places_an_order_and_sees_its_verified_webhook(demo: Demo, new_page: NewPage) -> None:
    page = await new_page()
    await page.goto(f"{demo.url}/portal/sign-in")
    await page.get_by_label("Email").fill(EMAIL)
    await page.get_by_label("Password").fill(demo.password)
    await page.get_by_role("button", name="Sign in").click()
    tail = page.locator("table[data-tail]")
    await expect(tail.locator("tbody tr")).to_have_count(6)
    await expect(page.get_by_text(re.compile(r"[0-9,]+ requests in 7 days"))).to_be_visible()
    await expect(page.get_by_role("heading", name="Failing webhooks")).to_be_visible()
    await page.get_by_role("button", name="Place a sample order in Demo").click()
    notice = page.get_by_text(re.compile(r"Order #\d+ is placed in Demo"))
    await expect(notice).to_be_visible()
    found = re.search(r"#\d+", await notice.inner_text())
    assert found
    arrived = tail.get_by_role("row", name=re.compile(f"order.created order {found[0]}"))
    await expect(arrived).to_contain_text("Succeeded")
    await expect(arrived).to_contain_text("Signature verified")
    await check_looks(page, "overview-demo")
    await arrived.get_by_role("link", name="order.created").click()
    await expect(page.get_by_text('{"verified":true,"event":"order.created"}')).to_be_visible()
    await page.goto(f"{demo.url}/portal/stores/demo/home")
    await expect(page.locator(".sales dd small").last).to_contain_text(re.compile(r"\d\d+ orders"))
    await check_looks(page, "store-home-demo")
