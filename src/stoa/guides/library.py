"""The guides in reading order, each with its title and summary."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

# The reading order for a newcomer; other guides follow in alphabetical order.
_READING_ORDER = (
    "quickstart", "build-an-app", "app-file", "authentication", "installing", "development-stores", "python-sdk",
    "typescript-sdk", "testing-an-app", "agents",
    "pagination-and-sync", "idempotency", "errors", "money", "time", "products", "pictures", "collections", "inventory", "imports", "exports",
    "dlt", "airbyte", "n8n", "moving",
    "order-lifecycle", "payments", "refunds-returns-fulfillments", "duplicates", "customers", "metadata", "webhooks",
    "versioning",
)  # fmt: skip
_CHANGELOG = "api-changelog.md"
_TITLE = re.compile(r"\A# (.+)\n+((?:[^\n#].*\n?)+)")
_LONGEST_SUMMARY = 160
_MARKUP = re.compile(r"[`*]|\]\([^)]*\)|\[")


class Guide(msgspec.Struct, frozen=True):
    name: str
    title: str
    summary: str  # the first sentence
    text: str


def _folder() -> Traversable:
    """The folder inside an installed package, or `docs/guides` in a checkout."""
    packaged = files("stoa.guides") / "pages"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs" / "guides"


@cache
def guides() -> dict[str, Guide]:
    """All guides by name, in reading order."""
    found = {each.name.removesuffix(".md"): each for each in _folder().iterdir() if each.name.endswith(".md")}
    order = sorted(
        found, key=lambda name: (_READING_ORDER.index(name) if name in _READING_ORDER else len(_READING_ORDER), name)
    )
    return {name: read(name, found[name].read_text(encoding="utf-8")) for name in order}


@cache
def changelog() -> Guide:
    """The changes of the API, version by version."""
    packaged = files("stoa.guides") / _CHANGELOG
    file = packaged if packaged.is_file() else Path(__file__).parents[3] / "docs" / _CHANGELOG
    return read("changelog", file.read_text(encoding="utf-8"))


@cache
def pictures() -> dict[str, bytes]:
    """All pictures of the guides by name."""
    return {
        each.name.removesuffix(".svg"): each.read_bytes() for each in _folder().iterdir() if each.name.endswith(".svg")
    }


def read(name: str, text: str) -> Guide:
    """Read a guide: the first heading is the title, and the first sentence is the summary."""
    found = _TITLE.match(text)
    title, opening = (found[1], found[2]) if found else (name, "")
    sentence = re.split(r"(?<=\.)\s", _MARKUP.sub("", opening).replace("\n", " ").strip())[0]
    return Guide(name, _MARKUP.sub("", title), _shortened(sentence) or title, text)


def _shortened(sentence: str) -> str:
    """A sentence of at most two lines; a longer one is cut at its first colon or semicolon."""
    if len(sentence) > _LONGEST_SUMMARY:
        sentence = re.split(r"[:;]\s", sentence)[0]
    return sentence.rstrip(":;,. ") + "." if sentence else ""
