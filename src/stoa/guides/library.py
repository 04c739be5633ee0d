"""Where the guides lie, in which order they are read, and what each is about."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

# The order in which a newcomer reads; a guide that is not named here comes after them, by its name.
_FIRST = (
    "quickstart", "authentication", "python-sdk", "pagination-and-sync", "idempotency", "errors", "products", "inventory",
    "imports", "order-lifecycle", "duplicates", "customers", "webhooks", "versioning",
)  # fmt: skip
_TITLE = re.compile(r"\A# (.+)\n+((?:[^\n#].*\n?)+)")
_LONGEST_SUMMARY = 160
_MARKS = re.compile(r"[`*]|\]\([^)]*\)|\[")


class Guide(msgspec.Struct, frozen=True):
    name: str
    title: str
    summary: str  # its first sentence
    text: str


def _folder() -> Traversable:
    """In an installed package they lie inside it; in a checkout they are the repository's own."""
    packaged = files("stoa.guides") / "pages"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs" / "guides"


@cache
def guides() -> dict[str, Guide]:
    """Every guide by its name, in reading order."""
    found = {each.name.removesuffix(".md"): each for each in _folder().iterdir() if each.name.endswith(".md")}
    order = sorted(found, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return {name: read(name, found[name].read_text(encoding="utf-8")) for name in order}


@cache
def pictures() -> dict[str, bytes]:
    """Every picture that a guide may show, by its name."""
    return {
        each.name.removesuffix(".svg"): each.read_bytes() for each in _folder().iterdir() if each.name.endswith(".svg")
    }


def read(name: str, text: str) -> Guide:
    """A guide from its text: the first heading is its title, the first sentence its summary."""
    found = _TITLE.match(text)
    title, opening = (found[1], found[2]) if found else (name, "")
    sentence = re.split(r"(?<=\.)\s", _MARKS.sub("", opening).replace("\n", " ").strip())[0]
    return Guide(name, _MARKS.sub("", title), _shortened(sentence) or title, text)


def _shortened(sentence: str) -> str:
    """A sentence that fits into a line or two; a long one up to its first turn."""
    if len(sentence) > _LONGEST_SUMMARY:
        sentence = re.split(r"[:;]\s", sentence)[0]
    return sentence.rstrip(":;,. ") + "." if sentence else ""
