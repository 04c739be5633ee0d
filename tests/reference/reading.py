"""A strict HTML reader: it fails on elements that are not closed and on repeated attributes."""

from functools import cached_property
from html.parser import HTMLParser

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Element:
    """An element with its attributes, its text, and the elements within it."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element] = []
        self.content: list[str | Element] = []  # texts and elements, in their order

    @cached_property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.content)

    @cached_property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @cached_property
    def within(self) -> list["Element"]:
        return [each for child in self.children for each in (child, *child.within)]

    @cached_property
    def _with_id(self) -> dict[str, list["Element"]]:
        found: dict[str, list[Element]] = {}
        for each in self.within:
            if "id" in each.attributes:
                found.setdefault(each.attributes["id"], []).append(each)
        return found

    def all(self, name: str = "", class_: str = "") -> list["Element"]:
        return [e for e in self.within if (not name or e.name == name) and (not class_ or class_ in e.classes)]

    def by_id(self, id: str) -> "Element":
        (found,) = self._with_id.get(id, [])
        return found

    def links(self) -> list[str]:
        return [each.attributes["href"] for each in self.all("a")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        self.open[-1].content.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)

    def updatepos(self, i: int, j: int) -> int:
        return j  # nobody asks for line numbers, which take a tenth of the time


def read(html: str) -> Element:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].name}> is never closed"
    return reader.root
