"""A real Chromium before a real service. Where there is none, these stories are skipped and say so."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from stoa.accounts.contract import Account
from stoa.accounts.registration import create_account
from stoa.db.pool import Database
from stoa.settings import Settings, load
from tests.portal.people import PASSWORD, as_operator, new_email
from tests.support.service import Service, new_database

CHROMIUM = Path("/usr/bin/chromium")
PICTURES = Path(__file__).parents[2] / "artefacts" / "browser"
NEAR = "localhost,127.0.0.0/8,::1"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed; on Debian: apt-get install chromium")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield opened
        await opened.close()


@dataclass
class House:
    """A running service, with a way to its database for what a story needs to begin with."""

    service: Service
    db: Database
    settings: Settings

    @property
    def url(self) -> str:
        return f"http://localhost:{self.service.port}"

    @property
    def set_up(self) -> str:
        """The address that the service said at its first start."""
        return next(word for word in self.service.output().split() if "/portal/set-up/" in word)

    async def person(self, name: str = "Maria Stone") -> Account:
        return await create_account(as_operator(self.db, self.settings), new_email(), name, PASSWORD)


async def _open_house(folder: Path, name: str) -> AsyncIterator[House]:
    """A service that anybody may sign up at, and that may send to this machine, as the demo may."""
    url = await new_database(name)
    with Service(folder, database_url=url, workers=1, sign_up="open", webhook_allow=NEAR) as service:
        db = Database(url, size=2)
        yield House(service, db, load(service.environment, database_url=url))
        await db.close()


@pytest.fixture(scope="session")
async def house(chromium: Browser, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[House]:
    async for opened in _open_house(tmp_path_factory.mktemp("house"), f"browser_{worker_id}_{os.getpid()}"):
        yield opened


@pytest.fixture
async def new_house(chromium: Browser, tmp_path: Path, worker_id: str) -> AsyncIterator[House]:
    """A service that nobody has an account on."""
    async for opened in _open_house(tmp_path / "house", f"new_house_{worker_id}_{os.getpid()}"):
        yield opened


NewPage = Callable[..., Awaitable[Page]]


@pytest.fixture
async def new_page(chromium: Browser) -> AsyncIterator[NewPage]:
    """Opens a browser of its own; a story fails if the page asks for what its own policy forbids, or breaks."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    async def open_page(*, phone: bool = False, theme: str = "light", script: bool = True) -> Page:
        scheme: Any = theme
        context = await chromium.new_context(
            viewport=PHONE if phone else WIDE,  # pyright: ignore[reportArgumentType]
            color_scheme=scheme,
            java_script_enabled=script,
            accept_downloads=True,
        )
        await context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda said: complaints.append(said.text) if "Security Policy" in said.text else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert complaints == []


async def picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


async def enter(page: Page, house: House, account: Account) -> None:
    """Sign in by the form."""
    await page.goto(f"{house.url}/portal/sign-in")
    await page.get_by_label("E-mail address").fill(account.email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{house.url}/portal")
