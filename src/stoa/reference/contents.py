"""The contents beside every page: the guides, and each operation under its group."""

from collections.abc import Iterable, Mapping

from stoa.guides.shelf import Guide
from stoa.reference import shell
from stoa.reference.document import Document, Group
from stoa.reference.markup import Html, join, link, tag
from stoa.reference.operation import method

_START = {"/docs": "Introduction", "/docs#authentication": "Authentication", "/docs#errors": "Answers and errors"}


def contents(document: Document, guides: Mapping[str, Guide], here: str) -> Html:
    """The contents as they stand beside the page at `here`."""
    search = tag(
        "div",
        tag("input", type="search", id="filter", placeholder="Filter", aria_label="Filter the contents",
            autocomplete="off", spellcheck="false"),
        tag("kbd", "/"),
        tag("p", id="found", role="status"),
        class_="filter scripted",
    )  # fmt: skip
    return tag(
        "nav",
        tag("div", shell.brand("/docs", "Developers"), link("/portal", "Portal", class_="door"), class_="crown"),
        tag("button", "Close", type="button", popovertarget="contents", popovertargetaction="hide"),
        search,
        tag("ul", join((_entry(address, words, here) for address, words in _START.items()), "\n")),
        _part(
            "Guides", "/docs/guides", [_entry(f"/docs/guides/{g.name}", g.title, here) for g in guides.values()], here
        ),
        join((_group(group, here) for group in document.groups), "\n"),
        id="contents",
        popover=True,
        aria_label="Contents",
    )


def _group(group: Group, here: str) -> Html:
    entries = [
        _entry(
            group.address_of(each),
            each.summary,
            here,
            method(each.method),
            words=" ".join([each.operation_id, each.path, *each.scopes]),
        )
        for each in group.operations
    ]
    return _part(group.name, group.address, entries, here)


def _part(title: str, address: str, entries: Iterable[Html], here: str) -> Html:
    """A heading that folds; open where the reader is."""
    overview = _entry(address, "Overview", here)
    opened = here == address or here.startswith(f"{address}/")
    return tag(
        "details",
        tag("summary", tag("b", title)),
        tag("ul", overview, "\n", join(entries, "\n")),
        open=opened or here in ("/docs", ""),
    )


def _entry(address: str, text: str, here: str, *more: Html, words: str | None = None) -> Html:
    current = "page" if address == here else None
    return tag("li", link(address, tag("span", text), *more, aria_current=current, data_words=words))
