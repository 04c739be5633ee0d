"""From data to HTML: the templates of the reference, and the markup that descriptions may contain."""

import re
from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from stoa.html import environment

# A pediment on four columns and a step, drawn on a grid of 24.
_LOGO = "M12 2 22 7v2H2V7zM3 21h18v2H3zM4 10.5h2.5v9H4zm4.5 0H11v9H8.5zm4.5 0h2.5v9H13zm4.5 0H20v9h-2.5z"
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
    f'<style>path{{fill:#0b5b78}}@media(prefers-color-scheme:dark){{path{{fill:#7cc5e0}}}}</style><path d="{_LOGO}"/></svg>'
)
_CODE = re.compile(r"`([^`]+)`")
_EMPHASIS = re.compile(r"\*([^\s*](?:[^*]*[^\s*])?)\*")
_LABEL = re.compile(r"\*\*(.+?)\*\*(.*)", re.DOTALL)
SYSTEM_THEME = "system"  # for readers who have chosen no theme


def render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render({**_shared(), **context})


@cache
def _environment() -> Environment:
    return environment("stoa.reference", inline=inline, prose=prose, breakable=breakable)


@cache
def _shared() -> dict[str, Any]:
    """What every template may use."""
    parts = _environment().get_template("parts.html").make_module({"logo": _LOGO})
    return {"parts": parts, "icon": f"data:image/svg+xml,{quote(_ICON)}", "theme": SYSTEM_THEME}


def breakable(text: str) -> Markup:
    """A name that may break after a dot or an underscore."""
    return Markup("<wbr>").join(re.split(r"(?<=[._])", text))


def prose(text: str) -> Markup:
    """Paragraphs and lists of inline text."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    return Markup("\n").join(_block(block) for block in blocks if block)


def _block(text: str) -> Markup:
    if not text.startswith("- "):
        return Markup("<p>{}</p>").format(inline(text))
    items = [_labeled(item) for item in re.split(r"(?:\A|\n)- ", text) if item]
    return Markup('<ul class="points">{}</ul>').format(
        Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
    )


def _labeled(text: str) -> Markup:
    """An item of a list, which may begin with a **label**."""
    found = _LABEL.match(text)
    return Markup("<b>{}</b>{}").format(inline(found[1]), inline(found[2])) if found else inline(text)


def inline(text: str) -> Markup:
    """Text with `code` and *emphasis*, the only markup in descriptions."""
    # A split by a pattern with one group alternates: text, code, text, ...
    pieces = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else _emphasized(piece)
        for index, piece in enumerate(pieces)
    )


def _emphasized(text: str) -> Markup:
    pieces = _EMPHASIS.split(text)
    return Markup("").join(
        Markup("<em>{}</em>").format(piece) if index % 2 else piece for index, piece in enumerate(pieces)
    )
