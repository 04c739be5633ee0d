"""The search over everything: each person finds exactly what their pages show, as JSON for the palette and as a page."""

from typing import Any
from urllib.parse import quote

import pytest

from stoa.accounts.ownership import give
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.pages import Audience
from stoa.portal.search import _MOST_STORES  # pyright: ignore[reportPrivateUsage]
from stoa.portal.site_map import PAGES, destinations
from stoa.settings import Settings
from tests.portal.installed_app import InstalledApp
from tests.portal.store_pages import place_order, rows
from tests.support.people import User, Visitor, as_operator, create_user
from tests.support.shops import SHIRT, Shop

JSON = {"accept": "application/json"}


async def found(user: Visitor, query: str, at: str = "") -> list[dict[str, Any]]:
    """What the palette shows for a query on a page."""
    headers = {**JSON, **({"referer": f"http://testserver{at}"} if at else {})}
    while True:
        response = await user.client.get(f"/portal/search?q={quote(query)}", headers=headers)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "no-store"
        if not response.json()["partial"]:  # the index of the documentation is built by the first search
            return response.json()["results"]


async def addresses(user: Visitor, query: str, at: str = "") -> list[str]:
    return [each["address"] for each in await found(user, query, at)]


async def test_orders_products_and_customers_are_found_from_the_pages_of_their_store(
    shop: Shop, maria: User, store_url: str
) -> None:
    [shirt] = await shop.add(SHIRT)
    placed = await place_order(shop)
    order = f"{store_url}/orders/{placed['id']}"
    for at in (f"{store_url}/products", ""):
        assert (await addresses(maria, f"#{placed['number']}", at))[0] == order
        assert order in await addresses(maria, str(placed["number"]), at)
        assert f"{store_url}/products/{shirt}" in await addresses(maria, "linen", at)
        assert f"{store_url}/customers/{placed['customer_id']}" in await addresses(maria, "byron", at)
    [hit] = [each for each in await found(maria, "linen") if each["kind"] == "Product"]
    assert shop.store.name in hit["context"], "elsewhere, the store is named"


async def test_a_viewer_finds_what_the_pages_show_and_a_stranger_nothing(
    shop: Shop, maria: User, zeno: User, store_url: str, db: Database, settings: Settings
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    queries = (
        "byron",
        "ada@example.com",
        "linen",
        f"#{placed['number']}",
        shop.store.handle,
        "orders",
        shop.store.name,
    )
    for query in queries:
        assert not [each for each in await addresses(zeno, query, store_url) if each.startswith(store_url)], query
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    for query in ("byron", "ada@example.com"):
        assert not [each for each in await addresses(zeno, query, store_url) if each.startswith(store_url)], query
    assert [each for each in await addresses(zeno, "linen", store_url) if each.startswith(f"{store_url}/products/")]
    assert f"{store_url}/import" not in await addresses(zeno, "import a file", store_url)
    assert f"{store_url}/import" in await addresses(maria, "import a file", store_url)


async def test_pages_are_found_by_their_title_and_the_name_of_their_app_or_store(app: InstalledApp) -> None:
    user = app.user
    for query, address in (
        ("walker cred", f"{app.path}/credentials"),
        ("webhooks", f"{app.path}/webhooks"),
        ("new subscription", f"{app.path}/new-webhook"),
        ("orders hooks", f"/portal/stores/{app.handle}/orders"),
        (app.handle, f"/portal/stores/{app.handle}/home"),
        (app.client_id, app.path),
        ("WALKER", app.path),
        ("2fa", "/portal/account/two-factor"),
        ("register", "/portal/register-app"),
        ("idempotency", "/docs/guides/idempotency"),
    ):
        assert address in await addresses(user, query), query
        assert address in await addresses(user, f"  {query}  "), "spaces do not count"


async def test_only_operators_find_pages_of_operators(
    application: Application, app: InstalledApp, maria: User, zeno: User, db: Database
) -> None:
    operator = await create_user(application, db, operator=True)
    for query, path in (
        (app.handle, f"stores/{app.handle}"),
        (app.client_id, f"apps/{app.app_id}"),
        (zeno.email, f"accounts/{zeno.account.id}"),
    ):
        assert f"/portal/operators/{path}" in await addresses(operator, query)
        assert not [each for each in await addresses(zeno, query) if each.startswith("/portal/operators")]
    for query in ("health", "audit log", "invite", "all stores"):
        theirs = [each for each in await addresses(operator, query) if each.startswith("/portal/operators/")]
        assert theirs, query
        assert not set(theirs) & set(await addresses(maria, query)), query
    await operator.client.aclose()


async def test_every_destination_can_be_opened(app: InstalledApp) -> None:
    user, known = app.user, destinations()
    urls = [each.page.path for each in known.general if each.page.audience is not Audience.OPERATOR]
    urls += [each.page.url({"app_id": app.app_id}) for each in known.of_app]
    urls += [each.page.url({"handle": app.handle}) for each in known.of_store]
    for url in urls:
        assert (await user.open(url)).status_code == 200, url
    assert len(urls) > 30
    assert {each.page.name for each in known.general} < {page.name for page in PAGES}


async def test_the_page_lists_the_same_without_a_script(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    await maria.open("/portal/search")
    assert "Search for anything" in maria.text
    await maria.open("/portal/search?q=linen")
    assert "Linen Shirt" in rows(maria.text)
    await maria.open("/portal")
    assert 'href="/portal/search"' in maria.text, "the link leads to the page if there is no script"
    await maria.open("/portal/search?q=zzzzqqqq")
    assert "No results for “zzzzqqqq”" in maria.text


async def test_a_search_is_bounded(maria: User, db: Database, settings: Settings) -> None:
    by = as_operator(db, settings)
    statement = """WITH made AS (INSERT INTO stores (handle, name, currency)
        SELECT 'wide-' || $1::bigint || '-' || n, 'Wide ' || n, 'EUR' FROM generate_series(1, 30) n RETURNING id)
        INSERT INTO account_stores (account_id, store_id, role) SELECT $1::bigint, id, 'owner' FROM made"""
    await by.db.execute(statement, maria.account.id)
    results = await found(maria, "wide")
    assert len(results) <= 22
    assert sum(each["kind"] == "Store" for each in results) == 5
    assert _MOST_STORES == 3


@pytest.mark.parametrize(
    "query", ["", " ", "%00", "'", '"><script>', "a,b", "9" * 90, "##", "@", "%25", "é" * 200, "x" * 600, "\u202e", "-"]
)
async def test_a_hostile_query_never_breaks_the_search(maria: User, query: str) -> None:
    assert isinstance(await found(maria, query), list)
    for at in ("/portal/stores/../x", "/portal/stores/%00/y", "/portal/stores/UPPER", "https://evil.example.com/"):
        assert isinstance(await found(maria, query, at), list)
    await maria.open(f"/portal/search?q={quote(query)}")
    assert maria.response.status_code == 200
    assert "<script>" not in maria.response.text.partition("<main")[2]


async def test_a_guest_is_sent_to_the_sign_in(visitor: Visitor) -> None:
    response = await visitor.client.get("/portal/search?q=x", headers=JSON)
    assert (response.status_code, response.headers["location"].startswith("/portal/sign-in")) == (303, True)
