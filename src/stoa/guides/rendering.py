"""Markdown to HTML: headings with anchors, links to pages of the service, and code blocks with captions."""

import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from stoa.guides.library import pictures
from stoa.guides.samples import samples_of

_PAGE = re.compile(r"(?:\./|guides/)?([\w-]+)\.md(#[\w-]+)?\Z")
_PICTURE = re.compile(r"(?:\./)?([\w-]+)\.svg\Z")
_CHANGELOG = "../api-changelog.md"
_UNCHANGED = re.compile(r"(?:https?://|/(?!/)|#)")
_LANGUAGES = {"bash": "Shell", "python": "Python", "javascript": "JavaScript", "typescript": "TypeScript", "json": "JSON", "http": "HTTP",
              "csv": "CSV", "ini": "Settings", "": "Text"}  # fmt: skip


class Heading(msgspec.Struct, frozen=True):
    level: int
    anchor: str
    text: str


class Rendered(msgspec.Struct, frozen=True):
    html: str
    headings: list[Heading]  # below the title


class Section(msgspec.Struct, frozen=True):
    """A heading and the text below it, without code blocks."""

    title: str
    anchor: str
    text: str


def anchor(title: str) -> str:
    """The anchor of a heading, in the format of code forges, so that links work in both places."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def render(text: str, names: Sequence[str], address_of: Callable[[str], str | None] = lambda _: None) -> Rendered:
    """The HTML of a guide below its title; `names` are the guides to link to, and `address_of` maps code to its page."""
    markdown = _markdown()
    tokens = markdown.parse(text)
    headings = _name_headings(tokens)
    for before, token in pairwise(tokens):
        if token.children and before.type == "heading_open":
            token.children = _linked(token.children, (), lambda _: None)  # a heading is already a link
        elif token.children:
            token.children = _linked(token.children, names, address_of)
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        tokens = tokens[3:]
    html = markdown.renderer.render(tokens, markdown.options, {})
    return Rendered(html, [heading for heading in headings if heading.level > 1])


def sections(text: str) -> list[Section]:
    """The text by heading; the first section is the title with the opening, which has no anchor."""
    tokens = _markdown().parse(text)
    headings = iter(_name_headings(tokens))
    found: list[Section] = [Section("", "", "")]
    in_heading = False
    for token in tokens:
        if token.type == "heading_open":
            heading = next(headings)
            if heading.level > 1:
                found.append(Section(heading.text, heading.anchor, ""))
            in_heading = True
        elif token.type == "heading_close":
            in_heading = False
        elif token.type == "inline" and not in_heading:
            last = found[-1]
            found[-1] = msgspec.structs.replace(last, text=f"{last.text} {token.content}".strip())
    return found


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}, renderer_cls=_Renderer).enable("table")


def _name_headings(tokens: list[Token]) -> list[Heading]:
    found: list[Heading] = []
    taken: set[str] = set()
    for opening, inner in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        title = "".join(child.content for child in inner.children or [])
        name, number = anchor(title), 1
        while name in taken:
            name, number = f"{anchor(title)}-{number}", number + 1
        taken.add(name)
        opening.attrSet("id", name)
        found.append(Heading(int(opening.tag[1]), name, title))
    return found


def _linked(tokens: list[Token], names: Sequence[str], address_of: Callable[[str], str | None]) -> list[Token]:
    """Rewrite links to pages of the service, remove links to pages that are not served, and link code to its page."""
    result: list[Token] = []
    open_links: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = served_address(str(token.attrGet("href") or ""), names)
            open_links.append(address is not None)
            if address is None:
                continue
            token.attrSet("href", address)
        elif token.type == "link_close" and not open_links.pop():
            continue
        elif (
            token.type == "image"
            and (picture := _PICTURE.match(str(token.attrGet("src"))))
            and picture[1] in pictures()
        ):
            token.attrSet("src", f"/docs/guides/{picture[1]}.svg")
        elif token.type == "image":
            token = Token("text", "", 0, content=token.content)  # noqa: PLW2901 - a picture that is not served becomes its alternative text
        elif token.type == "code_inline" and not open_links and (address := address_of(token.content)):
            opening = Token("link_open", "a", 1, attrs={"href": address})
            result += [opening, token, Token("link_close", "a", -1)]
            continue
        result.append(token)
    return result


def served_address(href: str, names: Sequence[str]) -> str | None:
    """The address of the page that a link in a guide leads to, if the service has it."""
    if _UNCHANGED.match(href):
        return href
    if href.startswith(_CHANGELOG):
        return href.replace(_CHANGELOG, "/docs/changelog", 1)
    page = _PAGE.match(href)
    return f"/docs/guides/{page[1]}{page[2] or ''}" if page and page[1] in names else None


def _code(label: str, text: str) -> str:
    return f'<pre tabindex="0" role="group" aria-label="{escape(label)}"><code>{escape(text)}</code></pre>'


class _Renderer(RendererHTML):
    """Headings link to themselves, tables scroll, and code blocks have a caption."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        name = token.attrGet("id")
        return f'<{token.tag} id="{name}"><a class="self" href="#{name}">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"</a></{tokens[idx].tag}>\n"

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<th>" if tokens[idx + 1].content else "<td>"  # an empty cell is not a heading

    def th_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</th>\n" if tokens[idx - 1].content else "</td>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        language = token.info.strip().split(" ")[0]
        label = _LANGUAGES.get(language, language.capitalize())
        figure = (
            f'<figure class="card {escape(language)}"><figcaption>{escape(label)}</figcaption>{_code(label, token.content)}'
            "</figure>\n"
        )
        others = samples_of(token.content) if language == "http" else {}
        if not others:
            return figure
        # The script turns the others into tabs of the first card.
        programs = "".join(
            f'<details class="card request alternative"><summary>{name}</summary>{_code(name, text)}</details>\n'
            for name, text in others.items()
        )
        return f'<div class="tabbed">{figure}{programs}</div>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return self.fence(tokens, idx, options, env)
