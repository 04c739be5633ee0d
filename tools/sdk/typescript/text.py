"""Text of TypeScript: wrapped comments, names, and unions that fit into a line."""

import json
import re
import textwrap
from collections.abc import Iterable

WIDTH = 116
_PLAIN = re.compile(r"[A-Za-z_$][\w$]*\Z")


def key(name: str) -> str:
    """A member name, quoted if it is not an identifier."""
    return name if _PLAIN.match(name) else json.dumps(name)


def camel(name: str) -> str:
    first, *rest = re.split(r"[_-]", name)
    return first + "".join(word.title() for word in rest)


def comment(text: str, indent: int = 0) -> list[str]:
    """A TSDoc comment."""
    if not text:
        return []
    pad = " " * indent
    plain = text.replace("*/", "*\\/")
    if len(plain) + indent + 7 <= WIDTH and "\n" not in plain:
        return [f"{pad}/** {plain} */"]
    lines: list[str] = []
    for part in plain.split("\n\n"):
        wrapped = textwrap.wrap(part, WIDTH - indent - 3, break_long_words=False, break_on_hyphens=False)
        lines += ([f"{pad} *"] if lines else []) + [f"{pad} * {line}" for line in wrapped]
    return [f"{pad}/**", *lines, f"{pad} */"]


def alternatives(kinds: Iterable[str]) -> str:
    """A union; a list of one kind needs no parentheses, but the members of an array type do."""
    return " | ".join(dict.fromkeys(kinds))


def declared(before: str, kind: str, after: str = ";") -> list[str]:
    """A declaration, with one line for each member of a long union."""
    if len(before) + len(kind) + len(after) + 1 <= WIDTH or " | " not in kind or any(each in kind for each in "<{("):
        return [f"{before} {kind}{after}"]
    pad = " " * (len(before) - len(before.lstrip()) + 2)
    members = kind.split(" | ")
    return [before, *(f"{pad}| {each}" for each in members[:-1]), f"{pad}| {members[-1]}{after}"]
