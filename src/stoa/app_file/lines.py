"""Finds the line of a TOML file that a JSON Pointer into its values means, because the parser of Python does not say it."""

import re
from collections.abc import Iterator, Mapping

import msgspec

_TABLE = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?\Z")
_MULTILINE = ('"""', "'''")
MOST_PARTS = 20  # of a key; a sensible file has four
_NAME = r"""(?:"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[A-Za-z0-9_-]+)"""
_PART, _NAMES = re.compile(rf"\s*{_NAME}\s*"), re.compile(_NAME)
# A comment, a text of several lines, or the parts of a key; a value looks like a key.
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^\\]|\\.)*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    rf"|({_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)",
    re.DOTALL,
)


def lines_of(text: str) -> dict[str, int]:
    """The line of every table and key, by its pointer."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}  # of the tables in an array
    table = ""
    for number, line in _outside_of_texts(text):
        header, key = _TABLE.match(line), _key_of(line)
        if header is not None:
            *outer, last = _parts(header[2])
            table = ""
            for part in outer:
                table = _inside(f"{table}/{part}", counts)
            table = f"{table}/{last}"
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
            table = _inside(table, counts)
            found.setdefault(table, number)
        elif key is not None:
            path = table
            for part in _parts(key):
                path = f"{path}/{part}"
                found.setdefault(path, number)
    return found


def line_of_long_key(text: str) -> int | None:
    """The line of the first key with more than `MOST_PARTS` parts; None if there is none.

    The time in which Python parses such a key, and each key below such a table, grows with the square of the parts.
    """
    for token in _TOKEN.finditer(text):
        if token[1] and len(_NAMES.findall(token[1])) > MOST_PARTS:
            return text.count("\n", 0, token.start()) + 1
    return None


def line_of(lines: Mapping[str, int], pointer: str) -> int | None:
    """The line of the key that a pointer names, or of the innermost table around it; None if there is none."""
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    return lines.get(pointer)


def _outside_of_texts(text: str) -> Iterator[tuple[int, str]]:
    """The lines that do not continue a text of several lines."""
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        begins = quote == ""
        for mark in _MULTILINE:
            if quote in ("", mark) and line.count(mark) % 2:
                quote = "" if quote else mark
        if begins:
            yield number, line


def _key_of(line: str) -> str | None:
    """The key of a line with a value. It reads one part after the other: a pattern for all of them could try each division."""
    end = 0
    while (part := _PART.match(line, end)) is not None:
        end = part.end()
        if not line.startswith(".", end):
            return line[:end] if line.startswith("=", end) else None
        end += 1
    return None


def _inside(table: str, counts: Mapping[str, int]) -> str:
    return f"{table}/{counts[table]}" if table in counts else table


def _parts(key: str) -> list[str]:
    """The parts of a dotted key, as parts of a pointer."""
    return [_unquoted(name).replace("~", "~0").replace("/", "~1") for name in _NAMES.findall(key)]


def _unquoted(name: str) -> str:
    if name[0] not in ('"', "'"):
        return name
    try:
        return msgspec.json.decode(name, type=str) if name[0] == '"' else name[1:-1]
    except msgspec.DecodeError:
        return name[1:-1]
