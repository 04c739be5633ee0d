"""A strict HTML reader: it fails on elements that are not closed and on repeated attributes."""

from html.parser import HTMLParser

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Element:
    """An element with its attributes, its text, and the elements within it."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element] = []
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    def all(self, name: str = "", class_: str = "") -> list["Element"]:
        found = [each for child in self.children for each in (child, *child.all())]
        return [e for e in found if (not name or e.name == name) and (not class_ or class_ in e.classes)]

    def by_id(self, id: str) -> "Element":
        (found,) = [each for each in self.all() if each.attributes.get("id") == id]
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
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.texts.append(data)


def read(html: str) -> Element:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].name}> is never closed"
    return reader.root
