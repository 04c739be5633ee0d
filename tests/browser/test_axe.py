"""The accessibility check finds faults in either theme and at either width, also in the last of many similar elements."""

import pytest

from tests.browser.conftest import NewPage
from tests.support.axe import check_looks

PAGE = """<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>A page</title>
<style>:root {{ color-scheme: light dark; color: light-dark(#000, #fff); background: light-dark(#fff, #000) }} {style}</style>
<main><h1>A page</h1>{rows}</main></html>"""
ROWS = "".join(f"<p><code>{n}</code></p>" for n in range(20))
CARD = '<div class="card"><table class="table"><tbody><tr><td>1</td></tr></tbody></table></div>'


@pytest.mark.parametrize(
    ("style", "fault"),
    [
        ("p:last-child code { color: light-dark(#ccc, #fff) }", "light, 1280 .*color-contrast"),
        ("p:last-child { background: light-dark(#fff, #ccc) }", "dark, 1280 .*color-contrast"),
        ("p:last-child { opacity: 0.2 }", "dark, 1280 .*color-contrast"),
        ("@media (max-width: 40rem) { h1 { display: none } }", "light, 390 .*page-has-heading-one"),
        ("p:last-child { width: 30rem }", "390 pixels wide is .* pixels too wide"),
        (".card { width: 9rem } .table { width: 10rem }", "390 pixels wide is 16 pixels too wide"),
    ],
)
async def test_a_fault_is_found(new_page: NewPage, style: str, fault: str) -> None:
    page = await new_page()
    await page.set_content(PAGE.format(style=style, rows=CARD + ROWS))
    with pytest.raises(AssertionError, match=f"(?s){fault}"):
        await check_looks(page, "a page")


async def test_a_fault_is_found_after_a_similar_page_has_passed(new_page: NewPage) -> None:
    page = await new_page()
    await page.set_content(PAGE.format(style="", rows=ROWS))
    await check_looks(page, "a page")
    await page.set_content(PAGE.format(style="p:last-child { color: light-dark(#aaa, #fff) }", rows=ROWS))
    with pytest.raises(AssertionError, match=r"(?s)light, 1280 .*color-contrast"):
        await check_looks(page, "another page")


async def test_a_page_without_faults_passes(new_page: NewPage) -> None:
    page = await new_page()
    await page.set_content(PAGE.format(style="", rows=CARD + ROWS))
    await check_looks(page, "a page")
