"""Every page below `/docs` by its address, made from the OpenAPI document and the guides when it is first asked for."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise

from stoa.guides.shelf import Guide, guides
from stoa.reference import chapters, shell
from stoa.reference.console import console
from stoa.reference.contents import contents
from stoa.reference.document import Document, Group, Operation, read
from stoa.reference.guide import guide_article, guide_list
from stoa.reference.markup import Html, link, tag
from stoa.reference.operation import operation_section
from stoa.reference.problem import problem_page

_SCRIPTS = ("code.js", "page.js", "contents.js")
_ASSETS = {
    "reference.css": ("text/css", ("base.css", "page.css", "guide.css", "console.css")),
    "reference.js": ("text/javascript", _SCRIPTS),
    "operation.js": ("text/javascript", (*_SCRIPTS, "console.js")),
}


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content and the media type of a file that the pages link to; nothing else is ever opened."""
    if name not in _ASSETS:
        return None
    media, parts = _ASSETS[name]
    folder = files("stoa.reference") / "assets"
    return b"\n".join((folder / part).read_bytes() for part in parts), media


def themed(page: str, theme: str) -> str:
    """The page as a reader who has chosen a theme sees it."""
    return page.replace(f'data-theme="{shell.SYSTEM}"', f'data-theme="{theme}"', 1) if theme else page


@cache
def problem(code: str, status: int, title: str, text: str, retryable: bool) -> str:
    """The page at `/problems/{code}`."""
    return str(problem_page(_document(), code, status, title, text, retryable=retryable))


@cache
def _document() -> Document:
    # Imported here: the description needs every endpoint, and the pages must not.
    from stoa.description import openapi  # noqa: PLC0415

    return read(openapi())


@cache
def addresses() -> Mapping[str, Callable[[], Html]]:
    """Every page of this release, in reading order."""
    return pages(_document(), guides())


def pages(document: Document, shelf: Mapping[str, Guide]) -> dict[str, Callable[[], Html]]:
    """How to make each page, by its address."""
    show = partial(_page, document, shelf)
    found: dict[str, Callable[[], Html]] = {
        "/docs": lambda: show(
            "/docs",
            document.info.title,
            document.info.summary,
            chapters.introduction(document),
            chapters.access(document),
            chapters.errors(document),
        ),
        "/docs/guides": lambda: show("/docs/guides", "Guides", "How to build on Stoa.", guide_list(shelf)),
    }
    for guide in shelf.values():
        found[f"/docs/guides/{guide.name}"] = partial(_guide, document, shelf, guide)
    for group in document.groups:
        found[group.address] = partial(_group, document, shelf, group)
        for operation in group.operations:
            found[group.address_of(operation)] = partial(_operation, document, shelf, group, operation)
    return found


def _guide(document: Document, shelf: Mapping[str, Guide], guide: Guide) -> Html:
    here = f"/docs/guides/{guide.name}"
    order = [(f"/docs/guides/{each.name}", each.title) for each in shelf.values()]
    article = guide_article(guide, shelf, document)
    return _page(document, shelf, here, guide.title, guide.summary, article, _neighbours(order, here))


def _group(document: Document, shelf: Mapping[str, Guide], group: Group) -> Html:
    chapter = chapters.group_chapter(group, document)
    return _page(document, shelf, group.address, group.name, group.description, chapter)


def _operation(document: Document, shelf: Mapping[str, Guide], group: Group, operation: Operation) -> Html:
    here = group.address_of(operation)
    order = [(group.address_of(each), each.summary) for each in group.operations]
    return _page(
        document,
        shelf,
        here,
        operation.summary,
        f"{operation.method} {operation.path}",
        operation_section(operation, group, document),
        chapters.schemas(document.named_by(operation.schemas), document),
        _neighbours(order, here),
        script="operation.js",
        beside=console(),
    )


def _neighbours(order: list[tuple[str, str]], here: str) -> Html | None:
    """The ways to the page before and the page after."""
    before = next((first for first, second in pairwise(order) if second[0] == here), None)
    after = next((second for first, second in pairwise(order) if first[0] == here), None)
    if before is None and after is None:
        return None
    return tag(
        "p",
        link(before[0], tag("small", "Before"), before[1], rel="prev", class_="before") if before else None,
        link(after[0], tag("small", "Next"), after[1], rel="next", class_="after") if after else None,
        class_="neighbours",
    )


def _page(
    document: Document,
    shelf: Mapping[str, Guide],
    here: str,
    title: str,
    summary: str,
    *parts: Html | None,
    script: str = "reference.js",
    beside: Html | None = None,
) -> Html:
    info = document.info
    menu = tag("button", "Contents", type="button", popovertarget="contents")
    foot = tag(
        "footer", tag("p", f"{info.title} {info.version}, Apache 2.0. ", link("/openapi.json", "OpenAPI 3.1 document"))
    )
    return shell.page(
        title if title == info.title else f"{title} · {info.title}",
        summary,
        tag("header", shell.brand("/docs", "Developers"), menu, class_="top"),
        contents(document, shelf, here),
        tag("main", *parts, foot, id="main"),
        beside,
        script=script,
        class_="reference",
        data_token_url=document.flow.token_url,
        data_base=document.base_url,
    )
