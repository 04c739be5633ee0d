"""The Markdown pages of the repository, read for what can be checked: blocks of code, tables, prose."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GUIDES, OPERATIONS, DECISIONS = ROOT / "docs/guides", ROOT / "docs/operations", ROOT / "docs/decisions"
AT_THE_TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in AT_THE_TOP), *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of code on a page, in order."""
    found = [Block(*match.groups()) for match in _FENCE.finditer(page.read_text())]
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def rows(page: Path) -> Iterator[list[str]]:
    """The cells of every line of a table, without the marks of code."""
    for line in prose(page).splitlines():
        if line.startswith("| "):
            yield [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
