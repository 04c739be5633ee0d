"""The pages of the reference, made from the OpenAPI document when they are first asked for."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from stoa.reference import chapters, shell
from stoa.reference.console import console
from stoa.reference.document import Document, Group, read
from stoa.reference.markup import Html, inline, join, link, tag
from stoa.reference.operation import method, operation_section
from stoa.reference.problem import problem_page

_ASSETS = {
    "reference.css": ("text/css", ("base.css", "page.css", "console.css")),
    "reference.js": ("text/javascript", ("code.js", "page.js", "contents.js", "console.js")),
}


@cache
def html() -> str:
    """The whole page at `/docs`."""
    return str(render(_document()))


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """The content and the media type of a file that the pages link to; nothing else is ever opened."""
    if name not in _ASSETS:
        return None
    media, parts = _ASSETS[name]
    folder = files("stoa.reference") / "assets"
    return b"\n".join((folder / part).read_bytes() for part in parts), media


@cache
def problem(code: str, status: int, title: str, text: str, retryable: bool) -> str:
    """The page at `/problems/{code}`."""
    return str(problem_page(_document(), code, status, title, text, retryable=retryable))


@cache
def _document() -> Document:
    # Imported here: the description needs every endpoint, and the pages must not.
    from stoa.description import openapi  # noqa: PLC0415

    return read(openapi())


def render(document: Document | Mapping[str, Any]) -> Html:
    found = document if isinstance(document, Document) else read(document)
    info = found.info
    menu = tag("button", "Contents", type="button", popovertarget="contents")
    return shell.page(
        info.title,
        info.summary,
        tag("header", shell.brand("#introduction", "API reference"), menu, class_="top"),
        _contents(found),
        tag("main", *_chapters(found), id="main"),
        console(),
        script=True,
        class_="reference",
        data_token_url=found.flow.token_url,
        data_base=found.base_url,
    )


def _chapters(document: Document) -> list[Html]:
    return [
        chapters.introduction(document),
        chapters.access(document),
        chapters.errors(document),
        *(_group(group, document) for group in document.groups),
        chapters.schemas(document),
        tag("footer", tag("p", f"{document.info.title} {document.info.version}, Apache 2.0. ",
                          link("/openapi.json", "OpenAPI 3.1 document"))),
    ]  # fmt: skip


def _group(group: Group, document: Document) -> Html:
    heading = tag("h2", link(f"#{group.anchor}", group.name, class_="self"))
    about = tag("p", inline(group.description), class_="lead")
    operations = join((operation_section(each, document) for each in group.operations), "\n")
    return tag("section", tag("header", heading, about), "\n", operations, id=group.anchor, class_="group")


def _contents(document: Document) -> Html:
    start = [("introduction", "Introduction"), ("authentication", "Authentication"), ("errors", "Answers and errors")]
    search = tag(
        "div",
        tag("input", type="search", id="filter", placeholder="Filter operations", aria_label="Filter operations",
            autocomplete="off", spellcheck="false"),
        tag("kbd", "/"),
        tag("p", id="found", role="status"),
        class_="filter scripted",
    )  # fmt: skip
    groups = (
        _entries(group.name, f"#{group.anchor}", [(o.operation_id, o.summary, o.method) for o in group.operations])
        for group in document.groups
    )
    shapes = _entries("Schemas", "#schemas", [(f"schema-{name}", name, "") for name in document.components.schemas])
    return tag(
        "nav",
        shell.brand("#introduction", "API reference"),
        tag("button", "Close", type="button", popovertarget="contents", popovertargetaction="hide"),
        search,
        tag("ul", join(_entry(anchor, text, "") for anchor, text in start)),
        join(groups, "\n"),
        shapes,
        id="contents",
        popover=True,
        aria_label="Contents",
    )


def _entries(title: str, address: str, entries: list[tuple[str, str, str]]) -> Html:
    listed = tag("ul", join((_entry(*entry) for entry in entries), "\n"))
    return tag("section", tag("h2", link(address, title)), listed)


def _entry(anchor: str, text: str, verb: str) -> Html:
    return tag("li", link(f"#{anchor}", text, method(verb) if verb else None))
