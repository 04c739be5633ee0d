"""Checks an open page with axe, in both themes and at two widths, without loading it again."""

from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_FILE_PATH  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page, ViewportSize

from tests.support.screenshots import screenshot

WIDE: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}
AXE, RUN = Path(AXE_FILE_PATH).read_text(), Path(__file__).with_name("axe.js").read_text()
# How far the page exceeds the screen, or a table its card, in pixels.
TOO_WIDE = """Math.max(document.documentElement.scrollWidth - document.documentElement.clientWidth, ...Array.from(
  document.querySelectorAll(".card .table:not(.wide-table *)"),
  (table) => Math.floor(table.getBoundingClientRect().right - table.closest(".card").getBoundingClientRect().right)))"""

# Most rules read the document, which is the same in each theme and at each width. Contrast, by far the slowest rule, depends on
# the theme; on a phone, other elements are shown, smaller and closer to each other.
CONTRAST = {"runOnly": ["color-contrast"]}
ON_A_PHONE = {
    "runOnly": [
        "aria-hidden-focus",
        "button-name",
        "label",
        "link-name",
        "page-has-heading-one",
        "scrollable-region-focusable",
        "target-size",
    ]
}
_passed: set[str] = set()  # the kinds of text whose contrast is known to be sufficient, by their computed style
_LOOKS: list[tuple[Literal["light", "dark"], ViewportSize, dict[str, Any]]] = [
    ("light", PHONE, ON_A_PHONE),
    ("dark", WIDE, CONTRAST),
    ("light", WIDE, {}),
]


async def check(page: Page, name: str, options: dict[str, Any] | None = None) -> None:
    """Fail if the page violates a rule as it is shown now, or is wider than the screen."""
    if await page.evaluate("typeof axe") == "undefined":
        await page.add_init_script(AXE)  # for the next pages of this tab, which is faster than to send it again
        await page.evaluate(AXE)
    await page.evaluate("scrollTo(0, 0)")  # the bar of a phone covers what is scrolled below it, which is not its size
    violations, kinds = await page.evaluate(RUN, [options or {}, " ".join(_passed)])
    assert not violations, f"{name}: {violations}"
    _passed.update(kinds.split())
    too_wide: int = await page.evaluate(TOO_WIDE)
    assert too_wide <= 0, f"{name} is {too_wide} pixels too wide"


async def check_looks(page: Page, name: str) -> None:
    """The same in light and dark, on a desktop and on a phone. The page is left light and wide."""
    for theme, size, options in _LOOKS:
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size(size)
        await check(page, f"{name}, {theme}, {size['width']} pixels wide", options)
        await screenshot(page, f"{name}-{theme}-{'wide' if size is WIDE else 'phone'}")
