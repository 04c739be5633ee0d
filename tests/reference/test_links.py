"""Every link on every page that the service shows to people leads to a page that is there, and to a place on it."""

from urllib.parse import urldefrag, urljoin

import pytest

from stoa.guides.library import guides
from stoa.reference import page
from stoa.rest.problems import Refusal
from tests.reference.reading import read
from tests.support.shops import Shop

CODES = sorted(code for code, kind in Refusal.known.items() if kind.__module__.startswith("stoa."))


async def test_every_link_on_every_page_leads_somewhere(shop: Shop) -> None:
    texts: dict[str, str] = {}
    left = [*page.addresses(), *(f"/problems/{code}" for code in CODES)]
    links: set[tuple[str, str]] = set()
    while left:
        address = left.pop()
        if address in texts:
            continue
        answer = await shop.service.get(address)
        if address == "/portal":
            assert answer.status_code in (200, 302, 303, 307), "the way into the portal"
            texts[address] = ""
            continue
        assert answer.status_code == 200, f"{address}, which {[a for a, to in links if to.startswith(address)]} link to"
        texts[address] = answer.text
        if "text/html" not in answer.headers["content-type"]:
            continue
        whole = read(answer.text)
        elements = [each for name in ("a", "link", "script", "img") for each in whole.all(name)]
        for each in elements:
            given = each.attributes.get("href") or each.attributes.get("src", "")
            if given.startswith("data:"):
                continue
            target = urljoin(address, given)
            assert target.startswith("/"), f"{address} leads out of the service, to {target}"
            links.add((address, target))
            left.append(urldefrag(target).url)
    for address, target in sorted(links):
        place, anchor = urldefrag(target)
        assert not anchor or f'id="{anchor}"' in texts[place], f"{address}: nothing is at {target}"
    assert len(texts) > len(page.addresses()) + len(CODES)


@pytest.mark.parametrize("code", CODES)
async def test_every_error_code_has_its_page(shop: Shop, code: str) -> None:
    answer = await shop.service.get(f"/problems/{code}")
    assert answer.status_code == 200
    assert code in answer.text


@pytest.mark.parametrize("name", guides())
async def test_every_guide_has_its_page(shop: Shop, name: str) -> None:
    answer = await shop.service.get(f"/docs/guides/{name}")
    assert answer.status_code == 200
    assert guides()[name].title in read(answer.text).by_id("main").all("h1")[0].text


@pytest.mark.parametrize(
    "address",
    ["/docs/nothing", "/docs/products/nothing", "/docs/guides/nothing", "/docs/guides/%2e%2e/errors", "/docs/x/y/z"],
)
async def test_what_is_no_page_is_not_found(shop: Shop, address: str) -> None:
    assert (await shop.service.get(address)).status_code == 404


@pytest.mark.parametrize("address", ["/docs", "/docs/guides/errors", "/problems/not_found"])
@pytest.mark.parametrize(
    ("cookie", "theme"), [("", "system"), ("dark", "dark"), ("light", "light"), ('"><script>', "system")]
)
async def test_a_theme_that_was_chosen_in_the_portal_holds_here_too(
    shop: Shop, address: str, cookie: str, theme: str
) -> None:
    answer = await shop.service.get(address, headers={"cookie": f"stoa_theme={cookie}"} if cookie else {})
    assert f'<html lang="en" data-theme="{theme}">' in answer.text
    assert "<script>" not in answer.text
