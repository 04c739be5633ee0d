"""Responses within a size that a model can use, with a note on what was cut and how to get the rest."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

MOST_CHARACTERS = 24_000
_LONG_TEXT = 1_000
_MOST_CUTS = 50


class _Array(msgspec.Struct, frozen=True):
    pointer: str
    items: list[Any]
    size: int


def text(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def cut(document: Any, most: int = MOST_CHARACTERS) -> dict[str, Any]:
    """The document, whose JSON is at most of this size; `cut` in it says what is missing."""
    whole = text(document)
    if len(whole) <= most:
        return _members(document)
    copy: Any = msgspec.json.decode(whole)
    budget = most - 600  # for the note
    notes: dict[str, str] = {}
    for _ in range(_MOST_CUTS):
        size = len(text(copy))
        if size <= budget:
            break
        arrays = [each for each in _arrays(copy, "") if len(each.items) > 1]
        if not arrays:
            break
        # The outermost of the largest arrays: the rows of a list before the lines of one row.
        chosen = max(arrays, key=lambda each: each.size)
        kept = max(1, min(len(chosen.items) - 1, len(chosen.items) * (chosen.size - (size - budget)) // chosen.size))
        total = notes.get(chosen.pointer, "").rpartition(" of ")[2] or str(len(chosen.items))
        notes[chosen.pointer] = f"{kept} of {total}"
        del chosen.items[kept:]
    if len(text(copy)) > budget:
        copy = _shortened(copy, notes, "")
    return _noted(copy, notes, most)


def _noted(document: Any, notes: dict[str, str], most: int) -> dict[str, Any]:
    shown = "; ".join(f"{pointer or '/'}: {note}" for pointer, note in notes.items())[:300]
    advice = "Request fewer rows with `limit`, or only the fields you need with `fields`."
    if "/data" in notes and isinstance(document.get("meta"), dict):
        # The cursor continues after the rows that were cut, so following it would skip them.
        document["meta"].pop("next_cursor", None)
        rows = notes["/data"].partition(" ")[0]
        advice = f"Call again with `limit` {rows}, or with `fields`, and continue with `next_cursor`."
    result = {"cut": f"Shown are {shown}. {advice}", **_members(document)}
    if len(text(result)) <= most:
        return result
    return {"cut": f"The answer is larger than {most:,} characters. {advice}"}


def _members(document: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {"data": document}


def _arrays(node: Any, pointer: str) -> Iterator[_Array]:
    if isinstance(node, list):
        items = cast("list[Any]", node)
        yield _Array(pointer, items, len(text(items)))
        for index, each in enumerate(items):
            yield from _arrays(each, f"{pointer}/{index}")
    elif isinstance(node, dict):
        for key, each in cast("dict[str, Any]", node).items():
            yield from _arrays(each, f"{pointer}/{key}")


def _shortened(node: Any, notes: dict[str, str], pointer: str) -> Any:
    if isinstance(node, str) and len(node) > _LONG_TEXT:
        notes[pointer] = f"{_LONG_TEXT:,} of {len(node):,} characters"
        return node[:_LONG_TEXT]
    if isinstance(node, list):
        items = cast("list[Any]", node)
        return [_shortened(each, notes, f"{pointer}/{index}") for index, each in enumerate(items)]
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        return {key: _shortened(each, notes, f"{pointer}/{key}") for key, each in members.items()}
    return node
