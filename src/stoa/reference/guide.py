"""The pages of the guides: one for each, and the list of all."""

import re
from collections.abc import Mapping

from stoa.guides.rendering import Heading, render
from stoa.guides.shelf import Guide
from stoa.reference.document import Document
from stoa.reference.markup import Html, inline, join, link, tag

_CALL = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /[\w/{}-]*")


def guide_list(guides: Mapping[str, Guide]) -> Html:
    entries = (
        tag("li", link(f"/docs/guides/{each.name}", tag("b", each.title), tag("span", each.summary)))
        for each in guides.values()
    )
    return tag(
        "section",
        tag("p", link("/docs", "Developers"), class_="crumb"),
        tag("h1", "Guides"),
        tag("p", "How to build on Stoa, from the first request to an app that runs for years.", class_="lead"),
        tag("ol", join(entries, "\n"), class_="guides"),
        class_="opening",
    )


def guide_article(guide: Guide, guides: Mapping[str, Guide], document: Document) -> Html:
    rendered = render(guide.text, list(guides), lambda words: _address(words, document))
    article = tag(
        "article",
        tag("p", link("/docs/guides", "Guides"), class_="crumb"),
        tag("h1", inline(guide.title)),
        Html(rendered.html),
        class_="guide text",
    )
    return tag("div", article, _outline(rendered.headings), class_="reading")


def _address(words: str, document: Document) -> str | None:
    """Where a word in code leads: an error code to its page, a call to its operation."""
    if words in document.codes:
        return f"/problems/{words}"
    if not _CALL.fullmatch(words):
        return None
    verb, _, path = words.partition(" ")
    for each in document.operations:
        if each.method == verb and each.path.endswith(f"/app{path}"):
            return document.addresses[each.operation_id]
    return None


def _outline(headings: list[Heading]) -> Html | None:
    chapters = [heading for heading in headings if heading.level == 2]
    if len(chapters) < 2:
        return None
    entries = (tag("li", link(f"#{heading.anchor}", heading.text)) for heading in chapters)
    return tag("aside", tag("h2", "On this page", class_="label"), tag("ul", join(entries)), class_="outline", aria_label="On this page")  # fmt: skip
