"""The theme switch of the documentation: the choice is stored by the server, so that pages arrive in their colors."""

import httpx
import pytest

from tests.reference.reading import read
from tests.support.shops import Shop

PAGES = ("/docs", "/docs/guides/money", "/docs/orders/create_order", "/docs/search?q=stock", "/problems/rate_limited")


async def chosen(shop: Shop, theme: str, back: str = "/docs") -> httpx.Response:
    return await shop.service.post("/docs/theme", data={"theme": theme, "next": back}, follow_redirects=False)


@pytest.mark.parametrize("address", PAGES)
async def test_a_page_arrives_in_the_chosen_theme(shop: Shop, address: str) -> None:
    for theme in ("light", "dark", "system"):
        answer = await shop.service.get(address, headers={"cookie": f"stoa_theme={theme}"})
        root = read(answer.text)
        assert root.all("html")[0].attributes["data-theme"] == theme
        pressed = [each for each in root.all("button") if each.attributes.get("aria-pressed") == "true"]
        assert [each.attributes["value"] for each in pressed] == [theme]
        assert "Cookie" in answer.headers["vary"]
    assert 'data-theme="system"' in (await shop.service.get(address, headers={"cookie": "stoa_theme=<b>"})).text


async def test_the_choice_is_stored_for_a_year_and_leads_back(shop: Shop) -> None:
    answer = await chosen(shop, "dark", "/docs/guides/money")
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs/guides/money")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("stoa_theme=dark; ")
    for part in ("httponly", "max-age=31536000", "path=/", "samesite=lax"):
        assert part in cookie


@pytest.mark.parametrize(
    "back",
    [
        "",
        "https://example.com/",
        "//example.com",
        "/portal",
        "/\\example.com",
        "/docs\\..\\x",
        "/docs\r\nSet-Cookie: a=b",
        "x" * 9_000,
    ],
)
async def test_the_form_never_leads_to_another_site(shop: Shop, back: str) -> None:
    answer = await chosen(shop, "<script>", back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs")
    assert answer.headers["set-cookie"].startswith("stoa_theme=system; ")


async def test_the_switch_needs_a_form(shop: Shop) -> None:
    assert (await shop.service.get("/docs/theme", headers={"accept": "text/html"})).status_code == 404
