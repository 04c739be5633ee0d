"""Finds the line of a TOML file that a JSON Pointer into its values means, because the parser of Python does not say it."""

import re
from collections.abc import Iterator, Mapping

import msgspec

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_TABLE = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?\Z")
_MULTILINE = ('"""', "'''")


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
    names = [_unquoted(basic) if basic else literal or bare for basic, literal, bare in _PART.findall(key)]
    return [name.replace("~", "~0").replace("/", "~1") for name in names]


def _unquoted(basic: str) -> str:
    try:
        return msgspec.json.decode(f'"{basic}"', type=str)
    except msgspec.DecodeError:
        return basic
