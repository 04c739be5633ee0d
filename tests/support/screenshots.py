"""Screenshots for people who review the pages: `SCREENSHOTS=1 make test ARGS=tests/browser`."""

import os
from pathlib import Path

from playwright.async_api import Page

FOLDER = Path(__file__).parents[2] / "artefacts" / "browser"


async def screenshot(page: Page, name: str) -> None:
    """Take a screenshot if the run is asked for them: each costs as much as loading the page."""
    if os.environ.get("SCREENSHOTS"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
