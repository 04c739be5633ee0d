"""The routes of the documentation: pages, search, Markdown, and the description of the API in several formats."""

import html
import inspect
import re
from collections.abc import Awaitable, Callable
from functools import cache

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stoa.access.addresses import ServiceUrls, base_url
from stoa.description import openapi_32_bytes, openapi_bytes
from stoa.guides.library import changelog, guides, pictures
from stoa.reference import markdown, page, postman
from stoa.reference.content import Content
from stoa.reference.fault_codes import FAULT_CODES
from stoa.reference.kept import Kept, kept
from stoa.reference.sample_store import DEMO, SampleStore
from stoa.reference.search import MOST_CHARACTERS, Hit, Index
from stoa.reference.search_entries import ErrorText, entries
from stoa.reference.theme import choose, theme_of, themed
from stoa.rest.problems import Refusal

SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_PAGE = {**SAFE, "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                                            "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"}  # fmt: skip
_SHORTLY, _FIVE_MINUTES = {"Cache-Control": "private, max-age=60"}, {"Cache-Control": "max-age=300"}
_JSON, _MARKDOWN, _TEXT = "application/json", "text/markdown; charset=utf-8", "text/plain; charset=utf-8"
_MOST_HITS, _MOST_SUGGESTIONS = 30, 12
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
# Documents that are kept ready to send. A caller chooses the Host header, so their number must have a limit.
_MOST_PAGES, _MOST_COLLECTIONS, _MOST_SEARCHES = 256, 8, 64

Handler = Callable[[Request], Awaitable[Response]]


class Place(msgspec.Struct, frozen=True):
    """What samples name: the service as the reader sees it, if its URL is known, and one of its stores."""

    origin: str
    store: str

    @property
    def in_html(self) -> "Place":
        return Place(html.escape(self.origin), self.store)


def routes(public_url: str, store: SampleStore) -> list[Route]:
    """The routes; samples contain the URL of the service as the reader sees it, and a store that exists or a placeholder."""

    async def place_of(request: Request) -> Place:
        host = request.headers.get("host", "")
        known = public_url or _HOST.fullmatch(host)
        origin = ServiceUrls(request.url.scheme, host.lower(), public_url).service if known else ""
        return Place(origin, await store.handle())

    def serving(contents: Kept[[Place], Content]) -> Handler:
        async def serve(request: Request) -> Response:
            content = await contents(await place_of(request))
            return content.response(request, {**SAFE, **_SHORTLY})

        return serve

    async def reference(request: Request) -> Response:
        address = request.url.path.rstrip("/")
        if address.endswith(".md"):
            content = await _markdown(address.removesuffix(".md"), await place_of(request))
            return content.response(request, {**SAFE, **_SHORTLY})
        return _shown(request, await _page(address, theme_of(request), await place_of(request)))

    async def problem(request: Request) -> Response:
        return _shown(
            request, await _problem(request.path_params["code"], theme_of(request), (await place_of(request)).in_html)
        )

    async def theme(request: Request) -> Response:
        return await choose(request, secure=f"{public_url or request.url.scheme}:".startswith("https:"))

    return [
        Route("/openapi.json", serving(_description)),
        Route("/openapi-3.2.json", serving(_description_32)),
        Route("/postman.json", serving(_postman)),
        Route("/llms.txt", serving(_llms)),
        Route("/llms-full.txt", serving(_llms_full)),
        Route("/docs", reference),
        Route("/docs/search", _search),
        Route("/docs/search.json", _suggestions),
        Route("/docs/theme", theme, methods=["POST"]),
        Route("/docs/assets/{asset}", _asset),
        Route("/docs/guides/{name}.svg", _picture),
        Route("/docs/{page:path}", reference),
        Route("/problems/{code}", problem),
    ]


def _shown(request: Request, content: Content) -> Response:
    return content.response(request, {**_PAGE, **_SHORTLY, "Vary": "Cookie"})


async def not_found(request: Request) -> Response:
    """The page for an unknown address."""
    return (await _not_found(theme_of(request))).response(request, {**_PAGE, "Vary": "Accept, Cookie"}, 404)


@kept(len(("", "light", "dark")))
def _not_found(theme: str) -> Content:
    return Content.page(themed(page.not_found_page(), theme))


@kept(_MOST_COLLECTIONS)
def _description(place: Place) -> Content:
    return Content.of(_placed(openapi_bytes().decode(), place).encode(), _JSON)


@kept(_MOST_COLLECTIONS)
def _description_32(place: Place) -> Content:
    return Content.of(_placed(openapi_32_bytes().decode(), place).encode(), _JSON)


@cache
def _collection() -> str:
    return msgspec.json.format(msgspec.json.encode(postman.collection(page.document())), indent=2).decode() + "\n"


@kept(_MOST_COLLECTIONS)
def _postman(place: Place) -> Content:
    return Content.of(_placed(_collection(), place).encode(), _JSON)


@kept(_MOST_COLLECTIONS)
def _llms(place: Place) -> Content:
    return Content.of(markdown.llms_text(page.document(), guides(), place.origin).encode(), _TEXT)


@cache
def _everything() -> str:
    return markdown.full_text(page.document(), markdown.texts(page.document(), guides(), changelog()))


@kept(_MOST_COLLECTIONS)
def _llms_full(place: Place) -> Content:
    return Content.of(_placed(_everything(), place).encode(), _TEXT)


@cache
def _rendered(address: str) -> str:
    render = page.addresses().get(address)
    if render is None:
        raise HTTPException(404)
    return render()


@kept(_MOST_PAGES)
def _page(address: str, theme: str, place: Place) -> Content:
    return Content.page(_placed(themed(_rendered(address), theme), place.in_html))


@kept(_MOST_PAGES)
def _markdown(address: str, place: Place) -> Content:
    text = markdown.texts(page.document(), guides(), changelog()).get(address)
    if text is None:
        raise HTTPException(404)
    return Content.of(_placed(text(), place).encode(), _MARKDOWN)


def _placed(text: str, place: Place) -> str:
    """The text with the origin of this service in place of the origin of the demo, and with its store."""
    declared = page.document().origin
    named = text.replace(base_url(declared, DEMO), base_url(declared, place.store))
    return named.replace(declared, place.origin) if place.origin else named


@cache
def index() -> Index:
    """The index of this release."""
    return Index(entries(page.document(), guides(), changelog(), _errors()))


def _errors() -> list[ErrorText]:
    """Every error code of the service; reading the document has imported all of them."""
    shipped = [kind for kind in Refusal.known.values() if kind.__module__.startswith("stoa.")]
    refusals = [ErrorText(each.code, str(each.status), each.title, inspect.getdoc(each) or "") for each in shipped]
    return [
        *refusals,
        *(ErrorText(code, "", "", text) for code, text in FAULT_CODES.items() if code not in Refusal.known),
    ]


def _query(request: Request) -> str:
    return " ".join(request.query_params.get("q", "")[:MOST_CHARACTERS].split())


@kept(_MOST_SEARCHES)
def _found_page(query: str, theme: str) -> Content:
    return Content.page(themed(page.search_page(query, index().search(query, _MOST_HITS) if query else []), theme))


@kept(_MOST_SEARCHES)
def _found_suggestions(query: str) -> Content:
    hits = index().search(query, _MOST_SUGGESTIONS) if query else []
    return Content.of(msgspec.json.encode({"query": query, "results": hits}), _JSON)


@kept(_MOST_SEARCHES)
def documentation_hits(query: str) -> list[Hit]:
    """The first results in the documentation, for the search of the portal."""
    return index().search(query, _MOST_SUGGESTIONS)


async def _search(request: Request) -> Response:
    return _shown(request, await _found_page(_query(request), theme_of(request)))


async def _suggestions(request: Request) -> Response:
    """The results for the search box."""
    return (await _found_suggestions(_query(request))).response(request, {**SAFE, **_SHORTLY})


@cache
def _asset_content(name: str) -> Content:
    found = page.asset(name)
    if found is None:
        raise HTTPException(404)
    return Content.of(*found)


async def _asset(request: Request) -> Response:
    return _asset_content(request.path_params["asset"]).response(request, {**SAFE, **_FIVE_MINUTES})


@cache
def _picture_content(name: str) -> Content:
    found = pictures().get(name)
    if found is None:
        raise HTTPException(404)
    return Content.of(found, "image/svg+xml")


async def _picture(request: Request) -> Response:
    # A picture has its own inline styles, and loads nothing.
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return _picture_content(request.path_params["name"]).response(request, {**SAFE, **_FIVE_MINUTES, **policy})


@kept(_MOST_PAGES)
def _problem(code: str, theme: str, place: Place) -> Content:
    kind = Refusal.known.get(code)
    if kind is not None:
        text = page.problem(kind.code, kind.status, kind.title, inspect.getdoc(kind) or "", kind.retryable)
    elif code in FAULT_CODES:
        text = page.fault(code, FAULT_CODES[code])
    else:
        raise HTTPException(404)
    return Content.page(_placed(themed(text, theme), place))
