"""Every page below `/docs` by its address, rendered from the OpenAPI document and the guides on first request."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from stoa.guides.library import Guide, changelog, guides
from stoa.reference.document import EVENTS_ADDRESS, Document, Event, Group, read
from stoa.reference.fields import parameter_groups, schema_rows
from stoa.reference.guide import rendered_guide
from stoa.reference.openapi_types import Operation
from stoa.reference.operation import operation_view, schema_views
from stoa.reference.rendering import render
from stoa.reference.samples import CONTINUED, pretty, sample_path
from stoa.reference.search import Hit

_SCRIPTS = ("code.js", "page.js", "contents.js")
_ASSETS = {
    "reference.css": ("text/css", ("base.css", "page.css", "guide.css", "console.css")),
    "reference.js": ("text/javascript", (*_SCRIPTS, "guide.js")),
    "operation.js": ("text/javascript", (*_SCRIPTS, "console.js", "connection.js", "store_ids.js")),
    # The portal loads these two as well.
    "search.css": ("text/css", ("search.css",)),
    "search.js": ("text/javascript", ("search.js",)),
}
SEARCH_ADDRESS, CHANGELOG_ADDRESS = "/docs/search", "/docs/changelog"
_WITH_RETRY_AFTER = (429, 503)
_TITLE, _RESULTS = "\ue000", "\ue001"  # in place of what differs on search pages

Pages = dict[str, Callable[[], str]]


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content and the media type of a file that the pages link to; no other file is ever opened."""
    if name not in _ASSETS:
        return None
    media, parts = _ASSETS[name]
    folder = files("stoa.reference") / "assets"
    return b"\n".join((folder / part).read_bytes() for part in parts), media


@cache
def document() -> Document:
    """The OpenAPI document of this release."""
    # Imported late: the description imports every endpoint, and the pages must not.
    from stoa.description import openapi  # noqa: PLC0415

    return read(openapi())


@cache
def addresses() -> Mapping[str, Callable[[], str]]:
    """Every page of this release, in reading order."""
    return pages(document(), guides())


def pages(document: Document, guides: Mapping[str, Guide]) -> Pages:
    """A function for each address that renders the page."""
    shared = _common(document, guides)
    found: Pages = {
        "/docs": partial(_introduction, document, shared),
        "/docs/guides": partial(
            render, "guides.html", **_at(shared, "/docs/guides", "Guides", "How to build on Stoa.")
        ),
    }
    for guide in guides.values():
        found[f"/docs/guides/{guide.name}"] = partial(_guide, guide, document, guides, shared)
    for group in document.groups:
        found[group.address] = partial(_group, group, document, shared)
        for operation in group.entries:
            found[group.address_of(operation)] = partial(_operation, operation, group, document, shared)
    if document.events:
        found[EVENTS_ADDRESS] = partial(_events, document, shared)
    for event in document.events:
        found[event.address] = partial(_event, event, document, shared)
    found[CHANGELOG_ADDRESS] = partial(_changelog, document, guides, shared)
    return found


def _common(document: Document, guides: Mapping[str, Guide]) -> dict[str, Any]:
    """What every page of the reference needs."""
    return {"document": document, "guides": guides}


def search_page(query: str, hits: list[Hit]) -> str:
    """The page at `/docs/search`, which needs no script."""
    title = escape(f"Search: {query}" if query else "Search")
    before, after = (part.replace(_TITLE, title) for part in _search_frame())
    return before + render("search_results.html", query=query, hits=hits) + after


@cache
def _search_frame() -> tuple[str, str]:
    """The search page before and after its results: the same for every query, except for the title."""
    at = _at(_common(document(), guides()), SEARCH_ADDRESS, _TITLE, "Search the documentation.")
    before, _, after = render("search.html", **at, results=_RESULTS).partition(_RESULTS)
    return before, after


@cache
def not_found_page() -> str:
    """The page for an address at which there is nothing."""
    shared = _common(document(), guides())
    return render("not_found.html", **_at(shared, "", "Page not found", "There is no page at this URL."))


def _introduction(document: Document, shared: Mapping[str, Any]) -> str:
    flow = document.flow
    request = [
        f'curl "{document.origin}{flow.token_url}"',
        "-d grant_type=client_credentials",
        '-d client_id="$STOA_CLIENT_ID"',
        '-d client_secret="$STOA_CLIENT_SECRET"',
    ]
    response = {"access_token": "…", "token_type": "Bearer", "expires_in": 3600, "scope": " ".join(flow.scopes)}
    return render(
        "introduction.html",
        **_at(shared, "/docs", document.info.title, document.info.summary),
        token_request=CONTINUED.join(request),
        token_response=pretty(response),
        problem=pretty(document.example_of("Problem")),
    )


def _guide(guide: Guide, document: Document, guides: Mapping[str, Guide], shared: Mapping[str, Any]) -> str:
    here = f"/docs/guides/{guide.name}"
    rendered = rendered_guide(guide, list(guides), document)
    return render(
        "guide.html",
        **_at(shared, here, guide.title, guide.summary),
        **_neighbors([(f"/docs/guides/{each.name}", each.title) for each in guides.values()], here),
        guide=guide,
        html=Markup(rendered.html),  # noqa: S704 - the Markdown renderer has escaped it
        chapters=[heading for heading in rendered.headings if heading.level == 2],
    )


def _group(group: Group, document: Document, shared: Mapping[str, Any]) -> str:
    names = document.named_by(schema for each in group.operations for schema in each.schemas)
    return render(
        "group.html",
        **_at(shared, group.address, group.name, group.description),
        group=group,
        schemas=schema_views(names, document),
    )


def _operation(operation: Operation, group: Group, document: Document, shared: Mapping[str, Any]) -> str:
    here = group.address_of(operation)
    return render(
        "operation.html",
        **_at(shared, here, operation.summary, f"{operation.method} {operation.path}"),
        **_neighbors([(group.address_of(each), each.summary) for each in group.entries], here),
        view=operation_view(operation, group, document),
    )


def _events(document: Document, shared: Mapping[str, Any]) -> str:
    by_resource: dict[str, list[Event]] = {}
    for event in document.events:
        by_resource.setdefault(event.resource, []).append(event)
    return render(
        "events.html",
        **_at(shared, EVENTS_ADDRESS, "Events", "Every event that a subscription can receive."),
        by_resource=by_resource,
        schemas=schema_views([name for name in ("Event",) if name in document.components.schemas], document),
    )


def _event(event: Event, document: Document, shared: Mapping[str, Any]) -> str:
    return render(
        "event.html",
        **_at(shared, event.address, event.name, event.summary),
        **_neighbors([(each.address, each.name) for each in document.events], event.address),
        event=event,
        headers=[row for group in parameter_groups(event.headers, document) for row in group.rows],
        rows=list(schema_rows(event.schema, document)),
        sample=pretty(event.sample),
        schemas=schema_views(document.named_by([event.schema]), document),
    )


def _changelog(document: Document, guides: Mapping[str, Guide], shared: Mapping[str, Any]) -> str:
    guide = changelog()
    rendered = rendered_guide(guide, list(guides), document)
    return render(
        "changelog.html",
        **_at(shared, CHANGELOG_ADDRESS, guide.title, guide.summary),
        guide=guide,
        html=Markup(rendered.html),  # noqa: S704 - the Markdown renderer has escaped it
        chapters=[heading for heading in rendered.headings if heading.level == 2],
    )


def _at(shared: Mapping[str, Any], here: str, title: str, summary: str) -> dict[str, Any]:
    return {**shared, "here": here, "title": title, "summary": summary}


def _neighbors(order: list[tuple[str, str]], here: str) -> dict[str, tuple[str, str] | None]:
    """The pages before and after, as address and title."""
    return {
        "before": next((first for first, second in pairwise(order) if second[0] == here), None),
        "after": next((second for first, second in pairwise(order) if first[0] == here), None),
    }


@cache
def problem(code: str, status: int, title: str, text: str, retryable: bool) -> str:
    """The page at `/problems/{code}`."""
    known = document()
    groups = [(group, [each for each in group.operations if code in each.codes]) for group in known.groups]
    return render(
        "problem.html",
        code=code,
        status=str(status),
        title=title,
        text=text,
        summary=text.partition("\n\n")[0],
        retryable=retryable,
        waits=status in _WITH_RETRY_AFTER,
        sample=pretty(_problem_sample(known, code, status, title, retryable=retryable)),
        groups=[(group, operations) for group, operations in groups if operations],
        everywhere=code in known.common_codes,
    )


@cache
def fault(code: str, text: str) -> str:
    """The page at `/problems/{code}` about a code that only entries of `errors` have."""
    sample = pretty({"pointer": "/field", "code": code, "detail": text})
    return render("fault.html", code=code, text=text, summary=text, sample=sample)


def _problem_sample(document: Document, code: str, status: int, title: str, *, retryable: bool) -> dict[str, Any]:
    declared = document.example_of("Problem")
    if declared.get("code") == code:
        return declared
    first = next((each for each in document.operations if code in each.codes), None)
    return {
        **{name: value for name, value in declared.items() if name != "errors"},
        "type": f"{document.origin}/problems/{code}",
        "title": title,
        "status": status,
        "detail": f"{title}.",
        "instance": sample_path(first) if first else "/",
        "code": code,
        "retryable": retryable,
    }
