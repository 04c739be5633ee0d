"""Every link on every documentation page leads to an existing page, and to an existing anchor on it."""

from urllib.parse import urldefrag, urljoin

import pytest

from stoa.guides.library import guides
from stoa.reference import page
from stoa.rest.problems import Refusal
from tests.reference.reading import read
from tests.support.shops import Shop

CODES = sorted(code for code, kind in Refusal.known.items() if kind.__module__.startswith("stoa."))


async def test_every_link_on_every_page_has_a_target(shop: Shop) -> None:
    texts: dict[str, str] = {}
    pending = [*page.addresses(), *(f"/problems/{code}" for code in CODES)]
    links: set[tuple[str, str]] = set()
    while pending:
        address = pending.pop()
        if address in texts:
            continue
        answer = await shop.service.get(address)
        if address == "/portal":
            assert answer.status_code in (200, 302, 303, 307), "the portal redirects or asks to sign in"
            texts[address] = ""
            continue
        assert answer.status_code == 200, f"{address}, linked from {[a for a, to in links if to.startswith(address)]}"
        texts[address] = answer.text
        if "text/html" not in answer.headers["content-type"]:
            continue
        root = read(answer.text)
        elements = [each for name in ("a", "link", "script", "img") for each in root.all(name)]
        for each in elements:
            given = each.attributes.get("href") or each.attributes.get("src", "")
            if given.startswith("data:"):
                continue
            target = urljoin(address, given)
            assert target.startswith("/"), f"{address} links out of the service, to {target}"
            links.add((address, target))
            pending.append(urldefrag(target).url)
    for address, target in sorted(links):
        target_page, anchor = urldefrag(target)
        assert not anchor or f'id="{anchor}"' in texts[target_page], f"{address}: {target} does not exist"
    assert len(texts) > len(page.addresses()) + len(CODES)


@pytest.mark.parametrize("code", CODES)
async def test_every_error_code_has_a_page(shop: Shop, code: str) -> None:
    answer = await shop.service.get(f"/problems/{code}")
    assert answer.status_code == 200
    assert code in answer.text


@pytest.mark.parametrize("name", guides())
async def test_every_guide_has_a_page(shop: Shop, name: str) -> None:
    answer = await shop.service.get(f"/docs/guides/{name}")
    assert answer.status_code == 200
    assert guides()[name].title in read(answer.text).by_id("main").all("h1")[0].text


@pytest.mark.parametrize(
    "address",
    ["/docs/nothing", "/docs/products/nothing", "/docs/guides/nothing", "/docs/guides/%2e%2e/errors", "/docs/x/y/z"],
)
async def test_an_unknown_page_is_not_found(shop: Shop, address: str) -> None:
    assert (await shop.service.get(address)).status_code == 404


@pytest.mark.parametrize("address", ["/docs", "/docs/guides/errors", "/problems/not_found"])
@pytest.mark.parametrize(
    ("cookie", "theme"), [("", "system"), ("dark", "dark"), ("light", "light"), ('"><script>', "system")]
)
async def test_a_page_uses_the_theme_chosen_in_the_portal(shop: Shop, address: str, cookie: str, theme: str) -> None:
    answer = await shop.service.get(address, headers={"cookie": f"stoa_theme={cookie}"} if cookie else {})
    assert f'<html lang="en" data-theme="{theme}">' in answer.text
    assert "<script>" not in answer.text
