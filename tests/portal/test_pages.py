"""Every declared page: size, security headers, compression, caching and themes."""

import gzip
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stoa.access.stores import update_store
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.assets import assets
from stoa.portal.kit.pages import Audience, Page
from stoa.portal.site_map import APP_TABS, NAVIGATION, PAGES, STORE_TABS
from stoa.reference.page import asset as docs_asset
from tests.portal.path_params import path_params_for
from tests.support.people import User, Visitor, as_operator, create_user

SIGNED_IN_PAGES = [page for page in PAGES if page.audience in (Audience.SIGNED_IN, Audience.OPERATOR)]
MAX_BYTES = 150_000
MAX_WEIGHT = 40_000  # as transferred: the page, its style sheet, every script of the portal, and the search of the docs
SEARCH = sum(len(gzip.compress(found[0])) for name in ("search.css", "search.js") if (found := docs_asset(name)))


def as_params(pages: list[Page]) -> list[object]:
    return [pytest.param(page, id=page.name) for page in pages]


@pytest.fixture(scope="module")
async def owner(application: Application, db: Database) -> AsyncIterator[tuple[User, dict[str, Any]]]:
    """An operator who owns one of each resource, and the path parameters that name them. Tests only read."""
    user = await create_user(application, db, operator=True)
    yield user, await path_params_for(user, db)
    await user.client.aclose()


@pytest.mark.parametrize("page", as_params(SIGNED_IN_PAGES))
async def test_a_page_is_small_and_has_a_strict_content_policy(owner: tuple[User, dict[str, Any]], page: Page) -> None:
    user, params = owner
    await user.open(page.url(params))
    assert user.response.status_code == 200, user.text
    assert len(user.response.content) < MAX_BYTES
    weight = len(gzip.compress(user.response.content)) + sum(len(each.gzipped) for each in assets().values()) + SEARCH
    assert weight < MAX_WEIGHT
    policy = user.response.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)
    assert nonce
    assert "unsafe" not in policy
    assert user.response.headers["cache-control"] == "no-store"
    assert user.response.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<[^>]+\sstyle=", user.response.text), "a style attribute would be ignored"
    assert not re.search(r"<[^>]+\son\w+=", user.response.text), "an inline handler would be ignored"
    for script in re.findall(r"<script[^>]*>(.*?)</script>", user.response.text, re.DOTALL):
        assert script == ""
    assert user.response.text.count(f'nonce="{nonce[1]}"') >= 2
    assert user.response.text.count("<h1") == 1
    assert '<main id="main"' in user.response.text


@pytest.mark.parametrize("page", as_params(SIGNED_IN_PAGES))
async def test_a_guest_is_redirected_to_sign_in_and_back(visitor: Visitor, page: Page) -> None:
    path = page.url(
        {"app_id": 1, "handle": "x", "installed_id": 1, "requested_store": "x"} | dict.fromkeys(_names(page), 1)
    )
    await visitor.open(path)
    assert visitor.path == "/portal/sign-in"
    if path != "/portal":
        assert visitor.response.url.params["next"] == path


async def test_every_page_has_a_title_of_its_own(application: Application, db: Database) -> None:
    user = await create_user(application, db, operator=True)
    params = await path_params_for(user, db)
    pages: dict[str, list[str]] = {}
    for page in SIGNED_IN_PAGES:
        await user.open(page.url(params))
        if user.path == page.url(params):
            pages.setdefault(re.findall(r"<title>(.*?)</title>", user.text)[0], []).append(page.name)
    assert [names for names in pages.values() if len(names) > 1] == []
    await user.client.aclose()


async def test_times_are_exact_and_in_the_zone_of_the_store(maria: User, db: Database) -> None:
    params = await path_params_for(maria, db)
    await update_store(as_operator(db, maria.application.settings), params["handle"], timezone="Asia/Tokyo")
    exact = r"\d+ \w{3} \d{4}, \d\d:\d\d:\d\d"
    await maria.open(f"/portal/stores/{params['handle']}/orders/{params['order_id']}")
    found = re.findall(r"<time ([^>]+)>([^<]+)</time>", maria.text)
    assert found
    for attributes, _ in found:
        assert re.search(rf'title="{exact} JST"', attributes)
        assert "data-visitor" not in attributes
    await maria.open(f"/portal/apps/{params['app_id']}/webhooks")
    await maria.open(f"/portal/apps/{params['app_id']}/requests")
    [(attributes, text)] = re.findall(r"<time ([^>]+)>([^<]+)</time>", maria.text)
    assert re.fullmatch(rf"{exact}\.\d{{3}} UTC", text), "to the millisecond"
    assert "data-visitor" in attributes
    await maria.open("/portal/account")
    assert re.search(r">\d+ seconds? ago</time>", maria.text)
    assert "just now" not in maria.text


def _names(page: Page) -> list[str]:
    return [name for name in re.findall(r"{(\w+)", page.path) if name not in ("handle", "requested_store")]


def test_navigation_and_tabs_link_to_existing_pages() -> None:
    names = {page.name for page in PAGES}
    linked = {item.page for section in NAVIGATION for item in section.items if item.page}
    assert linked | {name for _, name in (*APP_TABS, *STORE_TABS)} <= names
    assert {page.nav for page in PAGES} <= names


async def test_pages_are_compressed_unless_they_show_a_secret(maria: User) -> None:
    headers = {"accept-encoding": "gzip"}
    compressed = await maria.client.get("/portal/apps", headers=headers)
    assert compressed.headers["content-encoding"] == "gzip"
    secret = await maria.client.get("/portal/account/two-factor", headers=headers)
    assert secret.status_code == 200
    assert "content-encoding" not in secret.headers


APP = {"name": "Walker", "scopes": "products:read", "reasons[products:read]": "To list them."}


async def test_a_page_that_shows_a_secret_has_no_theme_switch(maria: User) -> None:
    await maria.open("/portal/register-app")
    await maria.submit("/portal/register-app", APP)
    assert "stoa_cs_" in maria.text
    assert 'action="/portal/theme"' not in maria.text


async def test_assets_are_cached_forever_under_their_hashes(visitor: Visitor) -> None:
    for asset in assets().values():
        response = await visitor.client.get(asset.url, headers={"accept-encoding": "gzip"})
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        assert response.content == gzip.decompress(asset.gzipped)
        again = await visitor.client.get(asset.url, headers={"if-none-match": asset.etag})
        assert again.status_code == 304
    old_hash = await visitor.client.get("/portal/assets/portal.0000000000000000.css")
    assert old_hash.status_code == 200
    assert old_hash.headers["cache-control"] == "no-cache"
    assert (await visitor.client.get("/portal/assets/nothing.css")).status_code == 404
    assert (await visitor.client.get("/portal/assets/..%2f..%2fsettings.py")).status_code == 404


async def test_an_unknown_path_is_an_error_page(maria: User, visitor: Visitor) -> None:
    for user in (maria, visitor):
        await user.open("/portal/no/such/page")
        assert user.response.status_code == 404
        assert "Page not found" in user.text
        assert user.response.headers["content-type"].startswith("text/html")


async def test_the_dashboard_url_may_end_with_a_slash(maria: User) -> None:
    await maria.open("/portal/")
    assert maria.path == "/portal"


async def test_the_theme_is_stored(maria: User) -> None:
    await maria.open("/portal/apps")
    assert 'data-theme="system"' in maria.text
    await maria.submit("/portal/theme", theme="dark", next="/portal/apps")
    assert maria.path == "/portal/apps"
    assert 'data-theme="dark"' in maria.text
    await maria.submit("/portal/theme", theme="'><script>", next="https://example.com/")
    assert maria.path == "/portal"
    assert 'data-theme="system"' in maria.text


async def test_the_theme_switch_returns_to_the_page_of_an_invalid_form(maria: User) -> None:
    await maria.open("/portal/account")
    await maria.submit("/portal/account/password", current="wrong", password="another walk in the porch")
    target = re.search(r'action="/portal/theme".*?name="next" value="([^"]+)"', maria.text, re.DOTALL)
    assert target
    await maria.submit("/portal/theme", theme="dark", next=target[1])
    assert maria.path == "/portal/account"
