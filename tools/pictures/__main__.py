"""Takes the screenshots of the README from a temporary demo: `make pictures`."""

import io
import sys
from pathlib import Path
from typing import Any

import click
from PIL import Image
from playwright.sync_api import Browser, Page

from tools.pictures.demo import SHOWN, open_browser, running_demo, sign_in
from tools.pictures.samples import DEVELOPER, MERCHANT, PASSWORD, create_samples

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZE: Any = {"width": 1180, "height": 760}
LOWER: Any = {"width": 1180, "height": 480}  # code has many colors, and the file would be too large
LARGEST = 120_000


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with running_demo() as demo:
        params = create_samples(demo)
        with open_browser(demo) as browser:
            _take(browser, params)
    for file in sorted(PICTURES.glob("*.png")):
        size = file.stat().st_size
        click.echo(f"{file.name}: {size:,} bytes")
        if size >= LARGEST:
            sys.exit(f"{file.name} is larger than {LARGEST:,} bytes")


def _take(browser: Browser, params: dict[str, Any]) -> None:
    app = f"{SHOWN}/portal/apps/{params['app_id']}"
    page = _open(browser, DEVELOPER)
    _picture(page, app, "app")
    _picture(page, f"{app}/webhooks/demo/{params['webhook_id']}/deliveries", "deliveries")
    _picture(page, f"{app}/usage?days=30", "usage")
    merchant = _open(browser, MERCHANT)
    _picture(merchant, f"{SHOWN}/portal/stores/demo/home", "store")
    _picture(merchant, f"{SHOWN}/portal/stores/demo", "consent")
    page.set_viewport_size(LOWER)
    page.goto(f"{SHOWN}/docs/products/create_product")
    page.get_by_role("tab", name="TypeScript").click()
    _save(page, "reference")


def _open(browser: Browser, email: str) -> Page:
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    sign_in(page, email, PASSWORD)
    return page


def _picture(page: Page, address: str, name: str) -> None:
    page.goto(address)
    _save(page, name)


def _save(page: Page, name: str) -> None:
    """Save with a palette of 256 colors, which nobody sees, and which halves the file."""
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        shot.convert("RGB").quantize(256).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
