"""HTML as values: plain text is escaped wherever it enters, so markup only ever comes from code."""

import re
from collections.abc import Iterable
from html import escape

_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})
_CODE = re.compile(r"`([^`]+)`")
_EMPHASIS = re.compile(r"\*([^\s*](?:[^*]*[^\s*])?)\*")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(element: str, *children: str | None, **attributes: str | bool | None) -> Html:
    """An element; `class_` and `data_in` become `class` and `data-in`, None and False are left out."""
    given = "".join(
        _attribute(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if element in _VOID:
        return Html(f"<{element}{given}>")
    return Html(f"<{element}{given}>{join(children)}</{element}>")


def _attribute(name: str, value: str | bool) -> str:
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def join(parts: Iterable[str | None], between: str = "") -> Html:
    """Parts in a row, each escaped unless it is markup."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts if part))


def code(text: str) -> Html:
    return tag("code", text)


def link(address: str, *children: str | None, **attributes: str | bool | None) -> Html:
    return tag("a", *children, href=address, **attributes)


def prose(text: str) -> Html:
    """Paragraphs with `code` and *emphasis*, which is all that descriptions hold."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    return join((tag("p", inline(block)) for block in blocks if block), "\n")


def inline(text: str) -> Html:
    # A split by a pattern with one group alternates: text, code, text, ...
    pieces = _CODE.split(text)
    return join(code(piece) if odd % 2 else _emphasised(piece) for odd, piece in enumerate(pieces))


def _emphasised(text: str) -> Html:
    pieces = _EMPHASIS.split(text)
    return join(tag("em", piece) if odd % 2 else piece for odd, piece in enumerate(pieces))
