"""Every declared page answers those it is for: small, safe, and itself without script."""

import gzip
import re

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.assets import assets
from stoa.portal.pages import Page, Who
from stoa.portal.site_map import APP_TABS, NAVIGATION, PAGES, STORE_TABS
from tests.portal.people import Somebody, Visitor, somebody
from tests.portal.places import places_of

FOR_PEOPLE = [page for page in PAGES if page.who in (Who.PERSON, Who.OPERATOR)]
MOST_BYTES = 150_000
DEAD_ENDS = ("second_factor_set_up", "theme_page")


def each(pages: list[Page]) -> list[object]:
    return [pytest.param(page, id=page.name) for page in pages]


@pytest.mark.parametrize("page", each(FOR_PEOPLE))
async def test_a_page_answers_its_owner_small_and_safe(application: Application, db: Database, page: Page) -> None:
    person = await somebody(application, db, operator=True)
    await person.open(page.address(await places_of(person, db)))
    assert person.seen.status_code == 200, person.text
    assert len(person.seen.content) < MOST_BYTES
    policy = person.seen.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)
    assert nonce
    assert "unsafe" not in policy
    assert person.seen.headers["cache-control"] == "no-store"
    assert person.seen.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<[^>]+\sstyle=", person.seen.text), "a style attribute would be ignored"
    assert not re.search(r"<[^>]+\son\w+=", person.seen.text), "an inline handler would be ignored"
    for script in re.findall(r"<script[^>]*>(.*?)</script>", person.seen.text, re.DOTALL):
        assert script == ""
    assert person.seen.text.count(f'nonce="{nonce[1]}"') >= 2
    assert person.seen.text.count("<h1") == 1
    assert '<main id="main"' in person.seen.text
    await person.client.aclose()


@pytest.mark.parametrize("page", each(FOR_PEOPLE))
async def test_a_guest_is_shown_the_way_in_and_back(visitor: Visitor, page: Page) -> None:
    path = page.address({"app_id": 1, "handle": "x", "installed_id": 1, "asked": "x"} | dict.fromkeys(_names(page), 1))
    await visitor.open(path)
    assert visitor.path == "/portal/sign-in"
    if path != "/portal":
        assert visitor.seen.url.params["next"] == path


def _names(page: Page) -> list[str]:
    return [name for name in re.findall(r"{(\w+)", page.path) if name not in ("handle", "asked")]


def test_navigation_and_tabs_lead_to_pages_that_exist() -> None:
    names = {page.name for page in PAGES}
    linked = {item.page for section in NAVIGATION for item in section.items if item.page}
    assert linked | {name for _, name in (*APP_TABS, *STORE_TABS)} <= names
    assert {page.under for page in PAGES} <= names


async def test_pages_are_packed_but_never_one_that_shows_a_secret(maria: Somebody) -> None:
    headers = {"accept-encoding": "gzip"}
    plain = await maria.client.get("/portal/apps", headers=headers)
    assert plain.headers["content-encoding"] == "gzip"
    secret = await maria.client.get("/portal/account/second-factor", headers=headers)
    assert secret.status_code == 200
    assert "content-encoding" not in secret.headers


async def test_style_and_script_are_kept_for_ever_under_their_own_names(visitor: Visitor) -> None:
    for asset in assets().values():
        answer = await visitor.client.get(asset.address, headers={"accept-encoding": "gzip"})
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.content == gzip.decompress(asset.packed)
        again = await visitor.client.get(asset.address, headers={"if-none-match": asset.tag})
        assert again.status_code == 304
    older = await visitor.client.get("/portal/assets/portal.0000000000000000.css")
    assert older.status_code == 200
    assert older.headers["cache-control"] == "no-cache"
    assert (await visitor.client.get("/portal/assets/nothing.css")).status_code == 404
    assert (await visitor.client.get("/portal/assets/..%2f..%2fsettings.py")).status_code == 404


async def test_what_does_not_exist_is_a_page(maria: Somebody, visitor: Visitor) -> None:
    for person in (maria, visitor):
        await person.open("/portal/no/such/page")
        assert person.seen.status_code == 404
        assert "Nothing here" in person.text
        assert person.seen.headers["content-type"].startswith("text/html")


async def test_the_front_page_may_end_in_a_slash(maria: Somebody) -> None:
    await maria.open("/portal/")
    assert maria.path == "/portal"


async def test_the_theme_is_chosen_and_kept(maria: Somebody) -> None:
    await maria.open("/portal/apps")
    assert 'data-theme="system"' in maria.text
    await maria.send("/portal/theme", theme="dark", next="/portal/apps")
    assert maria.path == "/portal/apps"
    assert 'data-theme="dark"' in maria.text
    await maria.send("/portal/theme", theme="'><script>", next="https://example.com/")
    assert maria.path == "/portal"
    assert 'data-theme="system"' in maria.text
