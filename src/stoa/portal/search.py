"""The search over everything that a person can open: pages, apps, stores, orders, products, customers and documentation.

The command palette asks for the results of each keystroke as JSON. Without a script, the same address is a page.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import Response

from stoa.access.addresses import is_handle
from stoa.accounts.contract import RIGHTS, OwnedApp, OwnedStore
from stoa.accounts.ownership import owned_apps, owned_store, owned_stores
from stoa.portal.kit.list_view import NEWEST_NUMBER
from stoa.portal.kit.pages import ROOT, Audience, Page, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.queries import ACCOUNTS, APPS, STORES
from stoa.portal.stores.search import suggestions
from stoa.reference.routes import documentation_hits
from stoa.reference.search import MOST_CHARACTERS, Hit, words_of

_MOST_OF_A_KIND, _MOST_PAGES, _MOST_OF_EVERYBODY = 5, 6, 3
_SHORTEST_OF_EVERYBODY = 3  # characters
_LONGEST_WAIT_S = 0.3
_OPERATORS = f"{ROOT}/operators"
_MOST_STORES = 3  # in which orders and products are searched, unless the person is at the page of one
_STORE_IN_URL = re.compile(rf"{ROOT}/stores/([a-z0-9-]+)(?:[/?#]|\Z)")


class Destination(msgspec.Struct, frozen=True):
    """A page that is found by its title, and by other words for it."""

    title: str
    page: Page
    words: str = ""
    kind: str = "Page"


class Destinations(msgspec.Struct, frozen=True):
    """Where the palette leads: pages of the service, and the pages of each app and of each store."""

    general: Sequence[Destination]
    of_app: Sequence[Destination]
    of_store: Sequence[Destination]


def search_pages(destinations: Callable[[], Destinations]) -> Pages:
    """The page of the search. The site map names the destinations, and contains this page."""
    pages = Pages()

    async def search_page(visit: Visit) -> View | Response:
        query = " ".join(visit.query("q")[:MOST_CHARACTERS].split())
        found, partial = await _found(visit, query, destinations()) if query else ([], False)
        if visit.wants_json:
            away = sorted(visit.everywhere.away)
            body = msgspec.json.encode({"query": query, "results": found, "partial": partial, "away": away})
            return Response(body, media_type="application/json", headers={"Vary": "Accept, Cookie"})
        return View("search.html", {"wanted": query, "found": found})

    pages.page("/search", nav="dashboard")(search_page)
    return pages


async def _found(visit: Visit, query: str, destinations: Destinations) -> tuple[list[Hit], bool]:
    """What the query finds, and the person may open; each kind has a few results, the most likely kind first.

    The second value says that the documentation is not searched yet.
    """
    account_id, term = visit.me.account_id, query.lower()
    apps, stores = await owned_apps(visit.by, account_id), await owned_stores(visit.by, account_id)
    pages = _pages(visit, query, destinations, apps, stores)
    named = [
        *(
            Hit("Store", each.name, f"{ROOT}/stores/{each.handle}/home", each.handle, [])
            for each in (await owned_stores(visit.by, account_id, term))[:_MOST_OF_A_KIND]
        ),
        *(
            Hit("App", each.name, f"{ROOT}/apps/{each.id}", each.client_id, [])
            for each in (await owned_apps(visit.by, account_id, term))[:_MOST_OF_A_KIND]
        ),
    ]
    of_stores = await _of_stores(visit, query, stores)
    documentation, partial = await _documentation(visit, query)
    everybody = await _of_everybody(visit, term) if visit.me.operator else []
    if any(character.isdigit() for character in query):  # a number or a SKU, rather than the name of a page
        return [*of_stores, *named, *pages, *everybody, *documentation], partial
    return [*pages, *named, *of_stores, *everybody, *documentation], partial


async def _documentation(visit: Visit, query: str) -> tuple[list[Hit], bool]:
    """The results in the documentation. A script does not wait until a new worker has indexed it: it asks again."""
    try:
        async with asyncio.timeout(_LONGEST_WAIT_S if visit.wants_json else None):
            return (await documentation_hits(query))[:_MOST_OF_A_KIND], False
    except TimeoutError:
        return [], True


def _pages(
    visit: Visit,
    query: str,
    destinations: Destinations,
    apps: Sequence[OwnedApp],
    stores: Sequence[OwnedStore],
) -> list[Hit]:
    """The pages whose title, or the name of the app or store that they belong to, begin with the words of the query."""
    found: list[tuple[tuple[bool, bool, int], Hit]] = []
    asked = words_of(query)

    def add(destination: Destination, url: str, context: str = "") -> None:
        title = words_of(destination.title)
        words = [*title, *words_of(destination.words), *words_of(context)]
        if asked and all(any(word.startswith(each) for word in words) for each in asked):
            exact = all(any(word.startswith(each) for word in title) for each in asked)
            hit = Hit(destination.kind, destination.title, url, context, [])
            found.append(((not exact, bool(context), len(title)), hit))

    for destination in destinations.general:
        if destination.page.audience is not Audience.OPERATOR or visit.me.operator:
            add(destination, destination.page.path)
    for app in apps:
        for destination in destinations.of_app:
            if RIGHTS[app.role] >= destination.page.right:
                add(destination, destination.page.url({"app_id": app.id}), app.name)
    for store in stores:
        for destination in destinations.of_store:
            if RIGHTS[store.role] >= destination.page.right:
                add(destination, destination.page.url({"handle": store.handle}), store.name)
    found.sort(key=lambda each: each[0])
    return [hit for _, hit in found[:_MOST_PAGES]]


async def _of_everybody(visit: Visit, term: str) -> list[Hit]:
    """The stores, apps and accounts of everybody, as the pages of operators find them; they scan all rows."""
    if len(term) < _SHORTEST_OF_EVERYBODY:
        return []
    wanted = (NEWEST_NUMBER, term, "", _MOST_OF_EVERYBODY)
    return [
        *(
            Hit("Any store", each.name, f"{_OPERATORS}/stores/{each.handle}", each.handle, [])
            for each in await STORES.all(visit.everywhere, *wanted)
        ),
        *(
            Hit("Any app", each.name, f"{_OPERATORS}/apps/{each.id}", each.client_id, [])
            for each in await APPS.all(visit.everywhere, *wanted)
        ),
        *(
            Hit("Account", each.name, f"{_OPERATORS}/accounts/{each.id}", each.email, [])
            for each in await ACCOUNTS.all(visit.db, *wanted)
        ),
    ]


async def _of_stores(visit: Visit, query: str, stores: Sequence[OwnedStore]) -> list[Hit]:
    """Orders, products and customers of the store whose page is open, or else of the first few stores."""
    at = _STORE_IN_URL.search(visit.request.headers.get("referer", ""))
    here = await owned_store(visit.db, visit.me.account_id, at[1]) if at and is_handle(at[1]) else None
    hits: list[Hit] = []
    for store in [here] if here else stores[:_MOST_STORES]:
        found = await visit.everywhere.ask(store.shard, lambda db, at=store: suggestions(visit.at(at, db), query))
        where = "" if here else f" · {store.name}"
        hits += [Hit(each.kind, each.title, each.url, f"{each.hint}{where}", []) for each in found or []]
    return hits
