"""Fixtures for tests with a real Chromium and a running service; skipped if Chromium is not installed."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from stoa.accounts.contract import Account
from stoa.accounts.registration import create_account
from stoa.db.pool import Database
from stoa.mail.message import one_time_token
from stoa.settings import Settings, load, secret_key
from tests.support.chromium import open_chromium
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.service import Service, migrated_database

LOOPBACK = "localhost,127.0.0.0/8,::1"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


@pytest.fixture(scope="package")
async def chromium() -> AsyncIterator[Browser]:
    async with open_chromium() as browser:
        yield browser


@dataclass
class PortalService:
    """A running service and its database."""

    service: Service
    db: Database
    settings: Settings

    @property
    def url(self) -> str:
        return f"http://localhost:{self.service.port}"

    async def setup_url(self) -> str:
        """A new setup link, as an operator gets it on the command line; the one before ends."""
        done = await asyncio.to_thread(self.service.run, "account", "set-up", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["address"]

    async def create_account(self, name: str = "Maria Stone") -> Account:
        return await create_account(as_operator(self.db, self.settings), new_email(), name, PASSWORD)


async def _start(folder: Path, name: str) -> AsyncIterator[PortalService]:
    """Start a service with open sign-up that can deliver webhooks to localhost; its mail server is never reached."""
    url = await migrated_database(name)
    mail: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "noreply@example.com"}
    with Service(folder, database_url=url, workers=1, sign_up="open", webhook_allow=LOOPBACK, **mail) as service:
        db = Database(url, size=2)
        yield PortalService(service, db, load(service.environment, database_url=url))
        await db.close()


@pytest.fixture(scope="package")
async def portal(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> AsyncIterator[PortalService]:
    async for started in _start(tmp_path_factory.mktemp("portal"), f"browser_{worker_id}_{os.getpid()}"):
        yield started


@pytest.fixture
async def fresh_portal(chromium: Browser, tmp_path: Path, worker_id: str) -> AsyncIterator[PortalService]:
    """A service without accounts."""
    async for started in _start(tmp_path / "portal", f"new_house_{worker_id}_{os.getpid()}"):
        yield started


NewPage = Callable[..., Awaitable[Page]]


@pytest.fixture
async def new_page(chromium: Browser) -> AsyncIterator[NewPage]:
    """Opens pages in separate browser contexts; a test fails on script errors and violations of the content policy."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    async def open_page(*, phone: bool = False, theme: str = "light", script: bool = True, zone: str = "") -> Page:
        scheme: Any = theme
        context = await chromium.new_context(
            viewport=PHONE if phone else WIDE,  # pyright: ignore[reportArgumentType]
            color_scheme=scheme,
            java_script_enabled=script,
            timezone_id=zone or None,
            accept_downloads=True,
        )
        await context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: errors.append(message.text) if "Security Policy" in message.text else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert errors == []


async def emailed_link(portal: PortalService, email: str) -> str:
    """The link of the latest email to an address; the mail server of the tests is never reached, so it waits."""
    [[path, nonce]] = await portal.db.fetch(
        "SELECT path, nonce FROM mails WHERE recipient = $1 ORDER BY id DESC LIMIT 1", email
    )
    return f"{portal.url}{path}{one_time_token(secret_key(portal.settings), nonce)}"


async def sign_in(page: Page, portal: PortalService, account: Account) -> None:
    """Sign in with the form."""
    await page.goto(f"{portal.url}/portal/sign-in")
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{portal.url}/portal")
