"""The browser of the tests: Debian's headless Chromium if it is installed, or the whole browser, which takes twice the time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

PATHS = [Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium")]
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]

expect.set_options(timeout=30_000)  # of a condition that a busy machine fulfils late


@asynccontextmanager
async def open_chromium() -> AsyncGenerator[Browser]:
    """A browser until the context ends; the test is skipped if the machine has none."""
    path = next((path for path in PATHS if path.exists()), None)
    if path is None:
        pytest.skip("Chromium is not installed; on Debian: apt-get install chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()
